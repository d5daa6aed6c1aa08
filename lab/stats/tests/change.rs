//! A step in a history of releases is found at its release, and a flat history has none. Each of 12 releases has three ratios
//! to the baseline, of runs that vary by 2 % each, as a campaign has them.

use fastrand::Rng;
use faultline_stats::change::{Change, Detector, MIN_RELEASES, MIN_SEGMENT};

const RELEASES: usize = 12;
const NOISE: f64 = 0.02;

fn normal(random: &mut Rng) -> f64 {
    (-2.0 * (1.0 - random.f64()).ln()).sqrt() * (std::f64::consts::TAU * random.f64()).cos()
}

#[derive(Clone, Copy)]
struct History {
    releases: usize,
    /// The first release after the step, and its ratio.
    step: (usize, f64),
    /// By how much releases differ that nobody changed, besides their runs.
    jitter: f64,
    /// Pairs of each release; every third has as many again, since its first round was repeated.
    pairs: usize,
}

const FLAT: History = History {
    releases: RELEASES,
    step: (RELEASES, 1.0),
    jitter: 0.0,
    pairs: 3,
};

impl History {
    fn changes(self, detector: &mut Detector, random: &mut Rng) -> Vec<Change> {
        let mut release = |place: usize| -> Vec<f64> {
            let level = if place < self.step.0 {
                0.0
            } else {
                self.step.1.ln()
            } + self.jitter * normal(random);
            let pairs = if self.pairs > 3 && place.is_multiple_of(3) {
                self.pairs
            } else {
                3
            };
            (0..pairs)
                .map(|_| level + NOISE * (normal(random) - normal(random)))
                .collect()
        };
        let history: Vec<Vec<f64>> = (0..self.releases).map(&mut release).collect();
        let runs: Vec<&[f64]> = history.iter().map(Vec::as_slice).collect();
        detector.changes(&runs)
    }

    /// Histories of a hundred in which the change is found at its release, and those with a further one.
    fn found(self, histories: usize) -> (f64, f64) {
        let (mut detector, mut random) = (Detector::default(), Rng::with_seed(16));
        let (mut there, mut more) = (0, 0);
        for _ in 0..histories {
            let found = self.changes(&mut detector, &mut random);
            there += usize::from(
                found
                    .iter()
                    .any(|change| change.first_release_after == self.step.0),
            );
            more += usize::from(found.len() > 1);
        }
        let share = |count: usize| 100.0 * count as f64 / histories as f64;
        (share(there), share(more))
    }
}

#[test]
fn a_step_of_eight_percent_is_found_at_its_release_in_95_of_100_histories() {
    let places = (MIN_SEGMENT..=RELEASES - MIN_SEGMENT)
        .map(|at| (at, 1.08))
        .chain([(6, 1.0 / 1.08)]);
    for (at, ratio) in places {
        let (there, more) = History {
            step: (at, ratio),
            ..FLAT
        }
        .found(1000);
        println!(
            "a step by {ratio:.2} at release {}: {there:.1} of 100, with a further one {more:.1}",
            at + 1
        );
        assert!(
            there >= 95.0 && more <= 2.0,
            "a step at release {}: {there} of 100, {more}",
            at + 1
        );
    }
}

#[test]
fn a_large_step_is_found_from_six_releases_on() {
    let (mut detector, mut random) = (Detector::default(), Rng::with_seed(18));
    for releases in [MIN_RELEASES, 9, 15] {
        for at in MIN_SEGMENT..=releases - MIN_SEGMENT {
            let found = History {
                releases,
                step: (at, 1.5),
                ..FLAT
            }
            .changes(&mut detector, &mut random);
            assert!(
                found.iter().any(|change| change.first_release_after == at),
                "{releases} releases, a step at {at}: {found:?}"
            );
        }
    }
}

#[test]
fn flat_histories_raise_at_most_one_false_mark_in_100() {
    for (what, history) in [
        ("three pairs each", FLAT),
        ("some repeated", History { pairs: 6, ..FLAT }),
        (
            "six releases",
            History {
                releases: MIN_RELEASES,
                ..FLAT
            },
        ),
    ] {
        let (mut detector, mut random) = (Detector::default(), Rng::with_seed(17));
        let histories = 4000;
        let marked = (0..histories)
            .filter(|_| !history.changes(&mut detector, &mut random).is_empty())
            .count();
        println!("{what}: {marked} of {histories}");
        assert!(marked <= histories / 100, "{what}: {marked} of {histories}");
    }
}

/// Two builds of the same code differ a little, which their runs show rightly. It is not beyond the margin of a campaign.
#[test]
fn a_one_percent_difference_is_no_change_beyond_a_five_percent_margin() {
    let (mut detector, mut random) = (Detector::default(), Rng::with_seed(19));
    let history = History {
        jitter: 0.01,
        ..FLAT
    };
    let beyond = |change: &Change| (change.after - change.before).abs() > 1.05_f64.ln();
    let marked = (0..1000)
        .filter(|_| {
            history
                .changes(&mut detector, &mut random)
                .iter()
                .any(beyond)
        })
        .count();
    println!("{marked} of 1000");
    assert!(marked <= 10, "{marked} of 1000");
}
