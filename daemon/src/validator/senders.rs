//! Whose points count. A push carries its sender's identity as `host_id`: the followed validator's identities count, a
//! second validator or a stray tool on the same port is foreign. Points that come before the identity is known are
//! kept apart, summed, and taken or dropped once it is. So are those of a new sender later: a validator that was given another
//! identity pushes under it before it is asked for it.
//!
//! Until it has read its identity a validator calls itself by the hash of the host's name, and so does every other one on
//! that host (solana-test-validator for all its life). Points under that name are ours if the name falls silent once the
//! identity is heard, and somebody else's if it goes on.

use super::allowed::Values;
use super::coverage::Coverage;
use super::recent::Recent;
use super::recorded::PendingPoints;
use super::reported::Reported;
use super::slots::Slots;
use super::tally::Tally;
use faultline_agave::points::SetIdentity;
use faultline_catalog::Stamp;
use std::time::Duration;

/// At most this many senders are told apart; what the rest sends is foreign.
const MOST_SENDERS: usize = 8;

/// How long a sole sender is watched before it is taken for a validator that cannot be asked who it is, and a new one before it
/// is taken for somebody else. A validator is asked more often than that.
const WATCHED: Duration = Duration::from_secs(60);

/// The `host_id` of a line without one, and of one that no validator can have. Every validator sends one: such a line is a
/// stray tool's.
pub(super) const NO_ID: &str = "";

/// An identity, and the hash that stands in for it, is base58 of 32 bytes.
const LONGEST_ID: usize = 44;

/// Two pushes of one validator are about 10 s apart: a name not heard for longer than this has fallen silent.
const SILENT: Duration = Duration::from_secs(15);

/// Lines by what became of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lines {
    pub used: u64,
    pub ignored: u64,
    /// Not line protocol, or a known point with fields that are not.
    pub bad: u64,
    pub foreign: u64,
    pub duplicate: u64,
    /// Of the validator, with a slot that cannot be true.
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

/// Whether a sender's points count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SenderState {
    /// It is the followed validator.
    Ours,
    Pending,
    /// It is somebody else.
    Foreign,
}

/// What is summed apart while a sender is pending.
#[derive(Debug, Clone, Default)]
pub struct Sums {
    /// Sums of known points.
    pub tally: Tally,
    /// Its newest slots, and when they came.
    pub slots: Option<(Stamp, Slots)>,
    /// Values of the allow-list.
    pub values: Values,
    /// Lines by what would become of them.
    pub lines: Lines,
    /// Points for the recording.
    pub kept: PendingPoints,
    /// Its pushes and seconds.
    pub coverage: Coverage,
    /// Its lost points and version.
    pub reported: Reported,
}

#[derive(Debug)]
pub struct Sender {
    /// Its `host_id`.
    pub id: String,
    /// The user who sends, where no password decides.
    user: Option<u32>,
    pub standing: SenderState,
    /// When its first line arrived.
    first: Stamp,
    /// When its newest line arrived.
    newest: Stamp,
    /// Of a pending sender; boxed, since few are.
    pub sums: Box<Sums>,
    pub recent: Recent,
}

/// Everybody who pushed, and who the followed validator is.
#[derive(Debug, Default)]
pub struct Senders {
    all: Vec<Sender>,
    /// Identities the followed process carries or carried since its start.
    carried: Vec<String>,
    /// What it calls itself until it has read its identity.
    startup_id: Option<String>,
    /// Set while its identity is assumed, since it cannot be asked.
    assumed: bool,
    /// An identity set at run time that its sender reported, and the one before, where the validator tells it.
    announced: Option<(Option<String>, String)>,
    /// The user of the validator that is followed, or was last.
    user: Option<u32>,
}

/// Whom the senders were assumed to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Assumption {
    /// The sole sender is the validator.
    Sole(String),
    /// The validator has changed its identity, without being asked for it.
    Revised {
        /// What it was assumed to be.
        from: String,
        /// The sender that took its place.
        to: String,
    },
}

