//! Where lines come in: from pushes and from the log, through the same parser into the same sums.

mod push;

pub use push::Push;

use super::allowed::{AllowList, Values};
use super::coverage::Coverage;
use super::recent::Recent;
use super::senders::{Lines, NO_ID, Senders, Settled, Standing};
use super::tally::{Slots, Tally, add, delta};
use crate::config::Datapoints;
use crate::hub::Latest;
use crate::recorder::{Points, points};
use faultline_agave::line::Point;
use faultline_agave::points::Known;
use faultline_catalog::metrics::daemon as d;
use faultline_catalog::metrics::validator as v;
use faultline_catalog::{Problem, Reading, Stamp, Status};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// Levels older than this are no longer shown: pushes come every 10 s.
const FRESH: Duration = Duration::from_secs(60);

/// So many pushes in a row without program cache points, while slots advance, mean that they are filtered out.
const FILTERED_AFTER: u32 = 2;

/// Shared between the listener or the log follower, which add, and the tick, which reads.
#[derive(Debug, Clone)]
pub struct Intake {
    state: Arc<Mutex<State>>,
    allow: Latest<AllowList>,
    recorder: Arc<OnceLock<Points>>,
}

#[derive(Debug, Default)]
struct State {
    senders: Senders,
    /// Everything the followed validator's processes said since the daemon started.
    total: Tally,
    values: Values,
    lines: Lines,
    coverage: Coverage,
    points_lost: u64,
    last_push: Option<Stamp>,
    newest_slots: Option<(Stamp, Slots)>,
    version: Option<String>,
    /// Slots as JSON-RPC told them, when the last push ended and now.
    rpc_slot_at_push: Option<u64>,
    rpc_slot: Option<u64>,
    /// When JSON-RPC of this process told a slot first and last.
    answers: Option<(Stamp, Stamp)>,
    empty_pushes: u32,
    log_recent: Recent,
}

/// What the tick wants to know besides readings.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// Newest slots, and when the push that told of them arrived.
    pub slots: Option<(Stamp, Slots)>,
    /// Version, as `validator-new` said it.
    pub version: Option<String>,
    /// Identity that counts now; `None` until it is known.
    pub identity: Option<String>,
    /// When the followed validator's last push arrived.
    pub last_push: Option<Stamp>,
}

impl Intake {
    /// An intake that has seen nothing.
    pub fn new(datapoints: &Datapoints) -> Self {
        let intake = Intake { state: Arc::default(), allow: Latest::default(), recorder: Arc::default() };
        intake.reconfigure(datapoints);
        intake
    }

    /// Another allow-list from the next push on. Sums of fields that are no longer on it stay, as counters do.
    pub fn reconfigure(&self, datapoints: &Datapoints) {
        self.allow.set(Some(Arc::new(AllowList::new(datapoints))));
    }

    /// From now on points of the followed validator are recorded too. For the start: later calls change nothing.
    pub fn record_to(&self, points: Points) {
        let _ = self.recorder.set(points);
    }

