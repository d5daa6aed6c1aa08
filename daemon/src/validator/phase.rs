//! Which phase the validator is in, and how long it spent in each.
//!
//! While it starts, the admin socket tells the phase (or, without a right on it, the log). Once its services run, the
//! distance to the tip does: at the tip when at most `at_tip_slots` behind for `at_tip_for`, behind when more than
//! `behind_slots` behind for `behind_for` after that, catching up before it was first there.
//!
//! Of a validator that has told how far it is, and then nothing for [`SILENT`], the phase is unknown: none is shown, and none
//! gains time. One that has not yet told is initializing, for however long: a start searches and downloads for many minutes
//! without a push, and without a right on the admin socket nothing else is heard of it.

use crate::config;
use faultline_agave::admin::StartProgress;
use faultline_agave::log::Progress;
use faultline_catalog::metrics::validator as v;
use faultline_catalog::{Reading, Stamp};
use std::time::Duration;

/// Kept up: at the tip for this share of the time since it was first there.
const KEPT_UP: f64 = 0.99;

/// After this long without a word from a living validator its phase is not known any more: pushes come every 10 s, and
/// answers are believed for 10 s and longer.
pub const SILENT: Duration = Duration::from_secs(60);

/// A phase of the validator's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// No process was found yet.
    Absent,
    /// Reading its configuration, and between download and start; and as long as it has not told how far it is.
    Initializing,
    /// Searching gossip for a node with a snapshot.
    Searching,
    /// Downloading a snapshot.
    Downloading,
    /// Unpacking it and building the accounts index.
    Unpacking,
    /// Replaying what the local ledger holds.
    Replaying,
    /// Starting services.
    Starting,
    /// Waiting for stake at a cluster restart.
    WaitingForSupermajority,
    /// Halted at a slot on request.
    Halted,
    /// Services run; not at the tip since the start.
    CatchingUp,
    /// At the tip of the cluster.
    AtTip,
    /// Was at the tip and fell behind.
    Behind,
    /// The process that was followed has ended.
    Gone,
}

impl Phase {
    /// Every phase, in the order of a life.
    pub const ALL: [Phase; 13] = [
        Phase::Absent,
        Phase::Initializing,
        Phase::Searching,
        Phase::Downloading,
        Phase::Unpacking,
        Phase::Replaying,
        Phase::Starting,
        Phase::WaitingForSupermajority,
        Phase::Halted,
        Phase::CatchingUp,
        Phase::AtTip,
        Phase::Behind,
        Phase::Gone,
    ];

    /// The label value.
    pub const fn name(self) -> &'static str {
        match self {
            Phase::Absent => "absent",
            Phase::Initializing => "initializing",
            Phase::Searching => "searching",
            Phase::Downloading => "downloading",
            Phase::Unpacking => "unpacking",
            Phase::Replaying => "replaying",
            Phase::Starting => "starting",
            Phase::WaitingForSupermajority => "waiting_for_supermajority",
            Phase::Halted => "halted",
            Phase::CatchingUp => "catching_up",
            Phase::AtTip => "at_tip",
            Phase::Behind => "behind",
            Phase::Gone => "gone",
        }
    }

    /// Of a start, as the admin socket tells it; `None` once services run, or for a state of a version not known yet.
    pub fn of_start(progress: &StartProgress) -> Option<Phase> {
        Some(match progress {
            StartProgress::Initializing | StartProgress::CleaningAccounts => Phase::Initializing,
            StartProgress::SearchingForRpcService => Phase::Searching,
            StartProgress::DownloadingSnapshot { .. } => Phase::Downloading,
            StartProgress::LoadingLedger => Phase::Unpacking,
            StartProgress::ProcessingLedger { .. } => Phase::Replaying,
            StartProgress::CleaningBlockStore | StartProgress::StartingServices => Phase::Starting,
            StartProgress::WaitingForSupermajority { .. } => Phase::WaitingForSupermajority,
            StartProgress::Halted => Phase::Halted,
            StartProgress::Running | StartProgress::Other(_) => return None,
        })
    }

    /// Of a start, as the log tells it.
    pub fn of_log(progress: Progress) -> Option<Phase> {
        Some(match progress {
            Progress::DownloadBegins { .. } | Progress::Downloading { .. } => Phase::Downloading,
            Progress::Unpacked | Progress::GeneratingIndex { .. } => Phase::Unpacking,
            Progress::ReplayBegins { .. } | Progress::LedgerHolds { .. } | Progress::Replaying { .. } => {
                Phase::Replaying
            }
            Progress::Replayed => Phase::Starting,
            Progress::WaitingForSupermajority { .. } => Phase::WaitingForSupermajority,
            _ => return None,
        })
    }

    /// Whether services run.
    fn runs(self) -> bool {
        matches!(self, Phase::CatchingUp | Phase::AtTip | Phase::Behind)
    }
}

