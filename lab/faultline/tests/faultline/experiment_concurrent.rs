//! Arms at the same time: what is the same is called the same, what is slower by a known share is found to be slower by that
//! share, and what a lane does is not taken for what an arm does. The real runner and the real daemon; only the validators
//! are simulated.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot prepare its scene fails"
)]

use crate::support::simulated::{self, Scene};
use std::collections::BTreeMap;

const LANES: [&str; 3] = ["a", "b", "c"];

/// Runs two arms and the twin of one of them so many times, at the same time in three lanes. `bias` is what is true in a
/// lane, beside what is true in all of them.
fn run(turns: u32, arms: &str, twice: &str, bias: impl Fn(&str) -> String) -> Option<Scene> {
    let scene = Scene::with_groups()?;
    for (place, lane) in LANES.iter().enumerate() {
        let truth = "slots_per_second = 50\nfirst_load_us = 0\nfirst_calls_per_slot = 640\nnoise_permille = 100";
        scene.write(
            &format!("{lane}.truth"),
            &format!("{truth}\nnoise_seed = {place}\n{}\n", bias(lane)),
        );
    }
    let lanes = LANES.iter().enumerate().map(|(place, lane)| {
        let port = scene
            .ports
            .port(10 + 10 * u16::try_from(place).expect("a few lanes"));
        format!("[[lane]]\nname = {lane:?}\nledger = {lane:?}\nrpc_port = {port}\n")
    });
    scene.plan(
        &format!("name = \"together\"\nreplicates = {turns}"),
        "command = [\"./agave-validator\", \"--ledger\", \"{ledger}\", \"--rpc-port\", \"{rpc_port}\", \"--truth\", \
         \"{ledger}.truth\"]",
        "duration = \"5s\"\nfirst_transaction_within = \"30s\"",
        &format!(
            "{}{arms}[concurrent]\nshared_device = \"warn\"\ntwice = {twice:?}\n[report]\nprimary = \"cache-time\"\nmargin = 5\n",
            lanes.collect::<String>()
        ),
    );
    scene.run(&LANES);
    scene.nothing_is_left();
    let ran = scene.ran();
    assert_eq!(ran.len(), 3 * turns as usize);
    let twins: Vec<&str> = ran
        .iter()
        .filter(|run| run.is_second_aa_run)
        .map(|run| run.arm.as_str())
        .collect();
    assert_eq!(twins, vec![twice; turns as usize]);
    Some(scene)
}

/// An arm `plain` with its twin, and an arm that takes longer by so many thousandths, as does whatever is in lane c.
fn slowdown(turns: u32, slower: u32, lane_c_slower: u32) -> Option<Scene> {
    let arms = [("plain", 0), ("slow", slower)].map(|(name, slower)| {
        format!(
            "[[arm]]\nname = {name:?}\nmemory_max = \"256M\"\n\
             environment = {{ FAULTLINE_TRUTH = \"slower_permille={slower}\" }}\n"
        )
    });
    let bias = |lane: &str| {
        format!(
            "place_slower_permille = {}",
            if lane == "c" { lane_c_slower } else { 0 }
        )
    };
    let scene = run(turns, &arms.concat(), "plain", bias)?;
    let ran = scene.ran();
    assert!(
        ran.iter()
            .all(|run| run.outcome == "completed" && run.validity.0 == "valid"),
        "{ran:#?}"
    );
    for turn in ran.chunk_by(|one, other| one.turn == other.turn) {
        let slots: Vec<(u64, u64)> = turn.iter().map(|run| slots(&scene, run)).collect();
        let first = slots
            .iter()
            .map(|(first, _)| *first)
            .max()
            .unwrap_or_default();
        let last = slots
            .iter()
            .map(|(_, last)| *last)
            .min()
            .unwrap_or_default();
        assert!(
            last >= first + 150,
            "runs of a turn see the same slots: {slots:?}"
        );
    }
    Some(scene)
}

