//! Whose pushes are taken where no password decides: those of the validator's user.

use super::{Intake, State};
use faultline_catalog::Stamp;
use std::fmt;
use std::time::Duration;

/// A validator's user changes if it gives its rights away after its start.
const READ_AGAIN: Duration = Duration::from_secs(1);

/// Reads the user of the process that is followed; `None` while there is none.
pub(super) struct FindUser(Box<dyn Fn() -> Option<u32> + Send + Sync>);

impl fmt::Debug for FindUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FindUser")
    }
}

impl Intake {
    /// How the validator's user is found. For the start: later calls change nothing.
    pub fn validator_user(&self, find: impl Fn() -> Option<u32> + Send + Sync + 'static) {
        let _ = self.users.set(FindUser(Box::new(find)));
    }

    pub(super) fn find_user(&self) -> Option<u32> {
        self.users.get().and_then(|users| users.0())
    }

    /// Whether pushes of this user are taken: they wait while no validator was found yet, and count if it is the
    /// validator's user.
    pub fn admits(&self, user: u32, now: Stamp) -> bool {
        let is_old = |read: Option<Stamp>| read.is_none_or(|at| now.since(at) >= READ_AGAIN);
        if is_old(self.lock().user_read) {
            let found = self.find_user();
            let mut state = self.lock();
            state.user_read = Some(now);
            state.belongs_to(found);
        }
        let validators = self.lock().senders.user();
        let Some(validators) = validators.filter(|validators| *validators != user) else {
            return true;
        };
        self.refuse(
            format!("they are of user {user}, and the validator is of user {validators}"),
            now,
        );
        false
    }

    /// A push was refused because of its sender's user.
    pub fn refuse(&self, reason: String, now: Stamp) {
        self.lock().refused = Some((reason, now));
    }
}

impl State {
    /// The validator's user, if it could be read.
    pub(super) fn belongs_to(&mut self, user: Option<u32>) {
        if let Some(user) = user {
            self.lines.foreign += self.senders.belongs_to(user).foreign;
        }
    }
}

#[cfg(test)]
mod tests;