/// What is known of the validator at one tick.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Evidence {
    /// A process is followed.
    pub alive: bool,
    /// The phase of its start, from the admin socket or the log.
    pub start: Option<Phase>,
    /// It says that services run, or answers JSON-RPC, which it does only then.
    pub running: bool,
    /// Slots behind the tip.
    pub behind: Option<u64>,
    /// It was heard of lately in some other way, which tells no phase: a push, a line of its log.
    pub heard: bool,
}

impl Evidence {
    /// Whether it tells how far it is.
    fn tells_phase(self) -> bool {
        self.start.is_some() || self.running || self.behind.is_some()
    }

    /// Whether anything is known at all: a process that is not there is known not to be there.
    fn tells(self) -> bool {
        !self.alive || self.tells_phase() || self.heard
    }
}

/// The label value of a phase, in words where there is none.
pub fn word(phase: Option<Phase>) -> &'static str {
    phase.map_or("unknown", Phase::name)
}

/// The phase over time.
#[derive(Debug, Clone)]
pub struct Tracker {
    config: config::Phase,
    /// The one known last.
    phase: Phase,
    /// The process that is followed has told how far it is.
    told: bool,
    /// Since when nothing was told.
    silent_since: Option<Stamp>,
    unknown: bool,
    seconds: [Duration; Phase::ALL.len()],
    last: Option<Stamp>,
    near_since: Option<Stamp>,
    far_since: Option<Stamp>,
    kept: Option<Kept>,
}

/// The time since the current process was first at the tip.
#[derive(Debug, Clone, Copy, Default)]
struct Kept {
    at_tip: Duration,
    elsewhere: Duration,
    unknown: Duration,
}

impl Kept {
    /// `None` while it depends on the time of which nothing is known.
    fn up(self) -> Option<bool> {
        let all = KEPT_UP * (self.at_tip + self.elsewhere + self.unknown).as_secs_f64();
        match (self.at_tip.as_secs_f64() >= all, (self.at_tip + self.unknown).as_secs_f64() >= all) {
            (true, _) => Some(true),
            (_, false) => Some(false),
            _ => None,
        }
    }
}

impl Tracker {
    /// Nothing found yet.
    pub fn new(config: config::Phase) -> Self {
        Tracker {
            config,
            phase: Phase::Absent,
            told: false,
            silent_since: None,
            unknown: false,
            seconds: [Duration::ZERO; Phase::ALL.len()],
            last: None,
            near_since: None,
            far_since: None,
            kept: None,
        }
    }

    /// Other thresholds from now on.
    pub fn configure(&mut self, config: config::Phase) {
        self.config = config;
    }

    /// The phase; `None` if a living validator has told how far it is, and then nothing for [`SILENT`].
    pub fn phase(&self) -> Option<Phase> {
        (!self.unknown).then_some(self.phase)
    }

