//! Brackets the sufficient memory limit between two tried limits.

use super::{
    cells::{bytes, count, gib, known, table},
    groups::by_key,
    model::{Block, Cell, Table},
    subject::{Subject, Subjects},
};
use faultline_stats::bracket::{Bracket, Replicate, bracket};
use faultline_text::{counted, number as grouped};

/// Limits within this ratio count as one limit on two machines.
const SAME_LIMIT_RATIO: f64 = 1.05;

pub struct Limits {
    bracket: Bracket,
    /// Arms without a planned limit. The host's memory is no tried limit.
    unlimited_arms: Vec<UnlimitedArm>,
    /// Whether the runs replayed a fixed range.
    replays: bool,
}

/// The arm, and whether each of its runs kept up.
type UnlimitedArm = (String, Vec<Option<bool>>);

/// `None` unless the runs had different limits.
pub fn limits(subjects: &Subjects) -> Option<Limits> {
    let mut replicates = Vec::new();
    let mut unlimited_arms = Vec::new();
    for subject in &subjects.all {
        let success = subject.lifecycle.success.answer;
        match (limit_of(subject), &subject.run.from_experiment) {
            (Some(limit), _) => replicates.push(Replicate {
                limit,
                passed: success,
            }),
            (None, None) => {}
            (None, Some(_)) => unlimited_arms.push((subject.arm.clone(), success)),
        }
    }
    let smallest = replicates.iter().map(|replicate| replicate.limit).min()?;
    let largest = replicates.iter().map(|replicate| replicate.limit).max()?;
    if subjects.has_no_validator() {
        return None;
    }
    let differ = largest as f64 > SAME_LIMIT_RATIO * smallest as f64;
    let replays = subjects.all.iter().all(|subject| subject.run.is_replay());
    differ.then(|| Limits {
        bracket: bracket(&replicates),
        unlimited_arms: by_key(unlimited_arms),
        replays,
    })
}

/// The limit in the plan, or the recorded one without a plan.
fn limit_of(subject: &Subject) -> Option<u64> {
    match &subject.run.from_experiment {
        Some(from_experiment) => from_experiment.limit,
        None => subject.limit().map(|limit| limit as u64),
    }
}

/// Whether both arms had the same limit, or none.
pub fn have_equal_limits(subjects: &Subjects, one: &str, other: &str) -> bool {
    let all: Vec<Option<u64>> = subjects
        .of(one)
        .chain(subjects.of(other))
        .map(limit_of)
        .collect();
    let known = || all.iter().flatten().copied();
    let none = known().next().is_none();
    none || (known().count() == all.len()
        && known().max().unwrap_or(0) as f64
            <= SAME_LIMIT_RATIO * known().min().unwrap_or(0) as f64)
}

fn count_answers(answers: &[Option<bool>], answer: Option<bool>) -> usize {
    let alike = answers.iter().filter(|success| **success == answer);
    alike.count()
}

pub fn sentences(
    Limits {
        bracket,
        unlimited_arms,
        replays,
    }: &Limits,
) -> Vec<String> {
    let did = if *replays {
        "did all of its work"
    } else {
        "kept up"
    };
    let mut sentences = vec![match (bracket.enough, replays) {
        (Some(enough), true) => format!(
            "The smallest limit with which every run {did} is {}.",
            limit_words(enough)
        ),
        (None, true) => format!("No limit is known with which every run {did}."),
        (Some(enough), false) => format!(
            "The smallest limit that {did} in every run is {}.",
            limit_words(enough)
        ),
        (None, false) => format!("No limit is known to have {did} in every run."),
    }];
    sentences.push(match bracket.failed {
        Some(failed) => format!(
            "The largest limit that failed in any run is {}.",
            limit_words(failed)
        ),
        None => "No limit failed.".to_owned(),
    });
    sentences.extend(bracket.contradictions.iter().map(|contradiction| {
        format!(
            "This does not fit together: with {} every run {did} and with the larger {} one failed, so not the limit alone decided.",
            limit_words(contradiction.passed),
            limit_words(contradiction.failed)
        )
    }));
    sentences.extend(unlimited_arms.iter().map(|(arm, answers)| {
        let (runs, success) = (answers.len(), count_answers(answers, Some(true)));
        let runs = counted(runs as f64, "run");
        format!(
            "Without a limit, and so not among these: {arm}, of which {success} of {runs} {did}."
        )
    }));
    sentences
}

/// Small limits can differ by less than a tenth of a GiB.
fn limit_words(limit: u64) -> String {
    const MIB: u64 = 1 << 20;
    if limit.is_multiple_of(1 << 30) || !(MIB..64 << 30).contains(&limit) {
        return bytes(limit as f64);
    }
    format!("{} MiB", grouped((limit / MIB) as f64, 0))
}

pub fn blocks(limits: &Limits) -> Vec<Block> {
    let mut listed: Table = table(
        "limits",
        if limits.replays {
            "With which memory limit the work was done"
        } else {
            "Which memory limit kept up"
        },
        &[
            ("Limit", "GiB"),
            (
                if limits.replays {
                    "Did all of its work"
                } else {
                    "Kept up"
                },
                "runs",
            ),
            ("Failed", "runs"),
            ("Not known", "runs"),
        ],
        "Limit: in an experiment, the limit that its plan gives the arm. Otherwise, the smallest limit over the cgroup's ancestors and \
         the machine's memory, at its most frequent value. Whether a run kept up: see the table of outcomes. The sufficient limit \
         lies between the two limits named above. Nothing is known of limits that were not tried. \
         GiB is 2^30 bytes.",
    );
    listed.rows = (limits.bracket.limits.iter())
        .map(|limit| {
            vec![
                known(gib(limit.limit as f64), 3),
                count(limit.passed),
                count(limit.failed),
                count(limit.unknown),
            ]
        })
        .collect();
    listed
        .rows
        .extend(limits.unlimited_arms.iter().map(|(arm, answers)| {
            let counts =
                [Some(true), Some(false), None].map(|answer| count(count_answers(answers, answer)));
            let mut row = vec![Cell::Missing(format!("{arm} had none"))];
            row.extend(counts);
            row
        }));
    vec![
        Block::Text(sentences(limits).join(" ")),
        Block::Table(listed),
    ]
}
