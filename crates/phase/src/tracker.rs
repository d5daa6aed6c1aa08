//! The phase over time. `docs/decisions/0011` has the rules and their reasons.
//!
//! Time stays open until later evidence decides its phase, so a counter of seconds never decreases.

use crate::{
    Phase, PhaseEvidence, Process, Rules, Stage, TipTime,
    slot_time::SlotTimeMeter,
    slot_track::{SlotTrack, max_slots},
};
use std::{mem, time::Duration};

/// The validator is behind if its slot stands still for this long while the tip advances.
pub const STALL_AFTER: Duration = Duration::from_secs(15);

/// The tip may advance by the slots of this time during a halt of the cluster: shreds arrive before
/// their banks are frozen.
const SHRED_LEAD: Duration = Duration::from_secs(1);

/// A pause is a standstill or a time of unknown phase. A small distance after a pause counts once
/// it lasts this long: at first the validator knows only the old tip.
const NEAR_TIP_AFTER: Duration = Duration::from_secs(8);

/// After a pause, a distance between `at_tip_slots` and `behind_slots` shows neither phase. After
/// this time it counts as behind.
const UNDECIDED_TIMEOUT: Duration = Duration::from_secs(30);

/// For this long after a pause, a validator that is faster than a cluster is catching up. The
/// limit exists because slots of a test cluster can be shorter than the slot time.
const PAUSE_RECOVERY: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PhaseInterval {
    pub from: Duration,
    pub to: Duration,
    /// `None` if no evidence shows it.
    pub phase: Option<Phase>,
}

/// A time of at least [`STALL_AFTER`] without an advance of the own slot.
#[derive(Debug, Clone, Copy)]
struct Standstill {
    from: Duration,
    until: Duration,
    /// The newest tip at `from`.
    tip: u64,
}

/// Without a tip, the slot time is measured from the own slot once the validator was healthy for
/// this long.
/// Right after a start, a validator calls itself healthy even while it replays.
const MIN_HEALTHY_TIME: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub struct Tracker {
    pub rules: Rules,
    phase: Phase,
    is_known: bool,
    now: Option<Duration>,
    decided_until: Duration,
    decided: Vec<PhaseInterval>,
    time_by_phase: [Duration; Phase::ALL.len()],
    /// A property of the cluster, so it stays when the process changes.
    slot_time: SlotTimeMeter,
    process_state: ProcessState,
}

#[derive(Debug, Clone, Default)]
struct ProcessState {
    has_reported: bool,
    own_track: Option<SlotTrack>,
    tip_track: Option<SlotTrack>,
    slots_behind: Option<u64>,
    tip_at_own_advance: u64,
    /// A standstill that has ended. It is not yet decided whether the tip advanced meanwhile.
    standstill: Option<Standstill>,
    /// The slot has not advanced since the validator was at the tip. The phase is `Behind`.
    is_stalled_at_tip: bool,
    /// Time of the newest evidence.
    evidence_at: Option<Duration>,
    /// Time of the tick that took the newest evidence.
    evidence_taken_at: Duration,
    near_tip_since: Option<Duration>,
    far_behind_since: Option<Duration>,
    /// First evidence after a time of unknown phase; `None` once the phase is known.
    evidence_resumed_at: Option<Duration>,
    healthy_since: Option<Duration>,
    /// When a pause last ended or a standstill was last detected.
    pause_ended_at: Option<Duration>,
    tip_time: Option<TipTime>,
}

impl Tracker {
    pub fn new(rules: Rules) -> Self {
        Self {
            rules,
            phase: Phase::Absent,
            is_known: true,
            now: None,
            decided_until: Duration::ZERO,
            decided: Vec::new(),
            time_by_phase: [Duration::ZERO; Phase::ALL.len()],
            slot_time: SlotTimeMeter::default(),
            process_state: ProcessState::default(),
        }
    }

    pub fn set_slot_time(&mut self, slot_time: Duration) {
        self.slot_time.set_stable(slot_time);
    }

    /// Measured over at least 5 s in which the validator was near the tip; `None` before.
    pub fn slot_time(&self) -> Option<Duration> {
        self.slot_time.value()
    }

    /// `None` if the evidence is too old.
    pub fn phase(&self) -> Option<Phase> {
        self.is_known.then_some(self.phase)
    }

    /// Whether the slot has stood still for [`STALL_AFTER`], or longer if the slot is rarely
    /// reported. `None` unless the validator was at the tip when the slot last advanced.
    pub fn stalled(&self) -> Option<bool> {
        let own_track = self.process_state.own_track?;
        let is_long =
            self.now?.saturating_sub(own_track.advanced_at) >= STALL_AFTER.max(self.max_silence());
        (self.phase == Phase::AtTip || self.process_state.is_stalled_at_tip).then_some(is_long)
    }

