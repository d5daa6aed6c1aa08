//! The traits of a receiver of pushed lines, and the user who sends the push.

use crate::validator::intake;
use faultline_core::{
    config::Ingest,
    socket::{self, OwnerError, Stream},
};
use faultline_metrics::Stamp;

/// What is known of the peer's user, to decide whether its pushes count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerUser {
    /// The user does not matter: a password decides.
    Trusted,
    /// A user of `allow_users`, who may relay pushes of others.
    Allowed,
    /// Another user: its pushes count only if the validator runs as this user.
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

pub trait Intake: Clone + Send + Sync + 'static {
    type Push: Push;

    fn admits(&self, user: PeerUser, now: Stamp) -> bool;

    fn begin(&self, user: PeerUser, now: Stamp) -> Self::Push;

    /// Called exactly once for every [`Intake::begin`], complete or not.
    fn commit(&self, push: Self::Push, at: Stamp);
}

pub trait Push: Send + 'static {
    fn line(&mut self, line: &[u8]);

    /// An incomplete line, or one with invalid content.
    fn bad_line(&mut self);
}

impl Intake for intake::Intake {
    type Push = intake::Push;

    fn admits(&self, user: PeerUser, now: Stamp) -> bool {
        match user {
            PeerUser::Trusted | PeerUser::Allowed => true,
            PeerUser::User(user) => self.admits(user, now),
            PeerUser::Unknown(error) => {
                self.record_refusal(error.to_string(), now);
                false
            }
        }
    }

    fn begin(&self, user: PeerUser, now: Stamp) -> intake::Push {
        match user {
            PeerUser::Trusted => self.begin(now),
            PeerUser::User(user) => self.begin_from_user(user, now),
            PeerUser::Allowed | PeerUser::Unknown(_) => self.begin_relayed(now),
        }
    }

    fn commit(&self, push: intake::Push, at: Stamp) {
        self.commit(push, at);
    }
}

impl Push for intake::Push {
    fn line(&mut self, line: &[u8]) {
        self.line(line);
    }

    fn bad_line(&mut self) {
        self.bad_line();
    }
}