/// What a change of knowledge frees: sums to be taken into the total, and lines that turned out foreign.
#[derive(Debug, Default)]
pub struct Settled {
    /// Sums of senders that are ours.
    pub ours: Vec<Sums>,
    /// Lines of senders that are not.
    pub foreign: u64,
}

impl Sender {
    fn become_foreign(&mut self, settled: &mut Settled) {
        self.standing = SenderState::Foreign;
        settled.foreign += std::mem::take(&mut *self.sums).lines.total();
        self.recent = Recent::default();
    }
}

/// Whether a sender's user is known not to be the validator's.
fn is_other_user(user: Option<u32>, validators: Option<u32>) -> bool {
    user.is_some_and(|user| validators.is_some_and(|its| its != user))
}

impl Senders {
    /// The sender of `id` as `user`, new or known; `None` if there are too many to tell apart.
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

    /// Whether somebody who came after the identity was known may yet turn out to be the validator: one is enough.
    fn is_waiting(&self) -> bool {
        let waits = |sender: &Sender| {
            sender.standing == SenderState::Pending && self.startup_id.as_ref() != Some(&sender.id)
        };
        !self.carried.is_empty() && self.all.iter().any(waits)
    }

    /// Another process is followed, or none: nothing is known of its identity. Pending sums stay, in case the new
    /// process sent them before it was found; whoever was ours or foreign must show it anew.
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

    /// No validator is known: nobody's pushes count, and nobody's are foreign.
    pub fn wait(&mut self) {
        self.user = None;
        self.restart(None);
    }

    /// The validator that is followed is this user's: whatever others sent is foreign.
    pub fn set_validator_user(&mut self, user: u32) -> Settled {
        let mut settled = Settled::default();
        self.user = Some(user);
        let others = |sender: &&mut Sender| is_other_user(sender.user, Some(user));
        for sender in self.all.iter_mut().filter(others) {
            sender.become_foreign(&mut settled);
        }
        settled
    }

    /// The user of the validator that is followed, or was last.
    pub fn user(&self) -> Option<u32> {
        self.user
    }

