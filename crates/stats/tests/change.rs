//! A step in a history of releases is found at its release, and a flat history has none. Each of 12 releases has three ratios
//! to the baseline, of runs that vary by 2 % each, as a campaign has them.

use fastrand::Rng;
use faultline_stats::change::{FEWEST, Rules, changes};

const RELEASES: usize = 12;
const REPLICATES: usize = 3;
const NOISE: f64 = 0.02;

fn normal(random: &mut Rng) -> f64 {
    (-2.0 * (1.0 - random.f64()).ln()).sqrt() * (std::f64::consts::TAU * random.f64()).cos()
}

/// Mean of the log ratios of each of so many releases, with this step from `at` on.
fn history(random: &mut Rng, releases: usize, at: usize, step: f64) -> Vec<f64> {
    let mut of = |place: usize| {
        let level = if place < at { 0.0 } else { step.ln() };
        let ratio = |random: &mut Rng| level + NOISE * (normal(random) - normal(random));
        (0..REPLICATES).map(|_| ratio(random)).sum::<f64>() / REPLICATES as f64
    };
    (0..releases).map(&mut of).collect()
}

/// Histories of a hundred in which the change is found at its release, and those with a further one.
fn found(at: usize, step: f64, histories: usize) -> (f64, f64) {
    let mut random = Rng::with_seed(16);
    let (mut there, mut more) = (0, 0);
    for _ in 0..histories {
        let places: Vec<usize> =
            changes(&history(&mut random, RELEASES, at, step), &Rules::default()).iter().map(|c| c.at).collect();
        there += usize::from(places.contains(&at));
        more += usize::from(places.len() > 1);
    }
    let share = |count: usize| 100.0 * count as f64 / histories as f64;
    (share(there), share(more))
}

#[test]
fn a_step_of_eight_percent_is_found_at_its_release_in_95_of_100_histories() {
    for (at, step) in [(6, 1.08), (5, 1.08), (7, 1.0 / 1.08)] {
        let (there, more) = found(at, step, 400);
        println!("a step at release {}: {there} of 100, with a further one {more}", at + 1);
        assert!(there >= 95.0 && more <= 2.0, "a step at release {}: {there} of 100, {more}", at + 1);
    }
}

#[test]
fn a_step_with_four_releases_on_each_side_is_found_wherever_it_is() {
    let mut random = Rng::with_seed(18);
    for releases in [FEWEST, 12, 15] {
        for at in 4..=releases - 4 {
            for _ in 0..4 {
                let found = changes(&history(&mut random, releases, at, 1.5), &Rules::default());
                assert!(found.iter().any(|change| change.at == at), "{releases} releases, a step at {at}: {found:?}");
            }
        }
    }
    for at in 4..=RELEASES - 4 {
        let (there, more) = found(at, 1.08, 200);
        println!("8 % at {at}: {there} of 100, with a further one {more}");
        assert!(there >= 88.0 && more <= 2.0, "8 % at {at}: {there} of 100, {more}");
    }
}

#[test]
fn flat_histories_raise_at_most_one_false_mark_in_100() {
    let mut random = Rng::with_seed(17);
    let histories = 2000;
    let marked = (0..histories)
        .filter(|_| !changes(&history(&mut random, RELEASES, RELEASES, 1.0), &Rules::default()).is_empty())
        .count();
    println!("{marked} of {histories}");
    assert!(marked <= histories / 100, "{marked} of {histories}");
}
