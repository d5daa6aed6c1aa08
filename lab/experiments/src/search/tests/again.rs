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
        LimitLog {
            machine,
            plant: Plant::new(200 * MIB, 12),
            all: Vec::new(),
            now: Duration::ZERO,
        }
    }

    fn poll(&mut self) {
        let reading = self.plant.read();
        self.now = reading.at;
        for act in self.machine.poll(&reading) {
            if let Action::SetLimit(limit) = act {
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
    let again: Vec<Duration> = log
        .all
        .windows(2)
        .filter(|pair| pair[0].1.is_some() && pair[0].1 == pair[1].1)
        .map(|pair| pair[1].0 - pair[0].0)
        .collect();
    assert!(again.len() > 20, "dwells last a minute: {again:?}");
    assert!(
        again
            .iter()
            .all(|after| *after >= seconds(10) && *after < seconds(11)),
        "{again:?}"
    );
}

#[test]
fn an_ineffective_limit_is_set_again_within_a_second() {
    let mut log = LimitLog::new();
    let still = |log: &LimitLog| {
        log.all
            .last()
            .is_some_and(|(at, limit)| limit.is_some() && log.now - *at > seconds(5))
    };
    let mut looks = 0..4 * 1800;
    assert!(looks.any(|_| {
        log.poll();
        still(&log)
    }));
    let wanted = log.plant.limit;
    // Another program changes the limit: an operator, or systemd when it reloads its units.
    for other in [None, Some(2000 * MIB)] {
        log.plant.limit(other);
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
