//! Parses lines of pushes and of the log into the same sums.

mod push;
mod readings;

pub use push::Push;

use super::{
    allowed::AllowList,
    coverage::{LastPush, PushEnd, PushTimes},
    point_recorder::PointRecorder,
    recent::RecentLines,
    reports::MigrationReports,
    senders::{Assumption, NO_ID, SenderOutcome, SenderState, Senders, Sums},
    slots::{self, SlotPlausibility, Slots},
    tally::InputValues,
};
use faultline_agave::{line::Point, points::KnownPoint};
use faultline_core::{config::Datapoints, publish::Latest};
use faultline_kernel::ProcessId;
use faultline_metrics::Stamp;
use parking_lot::{Mutex, MutexGuard};
use std::{
    mem,
    sync::{Arc, OnceLock},
};

/// Collects the datapoints that validators push to the daemon or write to their log. The listener
/// or the log follower writes it, and the sampling thread reads it. Clones share it.
#[derive(Clone, Default)]
pub struct Intake {
    state: Arc<Mutex<State>>,
    allow_list: Latest<AllowList>,
    recorder: Arc<OnceLock<PointRecorder>>,
    user_lookup: Arc<OnceLock<push::UserLookup>>,
}

#[derive(Default)]
struct State {
    senders: Senders,
    /// All sums of the followed validator's processes since the daemon's start.
    total: Sums,
    /// Of the validator that is followed now.
    last_push: Option<Stamp>,
    /// The validator has ended, or another program is followed.
    is_validator_gone: bool,
    slot_plausibility: SlotPlausibility,
    /// JSON-RPC's slot at the end of the last push.
    rpc_slot_at_push: Option<u64>,
    rpc_slot: Option<u64>,
    rpc_first_and_last_response: Option<(Stamp, Stamp)>,
    /// Consecutive pushes without program cache points while slots advanced.
    pushes_without_cache_points: u32,
    assumed_identity_changes: u64,
    /// The followed process, and whether it is a validator; a wrapper is not.
    followed: Option<(ProcessId, bool)>,
    /// A validator was followed since the start or the last [`Intake::wait_for_validator`].
    has_followed_validator: bool,
    previous_run_push: Option<LastPush>,
    reads_log: bool,
    validator_user_read_at: Option<Stamp>,
    last_refusal: Option<(String, Stamp)>,
}

#[derive(Clone, Default)]
pub struct PushFacts {
    pub slots: Option<(Stamp, Slots)>,
    /// From `validator-new`.
    pub version: Option<String>,
    pub identity: Option<String>,
    pub last_push: Option<Stamp>,
    pub migration: MigrationReports,
}

impl Intake {
    pub fn new(datapoints: &Datapoints) -> Self {
        let intake = Self::default();
        intake.reconfigure(datapoints);
        intake
    }

    /// Replaces the allow-list from the next push on. Sums of removed fields stay, as counters do.
    pub fn reconfigure(&self, datapoints: &Datapoints) {
        self.allow_list
            .set(Some(Arc::new(AllowList::new(datapoints))));
    }

    /// Records the followed validator's points. Only the first call counts.
    pub fn set_recorder(&self, recorder: PointRecorder) {
        let _ = self.recorder.set(recorder);
    }