    /// [`TipTime::kept_up`] with the open time; `None` until the process is at the tip.
    pub fn kept_up(&self) -> Option<bool> {
        let mut time = self.process_state.tip_time?;
        time.add(self.phase(), self.now?.saturating_sub(self.decided_until));
        time.kept_up()
    }

    pub fn time_in(&self, phase: Phase) -> Duration {
        self.time_by_phase[phase as usize]
    }

    pub fn begin_process(&mut self) {
        self.decide(self.phase(), self.now.unwrap_or_default());
        self.reset_process();
        if self.phase != Phase::Absent {
            self.phase = Phase::Initializing;
        }
    }

    /// Returns the intervals whose phase the evidence decides, in order.
    pub fn tick(&mut self, now: Duration, evidence: &PhaseEvidence) -> Vec<PhaseInterval> {
        let last_tick = *self.now.get_or_insert_with(|| {
            self.decided_until = now;
            now
        });
        self.now = Some(now);
        let had_gap = self.rules.is_gap(now.saturating_sub(last_tick));
        if had_gap {
            self.decide(self.phase(), last_tick);
            self.decided_until = now;
        }
        if evidence.process == Process::None {
            self.decide(self.phase(), now);
            self.reset_process();
            if self.phase != Phase::Absent {
                self.phase = Phase::Gone;
            }
        } else {
            self.take_evidence(now, evidence);
            self.update_phase(now, evidence, had_gap);
        }
        mem::take(&mut self.decided)
    }

    /// Decides all open time, because no more evidence comes.
    pub fn finish(&mut self) -> Vec<PhaseInterval> {
        self.decide(self.phase(), self.now.unwrap_or_default());
        mem::take(&mut self.decided)
    }

    fn reset_process(&mut self) {
        self.process_state = ProcessState::default();
        self.slot_time.clear_samples();
        self.is_known = true;
    }

    fn take_evidence(&mut self, now: Duration, evidence: &PhaseEvidence) {
        self.forget_purged_slots(evidence);
        let (state, slot_time) = (&mut self.process_state, self.slot_time.stable());
        state.has_reported |= evidence.stage.is_some() || evidence.slot.is_some();
        if let Some(slot) = evidence.tip {
            let tip_track = state.tip_track.get_or_insert(SlotTrack::new(slot, now));
            tip_track.update(slot, now, slot_time);
        }
        if let Some(own_track) = &mut state.own_track
            && evidence.process == Process::Stopped
        {
            own_track.known_at = now;
        }
        if let Some(slot) = evidence.slot {
            let has_advanced = state.own_track.is_some_and(|track| slot > track.slot);
            let ended = state.current_standstill().filter(|_| has_advanced);
            state.standstill = ended.or(state.standstill);
            let own_track = state.own_track.get_or_insert(SlotTrack::new(slot, now));
            own_track.update(slot, now, slot_time);
            if own_track.advanced_at == now {
                state.tip_at_own_advance = state.newest_tip();
                state.is_stalled_at_tip = false;
            }
        }
        if let (Some(tip), Some(own_track)) = (evidence.tip, state.own_track) {
            state.slots_behind = Some(tip.saturating_sub(own_track.slot));
        }
        self.measure_slot_time(now, evidence);
    }

    /// A migration to Alpenglow purges slots: the own slot goes back, and the reported tip no
    /// longer exists. Until a new tip appears, only the own slot shows progress.
    fn forget_purged_slots(&mut self, evidence: &PhaseEvidence) {
        let state = &mut self.process_state;
        let (None, Some(slot), Some(own_track)) = (evidence.tip, evidence.slot, state.own_track)
        else {
            return;
        };
        let limit = self.rules.at_tip_slots;
        if state.slots_behind <= Some(limit) && slot.saturating_add(limit) < own_track.slot {
            state.own_track = None;
            state.tip_track = None;
            state.slots_behind = None;
        }
    }

    fn measure_slot_time(&mut self, now: Duration, evidence: &PhaseEvidence) {
        let state = &mut self.process_state;
        if evidence.slot.is_some() {
            state.healthy_since = evidence
                .is_healthy
                .then(|| state.healthy_since.unwrap_or(now));
        }
        let is_healthy = { state.healthy_since }
            .is_some_and(|since| now.saturating_sub(since) >= MIN_HEALTHY_TIME);
        let (newest, is_near) = match state.slots_behind {
            Some(slots_behind) => (evidence.tip, slots_behind <= self.rules.at_tip_slots),
            None => (evidence.slot, is_healthy),
        };
        let Some(newest) = newest else {
            return;
        };
        if is_near && !state.is_fast_after_pause(now) {
            self.slot_time.update(newest, now);
        } else {
            self.slot_time.clear_samples();
        }
    }

