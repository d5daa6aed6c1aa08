use super::*;
use crate::config;
use faultline_catalog::metrics::validator as v;
use faultline_catalog::{Reading, Stamp};
use std::time::Duration;

/// A tracker that is given the same kind of evidence second by second.
struct Life {
    tracker: Tracker,
    second: u64,
    advanced: Option<Stamp>,
    tip_advanced: Option<Stamp>,
}

/// What one second shows.
#[derive(Clone, Copy, Default)]
struct Second {
    evidence: Evidence,
    /// The validator's own slot advances.
    advances: bool,
    /// The tip it knows advances.
    tip_advances: bool,
}

impl Life {
    fn new() -> Self {
        let tracker = Tracker::new(config::Phase::default(), Duration::from_secs(1));
        Life {
            tracker,
            second: 0,
            advanced: None,
            tip_advanced: None,
        }
    }

    fn lives(&mut self, seconds: u64, shown: Second) -> Option<Phase> {
        for _ in 0..seconds {
            self.second += 1;
            let now = Stamp {
                uptime: Duration::from_secs(self.second),
                unix: Duration::ZERO,
            };
            let heard =
                shown.evidence.alive && (shown.evidence.start.is_some() || shown.evidence.running);
            self.advanced = if shown.advances {
                Some(now)
            } else {
                self.advanced
            };
            self.tip_advanced = if shown.tip_advances {
                Some(now)
            } else {
                self.tip_advanced
            };
            let (advanced, tip_advanced) = (self.advanced, self.tip_advanced);
            let at = heard.then_some(now).or(shown.evidence.at);
            self.tracker.tick(
                now,
                Evidence {
                    at,
                    advanced,
                    paced: advanced,
                    tip_advanced,
                    ..shown.evidence
                },
            );
        }
        self.tracker.phase()
    }

    fn restart(&mut self) {
        (self.advanced, self.tip_advanced) = (None, None);
        self.tracker.restart();
    }

    fn readings(&self) -> Vec<Reading> {
        let mut readings = Vec::new();
        self.tracker.readings(&mut readings);
        readings
    }

    fn shown(&self) -> Vec<String> {
        let on = |reading: &&Reading| {
            reading.metric.name == v::PHASE.name && reading.value.number() == Some(1.0)
        };
        self.readings()
            .iter()
            .filter(on)
            .map(|reading| reading.labels[0].to_string())
            .collect()
    }

    fn spent(&self, phase: Phase) -> f64 {
        let of_phase = |r: &&Reading| {
            r.metric.name == v::PHASE_SECONDS.name && r.labels[0].as_str() == phase.name()
        };
        self.readings()
            .iter()
            .find(of_phase)
            .and_then(|reading| reading.value.number())
            .unwrap()
    }
}

/// It answers, and its slot advances.
fn running(behind: u64) -> Second {
    let evidence = Evidence {
        alive: true,
        running: true,
        behind: Some(behind),
        ..Evidence::default()
    };
    Second {
        evidence,
        advances: true,
        tip_advances: true,
    }
}

/// Alive, and no more is known.
const MUTE: Second = Second {
    evidence: Evidence {
        alive: true,
        stopped: false,
        start: None,
        running: false,
        behind: None,
        made_up: 0,
        hurries: false,
        at: None,
        advanced: None,
        paced: None,
        tip_advanced: None,
        pushes_only: false,
    },
    advances: false,
    tip_advances: false,
};

fn starting(phase: Phase) -> Second {
    Second {
        evidence: Evidence {
            start: Some(phase),
            ..MUTE.evidence
        },
        ..MUTE
    }
}

fn stopped() -> Second {
    Second {
        evidence: Evidence {
            stopped: true,
            ..MUTE.evidence
        },
        ..MUTE
    }
}

