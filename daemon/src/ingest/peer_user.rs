//! The user who sends a push.

use crate::config::Ingest;
use crate::socket::{self, OwnerError, Stream};

/// The user at the other end of a connection, as far as it decides about pushes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerUser {
    /// A password decides about its pushes, or the configuration allows its user.
    Exempt,
    /// This user, whose pushes count if it is the validator's.
    User(u32),
    /// The lookup failed.
    Unknown(OwnerError),
}

impl PeerUser {
    /// Looks the user up, unless a password decides.
    pub(super) fn of(stream: &Stream, config: &Ingest) -> Self {
        if config.credentials.is_some() {
            return PeerUser::Exempt;
        }
        match socket::owner(stream) {
            Ok(user) if config.allow_users.contains(&user) => PeerUser::Exempt,
            Ok(user) => PeerUser::User(user),
            Err(error) => PeerUser::Unknown(error),
        }
    }

    /// The user whose pushes count only if it is the validator's.
    pub fn user(self) -> Option<u32> {
        match self {
            PeerUser::User(user) => Some(user),
            PeerUser::Exempt | PeerUser::Unknown(_) => None,
        }
    }
}
