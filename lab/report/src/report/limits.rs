//! Brackets the sufficient memory limit: it lies between the largest limit with which a run failed
//! and the smallest with which all runs kept up. Each run is a replicate of its limit.

use super::{
    cells::{bytes, count, gib, number_cell, table},
    groups::by_key,
    measured_run::{MeasuredRun, MeasuredRuns},
    model::{Block, Cell},
};
use faultline_stats::bracket::{Bracket, Replicate, bracket};
use faultline_text::{counted, number};
use itertools::{Itertools, chain};

/// If all limits are within this ratio, the runs count as having had the same limit: a planned limit
/// differs slightly between machines.
const SAME_LIMIT_RATIO: f64 = 1.05;

pub struct SufficientLimits {
    bracket: Bracket,
    /// Arms without a planned limit: the memory of the host does not count as one.
    unlimited_arms: Vec<UnlimitedArm>,
    are_offline_replays: bool,
}

type UnlimitedArm = (String, Vec<Option<bool>>);

/// `None` unless runs of a validator had different limits.
pub fn limits(runs: &MeasuredRuns) -> Option<SufficientLimits> {
    let mut replicates = Vec::new();
    let mut unlimited_runs = Vec::new();
    for run in &runs.all {
        let success = run.lifecycle.success.passed;
        match (tried_limit(run), &run.recording.experiment_outcome) {
            (Some(limit), _) => replicates.push(Replicate {
                limit,
                passed: success,
            }),
            // Neither a planned limit nor a recorded one.
            (None, None) => {}
            (None, Some(_)) => unlimited_runs.push((run.arm.clone(), success)),
        }
    }
    let tried_limits = replicates.iter().map(|replicate| replicate.limit);
    let (smallest, largest) = tried_limits.minmax().into_option()?;
    let differ = largest as f64 > SAME_LIMIT_RATIO * smallest as f64;
    (differ && !runs.has_no_validator()).then(|| SufficientLimits {
        bracket: bracket(&replicates),
        unlimited_arms: by_key(unlimited_runs),
        are_offline_replays: runs.are_offline_replays(),
    })
}

/// In an experiment only the planned limit, else the recorded one.
fn tried_limit(run: &MeasuredRun) -> Option<u64> {
    match &run.recording.experiment_outcome {
        Some(experiment_outcome) => experiment_outcome.limit,
        None => run.limit().map(|limit| limit as u64),
    }
}

/// Whether both arms had the same limit, or none.
pub fn have_equal_limits(runs: &MeasuredRuns, reference: &str, other: &str) -> bool {
    let limits = runs
        .runs_of(reference)
        .chain(runs.runs_of(other))
        .map(tried_limit)
        .collect_vec();
    let ends = limits.iter().flatten().minmax().into_option();
    ends.is_none_or(|(smallest, largest)| {
        limits.iter().all(Option::is_some) && *largest as f64 <= SAME_LIMIT_RATIO * *smallest as f64
    })
}

impl SufficientLimits {
    fn success_text(&self) -> &'static str {
        if self.are_offline_replays {
            "did all of its work"
        } else {
            "kept up"
        }
    }

    pub fn headline(&self) -> String {
        let did = self.success_text();
        let enough = match self.bracket.smallest_sufficient.map(limit_text) {
            Some(limit) => format!("The smallest limit with which every run {did} is {limit}."),
            None => format!("No limit is known with which every run {did}."),
        };
        match self.bracket.largest_failed.map(limit_text) {
            Some(limit) => {
                format!("{enough} The largest limit with which a run failed is {limit}.")
            }
            None => format!("{enough} No run with a limit failed."),
        }
    }

    pub fn verdict_bullets(&self) -> Vec<String> {
        let did = self.success_text();
        let contradictions = self.bracket.contradictions.iter().map(|contradiction| {
            format!(
                "These contradict each other: every run {did} with {}, and one failed with the larger {}, so the limit alone did not decide.",
                limit_text(contradiction.passing_limit),
                limit_text(contradiction.failing_limit)
            )
        });
        let unlimited = self.unlimited_arms.iter().map(|(arm, results)| {
            let success = number(count_results(results, Some(true)) as f64, 0);
            let runs = counted(results.len() as f64, "run");
            format!("{arm} had no limit, so it is not part of this: {success} of {runs} {did}.")
        });
        contradictions.chain(unlimited).collect()
    }

    pub fn blocks(&self) -> Vec<Block> {
        let (title, did) = if self.are_offline_replays {
            (
                "With which memory limit the work was done",
                "Did all of its work",
            )
        } else {
            ("With which memory limit the validator kept up", "Kept up")
        };
        let note = "Limit: in an experiment, the limit that its plan gives the arm. Otherwise, the limit that was the most frequent one: \
             at each sample, the limit of the level (cgroup, NUMA nodes or machine) with the least headroom. Older recordings have no \
             levels, so their limit is the smallest of all. Whether a run kept up: see the table of outcomes. The sufficient limit is \
             between the two limits named above, unless they contradict each other or one is not known. Nothing is known of limits \
             that were not tried. GiB is 2^30 bytes.";
        let mut table = table(
            "limits",
            title,
            &[
                ("Limit", "GiB"),
                (did, "runs"),
                ("Failed", "runs"),
                ("Not known", "runs"),
            ],
            note,
        );
        for limit in &self.bracket.limits {
            table.rows.push(vec![
                number_cell(gib(limit.limit as f64), 3),
                count(limit.passed),
                count(limit.failed),
                count(limit.unknown),
            ]);
        }
        for (arm, results) in &self.unlimited_arms {
            let counts =
                [Some(true), Some(false), None].map(|passed| count(count_results(results, passed)));
            let cells = chain!([Cell::Missing(format!("{arm} had none"))], counts);
            table.rows.push(cells.collect());
        }
        let text = chain!([self.headline()], self.verdict_bullets()).join(" ");
        vec![Block::Text(text), Block::Table(table)]
    }
}

fn count_results(results: &[Option<bool>], passed: Option<bool>) -> usize {
    results.iter().filter(|success| **success == passed).count()
}

/// Small limits are in MiB, because they can differ by less than a tenth of a GiB.
fn limit_text(limit: u64) -> String {
    const MIB: u64 = 1 << 20;
    if limit.is_multiple_of(1 << 30) || !(MIB..64 << 30).contains(&limit) {
        return bytes(limit as f64);
    }
    format!("{} MiB", number((limit / MIB) as f64, 0))
}

#[cfg(test)]
mod tests {
    use crate::{
        report::{Options, build, model::Block},
        run::{ExperimentOutcome, Run},
    };

    #[test]
    fn a_single_arm_with_several_limits_has_their_table() {
        let run = |gib: u64| Run {
            labels: vec![("arm".to_owned(), "512".to_owned())],
            experiment_outcome: Some(ExperimentOutcome {
                limit: Some(gib << 30),
                ..ExperimentOutcome::default()
            }),
            ..Run::default()
        };
        let report = build([100, 200].map(run), &Options::default());
        let is_limits =
            |block: &Block| matches!(block, Block::Table(table) if table.id == "limits");
        let section = report
            .sections
            .iter()
            .find(|one| one.blocks.iter().any(is_limits));
        assert_eq!(
            section.map(|one| one.title.as_str()),
            Some("Runs of one arm")
        );
    }
}
