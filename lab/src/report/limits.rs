//! Arms that differ in memory: what is enough lies between two limits that were tried.

use super::model::{Block, Table};
use super::subject::Subjects;
use super::words::{GIB, bytes, count, grouped, number, table};
use faultline_stats::bracket::{Bracket, Replicate, bracket};

/// Limits closer together than this are one limit on two machines.
const ONE_LIMIT: f64 = 1.05;

/// The bracket; `None` unless the runs had different limits.
pub(crate) fn limits(subjects: &Subjects<'_>) -> Option<Bracket> {
    let replicates: Vec<Replicate> = (subjects.all.iter())
        .filter_map(|subject| {
            Some(Replicate { limit: subject.limit()? as u64, kept_up: subject.measured.course.kept_up.answer })
        })
        .collect();
    let smallest = replicates.iter().map(|replicate| replicate.limit).min()?;
    let largest = replicates.iter().map(|replicate| replicate.limit).max()?;
    (largest as f64 > ONE_LIMIT * smallest as f64).then(|| bracket(&replicates))
}

/// The bracket in sentences.
pub(crate) fn sentences(bracket: &Bracket) -> Vec<String> {
    let mut sentences = vec![match bracket.enough {
        Some(enough) => format!("The smallest limit that kept up in every run is {}.", said(enough)),
        None => "No limit is known to have kept up in every run.".to_owned(),
    }];
    sentences.push(match bracket.failed {
        Some(failed) => format!("The largest limit that failed in any run is {}.", said(failed)),
        None => "No limit failed.".to_owned(),
    });
    sentences.extend(bracket.contradictions.iter().map(|contradiction| {
        format!(
            "This does not fit together: {} kept up in every run and the larger {} failed in one, so not the limit alone decided.",
            said(contradiction.kept_up),
            said(contradiction.failed)
        )
    }));
    sentences
}

/// Small limits differ by less than a tenth of a GiB.
fn said(limit: u64) -> String {
    const MIB: u64 = 1 << 20;
    if limit.is_multiple_of(1 << 30) || !(MIB..64 << 30).contains(&limit) {
        return bytes(limit as f64);
    }
    format!("{} MiB", grouped((limit / MIB) as f64, 0))
}

/// The chapter's blocks.
pub(crate) fn blocks(bracket: &Bracket) -> Vec<Block> {
    let mut listed: Table = table(
        "limits",
        "Which memory limit kept up",
        &[("Limit", "GiB"), ("Kept up", "runs"), ("Failed", "runs"), ("Not known", "runs")],
        "Limit: the smallest over the cgroup's ancestors and the machine's memory, where it stood most of the time. Kept up: see the \
         table of outcomes. What is enough lies between the two limits named above; nothing is said of any limit that was not tried. \
         GiB is 2^30 bytes.",
    );
    listed.rows = (bracket.limits.iter())
        .map(|limit| {
            vec![
                number(Some(limit.limit as f64 / GIB), 3, ""),
                count(limit.kept_up),
                count(limit.failed),
                count(limit.unknown),
            ]
        })
        .collect();
    vec![Block::Text(sentences(bracket).join(" ")), Block::Table(listed)]
}
