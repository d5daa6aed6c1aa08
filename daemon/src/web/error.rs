//! Why the web face cannot be built.

use std::net::SocketAddr;
use std::path::PathBuf;

/// What is wrong, where, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum WebError {
    /// Others could read the metrics.
    #[error(
        "metrics.listen: {listen} can be reached from other machines and nothing protects it: set metrics.listen to a \
         loopback address such as 127.0.0.1:9912, or set metrics.web_config to a file with TLS or passwords"
    )]
    Exposed { listen: SocketAddr },
    /// Others could read the metrics although there is a web config file.
    #[error(
        "metrics.listen: {listen} can be reached from other machines, and {path} has neither tls_server_config nor \
         basic_auth_users: add one of them, or set metrics.listen to a loopback address such as 127.0.0.1:9912"
    )]
    Unprotected {
        listen: SocketAddr,
        /// The web config file.
        path: PathBuf,
    },
    #[error("metrics.listen: cannot listen on {listen}: {source}{}", remedy(.source))]
    Bind {
        listen: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    #[error("{path} cannot be read: {source}")]
    Read {
        /// The web config file, or a file it names.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The web config file as a whole.
    #[error("{path} is not a web config file: {what}")]
    Yaml {
        path: PathBuf,
        /// What the parser said, with the line.
        what: String,
    },
    /// A key of the web config file.
    #[error("{path}: {key}: {what}")]
    Key {
        /// The web config file.
        path: PathBuf,
        key: String,
        /// What is wrong with its value and what would be right.
        what: String,
    },
    /// The system gave no random bytes.
    #[error("the system gave no random bytes, which checking passwords needs")]
    Random,
}

fn remedy(source: &std::io::Error) -> &'static str {
    match source.kind() {
        std::io::ErrorKind::AddrInUse => {
            "; another program (or another faultlined) has this port: stop it, or choose another port in metrics.listen"
        }
        std::io::ErrorKind::AddrNotAvailable => "; this machine does not have this address",
        std::io::ErrorKind::PermissionDenied => {
            "; ports below 1024 need CAP_NET_BIND_SERVICE: choose a higher one"
        }
        _ => "",
    }
}
