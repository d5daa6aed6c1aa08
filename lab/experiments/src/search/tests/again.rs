//! How often the search sets a limit.

use super::{
    plant::{Plant, seconds},
    *,
};

/// A search machine, its simulated validator, and the requested limits with their times.
struct LimitLog {
    machine: SearchMachine,
    plant: Plant,
    all: Vec<(Duration, Option<u64>)>,
    now: Duration,
}

impl LimitLog {
    fn new() -> Self {
        let machine = SearchMachine::new(rules(), 32, false).expect("rules");
        Self {
            machine,
            plant: Plant::new(200 * MIB, 12),
            all: Vec::new(),
            now: Duration::ZERO,
        }
    }

    fn poll(&mut self) {
        let reading = self.plant.read();
        self.now = reading.at;
        for action in self.machine.poll(&reading) {
            if let Action::SetLimit(limit) = action {
                self.plant.limit(limit);
                self.all.push((reading.at, limit));
            }
        }
    }
}

#[test]
fn a_steady_limit_is_rewritten_at_most_every_ten_seconds() {
    let mut log = LimitLog::new();
    (0..4 * 1800).for_each(|_| log.poll());
    let intervals: Vec<Duration> = log
        .all
        .windows(2)
        .filter(|pair| pair[0].1.is_some() && pair[0].1 == pair[1].1)
        .map(|pair| pair[1].0 - pair[0].0)
        .collect();
    assert!(intervals.len() > 20, "dwells last a minute: {intervals:?}");
    assert!(
        intervals
            .iter()
            .all(|after| *after >= seconds(10) && *after < seconds(11)),
        "{intervals:?}"
    );
}

#[test]
fn an_ineffective_limit_is_set_again_within_a_second() {
    let mut log = LimitLog::new();
    let is_limit_steady = |log: &LimitLog| {
        log.all
            .last()
            .is_some_and(|(at, limit)| limit.is_some() && log.now - *at > seconds(5))
    };
    let mut polls = 0..4 * 1800;
    assert!(polls.any(|_| {
        log.poll();
        is_limit_steady(&log)
    }));
    let wanted = log.plant.limit;
    // Another program changes the limit: an operator, or systemd when it reloads its units.
    for changed in [None, Some(2000 * MIB)] {
        log.plant.limit(changed);
        let before = log.all.len();
        (0..4).for_each(|_| log.poll());
        assert_eq!(
            (log.all.len(), log.plant.limit),
            (before + 1, wanted),
            "{:?}",
            log.all.last()
        );
    }
}
