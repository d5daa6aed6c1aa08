//! The memory that a recording proves sufficient: the peak use of a run that kept up, or its limit
//! if the kernel had to read reclaimed pages back. It is not the minimum, because the run did not
//! try less.

use super::{
    cells::{bytes, gib, number_or, table, text_or},
    measured_run::{MIN_TIP_SECONDS, MeasuredRun, MeasuredRuns},
    model::{Block, Cell},
};
use crate::{
    measure::{self, Span, values_within},
    run::{Process, Run, Signal},
};
use faultline_status::size;
use itertools::Itertools;

/// A process followed within this many seconds counts as recorded from its start.
const MAX_START_DELAY: f64 = 60.0;

/// A limit that varied by more than this factor counts as changed.
const MAX_LIMIT_RATIO: f64 = 1.001;

/// In bytes, except for `refaults`.
struct SufficientMemory {
    /// `None` if nothing is proven.
    proven: Option<f64>,
    /// Peak of unreclaimable memory.
    unreclaimable: Option<f64>,
    /// Page cache when the sum of unreclaimable memory and page cache peaked.
    cache: Option<f64>,
    /// Pages, from the first tick at the tip on.
    refaults: Option<f64>,
    installed: Option<f64>,
    /// What the recording does not prove. Each text completes the sentence "It cannot be said ...":
    /// a clause, a colon and the reason.
    unproven: Vec<String>,
}

pub fn blocks(runs: &MeasuredRuns) -> Vec<Block> {
    let rows = runs
        .all
        .iter()
        .filter_map(|run| Some((run, sufficient_memory(run)?)))
        .collect_vec();
    let [(_, first), ..] = rows.as_slice() else {
        return Vec::new();
    };
    let note = "This is no minimum: less was not tried, and may be enough. Refaults are pages that came back after they were reclaimed. \
                Without refaults at the tip, the page cache was never short there. All page cache of the group then counts as in use, \
                because the kernel does not say which pages were needed. Proven is then the highest sum of unreclaimable memory and page \
                cache, from the start on if that was recorded. With refaults, page cache was missing at times, and only the limit of the \
                run is proven. Both proofs, with and without refaults, are valid only for the recorded load without swap. Page cache: \
                file minus shmem of memory.stat. Refaults: workingset_refault of memory.stat. GiB is 2^30 bytes.";
    let mut table = table(
        "enough",
        "Memory that is proven enough",
        &[
            "Run",
            "Proven enough [GiB]",
            "Unreclaimable max [GiB]",
            "Page cache with it [GiB]",
            "Refaults at the tip [pages]",
            "Installed [GiB]",
            "Less than installed [GiB]",
            "What cannot be said",
        ],
        note,
    );
    table.rows = rows.iter().map(|(run, memory)| row(run, memory)).collect();
    let table = Block::Table(table);
    match runs.single_run() {
        Some(_) => vec![Block::Text(proof_sentence(first)), table],
        None => vec![table],
    }
}

/// `None` if nothing below the machine's memory is proven, or if the time at the tip was too short.
pub fn proven_bytes(run: &MeasuredRun) -> Option<f64> {
    let memory = sufficient_memory(run)?;
    let seconds = run.from_tip.as_ref()?.window.seconds();
    memory.proven.filter(|proven| {
        memory.installed.is_none_or(|installed| *proven < installed) && seconds >= MIN_TIP_SECONDS
    })
}

fn sufficient_memory(run: &MeasuredRun) -> Option<SufficientMemory> {
    let recording = &run.recording;
    let at_tip = run.from_tip.as_ref()?.window;
    let mut unproven = Vec::new();
    let window = if is_followed_from_start(recording) {
        run.whole_run.window
    } else {
        unproven.push(
            "what the start of the process needs: the recording does not cover it".to_owned(),
        );
        at_tip
    };
    let (unreclaimable, cache, peak_sum) = peak_memory(run, window);
    // Includes the increase in gaps, but not between two processes, whose cgroups may differ.
    let increase = |signal| {
        let ticks = recording.ticks.iter().zip(recording.signal(signal));
        let totals = ticks
            .filter(|(tick, _)| at_tip.includes(tick.at))
            .filter_map(|(tick, total)| Some((tick.process, (*total)?)));
        let steps = totals.tuple_windows().filter(|(from, to)| from.0 == to.0);
        steps.map(|(from, to)| f64::max(to.1 - from.1, 0.0)).sum1()
    };
    let anonymous_refaults = increase(Signal::RefaultAnon).unwrap_or(0.0);
    let refaults = increase(Signal::RefaultFile).map(|files| files + anonymous_refaults);
    let swapped = values_within(recording, recording.signal(Signal::Swap), window)
        .into_iter()
        .flatten()
        .any(|bytes| bytes > 0.0);
    let limits = values_within(recording, recording.signal(Signal::Limit), at_tip)
        .into_iter()
        .flatten()
        .minmax()
        .into_option();
    let limit = limits.map(|(min, _)| min);
    let limit_changed = limits.is_some_and(|(min, max)| max > MAX_LIMIT_RATIO * min);
    let kept_up = run.lifecycle.success.passed;
    let (proven, reason) =
        proven_memory(kept_up, limit_changed, swapped, refaults, peak_sum, limit);
    unproven.extend(reason);
    Some(SufficientMemory {
        proven,
        unreclaimable,
        cache,
        refaults,
        installed: recording.facts.memory_bytes.map(|bytes| bytes as f64),
        unproven,
    })
}