    /// Whether the validator was at the tip for 99 % of the time since this process was first there; `None` before, and
    /// while it depends on time in which nothing was known.
    pub fn kept_up(&self) -> Option<bool> {
        self.kept.and_then(Kept::up)
    }

    /// Another process is followed: what was known of the old one's distance is void.
    pub fn restart(&mut self) {
        (self.near_since, self.far_since, self.kept) = (None, None, None);
        (self.told, self.silent_since, self.unknown) = (false, None, false);
        if self.phase != Phase::Absent {
            self.phase = Phase::Initializing;
        }
    }

    /// Takes what is known at `now`; true if the phase changed. The time since the last tick belongs to the phase of that
    /// tick.
    pub fn tick(&mut self, now: Stamp, evidence: Evidence) -> bool {
        self.spend(now);
        let before = self.phase();
        self.phase = self.next(now, evidence);
        self.told = evidence.alive && (self.told || evidence.tells_phase());
        self.silent_since = (self.told && !evidence.tells()).then(|| self.silent_since.unwrap_or(now));
        self.unknown = self.silent_since.is_some_and(|since| now.since(since) >= SILENT);
        if self.phase == Phase::AtTip && self.kept.is_none() {
            self.kept = Some(Kept::default());
        }
        self.phase() != before
    }

    fn spend(&mut self, now: Stamp) {
        let passed = self.last.map_or(Duration::ZERO, |last| now.since(last));
        self.last = Some(now);
        let phase = self.phase();
        if let Some(seconds) = phase.and_then(|phase| self.seconds.get_mut(phase as usize)) {
            *seconds += passed;
        }
        if let Some(kept) = &mut self.kept {
            *match phase {
                Some(Phase::AtTip) => &mut kept.at_tip,
                Some(_) => &mut kept.elsewhere,
                None => &mut kept.unknown,
            } += passed;
        }
    }

    fn next(&mut self, now: Stamp, evidence: Evidence) -> Phase {
        if !evidence.alive {
            (self.near_since, self.far_since, self.kept) = (None, None, None);
            return if self.phase == Phase::Absent { Phase::Absent } else { Phase::Gone };
        }
        if let Some(start) = evidence.start {
            (self.near_since, self.far_since) = (None, None);
            return start;
        }
        // Only a validator whose services run hears of a tip.
        if !evidence.running && evidence.behind.is_none() && !self.phase.runs() {
            // Started, but it tells nothing: what was last heard stands.
            return match self.phase {
                Phase::Absent | Phase::Gone => Phase::Initializing,
                phase => phase,
            };
        }
        self.of_distance(now, evidence.behind)
    }

    /// Of a validator whose services run. Without a distance, what was last known stands; but silence does not count as
    /// time near the tip.
    fn of_distance(&mut self, now: Stamp, behind: Option<u64>) -> Phase {
        let current = if self.phase.runs() { self.phase } else { Phase::CatchingUp };
        let Some(behind) = behind else {
            self.near_since = None;
            return current;
        };
        self.near_since = (behind <= self.config.at_tip_slots).then(|| self.near_since.unwrap_or(now));
        self.far_since = (behind > self.config.behind_slots).then(|| self.far_since.unwrap_or(now));
        let lasts = |since: Option<Stamp>, long: Duration| since.is_some_and(|since| now.since(since) >= long);
        match current {
            Phase::AtTip if lasts(self.far_since, self.config.behind_for) => Phase::Behind,
            Phase::CatchingUp | Phase::Behind if lasts(self.near_since, self.config.at_tip_for) => Phase::AtTip,
            phase => phase,
        }
    }

