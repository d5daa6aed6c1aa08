//! The user who sends a push.

use crate::config::Ingest;
use crate::socket::{self, OwnerError, Stream};

/// The user at the other end of a connection, as far as it decides about pushes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerUser {
    /// A password decides about its pushes.
    Trusted,
    /// The configuration allows its user, who may relay pushes of others.
    Allowed,
    /// This user, whose pushes count if it is the validator's.
    User(u32),
    Unknown(OwnerError),
}

impl PeerUser {
    /// Looks the user up, unless a password decides.
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