    fn update_phase(&mut self, now: Duration, evidence: &PhaseEvidence, had_gap: bool) {
        let is_stopped = evidence.process == Process::Stopped;
        let newest_evidence_at = self.newest_evidence_at(now, evidence);
        let state = &mut self.process_state;
        let has_new_evidence = !state.has_reported || newest_evidence_at > state.evidence_at;
        state.evidence_at = newest_evidence_at.max(state.evidence_at);
        if let Some(from) = self.standstill_behind_tip(now) {
            self.decide(Some(Phase::AtTip), from);
            self.set_phase(now, Phase::Behind, Some(Phase::Behind));
            let state = &mut self.process_state;
            state.pause_ended_at = Some(now);
            state.is_stalled_at_tip =
                { state.own_track }.is_some_and(|own_track| own_track.advanced_at == from);
        } else if had_gap || is_stopped {
            self.slot_time.clear_samples();
            self.set_unknown();
        } else if has_new_evidence {
            self.apply_evidence(now, evidence);
        } else if now.saturating_sub(self.process_state.evidence_taken_at) >= self.max_silence() {
            self.set_unknown();
        }
        if self.phase() == Some(Phase::AtTip) {
            self.process_state.tip_time.get_or_insert_default();
        }
    }

    /// Time of the newest evidence. Slot and tip are evidence while both keep pace or, at a large
    /// distance, while either advances. A phase of the start is evidence at each tick. So is any
    /// stage without a slot.
    fn newest_evidence_at(&self, now: Duration, evidence: &PhaseEvidence) -> Option<Duration> {
        let state = &self.process_state;
        let own_track = match (state.own_track, evidence.stage) {
            (None, stage) => return stage.map(|_| now),
            (Some(_), Some(Stage::Reported(phase))) if !phase.is_running() => return Some(now),
            (Some(own_track), Some(Stage::Reported(_))) => return Some(own_track.advanced_at),
            (Some(own_track), _) => own_track,
        };
        let max_near_slots = match self.phase {
            Phase::AtTip => self.rules.behind_slots,
            _ => self.rules.at_tip_slots,
        };
        Some(match state.tip_track {
            Some(tip_track) if state.slots_behind > Some(max_near_slots) => {
                own_track.advanced_at.max(tip_track.advanced_at)
            }
            Some(tip_track) => own_track.last_at_pace.min(tip_track.last_at_pace),
            None => own_track.last_at_pace,
        })
    }

    fn max_silence(&self) -> Duration {
        let state = &self.process_state;
        let tracks = [state.own_track, state.tip_track].into_iter().flatten();
        tracks
            .map(|track| track.max_silence())
            .max()
            .unwrap_or_default()
    }

    /// Start of a standstill during which the tip advanced; `None` if the validator was not at the
    /// tip. Slots that the cluster can have made since the standstill do not count, so that a halt
    /// of the cluster is no standstill of the validator.
    fn standstill_behind_tip(&self, now: Duration) -> Option<Duration> {
        let state = &self.process_state;
        let standstills = [state.standstill, state.current_standstill()]
            .into_iter()
            .flatten();
        let has_fallen_behind = |standstill: &Standstill| {
            let since = now.saturating_sub(standstill.until);
            let max_advance = max_slots(since + SHRED_LEAD, self.slot_time.stable());
            let tip_advance = state.newest_tip().saturating_sub(standstill.tip);
            since < PAUSE_RECOVERY && tip_advance > max_advance
        };
        { standstills }
            .find(has_fallen_behind)
            .filter(|_| self.phase == Phase::AtTip)
            .map(|standstill| standstill.from)
    }

    fn set_unknown(&mut self) {
        self.is_known = false;
        let state = &mut self.process_state;
        state.near_tip_since = None;
        state.far_behind_since = None;
        state.evidence_resumed_at = None;
    }

    fn apply_evidence(&mut self, now: Duration, evidence: &PhaseEvidence) {
        self.process_state.evidence_taken_at = now;
        let next = self.next_phase(now, evidence);
        let is_reported = matches!(evidence.stage, Some(Stage::Reported(_)));
        if self.is_known {
            // Time near the tip counts as at the tip if it lasts long enough.
            let near_tip_since = { self.process_state.near_tip_since }
                .filter(|_| self.phase == Phase::Behind && !is_reported);
            self.decide(Some(self.phase), near_tip_since.unwrap_or(now));
            self.set_phase(now, next, Some(next));
            return;
        }
        let evidence_resumed_at = *self.process_state.evidence_resumed_at.get_or_insert(now);
        self.process_state.pause_ended_at = Some(evidence_resumed_at);
        let is_sure = is_reported && self.process_state.standstill.is_none();
        if self.phase != Phase::AtTip || !next.is_running() || is_sure {
            return self.set_phase(now, next, Some(next).filter(|next| *next == self.phase));
        }
        let slots_behind = self.process_state.slots_behind;
        if slots_behind > Some(self.rules.behind_slots)
            || (slots_behind > Some(self.rules.at_tip_slots)
                && now.saturating_sub(evidence_resumed_at) >= UNDECIDED_TIMEOUT)
        {
            self.set_phase(now, Phase::Behind, None);
        } else if let Some(near_tip_since) = self.process_state.near_tip_since
            && now.saturating_sub(near_tip_since) >= NEAR_TIP_AFTER
        {
            if near_tip_since != evidence_resumed_at {
                self.decide(None, near_tip_since);
            }
            self.set_phase(now, Phase::AtTip, Some(Phase::AtTip));
        }
    }

