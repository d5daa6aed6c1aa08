use std::net::SocketAddr;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum WebError {
    /// Other machines could read the metrics.
    #[error(
        "metrics.listen: {listen} can be reached from other machines and nothing protects it: set metrics.listen to a \
         loopback address such as 127.0.0.1:9912, or set metrics.web_config to a file with TLS or passwords"
    )]
    Exposed { listen: SocketAddr },
    /// Other machines could read the metrics despite a web config file.
    #[error(
        "metrics.listen: {listen} can be reached from other machines, and {path} has neither tls_server_config nor \
         basic_auth_users: add one of them, or set metrics.listen to a loopback address such as 127.0.0.1:9912"
    )]
    Unprotected { listen: SocketAddr, path: PathBuf },
    #[error("metrics.listen: cannot listen on {listen}: {source}{}", remedy(.source))]
    Bind {
        listen: SocketAddr,
        source: std::io::Error,
    },
    #[error("{path} cannot be read: {source}")]
    Read {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{path} is not a web config file: {what}")]
    Yaml { path: PathBuf, what: String },
    #[error("{path}: {key}: {what}")]
    Key {
        path: PathBuf,
        key: String,
        what: String,
    },
    #[error("the system provides no random bytes; password checks need them")]
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
