//! Decides which senders' points count. A push has its sender's identity as `host_id`. Points under
//! the followed validator's identities count; other senders on the same port are foreign. Until the
//! identity is known, a sender is pending: its points are summed separately, and merged or dropped
//! later. Afterwards one new sender at a time is pending, because a validator uses a new identity
//! before a poll reports it.
//!
//! Before a validator has read its identity, it uses the hash of the host name as its `host_id`.
//! Every other validator on that host does the same (solana-test-validator always). Points under
//! that id are ours if they stop once the identity pushes, and foreign if they continue.

use super::{
    allowed::AllowListSeries, coverage::Coverage, point_recorder::PendingPoints,
    recent::RecentLines, reports::ValidatorReports, slots::Slots, tally::Tally,
};
use faultline_agave::points::SetIdentity;
use faultline_metrics::Stamp;
use std::{mem, time::Duration};

/// Maximum distinct senders. At the limit a new one replaces a foreign one, if there is any.
/// Otherwise its lines are foreign.
const MAX_SENDERS: usize = 8;

/// After this time, a sole sender is assumed to be a validator with an unavailable identity. With
/// a known identity, another sender becomes foreign: identities are polled more often.
const OBSERVATION_TIME: Duration = Duration::from_secs(60);

/// Stands for a missing or invalid `host_id`. Every validator sends one, so such a line comes from
/// another tool.
pub(super) const NO_ID: &str = "";

/// Maximum length of an identity, or of the hash in its place: 32 bytes in base58.
const MAX_ID_LENGTH: usize = 44;

/// A sender without a push for this long has stopped. A validator pushes about every 10 s.
const STOPPED_AFTER: Duration = Duration::from_secs(15);

#[derive(Clone, Copy, Default)]
pub struct LineCounts {
    pub used: u64,
    pub ignored: u64,
    /// Not line protocol, cut, not in nanoseconds, or a known point with invalid fields.
    pub bad: u64,
    pub foreign: u64,
    pub duplicate: u64,
    /// Points of the validator with an impossible slot.
    pub implausible_slot: u64,
}

impl LineCounts {
    pub fn total(&self) -> u64 {
        self.used + self.ignored + self.bad + self.foreign + self.duplicate + self.implausible_slot
    }