/// The sufficient memory, and [`SufficientMemory::unproven`]. `peak_sum` is the peak of
/// unreclaimable memory plus page cache.
fn proven_memory(
    kept_up: Option<bool>,
    limit_changed: bool,
    swapped: bool,
    refaults: Option<f64>,
    peak_sum: Option<f64>,
    limit: Option<f64>,
) -> (Option<f64>, Option<String>) {
    let (memory, unproven) = match refaults {
        _ if kept_up == Some(false) => (
            None,
            "that the memory of the run is enough: the run did not keep up",
        ),
        _ if kept_up.is_none() => (
            None,
            "that the memory of the run is enough: it is not known whether the run kept up",
        ),
        _ if limit_changed => (
            None,
            "that the memory of the run is enough: its limit changed",
        ),
        _ if swapped => (
            None,
            "how much is enough without swap: memory was swapped out",
        ),
        Some(..=0.0) if peak_sum.is_some() => return (peak_sum, None),
        None | Some(..=0.0) if limit.is_none() => (
            None,
            "how much memory was enough: the limit of the run was not recorded",
        ),
        Some(..=0.0) => (
            limit,
            "how much page cache was in use: memory.stat of the cgroup was not recorded",
        ),
        Some(pages) => {
            let pages = match faultline_text::number(pages, 0).as_str() {
                "1" => "1 page came back after it was reclaimed".to_owned(),
                pages => format!("{pages} pages came back after they were reclaimed"),
            };
            let unproven = format!("that less than the limit is enough: {pages}");
            return (limit, Some(unproven));
        }
        None => (
            limit,
            "that less than the limit is enough: refaults were not recorded",
        ),
    };
    (memory, Some(unproven.to_owned()))
}

fn is_followed_from_start(recording: &Run) -> bool {
    let is_early = |process: &Process| {
        let delay = process
            .started_at
            .map(|started| process.first_seen_at - started);
        delay.is_some_and(|delay| delay <= MAX_START_DELAY)
    };
    !recording.processes.is_empty() && recording.processes.iter().all(is_early)
}

/// The peak of unreclaimable memory, the page cache when the sum of both peaked, and the peak of
/// this sum.
fn peak_memory(run: &MeasuredRun, window: Span) -> (Option<f64>, Option<f64>, Option<f64>) {
    let recording = &run.recording;
    let cache = measure::combine(
        recording.signal(Signal::CgroupFile),
        recording.signal(Signal::CgroupShmem),
        |file, shmem| (file - shmem).max(0.0),
    );
    let unreclaimable = values_within(recording, recording.signal(Signal::Unreclaimable), window);
    let cache = values_within(recording, &cache, window);
    let peak = unreclaimable
        .iter()
        .zip(&cache)
        .filter_map(|(unreclaimable, cache)| Some(((*unreclaimable)?, (*cache)?)))
        .max_by(|a, b| (a.0 + a.1).total_cmp(&(b.0 + b.1)));
    (
        unreclaimable.into_iter().flatten().reduce(f64::max),
        peak.map(|(_, cache)| cache),
        peak.map(|(unreclaimable, cache)| unreclaimable + cache),
    )
}

fn proof_sentence(memory: &SufficientMemory) -> String {
    let unproven = if memory.unproven.is_empty() {
        String::new()
    } else {
        format!(" It cannot be said {}.", memory.unproven.join("; nor "))
    };
    let Some(proven) = memory.proven else {
        return format!("No size of memory is proven enough by this recording.{unproven}");
    };
    let installed = memory.installed.map_or_else(String::new, |installed| {
        let less = installed - proven;
        let share = faultline_text::number(100.0 * less / installed, 0);
        if less > 0.0 {
            format!(
                ", {} ({share} %) less than the {} that are installed",
                size(less, f64::floor),
                bytes(installed)
            )
        } else {
            format!("; {} are installed", bytes(installed))
        }
    });
    format!(
        "{} of memory are proven enough for what was recorded{installed}. Less was not tried, and may be enough.{unproven}",
        size(proven, f64::ceil)
    )
}

fn row(run: &MeasuredRun, memory: &SufficientMemory) -> Vec<Cell> {
    let gib_cell = |bytes: Option<f64>, reason: &str| number_or(bytes.map(gib), 3, reason);
    let less = memory.installed.zip(memory.proven);
    vec![
        Cell::Text(run.name.clone()),
        gib_cell(memory.proven, "nothing is proven"),
        gib_cell(memory.unreclaimable, "not recorded"),
        gib_cell(memory.cache, "not recorded"),
        number_or(memory.refaults, 0, "not recorded"),
        gib_cell(memory.installed, "not recorded"),
        gib_cell(
            less.map(|(installed, proven)| installed - proven),
            "not known",
        ),
        text_or(Some(&memory.unproven.join("; nor ")), "no reservations"),
    ]
}

#[cfg(test)]
mod tests;