#[test]
fn a_start_runs_through_its_phases_to_the_tip() {
    let mut life = Life::new();
    assert_eq!(life.lives(5, Second::default()), Some(Phase::Absent));
    assert_eq!(
        life.lives(5, starting(Phase::Downloading)),
        Some(Phase::Downloading)
    );
    assert_eq!(
        life.lives(5, starting(Phase::Unpacking)),
        Some(Phase::Unpacking)
    );
    assert_eq!(life.lives(5, running(5000)), Some(Phase::CatchingUp));
    assert_eq!(life.lives(60, running(32)), Some(Phase::CatchingUp));
    assert_eq!(life.lives(1, running(32)), Some(Phase::AtTip));
    assert_eq!(life.tracker.kept_up(), Some(true));
}

#[test]
fn falling_behind_takes_thirty_seconds_beyond_128_slots() {
    let mut life = Life::new();
    assert_eq!(life.lives(100, running(0)), Some(Phase::AtTip));
    assert_eq!(life.lives(100, running(128)), Some(Phase::AtTip));
    assert_eq!(life.lives(20, running(129)), Some(Phase::AtTip));
    assert_eq!(life.lives(1, running(100)), Some(Phase::AtTip));
    assert_eq!(life.lives(30, running(129)), Some(Phase::AtTip));
    assert_eq!(life.lives(1, running(129)), Some(Phase::Behind));
    assert_eq!(life.lives(61, running(3)), Some(Phase::AtTip));
}

#[test]
fn a_slot_that_does_not_advance_leaves_the_phase_unknown_though_the_validator_answers() {
    let mut life = Life::new();
    life.lives(100, running(0));
    let hangs = Second {
        advances: false,
        tip_advances: false,
        ..running(0)
    };
    assert_eq!(life.lives(9, hangs), Some(Phase::AtTip));
    assert_eq!(life.lives(1, hangs), None);
    assert_eq!(life.lives(4, hangs), None);
    assert_eq!(life.tracker.stalled(), Some(false));
    life.lives(1, hangs);
    assert_eq!(life.tracker.stalled(), Some(true));
    let spent = life.spent(Phase::AtTip);
    life.lives(1000, hangs);
    assert_eq!(
        life.spent(Phase::AtTip),
        spent,
        "unknown time is in no phase"
    );
    assert!(life.shown().is_empty());
}

#[test]
fn a_stopped_process_is_in_no_known_phase_at_once_and_its_pause_counts_as_behind_if_it_comes_back_far_behind()
 {
    let mut life = Life::new();
    life.lives(161, running(0));
    let at_tip = life.spent(Phase::AtTip);
    assert_eq!(life.lives(1, stopped()), None);
    life.lives(89, stopped());
    assert_eq!(life.tracker.kept_up(), None, "it depends on the pause");
    assert_eq!(life.tracker.stalled(), Some(true));
    assert_eq!(
        life.lives(2, running(3)),
        None,
        "its first answers do not know the new tip yet"
    );
    assert_eq!(life.lives(1, running(219)), Some(Phase::Behind));
    assert_eq!(
        (life.spent(Phase::AtTip), life.spent(Phase::Behind)),
        (at_tip, 93.0)
    );
    assert_eq!(life.tracker.kept_up(), Some(false));
    assert_eq!(life.tracker.stalled(), None, "behind is not stalled");
    assert_eq!(life.lives(61, running(0)), Some(Phase::AtTip));
    assert_eq!(life.spent(Phase::AtTip), at_tip);
}

#[test]
fn a_pause_counts_as_behind_if_it_makes_up_many_slots_though_no_answer_tells_a_distance() {
    let mut life = Life::new();
    life.lives(161, running(0));
    life.lives(40, stopped());
    assert_eq!(life.lives(2, running(0)), None);
    let fast = Second {
        evidence: Evidence {
            made_up: 80,
            ..running(14).evidence
        },
        ..running(14)
    };
    assert_eq!(life.lives(1, fast), Some(Phase::Behind));
    assert_eq!(
        (life.lives(10, running(0)), life.tracker.kept_up()),
        (Some(Phase::Behind), Some(false))
    );
}

#[test]
fn a_validator_that_comes_on_faster_than_a_cluster_is_not_near_the_tip_yet() {
    let mut life = Life::new();
    life.lives(161, running(0));
    life.lives(40, stopped());
    assert_eq!(life.lives(3, running(200)), Some(Phase::Behind));
    let hurries = Second {
        evidence: Evidence {
            hurries: true,
            ..running(7).evidence
        },
        ..running(7)
    };
    assert_eq!(
        life.lives(20, hurries),
        Some(Phase::Behind),
        "7 slots behind the tip that it knew before the pause"
    );
    assert_eq!(life.lives(59, running(0)), Some(Phase::Behind));
    assert_eq!(life.lives(1, running(0)), Some(Phase::AtTip));
}