    fn allow(&self) -> Arc<AllowList> {
        self.allow.get().unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A body begins to arrive at `now`.
    pub fn begin(&self, now: Stamp) -> Push {
        Push::new(self.clone(), self.allow(), now)
    }

    /// The body has arrived, whole or cut: what it carried is counted already; this closes the account of the push.
    pub fn commit(&self, mut push: Push, at: Stamp) {
        push.flush_ignored();
        let mut state = self.lock();
        state.lines.bad += push.unknown_bad;
        if let Some(time) = push.newest_log_time {
            state.coverage.log_reached(time);
        }
        if !push.ours {
            return;
        }
        state.last_push = Some(at);
        let slots = state.total.slots;
        state.newest_slots = Some((at, slots));
        if let Some((time, since)) = push.agent {
            state.end_push(time, since, push.cache_points);
        }
    }

    /// Another process is followed, or none. `startup_id` is what it calls itself until it has read its identity.
    pub fn restart(&self, startup_id: Option<String>) {
        let mut state = self.lock();
        let settled = state.senders.restart(startup_id);
        state.total.forget_levels();
        state.values.forget_levels();
        state.coverage.restart();
        (state.newest_slots, state.version, state.last_push) = (None, None, None);
        (state.rpc_slot, state.rpc_slot_at_push, state.empty_pushes, state.answers) = (None, None, 0, None);
        state.take(settled, self.allow().max_series(), self.recorder.get());
    }

    /// The followed validator carries this identity.
    pub fn carries(&self, identity: &str, now: Stamp) {
        let mut state = self.lock();
        let settled = state.senders.carries(identity, now);
        state.take(settled, self.allow().max_series(), self.recorder.get());
    }

    /// The followed validator cannot be asked for its identity: takes a sole sender for it after a while. True when it
    /// just did.
    pub fn assume_identity(&self, now: Stamp) -> bool {
        let mut state = self.lock();
        let Some((_, settled)) = state.senders.assume(now) else { return false };
        state.take(settled, self.allow().max_series(), self.recorder.get());
        true
    }

    /// JSON-RPC told this processed slot: slots that advance while pushes carry none are a sign of filtering.
    pub fn rpc_slot(&self, slot: u64, now: Stamp) {
        let mut state = self.lock();
        state.rpc_slot = Some(slot);
        state.answers = Some((state.answers.map_or(now, |(first, _)| first), now));
    }

    /// What the phase and the target's labels want.
    pub fn facts(&self) -> Facts {
        let state = self.lock();
        Facts {
            slots: state.newest_slots,
            version: state.version.clone(),
            identity: state.senders.identity().map(str::to_owned),
            last_push: state.last_push,
        }
    }

    /// Everything this module exports.
    pub fn readings(&self, now: Stamp, out: &mut Vec<Reading>) {
        let state = self.lock();
        let fresh = state.last_push.is_some_and(|at| now.since(at) < FRESH);
        state.total.readings(fresh, out);
        state.values.readings(fresh, out);
        out.push(Reading::counter(&v::ZERO_TPS, [], state.coverage.zero_seconds));
        out.push(Reading::counter(&v::TPS_UNKNOWN, [], state.coverage.unknown_seconds));
        out.push(Reading::counter(&d::PUSHES_MISSED, [], state.coverage.pushes_missed));
        out.push(Reading::counter(&d::POINTS_LOST, [], state.points_lost));
        out.push(Reading::flag(&d::PUSHES_FILTERED, [], state.empty_pushes >= FILTERED_AFTER));
        let lines = state.lines;
        for (result, count) in [
            ("used", lines.used),
            ("ignored", lines.ignored),
            ("bad", lines.bad),
            ("foreign", lines.foreign),
            ("duplicate", lines.duplicate),
        ] {
            out.push(Reading::counter(&d::INGEST_LINES, [result.into()], count));
        }
        if let Some(at) = state.last_push {
            out.push(Reading::real(&d::LAST_PUSH, [], at.unix_seconds()));
        }
    }

    /// What is wrong with the pushes, in words.
    pub fn problems(&self, now: Stamp) -> Vec<Problem> {
        let state = self.lock();
        let mut problems = Vec::new();
        let foreign = named(state.senders.of_standing(Standing::Foreign, now, FRESH));
        if !foreign.is_empty() {
            problems.push(Problem::new(Status::Broken, format!("not the followed validator, not counted: {foreign}")));
        }
        let pending = named(state.senders.of_standing(Standing::Pending, now, FRESH));
        if !pending.is_empty() && state.senders.identity().is_none() {
            let text = format!("waiting for the validator's identity; points are kept apart: {pending}");
            problems.push(Problem::new(Status::Absent, text));
        }
        if let Some(identity) = state.senders.assumed() {
            let text = format!(
                "the validator cannot be asked who it is; the only sender is taken for it: {identity}. Set target.identity to be sure"
            );
            problems.push(Problem::new(Status::Absent, text));
        }
        if state.empty_pushes >= FILTERED_AFTER {
            let text = "pushes carry no program cache points although slots advance: the validator's RUST_LOG filters them; set RUST_LOG=solana=info,agave=info,solana_metrics=warn for it";
            problems.push(Problem::new(Status::Absent, text));
        }
        if state.is_silent(now) {
            let text = "no datapoints for a minute although the validator answers JSON-RPC: its SOLANA_METRICS_CONFIG does not lead here, or its RUST_LOG filters them all; it needs RUST_LOG=solana=info,agave=info,solana_metrics=warn or none";
            problems.push(Problem::new(Status::Absent, text));
        }
        problems
    }

    /// Whether the followed validator's points arrive: a push within the last minute.
    pub fn up(&self, now: Stamp) -> bool {
        self.lock().last_push.is_some_and(|at| now.since(at) < FRESH)
    }
}

impl State {
    fn take(&mut self, settled: Settled, most: usize, recorder: Option<&Points>) {
        for sums in settled.ours {
            self.total.merge(&sums.tally);
            self.values.merge(most, sums.values);
            self.lines.add(sums.lines);
            if let Some(recorder) = recorder {
                recorder.add_kept(sums.kept);
            }
        }
        self.lines.foreign += settled.foreign;
    }

