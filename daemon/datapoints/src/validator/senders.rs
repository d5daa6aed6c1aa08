//! Decides whose points count. A push carries its sender's identity as `host_id`. The followed
//! validator's identities count; others on the same port are foreign. Points before the identity is
//! known are summed separately, and merged or dropped later. So are those of a new sender, because
//! a validator pushes under a new identity before the poller learns it.
//!
//! Before it has read its identity, a validator uses the hash of the host name, as does every other
//! one on that host (solana-test-validator always). Points under that name are ours if they stop
//! once the identity pushes, and foreign if they go on.

use super::allowed::Values;
use super::coverage::Coverage;
use super::recent::Recent;
use super::recorded::PendingPoints;
use super::reported::Reported;
use super::slots::Slots;
use super::tally::Tally;
use faultline_agave::points::SetIdentity;
use faultline_metrics::Stamp;
use std::time::Duration;

/// Maximum distinct senders; further ones are foreign.
const MOST_SENDERS: usize = 8;

/// Time before a sole sender is assumed to be a validator without a known identity, and before a
/// new sender is foreign. Identities are polled more often.
const OBSERVATION_TIME: Duration = Duration::from_secs(60);

/// The `host_id` of a line without a valid one. Every validator sends one: such a line is another
/// tool's.
pub(super) const NO_ID: &str = "";

/// An identity, or the hash in its place, is base58 of 32 bytes.
const LONGEST_ID: usize = 44;

/// Pushes of a validator are about 10 s apart: after this time a name has stopped.
const SILENT: Duration = Duration::from_secs(15);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lines {
    pub used: u64,
    pub ignored: u64,
    /// Not line protocol, or a known point with invalid fields.
    pub bad: u64,
    pub foreign: u64,
    pub duplicate: u64,
    /// Of the validator, with an impossible slot.
    pub implausible: u64,
}

impl Lines {
    pub fn total(&self) -> u64 {
        self.used + self.ignored + self.bad + self.foreign + self.duplicate + self.implausible
    }