#[test]
fn a_cluster_of_short_slots_is_no_catch_up_at_the_start_nor_long_after_a_pause() {
    let fast = Second {
        evidence: Evidence {
            hurries: true,
            ..running(0).evidence
        },
        ..running(0)
    };
    let mut life = Life::new();
    assert_eq!(life.lives(61, fast), Some(Phase::AtTip));
    life.lives(40, stopped());
    life.lives(
        3,
        Second {
            evidence: Evidence {
                behind: Some(200),
                ..fast.evidence
            },
            ..fast
        },
    );
    assert_eq!(life.lives(60, fast), Some(Phase::Behind));
    assert_eq!(life.lives(27, fast), Some(Phase::AtTip));
}

#[test]
fn between_the_thresholds_a_pause_is_undecided_until_the_distance_is_clear_or_for_thirty_seconds() {
    let back = |slots| {
        let mut life = Life::new();
        life.lives(70, running(0));
        life.lives(12, MUTE);
        assert_eq!(
            life.lives(20, running(100)),
            None,
            "100 slots are between 32 and 128"
        );
        (life.lives(11, running(slots)), life)
    };
    assert_eq!(back(129).0, Some(Phase::Behind));
    assert_eq!(
        back(32).0,
        Some(Phase::AtTip),
        "it may not have been beyond 128"
    );
    let (phase, life) = back(100);
    assert_eq!(phase, Some(Phase::Behind));
    assert!(
        life.spent(Phase::Behind) > 40.0,
        "the pause counts as behind"
    );
}

#[test]
fn a_pause_after_which_it_stays_near_the_tip_was_at_the_tip() {
    let mut life = Life::new();
    life.lives(161, running(0));
    let at_tip = life.spent(Phase::AtTip);
    assert_eq!(life.lives(20, MUTE), None, "nobody could ask it");
    assert_eq!(life.lives(8, running(2)), None);
    assert_eq!(life.lives(1, running(2)), Some(Phase::AtTip));
    assert_eq!(life.spent(Phase::AtTip), at_tip + 29.0);
    assert_eq!(life.tracker.kept_up(), Some(true));
}

#[test]
fn a_replay_that_hangs_while_the_tip_moves_on_is_known_to_fall_behind() {
    let mut life = Life::new();
    life.lives(100, running(0));
    for behind in (0..200).map(|second| second * 5 / 2) {
        life.lives(
            1,
            Second {
                advances: false,
                ..running(behind)
            },
        );
    }
    assert_eq!(life.tracker.phase(), Some(Phase::Behind));
}

/// So starved that it hears of no newer tip, it believes to be near it.
#[test]
fn a_validator_whose_tip_stands_still_is_in_no_known_phase_though_its_own_slot_advances() {
    for behind in [20, 100] {
        let mut life = Life::new();
        life.lives(100, running(0));
        let starved = Second {
            tip_advances: false,
            ..running(behind)
        };
        assert_eq!(life.lives(9, starved), Some(Phase::AtTip), "{behind}");
        assert_eq!(life.lives(1, starved), None, "{behind}");
        assert_eq!(life.lives(1, running(130)), Some(Phase::Behind));
        assert_eq!(life.spent(Phase::Behind), 11.0);
    }
}

#[test]
fn pushes_alone_tell_every_ten_seconds_and_are_waited_for_longer() {
    let mut life = Life::new();
    let pushed = |behind| Second {
        evidence: Evidence {
            behind,
            pushes_only: true,
            ..MUTE.evidence
        },
        ..MUTE
    };
    let between = pushed(None);
    for _ in 0..10 {
        life.lives(
            1,
            Second {
                advances: true,
                tip_advances: true,
                ..pushed(Some(4))
            },
        );
        life.lives(9, between);
    }
    assert_eq!(life.tracker.phase(), Some(Phase::AtTip));
    assert_eq!(
        life.lives(15, between),
        Some(Phase::AtTip),
        "one push may be late"
    );
    assert_eq!(life.lives(1, between), None);
    assert_eq!(life.tracker.stalled(), Some(true));
}