    /// Whether a validator that runs, and has run for long enough to push, does not.
    fn is_silent(&self, now: Stamp) -> bool {
        let runs = self.answers.is_some_and(|(first, last)| now.since(first) >= FRESH && now.since(last) < FRESH);
        runs && self.last_push.is_none_or(|at| now.since(at) >= FRESH)
    }

    fn end_push(&mut self, time: i64, since: u64, cache_points: u64) {
        let advanced = matches!((self.rpc_slot_at_push, self.rpc_slot), (Some(then), Some(now)) if now > then);
        self.rpc_slot_at_push = self.rpc_slot;
        if cache_points > 0 {
            self.empty_pushes = 0;
        } else if advanced {
            self.empty_pushes = self.empty_pushes.saturating_add(1);
        }
        self.coverage.push(time, since, cache_points > 0 || !advanced);
    }

    /// Adds a known point or allowed fields of the sender `host` (`None`: the log, which is ours by its place).
    fn add(&mut self, allow: &AllowList, host: Option<&str>, line: &[u8], point: &Point<'_>, now: Stamp) -> Added {
        let State { senders, total, values, lines, log_recent, .. } = self;
        let (standing, sums, recent) = match host {
            None => (Standing::Ours, None, log_recent),
            Some(host) => match senders.find(host, now) {
                Some(sender) => (sender.standing, Some(&mut sender.sums), &mut sender.recent),
                None => {
                    lines.foreign += 1;
                    return Added::default();
                }
            },
        };
        let (tally, values, lines) = match (standing, sums) {
            (Standing::Foreign, _) => {
                lines.foreign += 1;
                return Added::default();
            }
            (Standing::Pending, Some(sums)) => (&mut sums.tally, &mut sums.values, &mut sums.lines),
            _ => (total, values, lines),
        };
        let known = match Known::parse(point) {
            Some(Err(_)) => {
                lines.bad += 1;
                return Added::default();
            }
            Some(Ok(decoded)) => Some(decoded),
            None => None,
        };
        // The log's lines have no time of their own to tell them apart, and are read once by their place.
        if host.is_some() && !recent.insert(line) {
            lines.duplicate += 1;
            return Added::default();
        }
        let time = point.timestamp().unwrap_or_else(|| i64::try_from(now.unix.as_nanos()).unwrap_or(i64::MAX));
        if let Some(decoded) = &known {
            tally.add(&decoded.known, time);
        }
        let allowed = allow.wants(point.name().as_bytes()) && values.add(allow, point);
        if known.is_some() || allowed {
            lines.used += 1;
        } else {
            lines.ignored += 1;
        }
        Added { known: known.map(|decoded| decoded.known), ours: standing == Standing::Ours, time }
    }

    /// Keeps a point for the recording until it is known whether its sender is ours.
    fn keep(&mut self, host: &str, point: Box<faultline_recording::Point>, now: Stamp) {
        if let Some(sender) = self.senders.find(host, now).filter(|sender| sender.standing == Standing::Pending) {
            sender.sums.kept.add(point);
        }
    }

    /// What of a point of ours goes beyond sums.
    fn follow_up(&mut self, known: &Known, time: i64) {
        match known {
            Known::CostTracker(cost) => self.coverage.transactions(time, delta(cost.transaction_count)),
            Known::ReplaySlot(replay) => self.coverage.transactions(time, delta(replay.total_transactions)),
            Known::Agent(agent) => add(&mut self.points_lost, delta(agent.points_lost)),
            Known::ValidatorNew(new) => self.version.clone_from(&new.version),
            _ => {}
        }
    }

    fn ignore(&mut self, host: &str, count: u64, now: Stamp) -> bool {
        match self.senders.find(host, now) {
            Some(sender) if sender.standing == Standing::Ours => {
                self.lines.ignored += count;
                return true;
            }
            Some(sender) if sender.standing == Standing::Pending => sender.sums.lines.ignored += count,
            _ => self.lines.foreign += count,
        }
        false
    }
}

/// Some of them by name.
fn named<'s>(ids: impl Iterator<Item = &'s str>) -> String {
    const MOST: usize = 3;
    let mut ids: Vec<&str> = ids.map(|id| if id == NO_ID { "one without a host_id" } else { id }).collect();
    // The order of arrival may change from push to push.
    ids.sort_unstable();
    let more = ids.len().saturating_sub(MOST);
    ids.truncate(MOST);
    if more == 0 { ids.join(", ") } else { format!("{} and {more} more", ids.join(", ")) }
}

#[derive(Default)]
struct Added {
    known: Option<Known>,
    ours: bool,
    time: i64,
}

#[cfg(test)]
mod tests;
