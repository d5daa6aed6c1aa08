//! The memory proven sufficient by a recording. Not the minimum: less was not tried.

use super::{
    cells::{bytes, gib, number, table, text},
    model::{Block, Cell},
    subject::{MIN_TIP_SECONDS, Subject, Subjects},
};
use crate::{
    measure::{self, Numbers, Span, within},
    run::Signal,
};

/// A process followed within this many seconds counts as recorded from its start.
const MAX_START_DELAY: f64 = 60.0;

/// A limit that varied by more than this factor counts as changed.
const MAX_LIMIT_RATIO: f64 = 1.001;

#[derive(Debug, Default, PartialEq)]
struct SufficientMemory {
    /// In bytes; `None` if nothing is proven.
    proven: Option<f64>,
    /// Peak in bytes.
    unreclaimable: Option<f64>,
    /// Page cache in bytes, at the peak of both together.
    cache: Option<f64>,
    /// Pages, from the first tick at the tip on.
    refaults: Option<f64>,
    /// What cannot be said, with reasons.
    unproven: Vec<String>,
}

pub fn blocks(subjects: &Subjects) -> Vec<Block> {
    let at_tip = subjects
        .all
        .iter()
        .filter_map(|subject| Some((subject, subject.from_tip.as_ref()?)));
    let all: Vec<(&Subject, SufficientMemory)> = at_tip
        .map(|(subject, from_tip)| (subject, sufficient_memory(subject, from_tip)))
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
    let note = "No minimum: less was not tried, and may be enough. Refaults are pages that came back after they were reclaimed. \
                Without refaults, the page cache was never short. All page cache of the group then counts as in use, because the \
                kernel does not say which pages were needed. Proven is then the highest sum of unreclaimable memory and page cache, \
                from the start on if that was recorded. With refaults, page cache was missing at times, and only the limit of the \
                run is proven. Both hold for the recorded load, without swap. Page cache: file minus shmem of memory.stat. Refaults: workingset_refault of memory.stat. GiB is 2^30 bytes.";
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

/// `None` if nothing less than the machine's memory is proven, or by too short a time at the tip.
pub fn proven_bytes(subject: &Subject) -> Option<f64> {
    let from_tip = subject.from_tip.as_ref()?;
    let installed = subject.run.facts.memory.map(|bytes| bytes as f64);
    let is_less = |bytes: &f64| installed.is_none_or(|installed| *bytes < installed);
    let is_long = from_tip.window.seconds() >= MIN_TIP_SECONDS;
    let proven = sufficient_memory(subject, from_tip).proven.filter(is_less);
    proven.filter(|_| is_long)
}

fn sufficient_memory(subject: &Subject, from_tip: &Numbers) -> SufficientMemory {
    let run = &subject.run;
    let mut unproven = Vec::new();
    let from_start = from_start(subject);
    if !from_start {
        unproven.push("what its start needs: the recording does not cover it".to_owned());
    }
    let window = if from_start {
        subject.whole_run.window
    } else {
        from_tip.window
    };
    let (unreclaimable, cache, sum) = peak_memory(subject, window);
    let refaults = [Signal::RefaultFile, Signal::RefaultAnon]
        .map(|signal| measure::growth(run, signal, from_tip.window).known());
    let refaults = refaults[0].map(|files| files + refaults[1].unwrap_or(0.0));
    let swapped = within(run, run.signal(Signal::Swap), window)
        .into_iter()
        .flatten()
        .any(|bytes| bytes > 0.0);
    let limits = within(run, run.signal(Signal::Limit), from_tip.window);
    let limits: Vec<f64> = limits.into_iter().flatten().collect();
    let limit = limits.iter().copied().reduce(f64::min);
    let limit_changed =
        limit.is_some_and(|least| limits.iter().any(|limit| *limit > MAX_LIMIT_RATIO * least));
    let success = subject.lifecycle.success.answer;
    let (proven, reason) = proven(success, limit_changed, swapped, refaults, sum, limit);
    unproven.extend(reason);
    SufficientMemory {
        proven,
        unreclaimable,
        cache,
        refaults,
        unproven,
    }
}

/// The sufficient memory, and what is not proven. `sum` is of unreclaimable memory and page cache.
fn proven(
    success: Option<bool>,
    limit_changed: bool,
    swapped: bool,
    refaults: Option<f64>,
    sum: Option<f64>,
    limit: Option<f64>,
) -> (Option<f64>, Option<String>) {
    let (memory, unproven) = match (success, refaults) {
        (Some(false), _) => (None, "that what it had is enough: it did not keep up"),
        (None, _) => (
            None,
            "that what it had is enough: it is not known whether it kept up",
        ),
        (Some(true), _) if limit_changed => {
            (None, "that what it had is enough: its limit was moved")
        }
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
            let pages = match faultline_text::number(pages, 0) {
                one if one == "1" => "1 page came back after it was reclaimed".to_owned(),
                pages => format!("{pages} pages came back after they were reclaimed"),
            };
            let unproven = format!("that less than its limit is enough: {pages}");
            return (limit, Some(unproven));
        }
        (Some(true), None) => (
            limit,
            "that less than its limit is enough: refaults were not recorded",
        ),
    };
    (memory, Some(unproven.to_owned()))
}

fn from_start(subject: &Subject) -> bool {
    let all = &subject.run.processes;
    let followed_from_start = |process: &crate::run::Process| {
        process
            .started
            .is_some_and(|at| process.seen - at <= MAX_START_DELAY)
    };
    !all.is_empty() && all.iter().all(followed_from_start)
}

/// Peak unreclaimable memory, page cache at the peak of their sum, and that sum.
fn peak_memory(subject: &Subject, window: Span) -> (Option<f64>, Option<f64>, Option<f64>) {
    let run = &subject.run;
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
    let peak_memory = both.max_by(|a, b| (a.0 + a.1).total_cmp(&(b.0 + b.1)));
    let peak_unreclaimable = unreclaimable.into_iter().flatten().reduce(f64::max);
    (
        peak_unreclaimable,
        peak_memory.map(|(_, cache)| cache),
        peak_memory.map(|(resident, cache)| resident + cache),
    )
}

fn sentence(enough: &SufficientMemory, installed: Option<u64>) -> String {
    let unproven = if enough.unproven.is_empty() {
        String::new()
    } else {
        format!(" It cannot be said {}.", enough.unproven.join("; nor "))
    };
    let Some(proven) = enough.proven else {
        return format!("No size of memory is proven enough by this recording.{unproven}");
    };
    let installed_words =
        installed
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
        "{} of memory are proven enough for what was recorded{installed_words}. Less was not tried, and may be enough.{unproven}",
        bytes(proven)
    )
}

fn row(subject: &Subject, enough: &SufficientMemory) -> Vec<Cell> {
    let cell = |bytes: Option<f64>, why: &str| number(bytes.map(gib), 3, why);
    let installed = subject.run.facts.memory.map(|bytes| bytes as f64);
    let less = installed
        .zip(enough.proven)
        .map(|(installed, proven)| installed - proven);
    vec![
        Cell::Text(subject.name.clone()),
        cell(enough.proven, "nothing is proven"),
        cell(enough.unreclaimable, "not recorded"),
        cell(enough.cache, "not recorded"),
        number(enough.refaults, 0, "not recorded"),
        cell(installed, "not recorded"),
        cell(less, "not known"),
        text(Some(&enough.unproven.join("; nor ")), "nothing of these"),
    ]
}

#[cfg(test)]
mod tests;
