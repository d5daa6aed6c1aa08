use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder could not be read, written or made.
    #[error("{path}: {source}")]
    File { path: PathBuf, source: io::Error },
    /// A connection could not be made, or broke.
    #[error("{address}: {source}")]
    Connection {
        /// The other side, `host:port`.
        address: String,
        source: io::Error,
    },
    /// The other side sent something that is not what its protocol allows.
    #[error("{what}: {text:?}")]
    Malformed {
        /// Which rule was broken.
        what: &'static str,
        /// The offending text, shortened to 200 characters.
        text: String,
    },
    /// A JSON-RPC server answered with an error object.
    #[error("{method}: {message}")]
    Rpc {
        method: String,
        /// The server's error object as text.
        message: String,
    },
    /// A program could not be started.
    #[error("cannot start {program}: {source}")]
    Start { program: PathBuf, source: io::Error },
    /// A program ended although it was needed.
    #[error("{program} ended with {status}; the end of its output:\n{tail}")]
    Ended {
        program: String,
        /// Its exit status in words.
        status: String,
        /// The last lines of its output.
        tail: String,
    },
    /// A condition did not come true in time.
    #[error("{what}: not within {deadline:?}; last seen: {last_seen}")]
    Late {
        /// The condition in words.
        what: String,
        /// How long it was waited for.
        deadline: Duration,
        /// The state at the last check.
        last_seen: String,
    },
    #[error("a value is over its budget")]
    OverBudget,
    /// Something that tests need is not on this machine.
    #[error("{0}")]
    Missing(String),
}

impl Error {
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File {
            path: path.to_owned(),
            source,
        }
    }

    pub(crate) fn malformed(what: &'static str, text: &str) -> Self {
        Self::Malformed {
            what,
            text: text.chars().take(200).collect(),
        }
    }
}