    pub fn add(&mut self, other: Self) {
        self.used += other.used;
        self.ignored += other.ignored;
        self.bad += other.bad;
        self.foreign += other.foreign;
        self.duplicate += other.duplicate;
        self.implausible_slot += other.implausible_slot;
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SenderState {
    Ours,
    Pending,
    Foreign,
}

#[derive(Default)]
pub struct Sums {
    /// The series of the metric catalog.
    pub tally: Tally,
    /// The newest slots, and when they or a later push of the validator arrived.
    pub slots: Option<(Stamp, Slots)>,
    pub allow_list_series: AllowListSeries,
    pub line_counts: LineCounts,
    /// Empty unless the sender is pending.
    pub points: PendingPoints,
    pub coverage: Coverage,
    pub reports: ValidatorReports,
}

impl Sums {
    /// Forgets gauges, slots and reports of a process that has ended. Counts stay.
    pub fn forget_process(&mut self) {
        self.tally.forget_gauges();
        self.allow_list_series.forget_gauges();
        self.slots = None;
        self.reports = ValidatorReports {
            points_lost: self.reports.points_lost,
            ..ValidatorReports::default()
        };
    }
}

pub struct Sender {
    pub id: String,
    /// `None` if a password, or an allowed user, vouches for the push.
    user: Option<u32>,
    pub state: SenderState,
    first_push: Stamp,
    newest_push: Stamp,
    /// Empty unless the sender is pending; boxed, because pending senders are rare.
    pub sums: Box<Sums>,
    pub recent_lines: RecentLines,
}

#[derive(Default)]
pub struct Senders {
    senders: Vec<Sender>,
    /// Identities of the followed process since its start, the newest last.
    identities: Vec<String>,
    /// The `host_id` of the followed process until it has read its identity.
    startup_id: Option<String>,
    /// The followed process pushes under its start-up id until its end.
    keeps_startup_id: bool,
    /// The newest identity is assumed, because the validator does not report it.
    identity_is_assumed: bool,
    /// The identity change that was reported last: the old identity, if reported, and the new one.
    announced_change: Option<(Option<String>, String)>,
    /// The user of the current or last validator.
    pub validator_user: Option<u32>,
}

#[derive(Debug, PartialEq)]
pub enum Assumption {
    Sole(String),
    Changed { from: String, to: String },
}

/// Result of a decision about senders: sums that are ours, to merge into the total, and the number
/// of lines that turned out to be foreign.
#[derive(Default)]
pub struct SenderOutcome {
    /// With the newest push of their sender.
    pub merge_sums: Vec<(Stamp, Sums)>,
    pub foreign_lines: u64,
}

impl Sender {
    fn become_foreign(&mut self, outcome: &mut SenderOutcome) {
        self.state = SenderState::Foreign;
        outcome.foreign_lines += mem::take(&mut *self.sums).line_counts.total();
        self.recent_lines = RecentLines::default();
    }
}

/// False if either user is unknown.
fn is_other_user(user: Option<u32>, validator_user: Option<u32>) -> bool {
    user.is_some_and(|user| validator_user.is_some_and(|expected| expected != user))
}

impl Senders {
    /// The sender `id` of `user`; `None` at the limit.
    pub fn find_or_create(
        &mut self,
        id: &str,
        user: Option<u32>,
        now: Stamp,
    ) -> Option<&mut Sender> {
        let is_same = |sender: &Sender| (sender.id.as_str(), sender.user) == (id, user);
        if let Some(index) = self.senders.iter().position(is_same) {
            let sender = self.senders.get_mut(index)?;
            sender.newest_push = now;
            return Some(sender);
        }
        let is_valid_id =
            id.len() <= MAX_ID_LENGTH && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if !is_valid_id {
            return self.find_or_create(NO_ID, user, now);
        }
        if self.senders.len() >= MAX_SENDERS {
            let (index, _) = self
                .senders
                .iter()
                .enumerate()
                .filter(|(_, s)| s.state == SenderState::Foreign)
                .min_by_key(|(_, sender)| sender.newest_push)?;
            self.senders.swap_remove(index);
        }
        let sender_state = match id {
            NO_ID => SenderState::Foreign,
            _ if is_other_user(user, self.validator_user) => SenderState::Foreign,
            _ if self.identities.iter().any(|known| known == id)
                || (self.keeps_startup_id && self.startup_id.as_deref() == Some(id)) =>
            {
                SenderState::Ours
            }
            _ if self.has_candidate() => SenderState::Foreign,
            _ => SenderState::Pending,
        };
        let sender = Sender {
            id: id.to_owned(),
            user,
            state: sender_state,
            first_push: now,
            newest_push: now,
            sums: Box::default(),
            recent_lines: RecentLines::default(),
        };
        self.senders.push(sender);
        self.senders.last_mut()
    }

    /// True if any sender that appeared after the identity was known may still be the validator.
    fn has_candidate(&self) -> bool {
        let is_candidate = |sender: &Sender| {
            sender.state == SenderState::Pending && self.startup_id.as_ref() != Some(&sender.id)
        };
        !self.identities.is_empty() && self.senders.iter().any(is_candidate)
    }

    /// Forgets the identity, because another process or none is followed. Every sender that may be
    /// the validator is pending again. Its sums stay: it may have pushed before it was found.
    pub fn forget_identity(&mut self, startup_id: Option<String>) {
        self.identities.clear();
        self.identity_is_assumed = false;
        self.announced_change = None;
        (self.startup_id, self.keeps_startup_id) = (startup_id, false);
        let user = self.validator_user;
        let may_be_ours = |s: &&mut Sender| s.id != NO_ID && !is_other_user(s.user, user);
        for sender in self.senders.iter_mut().filter(may_be_ours) {
            sender.state = SenderState::Pending;
        }
    }

    /// No validator is known: no pushes count, and none are foreign.
    pub fn wait_for_validator(&mut self) {
        self.validator_user = None;
        self.forget_identity(None);
    }

    /// Senders of other users become foreign.
    pub fn set_validator_user(&mut self, user: u32) -> SenderOutcome {
        let mut outcome = SenderOutcome::default();
        self.validator_user = Some(user);
        let has_other_user = |sender: &&mut Sender| is_other_user(sender.user, Some(user));
        for sender in self.senders.iter_mut().filter(has_other_user) {
            sender.become_foreign(&mut outcome);
        }
        outcome
    }

    /// Call it for a validator that keeps its start-up id.
    pub fn add_host_id(&mut self, id: &str, now: Stamp) -> SenderOutcome {
        (self.startup_id, self.keeps_startup_id) = (Some(id.to_owned()), true);
        self.reclassify(Some((SenderState::Ours, self.observation_time())), now)
    }

    /// Forgets what pending senders reported of an earlier process. Their counts stay, except those
    /// of the coverage.
    pub fn forget_process(&mut self) {
        for sender in &mut self.senders {
            sender.sums.coverage = Coverage::default();
            sender.sums.forget_process();
        }
    }

    /// Unknown senders become foreign at once.
    pub fn set_configured_identity(&mut self, id: &str, now: Stamp) -> SenderOutcome {
        self.set_identity(id, Duration::ZERO, now)
    }

    /// The first report makes all unknown senders foreign; a later one only those that have pushed
    /// for a while.
    pub fn set_reported_identity(&mut self, id: &str, now: Stamp) -> SenderOutcome {
        let observation_time = if self.identity_is_assumed {
            Duration::ZERO
        } else {
            self.observation_time()
        };
        self.set_identity(id, observation_time, now)
    }

    fn set_identity(&mut self, id: &str, observation_time: Duration, now: Stamp) -> SenderOutcome {
        if self.identity_is_assumed {
            self.identities.clear();
            self.identity_is_assumed = false;
        }
        self.identities.retain(|known| known != id);
        self.identities.push(id.to_owned());
        self.reclassify(Some((self.startup_id_state(now), observation_time)), now)
    }

    /// How long an unknown sender may still prove to be the validator.
    fn observation_time(&self) -> Duration {
        if self.identities.is_empty() {
            Duration::ZERO
        } else {
            OBSERVATION_TIME
        }
    }

    /// The state of the start-up id, now that the identity is known.
    fn startup_id_state(&self, now: Stamp) -> SenderState {
        if self.keeps_startup_id {
            return SenderState::Ours;
        }
        let may_be_ours = |sender: &&Sender| !is_other_user(sender.user, self.validator_user);
        let sender = |id: &String| {
            self.senders
                .iter()
                .filter(may_be_ours)
                .find(|sender| sender.id == *id)
        };
        let Some(startup) = self.startup_id.as_ref().and_then(sender) else {
            return SenderState::Pending;
        };
        let first = self
            .identities
            .iter()
            .filter_map(sender)
            .map(|sender| sender.first_push)
            .min();
        match first {
            Some(first) if startup.newest_push > first => SenderState::Foreign,
            Some(first) if now.since(first) >= STOPPED_AFTER => SenderState::Ours,
            _ => SenderState::Pending,
        }
    }

    pub fn announce_change(&mut self, id: &str, set: &SetIdentity) {
        if set.new_id.as_deref() == Some(id) {
            self.announced_change = Some((set.old_id.clone(), id.to_owned()));
        }
    }

    /// If the identity is unavailable, assumes a sole sender after a while. If that one has
    /// stopped, assumes its successor.
    pub fn assume_identity(&mut self, now: Stamp) -> (Option<Assumption>, SenderOutcome) {
        let assumption = match self.identities.last() {
            // The start-up id is that of the validator's sender.
            None if self.keeps_startup_id => None,
            None => self.sole_pending_id(now).map(Assumption::Sole),
            Some(_) if !self.identity_is_assumed => None,
            Some(current) => {
                let from = current.clone();
                self.successor(&from, now)
                    .map(|to| Assumption::Changed { from, to })
            }
        };
        if let Some(Assumption::Sole(id) | Assumption::Changed { to: id, .. }) = &assumption {
            self.identity_is_assumed = true;
            self.announced_change = None;
            self.identities.retain(|known| known != id);
            self.identities.push(id.clone());
            return (assumption, self.reclassify(None, now));
        }
        (None, self.reject_parallel_senders(now))
    }

    fn sole_pending_id(&self, now: Stamp) -> Option<String> {
        let mut pending = self
            .senders
            .iter()
            .filter(|sender| sender.state == SenderState::Pending);
        let sole = pending
            .next()
            .filter(|sender| now.since(sender.first_push) >= OBSERVATION_TIME)?;
        pending.next().is_none().then(|| sole.id.clone())
    }

    fn last_received_from(&self, id: &str) -> Option<Stamp> {
        self.senders
            .iter()
            .filter(|sender| sender.id == id)
            .map(|sender| sender.newest_push)
            .max()
    }

    /// The successor of a sender that has stopped; `None` if several are possible. A validator
    /// uses its new identity only after its last push under the old one. So a sender that pushed
    /// in parallel is another validator.
    fn successor(&self, current: &str, now: Stamp) -> Option<String> {
        let last = self.last_received_from(current);
        let is_silent = |time| last.is_none_or(|at| now.since(at) >= time);
        let mut candidates = self.senders.iter().filter(|sender| {
            let is_possible =
                sender.id != NO_ID && !is_other_user(sender.user, self.validator_user);
            let took_over = self.identities.contains(&sender.id)
                || last.is_none_or(|at| sender.first_push >= at);
            sender.id != current
                && is_possible
                && took_over
                && now.since(sender.newest_push) < OBSERVATION_TIME
        });
        if let Some((old, new)) = &self.announced_change
            && new != current
            && old
                .as_ref()
                .map_or(is_silent(STOPPED_AFTER), |old| old == current)
        {
            return candidates
                .any(|sender| sender.id == *new)
                .then(|| new.clone());
        }
        let sole = candidates.next()?;
        let is_established = now.since(sole.first_push) >= OBSERVATION_TIME
            && now.since(sole.newest_push) < STOPPED_AFTER;
        (candidates.next().is_none() && is_silent(OBSERVATION_TIME) && is_established)
            .then(|| sole.id.clone())
    }

    /// While an identity is assumed, senders that pushed in parallel for a while are foreign.
    fn reject_parallel_senders(&mut self, now: Stamp) -> SenderOutcome {
        let mut outcome = SenderOutcome::default();
        let current = self.assumed_identity();
        let Some(last) = current.and_then(|current| self.last_received_from(current)) else {
            return outcome;
        };
        for sender in &mut self.senders {
            let is_parallel =
                sender.first_push < last && now.since(sender.first_push) >= OBSERVATION_TIME;
            if sender.state == SenderState::Pending && is_parallel {
                sender.become_foreign(&mut outcome);
            }
        }
        outcome
    }

    /// Updates the state of every sender. `reported_state` is set if the validator reported its
    /// identity: the state of the start-up id, and the age at which other senders become foreign.
    fn reclassify(
        &mut self,
        reported_state: Option<(SenderState, Duration)>,
        now: Stamp,
    ) -> SenderOutcome {
        let mut outcome = SenderOutcome::default();
        for sender in &mut self.senders {
            if is_other_user(sender.user, self.validator_user) {
                continue;
            }
            let sender_state = if self.identities.contains(&sender.id) {
                SenderState::Ours
            } else if self.startup_id.as_ref() == Some(&sender.id) {
                reported_state.map_or(SenderState::Pending, |(startup, _)| startup)
            } else if reported_state.is_some_and(|(_, observation_time)| {
                now.since(sender.first_push) >= observation_time
            }) {
                SenderState::Foreign
            } else {
                sender.state
            };
            if sender.state == SenderState::Pending && sender_state == SenderState::Ours {
                let sums = mem::take(&mut *sender.sums);
                outcome.merge_sums.push((sender.newest_push, sums));
            }
            if sender.state == SenderState::Pending && sender_state == SenderState::Foreign {
                sender.become_foreign(&mut outcome);
            }
            // The start-up id is never pending again once it was ours or foreign.
            if sender_state != SenderState::Pending {
                sender.state = sender_state;
            }
        }
        outcome
    }

    pub fn assumed_identity(&self) -> Option<&str> {
        self.identity().filter(|_| self.identity_is_assumed)
    }

    pub fn identity(&self) -> Option<&str> {
        self.identities.last().map(String::as_str)
    }

    pub fn pending_lines(&self) -> u64 {
        self.senders
            .iter()
            .map(|sender| sender.sums.line_counts.total())
            .sum()
    }

    pub fn ids_in_state(
        &self,
        sender_state: SenderState,
        now: Stamp,
        age: Duration,
    ) -> impl Iterator<Item = &str> {
        let is_recent = move |sender: &&Sender| {
            sender.state == sender_state && now.since(sender.newest_push) < age
        };
        self.senders
            .iter()
            .filter(is_recent)
            .map(|sender| sender.id.as_str())
    }
}

#[cfg(test)]
mod tests;
