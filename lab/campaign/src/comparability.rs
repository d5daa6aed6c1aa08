//! Consensus and slot time of a release and of its baseline. If the consensus or the slot time
//! differs, metrics that depend on it are not compared.

use crate::store::RunRow;
use faultline_pages::groups::by_key;
use faultline_report::report::{
    RunMetric,
    comparability::{ClusterConditions, Difference},
};
use itertools::Itertools;

#[derive(Debug, Clone, Default)]
pub struct Comparability {
    /// Kind and text. An unknown consensus or slot time is no difference.
    difference: Option<(Difference, String)>,
    /// A text such as `its consensus is not known, the baseline's is Tower`; `None` with a
    /// difference, or if both are known.
    pub unknown_consensus: Option<String>,
    /// Conditions of all usable runs of release and baseline.
    pub cluster: ClusterConditions,
}

impl Comparability {
    pub fn of(runs: &[RunRow]) -> Self {
        let usable = || runs.iter().filter(|run| run.is_usable());
        let rounds: Vec<(u32, [ClusterConditions; 2])> =
            by_key(usable().map(|run| (run.round, run)))
                .into_iter()
                .map(|(round, runs)| (round, arm_clusters(runs.into_iter())))
                .collect();
        let arms = arm_clusters(usable());
        let cluster: ClusterConditions = arms.iter().cloned().collect();
        let difference = consensus_difference(&rounds, &arms)
            .map(|reason| (Difference::Consensus, reason))
            .or_else(|| Some((Difference::SlotTime, slot_time_difference(runs)?)));
        let unknown_consensus = match difference {
            None if !rounds.is_empty() => unknown_consensus(&arms),
            _ => None,
        };
        Self {
            difference,
            unknown_consensus,
            cluster,
        }
    }

    pub fn allows(&self, metric: &RunMetric) -> bool {
        !self
            .difference
            .iter()
            .any(|(difference, _)| metric.is_affected_by(*difference))
    }

    /// A text such as `Alpenglow at 0.20 s, the baseline Tower at 0.40 s`.
    pub fn difference_text(&self) -> Option<&str> {
        self.difference.as_ref().map(|(_, text)| text.as_str())
    }

    pub fn text(&self) -> String {
        self.difference_text()
            .or(self.unknown_consensus.as_deref())
            .map_or_else(|| cluster_text(&self.cluster), str::to_owned)
    }
}

/// Consensus and slot time of baseline and release.
fn arm_clusters<'r>(runs: impl Iterator<Item = &'r RunRow> + Clone) -> [ClusterConditions; 2] {
    [true, false].map(|is_baseline| {
        runs.clone()
            .filter(|run| run.is_baseline == is_baseline)
            .map(|run| run.cluster.clone())
            .collect()
    })
}

fn consensus_difference(
    rounds: &[(u32, [ClusterConditions; 2])],
    arms: &[ClusterConditions; 2],
) -> Option<String> {
    let has_changed =
        |arms: &[ClusterConditions; 2]| arms.iter().any(|cluster| cluster.consensus.len() > 1);
    let change_text = |arms: &[ClusterConditions; 2], when: &str| {
        let cluster: ClusterConditions = arms.iter().cloned().collect();
        format!("the consensus changed {when}: {}", protocol_names(&cluster))
    };
    if let Some((round, arms)) = rounds.iter().find(|(_, arms)| has_changed(arms)) {
        return Some(change_text(arms, &format!("in round {round}")));
    }
    if has_changed(arms) {
        return Some(change_text(arms, "between the rounds"));
    }
    let differs = |[baseline, release]: &[ClusterConditions; 2]| {
        release.difference(baseline) == Some(Difference::Consensus)
    };
    let (_, arms) = rounds.iter().find(|(_, arms)| differs(arms))?;
    Some(arms_text(arms))
}

/// The runs of one round and replicate are compared: drift between such pairs cancels in the ratio
/// of each pair.
fn slot_time_difference(runs: &[RunRow]) -> Option<String> {
    let usable = runs.iter().filter(|run| run.is_usable());
    let pair = by_key(usable.map(|run| ((run.round, run.replicate), run)))
        .into_iter()
        .map(|(_, runs)| arm_clusters(runs.into_iter()))
        .find(|[baseline, release]| release.difference(baseline) == Some(Difference::SlotTime))?;
    Some(arms_text(&pair))
}

fn arms_text([baseline, release]: &[ClusterConditions; 2]) -> String {
    format!(
        "{}, the baseline {}",
        cluster_text(release),
        cluster_text(baseline)
    )
}

fn unknown_consensus([baseline, release]: &[ClusterConditions; 2]) -> Option<String> {
    match [baseline, release].map(|cluster| !cluster.consensus.is_empty()) {
        [true, true] => None,
        [false, false] => Some("the consensus is not known".to_owned()),
        [true, false] => Some(format!(
            "its consensus is not known, the baseline's is {}",
            protocol_names(baseline)
        )),
        [false, true] => Some(format!(
            "its consensus is {}, the baseline's is not known",
            protocol_names(release)
        )),
    }
}

/// `Tower at 0.40 s`.
pub fn cluster_text(cluster: &ClusterConditions) -> String {
    let protocols = match cluster.consensus.as_slice() {
        [] => "unknown consensus".to_owned(),
        _ => protocol_names(cluster),
    };
    match cluster.slot_time() {
        Some(seconds) => format!("{protocols} at {seconds}"),
        None => protocols,
    }
}

fn protocol_names(cluster: &ClusterConditions) -> String {
    let name = |protocol: &String| match protocol.as_str() {
        "tower" => "Tower".to_owned(),
        "alpenglow" => "Alpenglow".to_owned(),
        other => other.to_owned(),
    };
    cluster.consensus.iter().map(name).join(", ")
}

#[cfg(test)]
pub mod tests;
