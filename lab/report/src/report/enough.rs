//! The memory proven sufficient by a recording. Not the minimum: less was not tried.

use super::cells::{GIB, bytes, number, table, text};
use super::model::{Block, Cell};
use super::subject::{Subject, Subjects};
use crate::measure::{self, Numbers, Span, within};
use crate::run::Signal;

/// A process followed within this many seconds counts as recorded from its start.
const FROM_START: f64 = 60.0;

/// A limit that varied by more than this factor was not one limit.
const MOVED: f64 = 1.001;

#[derive(Debug, Default, PartialEq)]
struct SufficientMemory {
    proven: Option<f64>,
    unreclaimable: Option<f64>,
    /// At the peak of both together, in bytes.
    cache: Option<f64>,
    refaults: Option<f64>,
    not: Vec<String>,
}

pub(super) fn blocks(subjects: &Subjects<'_>) -> Vec<Block> {
    let at_tip = subjects
        .all
        .iter()
        .filter_map(|subject| Some((subject, subject.steady.as_ref()?)));
    let all: Vec<(&Subject<'_>, SufficientMemory)> = at_tip
        .map(|(subject, steady)| (subject, enough(subject, steady)))
        .collect();
    if all.is_empty() {
        return Vec::new();
    }
    let columns = [
        "Run",
        "Proven enough [GiB]",
        "Unreclaimable max [GiB]",
        "Page cache with it [GiB]",
        "Refaults at the tip [pages]",
        "Installed [GiB]",
        "Less than installed [GiB]",
        "What cannot be said",
    ];
    let note = "No minimum: less was not tried, and may be enough. Where no page came back after it was reclaimed (refaults), the page \
                cache in use was never short, and all of the group's page cache counts as in use: the kernel does not say which pages \
                of it were needed. Proven is then the highest sum of unreclaimable memory and page cache, from the start on if that \
                was recorded. With refaults part of the page cache in use was missing at times, and only the limit it ran with is \
                proven. Either way it holds for the load of the recorded time, without swap. Page cache: file less shmem of \
                memory.stat. Refaults: workingset_refault of memory.stat. GiB is 2^30 bytes.";
    let mut listed = table("enough", "Memory that is proven enough", &columns, note);
    listed.rows = all
        .iter()
        .map(|(subject, enough)| row(subject, enough))
        .collect();
    let mut blocks = Vec::new();
    if let (Some(subject), [(_, enough)]) = (subjects.single(), all.as_slice()) {
        blocks.push(Block::Text(sentence(enough, subject.run.facts.memory)));
    }
    blocks.push(Block::Table(listed));
    blocks
}

fn enough(subject: &Subject<'_>, steady: &Numbers) -> SufficientMemory {
    let (run, measured) = (subject.run, &subject.measured);
    let mut not = Vec::new();
    let from_start = from_start(subject);
    if !from_start {
        not.push("what its start needs: the recording does not cover it".to_owned());
    }
    let window = if from_start {
        measured.windows.all
    } else {
        steady.window
    };
    let (unreclaimable, cache, sum) = highest(subject, window);
    let refaults = [&steady.refault_file, &steady.refault_anon].map(|growth| growth.known());
    let refaults = refaults[0].map(|files| files + refaults[1].unwrap_or(0.0));
    let swapped = within(run, run.signal(Signal::Swap), window)
        .into_iter()
        .flatten()
        .any(|bytes| bytes > 0.0);
    let limits = within(run, run.signal(Signal::Limit), steady.window);
    let limits: Vec<f64> = limits.into_iter().flatten().collect();
    let limit = limits.iter().copied().reduce(f64::min);
    let moved = limit.is_some_and(|least| limits.iter().any(|limit| *limit > MOVED * least));
    let kept_up = measured.lifecycle.kept_up.answer;
    let (proven, reason) = proven(kept_up, moved, swapped, refaults, sum, limit);
    not.extend(reason);
    SufficientMemory {
        proven,
        unreclaimable,
        cache,
        refaults,
        not,
    }
}

/// The sufficient memory, and what is not proven. `sum` is of unreclaimable memory and page cache.
fn proven(
    kept_up: Option<bool>,
    moved: bool,
    swapped: bool,
    refaults: Option<f64>,
    sum: Option<f64>,
    limit: Option<f64>,
) -> (Option<f64>, Option<String>) {
    let (memory, not) = match (kept_up, refaults) {
        (Some(false), _) => (None, "that what it had is enough: it did not keep up"),
        (None, _) => (
            None,
            "that what it had is enough: it is not known whether it kept up",
        ),
        (Some(true), _) if moved => (None, "that what it had is enough: its limit was moved"),
        (Some(true), _) if swapped => (
            None,
            "how much is enough without swap: memory was swapped out",
        ),
        (Some(true), Some(pages)) if pages <= 0.0 => match sum {
            Some(_) => return (sum, None),
            None => (
                limit,
                "how much page cache was in use: memory.stat of its group was not recorded",
            ),
        },
        (Some(true), Some(pages)) => {
            let pages = faultline_text::number(pages, 0);
            let not = format!(
                "that less than its limit is enough: {pages} pages came back after they were reclaimed"
            );
            return (limit, Some(not));
        }
        (Some(true), None) => (
            limit,
            "that less than its limit is enough: refaults were not recorded",
        ),
    };
    (memory, Some(not.to_owned()))
}

fn from_start(subject: &Subject<'_>) -> bool {
    let all = &subject.run.processes;
    let soon = |process: &crate::run::Process| {
        process
            .started
            .is_some_and(|at| process.seen - at <= FROM_START)
    };
    !all.is_empty() && all.iter().all(soon)
}

/// Peak unreclaimable memory, page cache at the peak of their sum, and that sum.
fn highest(subject: &Subject<'_>, window: Span) -> (Option<f64>, Option<f64>, Option<f64>) {
    let run = subject.run;
    let cache = measure::combine(
        run.signal(Signal::CgroupFile),
        run.signal(Signal::CgroupShmem),
        |file, shmem| (file - shmem).max(0.0),
    );
    let unreclaimable = within(run, run.signal(Signal::Unreclaimable), window);
    let cache = within(run, &cache, window);
    let both = unreclaimable
        .iter()
        .zip(&cache)
        .filter_map(|(resident, cache)| Some(((*resident)?, (*cache)?)));
    let highest = both.max_by(|a, b| (a.0 + a.1).total_cmp(&(b.0 + b.1)));
    let most = unreclaimable.into_iter().flatten().reduce(f64::max);
    (
        most,
        highest.map(|(_, cache)| cache),
        highest.map(|(resident, cache)| resident + cache),
    )
}

/// `None` if it was not recorded, or too rarely.
fn sentence(enough: &SufficientMemory, installed: Option<u64>) -> String {
    let not = if enough.not.is_empty() {
        String::new()
    } else {
        format!(" It cannot be said {}.", enough.not.join("; nor "))
    };
    let Some(proven) = enough.proven else {
        return format!("No size of memory is proven enough by this recording.{not}");
    };
    let than = installed
        .map(|installed| installed as f64)
        .map_or_else(String::new, |installed| {
            let less = installed - proven;
            let share = faultline_text::number(100.0 * less / installed, 0);
            match less > 0.0 {
                true => format!(
                    ", {} ({share} %) less than the {} that are installed",
                    bytes(less),
                    bytes(installed)
                ),
                false => format!("; {} are installed", bytes(installed)),
            }
        });
    format!(
        "{} of memory are proven enough for what was recorded{than}. Less was not tried, and may be enough.{not}",
        bytes(proven)
    )
}

fn row(subject: &Subject<'_>, enough: &SufficientMemory) -> Vec<Cell> {
    let gib = |bytes: Option<f64>, why: &str| number(bytes.map(|bytes| bytes / GIB), 3, why);
    let installed = subject.run.facts.memory.map(|bytes| bytes as f64);
    let less = installed
        .zip(enough.proven)
        .map(|(installed, proven)| installed - proven);
    vec![
        Cell::Text(subject.name.clone()),
        gib(enough.proven, "nothing is proven"),
        gib(enough.unreclaimable, "not recorded"),
        gib(enough.cache, "not recorded"),
        number(enough.refaults, 0, "not recorded"),
        gib(installed, "not recorded"),
        gib(less, "not known"),
        text(Some(&enough.not.join("; nor ")), "nothing of these"),
    ]
}

#[cfg(test)]
mod tests;
