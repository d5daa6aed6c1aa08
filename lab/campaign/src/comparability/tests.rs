use super::*;
use crate::compare::tests::runs;

pub fn cluster(consensus: &[&str], slot_seconds: Option<f64>) -> ClusterConditions {
    ClusterConditions {
        consensus: consensus.iter().map(|name| (*name).to_owned()).collect(),
        slot_seconds: slot_seconds.map(|seconds| (seconds, seconds)),
    }
}

/// Two rounds of a release that is 8 % worse, with the clusters of baseline and release.
pub fn with_clusters(version: &str, [baseline, own]: [&ClusterConditions; 2]) -> Vec<RunRow> {
    let mut all = runs(version, 1.08, 2);
    for run in &mut all {
        run.cluster = if run.is_baseline { baseline } else { own }.clone();
    }
    all
}

#[test]
fn slot_times_that_drift_in_both_runs_of_a_pair_are_compared() {
    let mut all = with_clusters("1.1.0", [&cluster(&["alpenglow"], Some(0.2)); 2]);
    for run in &mut all {
        let seconds = if run.replicate == 1 { 0.2 } else { 0.25 };
        run.cluster.slot_seconds = Some((seconds, seconds));
    }
    assert_eq!(Comparability::of(&all).difference_text(), None);
}

#[test]
fn a_consensus_of_a_later_round_prevails_over_a_slot_time() {
    let mut all = with_clusters(
        "1.1.0",
        [&cluster(&["tower"], Some(0.4)), &cluster(&[], Some(0.2))],
    );
    for run in all.iter_mut().filter(|run| run.round == 1) {
        run.cluster.consensus.clear();
    }
    for run in all
        .iter_mut()
        .filter(|run| run.round == 2 && !run.is_baseline)
    {
        run.cluster = cluster(&["alpenglow"], Some(0.4));
    }
    let found = Comparability::of(&all);
    let difference = found.difference.as_ref().map(|(difference, _)| *difference);
    assert_eq!(difference, Some(Difference::Consensus), "{found:?}");
}

#[test]
fn only_a_known_difference_prevents_a_comparison() {
    let tower = |seconds| cluster(&["tower"], seconds);
    let alpenglow = cluster(&["alpenglow"], Some(0.2));
    let unknown = cluster(&[], None);
    let cases = [
        ([&tower(Some(0.4)), &tower(Some(0.39))], None, None),
        (
            [&tower(Some(0.4)), &alpenglow],
            Some("Alpenglow at 0.20 s, the baseline Tower at 0.40 s"),
            None,
        ),
        (
            [&tower(Some(0.4)), &tower(Some(0.2))],
            Some("Tower at 0.20 s, the baseline Tower at 0.40 s"),
            None,
        ),
        (
            [&tower(None), &alpenglow],
            Some("Alpenglow at 0.20 s, the baseline Tower"),
            None,
        ),
        (
            [&unknown, &cluster(&["tower", "migrating"], None)],
            Some("the consensus changed in round 1: Tower, migrating"),
            None,
        ),
        (
            [&unknown, &alpenglow],
            None,
            Some("its consensus is Alpenglow, the baseline's is not known"),
        ),
        (
            [&tower(None), &unknown],
            None,
            Some("its consensus is not known, the baseline's is Tower"),
        ),
        (
            [&unknown, &unknown],
            None,
            Some("the consensus is not known"),
        ),
    ];
    for (clusters, difference, unknown) in cases {
        let found = Comparability::of(&with_clusters("1.1.0", clusters));
        let found = (found.difference_text(), found.unknown_consensus.as_deref());
        assert_eq!(found, (difference, unknown), "{clusters:?}");
    }
}

#[test]
fn a_consensus_that_changed_within_or_between_rounds_is_neither() {
    let alpenglow = cluster(&["alpenglow"], Some(0.2));
    let tower = cluster(&["tower"], Some(0.2));
    let reason = |is_migrated: fn(&RunRow) -> bool| {
        let mut all = with_clusters("1.1.0", [&tower, &tower]);
        for run in all.iter_mut().filter(|run| is_migrated(run)) {
            run.cluster = alpenglow.clone();
        }
        Comparability::of(&all).difference_text().map(str::to_owned)
    };
    assert_eq!(
        reason(|run| run.round == 2 && run.replicate == 3).as_deref(),
        Some("the consensus changed in round 2: Tower, Alpenglow")
    );
    assert_eq!(
        reason(|run| run.round == 2).as_deref(),
        Some("the consensus changed between the rounds: Tower, Alpenglow")
    );
    assert_eq!(reason(|run| run.round > 2), None);
}

#[test]
fn runs_without_values_do_not_count() {
    let alpenglow = cluster(&["alpenglow"], Some(0.2));
    let mut all = with_clusters("1.1.0", [&cluster(&["tower"], None), &alpenglow]);
    for run in all.iter_mut().filter(|run| !run.is_baseline) {
        run.outcome = "oom".to_owned();
    }
    assert_eq!(Comparability::of(&all).difference_text(), None);
}