    fn allow_list(&self) -> Arc<AllowList> {
        self.allow_list.get().unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// The log is read instead of pushes.
    pub fn set_reads_log(&self) {
        self.lock().reads_log = true;
    }

    /// Starts a trusted body: one with a password, or a section of the validator's log.
    pub fn begin_trusted(&self, now: Stamp) -> Push {
        Push::new(self.clone(), None, true, now)
    }

    /// Starts a body of `user`. It counts only if the validator runs as that user.
    pub fn begin_from_user(&self, user: u32, now: Stamp) -> Push {
        Push::new(self.clone(), Some(user), true, now)
    }

    /// Starts a body of an allowed user. Nothing proves that the validator wrote it.
    pub fn begin_unproven(&self, now: Stamp) -> Push {
        Push::new(self.clone(), None, false, now)
    }

    /// Ends a body, complete or cut. Its used lines were counted when they arrived.
    pub fn commit(&self, mut push: Push, at: Stamp) {
        push.flush_ignored();
        let mut state = self.lock();
        state.total.line_counts.bad += push.bad_lines;
        if let Some(created) = push.newest_log_time {
            let times = PushTimes::new(created, at);
            state.total.coverage.add_log_time(times);
        }
        if !push.is_from_followed {
            return;
        }
        state.last_push = Some(at);
        let (_, mut slots) = state.total.slots.unwrap_or_default();
        slots.merge_later(push.slots);
        state.total.slots = Some((at, slots));
        if let Some(end) = push.end {
            state.end_push(end);
        }
    }

    pub fn set_previous_run_push(&self, last: LastPush) {
        self.lock().previous_run_push = Some(last);
    }

    /// Returns whether `followed` differs from the process of the last call.
    pub fn set_followed(&self, followed: Option<(ProcessId, bool)>) -> bool {
        mem::replace(&mut self.lock().followed, followed) != followed
    }

    /// Continues the coverage after the last push of an earlier run of the daemon, if `process`
    /// sent that push.
    pub fn resume_after_previous_run(&self, process: ProcessId) {
        let mut state = self.lock();
        if let Some(last) = state
            .previous_run_push
            .take_if(|last| last.process == process)
        {
            state.total.coverage.resume(last.times);
        }
    }

    /// Call it when another validator is followed. `startup_id` is its host id until it has read
    /// its identity.
    pub fn follow_validator(&self, startup_id: Option<String>) {
        let user = self.find_user();
        let mut state = self.lock();
        state.set_validator_user(user);
        state.senders.forget_identity(startup_id);
        state.total.forget_process();
        state.total.coverage.forget_process();
        if mem::replace(&mut state.has_followed_validator, true) {
            // What pending senders reported may describe the previous validator: their coverage,
            // gauges and slots go, and their counts stay. Pushes before the first validator was
            // found may be its own.
            state.senders.forget_process();
        }
        state.last_push = None;
        state.is_validator_gone = false;
        state.slot_plausibility = SlotPlausibility::default();
        state.rpc_slot = None;
        state.rpc_slot_at_push = None;
        state.pushes_without_cache_points = 0;
        state.rpc_first_and_last_response = None;
    }

    /// Call it when a non-validator is followed. Pushes stay pending until a validator is found
    /// among its descendants.
    pub fn wait_for_validator(&self) {
        let mut state = self.lock();
        state.senders.wait_for_validator();
        if mem::replace(&mut state.has_followed_validator, false) {
            state.senders.forget_process();
        }
        state.is_validator_gone = true;
    }

    /// The validator has ended without a successor: its gauges are not exported any more.
    pub fn validator_ended(&self) {
        self.lock().is_validator_gone = true;
    }

    pub fn add_host_id(&self, id: &str, now: Stamp) {
        self.change_senders(|senders| senders.add_host_id(id, now));
    }

    pub fn set_configured_identity(&self, identity: &str, now: Stamp) {
        self.change_senders(|senders| senders.set_configured_identity(identity, now));
    }

    pub fn set_reported_identity(&self, identity: &str, now: Stamp) {
        self.change_senders(|senders| senders.set_reported_identity(identity, now));
    }

    fn change_senders(&self, change: impl FnOnce(&mut Senders) -> SenderOutcome) {
        let mut state = self.lock();
        let outcome = change(&mut state.senders);
        state.apply(outcome, self.allow_list().max_series, self.recorder.get());
    }

    /// For a validator whose identity is unavailable. After a while, assumes that the only sender,
    /// or its successor, is the validator. `None` without a change.
    pub fn assume_identity(&self, now: Stamp) -> Option<Assumption> {
        let mut state = self.lock();
        let (assumption, outcome) = state.senders.assume_identity(now);
        if matches!(assumption, Some(Assumption::Changed { .. })) {
            state.assumed_identity_changes += 1;
        }
        state.apply(outcome, self.allow_list().max_series, self.recorder.get());
        assumption
    }

    /// Sets JSON-RPC's processed slot and highest slot with shreds at `at`. At the end of a push,
    /// the processed slot shows whether the validator filters its datapoints.
    pub fn set_rpc_slots(&self, processed: u64, received: Option<u64>, at: Stamp) {
        let mut state = self.lock();
        state.rpc_slot = Some(processed);
        state
            .slot_plausibility
            .set_rpc_slots(processed, received, at);
        state.rpc_first_and_last_response.get_or_insert((at, at)).1 = at;
    }

    pub fn newest_slots(&self) -> Option<(Stamp, Slots)> {
        self.lock().total.slots
    }

    pub fn facts(&self) -> PushFacts {
        let state = self.lock();
        PushFacts {
            slots: state.total.slots,
            version: state.total.reports.version.clone(),
            identity: state.senders.identity().map(str::to_owned),
            last_push: state.last_push,
            migration: state.total.reports.migration,
        }
    }
}

impl State {
    fn apply(
        &mut self,
        mut outcome: SenderOutcome,
        max_series: usize,
        recorder: Option<&PointRecorder>,
    ) {
        // In the order of first pushes, which the coverage needs.
        for (_, sums) in &mut outcome.merge_sums {
            let coverage = mem::take(&mut sums.coverage);
            self.total.coverage.merge_pending(coverage);
        }
        // From the last push outward, so that the newest gauges win: newer ones replace, and older
        // ones only fill gaps.
        let last = self.last_push.unwrap_or_default().uptime;
        outcome
            .merge_sums
            .sort_by_key(|(newest_push, _)| newest_push.uptime.abs_diff(last));
        for (newest_push, mut sums) in outcome.merge_sums {
            // Pending sums under the start-up id are older than the total. Those under a new
            // identity are newer.
            let is_newer = Some(newest_push) >= self.last_push;
            if !is_newer {
                mem::swap(&mut self.total.tally, &mut sums.tally);
            }
            self.total.tally.merge(&sums.tally);
            self.total
                .allow_list_series
                .merge(max_series, sums.allow_list_series, is_newer);
            self.total.slots = self.total.slots.or(sums.slots);
            self.total.line_counts.add(sums.line_counts);
            self.total.reports.merge(sums.reports);
            if let Some(recorder) = recorder {
                recorder.add_pending(sums.points);
            }
        }
        self.total.line_counts.foreign += outcome.foreign_lines;
    }