/// The first and the last slot of a run.
fn slots(scene: &Scene, run: &simulated::Ran) -> (u64, u64) {
    let points = scene.recording(run).replay_slot_points().expect("points");
    let slots = || points.iter().filter_map(|point| point.slot);
    (
        slots().min().unwrap_or_default(),
        slots().max().unwrap_or_default(),
    )
}

/// The row of a quantity and of two arms in the table of the A/A pair.
fn row(scene: &Scene, what: &str, arms: &str) -> BTreeMap<String, String> {
    let rows = scene.table("bias-floor");
    let found = rows
        .iter()
        .find(|row| row["What"] == what && row["Arms"].starts_with(arms))
        .cloned();
    found.unwrap_or_else(|| panic!("{what}, {arms}: {rows:#?}"))
}

fn number(row: &BTreeMap<String, String>, column: &str) -> f64 {
    row[column]
        .parse()
        .unwrap_or_else(|_| panic!("{column}: {row:#?}"))
}

#[test]
fn equal_lanes_are_equivalent_and_a_known_slowdown_is_measured() {
    let Some(scene) = slowdown(3, 150, 0) else {
        return;
    };
    scene.report();
    for what in ["Program cache time", "Replay time"] {
        let twins = row(&scene, what, "plain against itself");
        assert!(
            twins["Verdict"].starts_with("equivalent within 5 %"),
            "{twins:#?}"
        );
        assert_eq!(number(&twins, "Turns"), 3.0);
        let slow = row(&scene, what, "slow against plain");
        assert_eq!(slow["Verdict"], "beyond the bias floor", "{slow:#?}");
        let [ratio, low, high] =
            ["", " low", " high"].map(|end| number(&slow, &format!("Ratio of sums{end}")));
        // The noise leaves the ratio a standard error of 0.3 %, and one interval in twenty may miss the truth.
        assert!(
            low <= 1.16 && 1.14 <= high && (ratio - 1.15).abs() < 0.02,
            "{slow:#?}"
        );
    }
}

#[test]
fn a_lane_effect_is_the_bias_floor_hiding_smaller_arm_differences() {
    // In the first turn the twin sits in lane c.
    let Some(scene) = slowdown(1, 80, 300) else {
        return;
    };
    let report = scene.report();
    for what in ["Program cache time", "Replay time"] {
        let twins = row(&scene, what, "plain against itself");
        assert!(
            twins["Verdict"].starts_with("not shown to be equivalent"),
            "{twins:#?}"
        );
        assert!(
            (number(&twins, "Ratio of sums") - 1.3).abs() < 0.03,
            "{twins:#?}"
        );
        let slow = row(&scene, what, "slow against plain");
        assert!(
            (number(&slow, "Ratio of sums") - 1.08).abs() < 0.03,
            "{slow:#?}"
        );
        assert!(
            slow["Verdict"].starts_with("not beyond the bias floor"),
            "{slow:#?}"
        );
    }
    assert!(report.contains("with a bias floor of"), "{report}");
}

#[test]
fn an_oom_killed_lane_does_not_affect_the_others() {
    let arms =
        ["64M", "128M"].map(|arm| format!("[[arm]]\nname = {arm:?}\nmemory_max = {arm:?}\n"));
    let truth = |_: &str| "anonymous_mib = 80\nanonymous_ms = 2500".to_owned();
    let Some(scene) = run(1, &arms.concat(), "128M", truth) else {
        return;
    };
    let ran = scene.ran();
    let outcomes: Vec<(&str, &str)> = ran
        .iter()
        .map(|run| (run.arm.as_str(), run.outcome.as_str()))
        .collect();
    assert_eq!(
        outcomes,
        [
            ("64M", "out_of_memory"),
            ("128M", "completed"),
            ("128M", "completed")
        ],
        "{ran:#?}"
    );
    let report = scene.report();
    assert!(
        report.contains("The smallest limit with which every run kept up is 128 MiB."),
        "{report}"
    );
    assert!(
        report.contains("The largest limit with which a run failed is 64 MiB."),
        "{report}"
    );
}