#[test]
fn a_start_that_tells_nothing_is_initializing_however_long_and_its_end_is_known() {
    let mut life = Life::new();
    life.lives(3000, MUTE);
    assert_eq!(life.shown(), ["initializing"]);
    life.lives(1, Second::default());
    assert_eq!(life.shown(), ["gone"]);
}

#[test]
fn a_start_that_told_how_far_it_is_and_falls_silent_is_in_no_phase() {
    let mut life = Life::new();
    life.lives(10, starting(Phase::Downloading));
    life.lives(59, MUTE);
    assert_eq!(life.shown(), ["downloading"]);
    life.lives(1, MUTE);
    assert!(life.shown().is_empty());
}

#[test]
fn what_the_process_before_has_told_is_not_known_of_the_next_one() {
    for last in [starting(Phase::Unpacking), running(0)] {
        let mut life = Life::new();
        life.lives(100, last);
        life.restart();
        life.lives(1000, MUTE);
        assert_eq!(life.shown(), ["initializing"]);
        assert_eq!(life.tracker.kept_up(), None);
    }
}

#[test]
fn silence_is_no_time_near_the_tip() {
    let mut life = Life::new();
    life.lives(40, running(0));
    life.lives(40, MUTE);
    assert_eq!(life.lives(60, running(0)), Some(Phase::CatchingUp));
    assert_eq!(life.lives(1, running(0)), Some(Phase::AtTip));
}

/// A daemon that was stopped itself has seen nothing meanwhile.
#[test]
fn time_in_which_the_daemon_slept_is_no_time_near_the_tip() {
    let mut life = Life::new();
    life.lives(5, running(10));
    life.second += 61;
    assert_eq!(life.lives(1, running(10)), None);
    assert_eq!(life.lives(30, running(10)), Some(Phase::CatchingUp));
    assert_eq!(life.lives(31, running(10)), Some(Phase::AtTip));
}

#[test]
fn a_validator_that_cannot_be_asked_runs_when_its_datapoints_tell_a_distance() {
    let mut life = Life::new();
    assert_eq!(life.lives(5, MUTE), Some(Phase::Initializing));
    let pushed = Second {
        evidence: Evidence {
            behind: Some(4),
            ..MUTE.evidence
        },
        ..running(4)
    };
    assert_eq!(life.lives(5, pushed), Some(Phase::CatchingUp));
    assert_eq!(life.lives(60, pushed), Some(Phase::AtTip));
}

#[test]
fn time_is_booked_to_the_phase_it_was_spent_in() {
    let mut life = Life::new();
    life.lives(10, starting(Phase::Downloading));
    life.lives(5, starting(Phase::Unpacking));
    life.lives(7, Second::default());
    let spent = [Phase::Downloading, Phase::Unpacking, Phase::Gone].map(|phase| life.spent(phase));
    assert_eq!(spent, [10.0, 5.0, 6.0]);
}

#[test]
fn the_end_of_a_frozen_process_leaves_its_pause_unknown() {
    let mut life = Life::new();
    life.lives(100, running(0));
    let at_tip = life.spent(Phase::AtTip);
    life.lives(60, stopped());
    life.lives(5, Second::default());
    assert_eq!(
        (life.spent(Phase::AtTip), life.spent(Phase::Gone)),
        (at_tip, 4.0)
    );
}

#[test]
fn kept_up_means_99_percent_at_the_tip_since_first_there() {
    let mut life = Life::new();
    life.lives(61, running(0));
    life.lives(1000, running(0));
    life.lives(31, running(500));
    assert_eq!(life.tracker.phase(), Some(Phase::Behind));
    assert_eq!(life.tracker.kept_up(), Some(true));
    life.lives(60, running(500));
    assert_eq!(life.tracker.kept_up(), Some(false));
    life.restart();
    assert_eq!(life.tracker.kept_up(), None);
}