    /// The phase, and the time spent in each.
    pub fn readings(&self, out: &mut Vec<Reading>) {
        for (phase, seconds) in Phase::ALL.into_iter().zip(self.seconds) {
            out.push(Reading::flag(&v::PHASE, [phase.name().into()], Some(phase) == self.phase()));
            out.push(Reading::real(&v::PHASE_SECONDS, [phase.name().into()], seconds.as_secs_f64()));
        }
        out.extend(self.kept_up().map(|kept| Reading::flag(&v::KEPT_UP, [], kept)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Life {
        tracker: Tracker,
        second: u64,
    }

    impl Life {
        fn new() -> Self {
            Life { tracker: Tracker::new(config::Phase::default()), second: 0 }
        }

        fn lives(&mut self, seconds: u64, evidence: Evidence) -> Phase {
            for _ in 0..seconds {
                self.second += 1;
                let now = Stamp { uptime: Duration::from_secs(self.second), unix: Duration::ZERO };
                self.tracker.tick(now, evidence);
            }
            self.tracker.phase
        }

        fn shown(&self) -> Vec<String> {
            let mut readings = Vec::new();
            self.tracker.readings(&mut readings);
            let phases = readings.iter().filter(|r| r.metric.name == v::PHASE.name);
            phases.filter(|r| r.value.number() == Some(1.0)).map(|r| r.labels[0].to_string()).collect()
        }
    }

    fn running(behind: Option<u64>) -> Evidence {
        Evidence { alive: true, running: true, behind, ..Evidence::default() }
    }

    /// Alive, and no more is known.
    const MUTE: Evidence = Evidence { alive: true, start: None, running: false, behind: None, heard: false };

    fn starting(phase: Phase) -> Evidence {
        Evidence { alive: true, start: Some(phase), ..Evidence::default() }
    }

    #[test]
    fn a_start_runs_through_its_phases_to_the_tip() {
        let mut life = Life::new();
        assert_eq!(life.lives(5, Evidence::default()), Phase::Absent);
        assert_eq!(life.lives(5, starting(Phase::Downloading)), Phase::Downloading);
        assert_eq!(life.lives(5, starting(Phase::Unpacking)), Phase::Unpacking);
        assert_eq!(life.lives(5, running(Some(5000))), Phase::CatchingUp);
        assert_eq!(life.lives(60, running(Some(32))), Phase::CatchingUp);
        assert_eq!(life.lives(1, running(Some(32))), Phase::AtTip);
        assert_eq!(life.tracker.kept_up(), Some(true));
    }

    #[test]
    fn falling_behind_takes_thirty_seconds_beyond_128_slots() {
        let mut life = Life::new();
        assert_eq!(life.lives(100, running(Some(0))), Phase::AtTip);
        assert_eq!(life.lives(100, running(Some(128))), Phase::AtTip);
        assert_eq!(life.lives(20, running(Some(129))), Phase::AtTip);
        assert_eq!(life.lives(1, running(Some(100))), Phase::AtTip);
        assert_eq!(life.lives(30, running(Some(129))), Phase::AtTip);
        assert_eq!(life.lives(1, running(Some(129))), Phase::Behind);
        assert_eq!(life.lives(61, running(Some(3))), Phase::AtTip);
    }

    #[test]
    fn an_unknown_distance_changes_nothing() {
        let mut life = Life::new();
        life.lives(100, running(Some(0)));
        assert_eq!(life.lives(1000, running(None)), Phase::AtTip);
        assert_eq!(life.lives(10, MUTE), Phase::AtTip);
        assert_eq!(life.shown(), ["at_tip"]);
    }

    #[test]
    fn after_a_minute_without_a_word_no_phase_is_shown_and_none_gains_time() {
        let mut life = Life::new();
        life.lives(161, running(Some(0)));
        life.lives(60, MUTE);
        assert_eq!(life.shown(), ["at_tip"]);
        life.lives(1, MUTE);
        assert!(life.shown().is_empty());
        let spent = life.tracker.seconds;
        life.lives(1000, MUTE);
        assert_eq!(life.tracker.seconds, spent);
        life.lives(1, Evidence { heard: true, ..MUTE });
        assert_eq!(life.shown(), ["at_tip"], "a push tells no distance, but that it goes on");
    }

    #[test]
    fn a_start_that_tells_nothing_is_initializing_however_long_and_its_end_is_known() {
        let mut life = Life::new();
        life.lives(3000, MUTE);
        assert_eq!(life.shown(), ["initializing"]);
        life.lives(100, Evidence { heard: true, ..MUTE });
        life.lives(3000, MUTE);
        assert_eq!(life.shown(), ["initializing"], "it pushes while it searches, and not while it downloads");
        life.lives(1, Evidence::default());
        assert_eq!(life.shown(), ["gone"]);
    }

    #[test]
    fn a_start_that_told_how_far_it_is_and_falls_silent_is_in_no_phase() {
        let mut life = Life::new();
        life.lives(10, starting(Phase::Downloading));
        life.lives(60, MUTE);
        assert_eq!(life.shown(), ["downloading"]);
        life.lives(1, MUTE);
        assert!(life.shown().is_empty());
    }

    #[test]
    fn what_the_process_before_has_told_is_not_known_of_the_next_one() {
        for last in [starting(Phase::Unpacking), running(Some(0))] {
            let mut life = Life::new();
            life.lives(100, last);
            life.tracker.restart();
            life.lives(1000, MUTE);
            assert_eq!(life.shown(), ["initializing"]);
        }
    }

    #[test]
    fn time_of_which_nothing_is_known_leaves_open_whether_it_kept_up() {
        let mut life = Life::new();
        life.lives(62, running(Some(0)));
        life.lives(60, MUTE);
        assert_eq!(life.tracker.kept_up(), Some(true));
        life.lives(60, MUTE);
        assert_eq!(life.tracker.kept_up(), None);
        life.lives(31, running(Some(500)));
        life.lives(60, running(Some(500)));
        assert_eq!(life.tracker.kept_up(), Some(false), "whatever it did while nobody looked");
    }

    #[test]
    fn silence_is_no_time_near_the_tip() {
        let mut life = Life::new();
        life.lives(40, running(Some(0)));
        life.lives(40, running(None));
        assert_eq!(life.lives(60, running(Some(0))), Phase::CatchingUp);
        assert_eq!(life.lives(1, running(Some(0))), Phase::AtTip);
    }

    #[test]
    fn a_validator_that_cannot_be_asked_runs_when_its_datapoints_tell_a_distance() {
        let mut life = Life::new();
        let told = |behind| Evidence { alive: true, behind, ..Evidence::default() };
        assert_eq!(life.lives(5, told(None)), Phase::Initializing);
        assert_eq!(life.lives(5, told(Some(4))), Phase::CatchingUp);
        assert_eq!(life.lives(60, told(Some(4))), Phase::AtTip);
    }

    #[test]
    fn time_is_booked_to_the_phase_it_was_spent_in() {
        let mut life = Life::new();
        life.lives(10, starting(Phase::Downloading));
        life.lives(5, starting(Phase::Unpacking));
        life.lives(7, Evidence::default());
        let mut readings = Vec::new();
        life.tracker.readings(&mut readings);
        let spent = |name: &str| {
            readings
                .iter()
                .find(|r| r.metric.name == v::PHASE_SECONDS.name && r.labels[0].as_str() == name)
                .and_then(|r| r.value.number())
        };
        assert_eq!((spent("downloading"), spent("unpacking"), spent("gone")), (Some(10.0), Some(5.0), Some(6.0)));
    }

    #[test]
    fn kept_up_means_99_percent_at_the_tip_since_first_there() {
        let mut life = Life::new();
        life.lives(61, running(Some(0)));
        life.lives(1000, running(Some(0)));
        life.lives(31, running(Some(500)));
        assert_eq!(life.tracker.phase(), Some(Phase::Behind));
        assert_eq!(life.tracker.kept_up(), Some(true));
        life.lives(60, running(Some(500)));
        assert_eq!(life.tracker.kept_up(), Some(false));
        life.tracker.restart();
        assert_eq!(life.tracker.kept_up(), None);
    }
}