    fn set_phase(&mut self, now: Duration, next: Phase, open_phase: Option<Phase>) {
        if !self.is_known {
            self.process_state.evidence_resumed_at = None;
            self.process_state.standstill = None;
        }
        if !self.is_known || next != self.phase {
            self.decide(open_phase, now);
        }
        self.phase = next;
        self.is_known = true;
    }

    /// Closes the open time before `to` as an interval of this phase.
    fn decide(&mut self, phase: Option<Phase>, to: Duration) {
        let from = self.decided_until;
        if to <= from {
            return;
        }
        self.decided_until = to;
        self.decided.push(PhaseInterval { from, to, phase });
        if let Some(phase) = phase {
            self.time_by_phase[phase as usize] += to - from;
        }
        if let Some(time) = &mut self.process_state.tip_time {
            time.add(phase, to - from);
        }
    }

    fn next_phase(&mut self, now: Duration, evidence: &PhaseEvidence) -> Phase {
        let state = &mut self.process_state;
        match (evidence.stage, self.phase) {
            (Some(Stage::Reported(phase)), _) if !phase.is_running() => {
                state.near_tip_since = None;
                state.far_behind_since = None;
                phase
            }
            (Some(Stage::Reported(phase)), before) => {
                // Older recordings report `AtTip` for a validator that fell behind in a pause.
                let is_far = state.slots_behind > Some(self.rules.at_tip_slots);
                self.phase_by_distance(now, phase);
                if is_far && (phase, before) == (Phase::AtTip, Phase::Behind) {
                    before
                } else {
                    phase
                }
            }
            (_, phase) if phase.is_running() => self.phase_by_distance(now, phase),
            (Some(Stage::Running), _) => self.phase_by_distance(now, Phase::CatchingUp),
            _ if state.slots_behind.is_some() => self.phase_by_distance(now, Phase::CatchingUp),
            (_, Phase::Absent | Phase::Gone) => Phase::Initializing,
            (_, phase) => phase,
        }
    }

    /// The phase of a validator whose services run. Without a distance, the phase stays.
    fn phase_by_distance(&mut self, now: Duration, phase: Phase) -> Phase {
        let (state, rules) = (&mut self.process_state, &self.rules);
        let Some(slots_behind) = state.slots_behind else {
            return phase;
        };
        let is_fast_after_pause = state.is_fast_after_pause(now);
        let since = { state.near_tip_since }.filter(|_| !is_fast_after_pause);
        state.near_tip_since = (slots_behind <= rules.at_tip_slots).then_some(since.unwrap_or(now));
        state.far_behind_since =
            (slots_behind > rules.behind_slots).then(|| state.far_behind_since.unwrap_or(now));
        let lasts = |since: Option<Duration>, min_duration| {
            since.is_some_and(|since| now.saturating_sub(since) >= min_duration)
        };
        match phase {
            Phase::AtTip if lasts(state.far_behind_since, rules.behind_for) => Phase::Behind,
            Phase::CatchingUp | Phase::Behind if lasts(state.near_tip_since, rules.at_tip_for) => {
                Phase::AtTip
            }
            phase => phase,
        }
    }
}

impl ProcessState {
    fn is_fast_after_pause(&self, now: Duration) -> bool {
        let is_after_pause = { self.pause_ended_at }
            .is_some_and(|pause_ended_at| now.saturating_sub(pause_ended_at) < PAUSE_RECOVERY);
        is_after_pause && self.own_track.is_some_and(|own_track| own_track.is_fast)
    }

    fn newest_tip(&self) -> u64 {
        let tracks = [self.own_track, self.tip_track].into_iter().flatten();
        tracks.map(|track| track.slot).max().unwrap_or_default()
    }

    fn current_standstill(&self) -> Option<Standstill> {
        let own_track = self.own_track?;
        (own_track.known_at.saturating_sub(own_track.advanced_at) >= STALL_AFTER).then_some(
            Standstill {
                from: own_track.advanced_at,
                until: own_track.known_at,
                tip: self.tip_at_own_advance,
            },
        )
    }
}
