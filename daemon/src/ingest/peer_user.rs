use crate::config::Ingest;
use crate::socket::{self, OwnerError, Stream};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerUser {
    /// A password decides.
    Trusted,
    /// Allowed in the configuration; it may relay other users' pushes.
    Allowed,
    /// Accepted only if it is the validator's user.
    User(u32),
    Unknown(OwnerError),
}

impl PeerUser {
    pub(super) fn of(stream: &Stream, config: &Ingest) -> Self {
        if config.credentials.is_some() {
            return PeerUser::Trusted;
        }
        match socket::owner(stream) {
            Ok(user) if config.allow_users.contains(&user) => PeerUser::Allowed,
            Ok(user) => PeerUser::User(user),
            Err(error) => PeerUser::Unknown(error),
        }
    }
}
