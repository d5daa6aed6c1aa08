//! Who sends a push.

use crate::config::Ingest;
use crate::socket::{self, OwnerError, Stream};

/// The sender at the other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    /// A password decides about its pushes, or the configuration allows its user.
    Trusted,
    /// This user, whose pushes count if it is the validator's.
    User(u32),
    /// A user that the kernel does not tell.
    Unknown(OwnerError),
}

impl Sender {
    /// Asks the kernel, unless a password decides.
    pub(super) fn of(stream: &Stream, config: &Ingest) -> Self {
        if config.credentials.is_some() {
            return Sender::Trusted;
        }
        match socket::owner(stream) {
            Ok(user) if config.allow_users.contains(&user) => Sender::Trusted,
            Ok(user) => Sender::User(user),
            Err(error) => Sender::Unknown(error),
        }
    }

    /// The user whose pushes count only if it is the validator's.
    pub fn user(self) -> Option<u32> {
        match self {
            Sender::User(user) => Some(user),
            Sender::Trusted | Sender::Unknown(_) => None,
        }
    }
}