    /// Before the call, `end.unfiltered` is true if the push has program cache points. If slots
    /// advanced, a push without these points shows that the validator filters its datapoints.
    fn end_push(&mut self, end: PushEnd) {
        let slots_advanced =
            matches!((self.rpc_slot_at_push, self.rpc_slot), (Some(then), Some(now)) if now > then);
        self.rpc_slot_at_push = self.rpc_slot;
        if end.unfiltered {
            self.pushes_without_cache_points = 0;
        } else if slots_advanced {
            self.pushes_without_cache_points = self.pushes_without_cache_points.saturating_add(1);
        }
        self.total.coverage.add_push(PushEnd {
            unfiltered: end.unfiltered || !slots_advanced,
            ..end
        });
    }

    /// Returns where a sender's lines are added; `None` for a foreign sender.
    fn destination(
        &mut self,
        origin: Origin<'_>,
    ) -> Option<(
        SenderState,
        &mut Sums,
        Option<&mut RecentLines>,
        &mut SlotPlausibility,
    )> {
        let plausibility = &mut self.slot_plausibility;
        let Some(host_id) = origin.host_id else {
            return Some((SenderState::Ours, &mut self.total, None, plausibility));
        };
        let sender = self
            .senders
            .find_or_create(host_id, origin.user, origin.now)?;
        let sums = match sender.state {
            SenderState::Ours => &mut self.total,
            SenderState::Pending => &mut *sender.sums,
            SenderState::Foreign => return None,
        };
        let recent_lines = Some(&mut sender.recent_lines);
        Some((sender.state, sums, recent_lines, plausibility))
    }

    /// Adds a known point or allowed fields. Returns `None` for a foreign, bad or repeated line, or
    /// an implausible slot.
    fn add(
        &mut self,
        allow_list: &AllowList,
        origin: Origin<'_>,
        line: &[u8],
        point: &Point<'_>,
        values: &mut InputValues,
    ) -> Option<AddedPoint> {
        let now = origin.now;
        let Some((sender_state, sums, recent_lines, slot_plausibility)) = self.destination(origin)
        else {
            self.total.line_counts.foreign += 1;
            return None;
        };
        let is_builtin = values.reset(point.name());
        let decode = || KnownPoint::decode(point, |field| values.add(field));
        let Ok(known) = is_builtin.then(decode).transpose() else {
            sums.line_counts.bad += 1;
            return None;
        };
        let known = known.flatten();
        // Only pushes repeat a line. Log lines may lack a time, so equal ones are two points.
        if recent_lines.is_some_and(|recent_lines| !recent_lines.insert(line)) {
            sums.line_counts.duplicate += 1;
            return None;
        }
        let unix_ns = point
            .timestamp()
            .unwrap_or_else(|| i64::try_from(now.unix.as_nanos()).unwrap_or(i64::MAX));
        if let Some(known) = &known {
            let is_plausible = match sender_state {
                SenderState::Pending => slots::add_if_possible(&mut sums.slots, known, now),
                _ => slot_plausibility.accepts(known, now),
            };
            if !is_plausible {
                sums.line_counts.implausible_slot += 1;
                return None;
            }
            if let KnownPoint::AccountsActive(active) = known {
                sums.tally.accounts_jobs.add(active, unix_ns, now.uptime);
            }
        }
        sums.tally.add(point, values, known.as_ref());
        let allowed = allow_list
            .allowed_fields(point.name().as_bytes())
            .is_some_and(|allowed_fields| {
                sums.allow_list_series
                    .add(allow_list, allowed_fields, point)
            });
        if is_builtin || allowed {
            sums.line_counts.used += 1;
        } else {
            sums.line_counts.ignored += 1;
        }
        Some(AddedPoint {
            known,
            is_from_followed: sender_state == SenderState::Ours,
            unix_ns,
        })
    }

    fn pending_sums(&mut self, origin: Origin<'_>) -> Option<&mut Sums> {
        match self.destination(origin)? {
            (SenderState::Pending, sums, ..) => Some(sums),
            _ => None,
        }
    }

    /// True if the sender is the followed validator.
    fn count_ignored(&mut self, origin: Origin<'_>, count: u64) -> bool {
        let Some((sender_state, sums, ..)) = self.destination(origin) else {
            self.total.line_counts.foreign += count;
            return false;
        };
        sums.line_counts.ignored += count;
        sender_state == SenderState::Ours
    }
}

#[derive(Clone, Copy)]
struct Origin<'o> {
    /// `None` for a line of the log.
    host_id: Option<&'o str>,
    user: Option<u32>,
    /// When the push or the section of the log began.
    now: Stamp,
}

struct AddedPoint {
    known: Option<KnownPoint>,
    is_from_followed: bool,
    unix_ns: i64,
}

#[cfg(test)]
mod tests;
