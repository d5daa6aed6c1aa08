//! Without a password, only pushes of the validator's user are accepted.

use super::{Intake, State};
use faultline_metrics::Stamp;
use std::time::Duration;

/// Interval at which the validator's user is read: it may drop its privileges after its start.
const USER_READ_INTERVAL: Duration = Duration::from_secs(1);

pub type UserLookup = Box<dyn Fn() -> Option<u32> + Send + Sync>;

impl Intake {
    /// Only the first call counts.
    pub fn set_user_lookup(&self, find: impl Fn() -> Option<u32> + Send + Sync + 'static) {
        let _ = self.users.set(Box::new(find));
    }

    pub(super) fn find_user(&self) -> Option<u32> {
        self.users.get().and_then(|find| find())
    }

    /// True if pushes of `user` are accepted. Until a validator is found, all of them are pending.
    pub fn admits(&self, user: u32, now: Stamp) -> bool {
        let is_due =
            |read: Option<Stamp>| read.is_none_or(|at| now.since(at) >= USER_READ_INTERVAL);
        if is_due(self.lock().user_read_at) {
            let found = self.find_user();
            let mut state = self.lock();
            state.user_read_at = Some(now);
            state.set_validator_user(found);
        }
        let expected = self.lock().senders.user();
        let Some(expected) = expected.filter(|expected| *expected != user) else {
            return true;
        };
        self.record_refusal(
            format!("sent by user {user}, but the validator runs as user {expected}"),
            now,
        );
        false
    }

    pub fn record_refusal(&self, reason: String, now: Stamp) {
        self.lock().last_refusal = Some((reason, now));
    }
}

impl State {
    pub fn set_validator_user(&mut self, user: Option<u32>) {
        if let Some(user) = user {
            self.lines.foreign += self.senders.set_validator_user(user).foreign;
        }
    }
}

#[cfg(test)]
mod tests;