    pub fn add(&mut self, other: Lines) {
        self.used += other.used;
        self.ignored += other.ignored;
        self.bad += other.bad;
        self.foreign += other.foreign;
        self.duplicate += other.duplicate;
        self.implausible += other.implausible;
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SenderState {
    Ours,
    Pending,
    Foreign,
}

/// Separate sums of a pending sender.
#[derive(Debug, Clone, Default)]
pub struct Sums {
    pub tally: Tally,
    pub slots: Option<(Stamp, Slots)>,
    pub values: Values,
    pub lines: Lines,
    pub retained: PendingPoints,
    pub coverage: Coverage,
    pub reported: Reported,
}

#[derive(Debug)]
pub struct Sender {
    pub id: String,
    /// The sender's user, if no password decides.
    user: Option<u32>,
    pub standing: SenderState,
    first: Stamp,
    newest: Stamp,
    /// Of a pending sender; boxed, because they are rare.
    pub sums: Box<Sums>,
    pub recent: Recent,
}

#[derive(Debug, Default)]
pub struct Senders {
    all: Vec<Sender>,
    /// Identities of the followed process since its start.
    carried: Vec<String>,
    /// Its host id until it has read its identity.
    startup_id: Option<String>,
    /// The identity is assumed, because it is unavailable.
    assumed: bool,
    /// An identity set at run time and reported by its sender, and the previous one, if reported.
    announced: Option<(Option<String>, String)>,
    /// The user of the current or last validator.
    user: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Assumption {
    /// The sole sender is the validator.
    Sole(String),
    /// The validator changed its identity, without a report of it.
    Revised { from: String, to: String },
}

/// The result of new knowledge: sums to merge into the total, and lines that proved foreign.
#[derive(Debug, Default)]
pub struct SenderOutcome {
    pub ours: Vec<Sums>,
    pub foreign: u64,
}

impl Sender {
    fn become_foreign(&mut self, settled: &mut SenderOutcome) {
        self.standing = SenderState::Foreign;
        settled.foreign += std::mem::take(&mut *self.sums).lines.total();
        self.recent = Recent::default();
    }
}

/// False if either user is unknown.
fn is_other_user(user: Option<u32>, validators: Option<u32>) -> bool {
    user.is_some_and(|user| validators.is_some_and(|its| its != user))
}

impl Senders {
    /// The sender `id` of `user`, created if necessary; `None` at the limit.
    pub fn find(&mut self, id: &str, user: Option<u32>, now: Stamp) -> Option<&mut Sender> {
        let fits = id.len() <= LONGEST_ID && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let id = if fits { id } else { NO_ID };
        let is_same = |sender: &Sender| (sender.id.as_str(), sender.user) == (id, user);
        if let Some(at) = self.all.iter().position(is_same) {
            let sender = self.all.get_mut(at)?;
            sender.newest = now;
            return Some(sender);
        }
        if self.all.len() >= MOST_SENDERS {
            let oldest_foreign = self
                .all
                .iter()
                .enumerate()
                .filter(|(_, s)| s.standing == SenderState::Foreign);
            let at = oldest_foreign
                .min_by_key(|(_, sender)| sender.newest)
                .map(|(at, _)| at)?;
            self.all.swap_remove(at);
        }
        let standing = match id {
            NO_ID => SenderState::Foreign,
            _ if is_other_user(user, self.user) => SenderState::Foreign,
            id if self.carried.iter().any(|known| known == id) => SenderState::Ours,
            _ if self.is_waiting() => SenderState::Foreign,
            _ => SenderState::Pending,
        };
        let sender = Sender {
            id: id.to_owned(),
            user,
            standing,
            first: now,
            newest: now,
            sums: Box::default(),
            recent: Recent::default(),
        };
        self.all.push(sender);
        self.all.last_mut()
    }

    /// True if any sender that appeared after the identity was known may still be the validator.
    fn is_waiting(&self) -> bool {
        let waits = |sender: &Sender| {
            sender.standing == SenderState::Pending && self.startup_id.as_ref() != Some(&sender.id)
        };
        !self.carried.is_empty() && self.all.iter().any(waits)
    }

    /// For another process or none: forgets the identity. Pending sums stay, because the new
    /// process may have sent them before it was found. Every sender is pending again.
    pub fn restart(&mut self, startup_id: Option<String>) {
        self.carried.clear();
        self.assumed = false;
        self.announced = None;
        self.startup_id = startup_id;
        let user = self.user;
        let may_be_ours = |s: &&mut Sender| s.id != NO_ID && !is_other_user(s.user, user);
        for sender in self.all.iter_mut().filter(may_be_ours) {
            sender.standing = SenderState::Pending;
        }
    }

    /// No validator is known: no pushes count, and none are foreign.
    pub fn wait(&mut self) {
        self.user = None;
        self.restart(None);
    }

    /// Sets the validator's user: senders of other users become foreign.
    pub fn set_validator_user(&mut self, user: u32) -> SenderOutcome {
        let mut settled = SenderOutcome::default();
        self.user = Some(user);
        let others = |sender: &&mut Sender| is_other_user(sender.user, Some(user));
        for sender in self.all.iter_mut().filter(others) {
            sender.become_foreign(&mut settled);
        }
        settled
    }

    pub fn user(&self) -> Option<u32> {
        self.user
    }

    /// Another host id of the validator, which is not its identity.
    pub fn add_host_id(&mut self, id: &str, now: Stamp) -> SenderOutcome {
        let patience = self.patience();
        if !self.carried.iter().any(|known| known == id) {
            self.carried.insert(0, id.to_owned());
        }
        self.settle(Some((self.startup_standing(now), patience)), now)
    }

    /// Pushes of pending senders up to now are another process's.
    pub fn forget_pushes(&mut self) {
        self.all
            .iter_mut()
            .for_each(|sender| sender.sums.coverage = Coverage::default());
    }

    /// The identity from the configuration. Every earlier sender is foreign.
    pub fn is_configured(&mut self, id: &str, now: Stamp) -> SenderOutcome {
        self.known(id, Duration::ZERO, now)
    }

    /// The identity that the validator reports. The first report makes all earlier senders foreign;
    /// later ones only senders that have pushed for a while.
    pub fn set_reported_identity(&mut self, id: &str, now: Stamp) -> SenderOutcome {
        let patience = if self.assumed {
            Duration::ZERO
        } else {
            self.patience()
        };
        self.known(id, patience, now)
    }

    fn known(&mut self, id: &str, patience: Duration, now: Stamp) -> SenderOutcome {
        if self.assumed {
            self.carried.clear();
            self.assumed = false;
        }
        if self.carried.last().is_none_or(|newest| newest != id) {
            self.carried.retain(|known| known != id);
            self.carried.push(id.to_owned());
        }
        self.settle(Some((self.startup_standing(now), patience)), now)
    }

    /// How long an unknown sender may still prove to be the validator.
    fn patience(&self) -> Duration {
        if self.carried.is_empty() {
            Duration::ZERO
        } else {
            OBSERVATION_TIME
        }
    }

    /// The standing of points under the start-up name, now that the identity is known.
    fn startup_standing(&self, now: Stamp) -> SenderState {
        let of_user = |sender: &&Sender| !is_other_user(sender.user, self.user);
        let sender = |id: &String| {
            let mut all = self.all.iter().filter(of_user);
            all.find(|sender| sender.id == *id)
        };
        let Some(startup) = self.startup_id.as_ref().and_then(sender) else {
            return SenderState::Pending;
        };
        let first = self
            .carried
            .iter()
            .filter_map(sender)
            .map(|sender| sender.first)
            .min();
        match first {
            Some(first) if startup.newest > first => SenderState::Foreign,
            Some(first) if now.since(first) >= SILENT => SenderState::Ours,
            _ => SenderState::Pending,
        }
    }

    pub fn announce(&mut self, id: &str, set: &SetIdentity) {
        if set.new_id.as_deref() == Some(id) {
            self.announced = Some((set.old_id.clone(), id.to_owned()));
        }
    }

    /// If the identity is unavailable, assumes a sole sender after a while. If that one has
    /// stopped, assumes its successor.
    pub fn assume(&mut self, now: Stamp) -> (Option<Assumption>, SenderOutcome) {
        let assumption = match self.carried.last() {
            None => self.sole(now).map(Assumption::Sole),
            Some(_) if !self.assumed => None,
            Some(current) => {
                let from = current.clone();
                { self.successor(&from, now) }.map(|to| Assumption::Revised { from, to })
            }
        };
        if let Some(Assumption::Sole(id) | Assumption::Revised { to: id, .. }) = &assumption {
            self.assumed = true;
            self.announced = None;
            self.carried.retain(|known| known != id);
            self.carried.push(id.clone());
            return (assumption, self.settle(None, now));
        }
        (None, self.drop_parallel(now))
    }

    fn sole(&self, now: Stamp) -> Option<String> {
        let mut pending = self
            .all
            .iter()
            .filter(|sender| sender.standing == SenderState::Pending);
        let sole = pending
            .next()
            .filter(|sender| now.since(sender.first) >= OBSERVATION_TIME)?;
        pending.next().is_none().then(|| sole.id.clone())
    }

    fn last_received_from(&self, id: &str) -> Option<Stamp> {
        let its = self.all.iter().filter(|sender| sender.id == id);
        its.map(|sender| sender.newest).max()
    }

    /// The successor of a sender that has stopped; `None` if several are possible. A validator
    /// stops to push under its old identity before it uses the new one: a sender that pushed in
    /// parallel is another one.
    fn successor(&self, current: &str, now: Stamp) -> Option<String> {
        let last = self.last_received_from(current);
        let is_silent = |time| last.is_none_or(|at| now.since(at) >= time);
        let mut others = self.all.iter().filter(|sender| {
            let is_possible = sender.id != NO_ID && !is_other_user(sender.user, self.user);
            let took_over =
                self.carried.contains(&sender.id) || last.is_none_or(|at| sender.first >= at);
            sender.id != current
                && is_possible
                && took_over
                && now.since(sender.newest) < OBSERVATION_TIME
        });
        if let Some((old, new)) = &self.announced
            && new != current
            && old.as_ref().map_or(is_silent(SILENT), |old| old == current)
        {
            return others.any(|sender| sender.id == *new).then(|| new.clone());
        }
        let sole = others.next()?;
        let is_watched =
            now.since(sole.first) >= OBSERVATION_TIME && now.since(sole.newest) < SILENT;
        (others.next().is_none() && is_silent(OBSERVATION_TIME) && is_watched)
            .then(|| sole.id.clone())
    }

    /// While an identity is assumed, senders that have pushed in parallel for a while are foreign.
    fn drop_parallel(&mut self, now: Stamp) -> SenderOutcome {
        let mut settled = SenderOutcome::default();
        let current = self.carried.last().filter(|_| self.assumed);
        let Some(last) = current.and_then(|current| self.last_received_from(current)) else {
            return settled;
        };
        for sender in &mut self.all {
            let is_parallel = sender.first < last && now.since(sender.first) >= OBSERVATION_TIME;
            if sender.standing == SenderState::Pending && is_parallel {
                sender.become_foreign(&mut settled);
            }
        }
        settled
    }

    /// Merges senders with our identity. `reported_state` is set if the validator reported it: the standing
    /// of the start-up name, and the time after which all others are foreign.
    fn settle(
        &mut self,
        reported_state: Option<(SenderState, Duration)>,
        now: Stamp,
    ) -> SenderOutcome {
        let mut settled = SenderOutcome::default();
        for sender in &mut self.all {
            if is_other_user(sender.user, self.user) {
                continue;
            }
            let standing = if self.carried.contains(&sender.id) {
                SenderState::Ours
            } else if self.startup_id.as_ref() == Some(&sender.id) {
                reported_state.map_or(SenderState::Pending, |(startup, _)| startup)
            } else if reported_state
                .is_some_and(|(_, patience)| now.since(sender.first) >= patience)
            {
                SenderState::Foreign
            } else {
                sender.standing
            };
            if sender.standing == SenderState::Pending && standing == SenderState::Ours {
                settled.ours.push(std::mem::take(&mut *sender.sums));
            }
            if sender.standing == SenderState::Pending && standing == SenderState::Foreign {
                sender.become_foreign(&mut settled);
            }
            // A foreign or own standing under the start-up name is final.
            if standing != SenderState::Pending {
                sender.standing = standing;
            }
        }
        settled
    }

    /// The identity if it is only assumed.
    pub fn assumed(&self) -> Option<&str> {
        if self.assumed { self.identity() } else { None }
    }

    pub fn identity(&self) -> Option<&str> {
        self.carried.last().map(String::as_str)
    }

    pub fn pending_lines(&self) -> u64 {
        self.all
            .iter()
            .map(|sender| sender.sums.lines.total())
            .sum()
    }

    pub fn of_standing(
        &self,
        standing: SenderState,
        now: Stamp,
        age: Duration,
    ) -> impl Iterator<Item = &str> {
        let last_received =
            move |sender: &&Sender| sender.standing == standing && now.since(sender.newest) < age;
        self.all
            .iter()
            .filter(last_received)
            .map(|sender| sender.id.as_str())
    }
}

#[cfg(test)]
mod tests;
