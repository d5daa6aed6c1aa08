use faultline_agave::{
    Error,
    admin::{Answer, Method},
};
use faultline_core::{
    socket::connect,
    supervisor::{FsCallError, FsCalls},
};
use faultline_metrics::{Problem, ProblemKind};
use serde::de::IgnoredAny;
use std::{
    io::{self, ErrorKind},
    path::Path,
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
};

const MAX_ANSWER_BYTES: usize = 1 << 20;
const READ_CHUNK_BYTES: usize = 16 << 10;

pub enum Failure {
    Connect(io::Error),
    /// The call that connects did not start, panicked or timed out.
    FsCall(FsCallError),
    /// Pid of the process that serves the socket.
    WrongPeer(i32),
    Timeout(Duration),
    ConnectionLost(io::Error),
    TooLong,
    AnswerError(Error),
}

impl Failure {
    /// `has_connected`: the validator's socket has accepted a connection before.
    pub fn problem(&self, path: &Path, has_connected: bool) -> Problem {
        let path = faultline_text::path(path);
        let (kind, what) = match self {
            Self::Connect(error) => match error.kind() {
                ErrorKind::PermissionDenied => (
                    ProblemKind::Forbidden,
                    format!(
                        "no right to connect to {path}: only root and the validator's user may; run the daemon as that user"
                    ),
                ),
                ErrorKind::NotFound if has_connected => {
                    (ProblemKind::Gone, format!("{path} has vanished"))
                }
                ErrorKind::NotFound => (
                    ProblemKind::Absent,
                    format!(
                        "{path} does not exist: the validator has not created it yet, or its ledger is in another folder"
                    ),
                ),
                ErrorKind::ConnectionRefused => (
                    ProblemKind::Gone,
                    format!("no process listens at {path}: a validator that exited left it behind"),
                ),
                _ => (ProblemKind::Broken, format!("{path}: {error}")),
            },
            Self::FsCall(error) => (ProblemKind::Broken, format!("{path}: {error}")),
            Self::WrongPeer(pid) => (
                ProblemKind::Broken,
                format!("{path} is served by process {pid}, which is not the one that is followed"),
            ),
            Self::Timeout(timeout) => (
                ProblemKind::Broken,
                format!("{path}: no answer within {} s", timeout.as_secs_f64()),
            ),
            Self::ConnectionLost(error) => (
                ProblemKind::Gone,
                format!("{path}: the connection broke: {error}"),
            ),
            Self::TooLong => (
                ProblemKind::Broken,
                format!("{path}: an answer of more than {MAX_ANSWER_BYTES} bytes"),
            ),
            Self::AnswerError(Error::NotOffered { method }) => (
                ProblemKind::Absent,
                format!("{path}: this version does not offer {method}"),
            ),
            Self::AnswerError(error) => (ProblemKind::Broken, format!("{path}: {error}")),
        };
        Problem::new(kind, what)
    }
}

pub struct Connection {
    stream: UnixStream,
    timeout: Duration,
}

impl Connection {
    /// Fails if another process serves the socket. Accepts a peer outside of this daemon's pid
    /// namespace, whose pid is unknown.
    pub async fn open(
        fs_calls: &FsCalls,
        path: &Path,
        pid: u32,
        timeout: Duration,
    ) -> Result<Self, Failure> {
        let path = path.to_owned();
        let stream = fs_calls
            .call_async(timeout, move || connect(&path))
            .await
            .map_err(Failure::FsCall)?
            .map_err(io::Error::from)
            .and_then(UnixStream::from_std)
            .map_err(Failure::Connect)?;
        let peer = stream.peer_cred().map_err(Failure::ConnectionLost)?.pid();
        match peer.filter(|peer| *peer > 0 && u32::try_from(*peer) != Ok(pid)) {
            Some(peer_pid) => Err(Failure::WrongPeer(peer_pid)),
            None => Ok(Self { stream, timeout }),
        }
    }

    /// After a failure other than `AnswerError`, the connection is unusable.
    pub async fn send(&mut self, method: Method) -> Result<Answer, Failure> {
        const ID: u64 = 1;
        let timeout = self.timeout;
        let exchange = async {
            self.stream
                .write_all(method.request(ID).as_bytes())
                .await
                .map_err(Failure::ConnectionLost)?;
            self.answer().await
        };
        let body = tokio::time::timeout(timeout, exchange)
            .await
            .map_err(|_| Failure::Timeout(timeout))??;
        method.read(ID, &body).map_err(Failure::AnswerError)
    }

    /// Reads up to the newline, or to the end of the JSON value or of the connection.
    async fn answer(&mut self) -> Result<Vec<u8>, Failure> {
        let mut body = Vec::new();
        loop {
            let before = body.len();
            body.reserve(READ_CHUNK_BYTES);
            let bytes_read = self
                .stream
                .read_buf(&mut body)
                .await
                .map_err(Failure::ConnectionLost)?;
            if before == 0 {
                // The newline of the previous answer may arrive after its JSON value.
                let blank = body.iter().take_while(|byte| byte.is_ascii_whitespace());
                body.drain(..blank.count());
            }
            if let Some(end) = body.iter().skip(before).position(|byte| *byte == b'\n') {
                body.truncate(before + end);
                return Ok(body);
            }
            if bytes_read == 0 && body.is_empty() {
                return Err(Failure::ConnectionLost(ErrorKind::UnexpectedEof.into()));
            }
            if bytes_read == 0
                || (body.ends_with(b"}") && serde_json::from_slice::<IgnoredAny>(&body).is_ok())
            {
                return Ok(body);
            }
            if body.len() > MAX_ANSWER_BYTES {
                return Err(Failure::TooLong);
            }
        }
    }
}