    /// The followed validator pushes under this name as well, which is not its identity.
    pub fn answers_to(&mut self, id: &str, now: Stamp) -> Settled {
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

    /// The followed validator carries this identity, by configuration. Everybody else who sent before is foreign.
    pub fn is_configured(&mut self, id: &str, now: Stamp) -> Settled {
        self.known(id, Duration::ZERO, now)
    }

    /// The followed validator carries this identity, by its own word. When it is told for the first time, everybody else who sent
    /// before is foreign; later, who has sent for a while.
    pub fn carries(&mut self, id: &str, now: Stamp) -> Settled {
        let patience = if self.assumed {
            Duration::ZERO
        } else {
            self.patience()
        };
        self.known(id, patience, now)
    }

    fn known(&mut self, id: &str, patience: Duration, now: Stamp) -> Settled {
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

    /// For how long somebody who is not known may yet turn out to be the validator.
    fn patience(&self) -> Duration {
        if self.carried.is_empty() {
            Duration::ZERO
        } else {
            WATCHED
        }
    }

    /// Whether the points under the start-up name are ours, now that the identity is known.
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

    /// A line of the sender `id` reports that the validator has set this identity.
    pub fn announce(&mut self, id: &str, set: &SetIdentity) {
        if set.new_id.as_deref() == Some(id) {
            self.announced = Some((set.old_id.clone(), id.to_owned()));
        }
    }

    /// The validator cannot be asked who it is: a sole sender, watched for a while, is taken for it. If that one has
    /// fallen silent, the one that pushes in its place is.
    pub fn assume(&mut self, now: Stamp) -> (Option<Assumption>, Settled) {
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
            .filter(|sender| now.since(sender.first) >= WATCHED)?;
        pending.next().is_none().then(|| sole.id.clone())
    }

    /// When the assumed sender was heard last.
    fn last_heard(&self, id: &str) -> Option<Stamp> {
        let its = self.all.iter().filter(|sender| sender.id == id);
        its.map(|sender| sender.newest).max()
    }

    /// Who pushes in place of a sender that has fallen silent; `None` while more than one may. A validator ends to
    /// push under its old identity before it begins under the new one: whoever pushed beside it is another one.
    fn successor(&self, current: &str, now: Stamp) -> Option<String> {
        let last = self.last_heard(current);
        let is_silent = |time| last.is_none_or(|at| now.since(at) >= time);
        let mut others = self.all.iter().filter(|sender| {
            let is_possible = sender.id != NO_ID && !is_other_user(sender.user, self.user);
            let took_over =
                self.carried.contains(&sender.id) || last.is_none_or(|at| sender.first >= at);
            sender.id != current && is_possible && took_over && now.since(sender.newest) < WATCHED
        });
        if let Some((old, new)) = &self.announced
            && new != current
            && old.as_ref().map_or(is_silent(SILENT), |old| old == current)
        {
            return others.any(|sender| sender.id == *new).then(|| new.clone());
        }
        let sole = others.next()?;
        let is_watched = now.since(sole.first) >= WATCHED && now.since(sole.newest) < SILENT;
        (others.next().is_none() && is_silent(WATCHED) && is_watched).then(|| sole.id.clone())
    }

    /// While an identity is assumed, who has pushed beside it for a while is foreign.
    fn drop_parallel(&mut self, now: Stamp) -> Settled {
        let mut settled = Settled::default();
        let current = self.carried.last().filter(|_| self.assumed);
        let Some(last) = current.and_then(|current| self.last_heard(current)) else {
            return settled;
        };
        for sender in &mut self.all {
            let is_parallel = sender.first < last && now.since(sender.first) >= WATCHED;
            if sender.standing == SenderState::Pending && is_parallel {
                sender.become_foreign(&mut settled);
            }
        }
        settled
    }

    /// Takes senders that carry our identity. If the identity is known by the validator's word, `told` says what is known of the
    /// start-up name, and after which time everybody else is foreign.
    fn settle(&mut self, told: Option<(SenderState, Duration)>, now: Stamp) -> Settled {
        let mut settled = Settled::default();
        for sender in &mut self.all {
            if is_other_user(sender.user, self.user) {
                continue;
            }
            let standing = if self.carried.contains(&sender.id) {
                SenderState::Ours
            } else if self.startup_id.as_ref() == Some(&sender.id) {
                told.map_or(SenderState::Pending, |(startup, _)| startup)
            } else if told.is_some_and(|(_, patience)| now.since(sender.first) >= patience) {
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
            // What was once foreign or ours under the start-up name is settled.
            if standing != SenderState::Pending {
                sender.standing = standing;
            }
        }
        settled
    }

    /// Whether the identity is only assumed.
    pub fn assumed(&self) -> Option<&str> {
        if self.assumed { self.identity() } else { None }
    }

    /// The identity carried now; `None` until it is known.
    pub fn identity(&self) -> Option<&str> {
        self.carried.last().map(String::as_str)
    }

    /// Lines that are kept apart until it is known whose they are.
    pub fn pending_lines(&self) -> u64 {
        self.all
            .iter()
            .map(|sender| sender.sums.lines.total())
            .sum()
    }

    /// Senders of this standing heard of within `age`.
    pub fn of_standing(
        &self,
        standing: SenderState,
        now: Stamp,
        age: Duration,
    ) -> impl Iterator<Item = &str> {
        let heard =
            move |sender: &&Sender| sender.standing == standing && now.since(sender.newest) < age;
        self.all
            .iter()
            .filter(heard)
            .map(|sender| sender.id.as_str())
    }
}

#[cfg(test)]
mod tests;
