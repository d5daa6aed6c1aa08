//! Memory (the study's Figures 6, 7 and 10), limit and headroom.

use super::arm_table::{Head, Quantity, quantity, tables};
use super::cells::{GIB, figure, number, table};
use super::enough;
use super::model::{Block, Cell, Chart, Matrix, Section};
use super::subject::Part;
use super::subject::{Subject, Subjects};
use super::timeline::{Trace, timeline};
use crate::measure::{Levels, Numbers, within};
use crate::run::{BindingLevel, Signal};
use faultline_stats::correlation;

macro_rules! gib {
    ($title:literal, $level:ident, $which:ident) => {
        quantity($title, "GiB", 3, |_, n| {
            n.levels.$level.$which.map(|bytes| bytes / GIB)
        })
    };
}

const RSS_AND_VSZ: &[Quantity] = &[
    gib!("RSS min", rss, min),
    gib!("RSS max", rss, max),
    gib!("RSS mean", rss, mean),
    gib!("VSZ min", vsz, min),
    gib!("VSZ max", vsz, max),
    gib!("VSZ mean", vsz, mean),
];

const KINDS: &[Quantity] = &[
    gib!("Anonymous mean", anon, mean),
    gib!("Anonymous max", anon, max),
    gib!("File mean", file, mean),
    gib!("File max", file, max),
    gib!("Shared mean", shmem, mean),
    gib!("Swapped out mean", swap, mean),
    gib!("Swapped out max", swap, max),
];

const STUDY: &[Quantity] = &[
    gib!("VSZ - RSS mean (study: swap)", vsz_less_rss, mean),
    gib!("Swapped out mean", swap, mean),
    gib!("RSS + VSZ mean (study: total)", rss_and_vsz, mean),
    quantity("RSS + swapped out, mean", "GiB", 3, |_, n| {
        resident_and_swapped(&n.levels)
    }),
];

const HEADROOM: &[Quantity] = &[
    quantity("Limit", "GiB", 3, |s, _| s.limit().map(|bytes| bytes / GIB)),
    gib!("Unreclaimable mean", unreclaimable, mean),
    gib!("Unreclaimable max", unreclaimable, max),
    gib!("Headroom min", headroom, min),
    gib!("Headroom mean", headroom, mean),
    quantity("Smallest headroom by limit", "%", 1, |s, n| {
        Some(100.0 * n.levels.headroom.min? / s.limit()?)
    }),
];

fn resident_and_swapped(levels: &Levels) -> Option<f64> {
    Some((levels.rss.mean? + levels.swap.mean?) / GIB)
}

fn head<'h>(id: &'h str, title: &'h str, part: Part, note: &'h str) -> Head<'h> {
    Head {
        id,
        title,
        note,
        part,
        why: |subject| subject.no_samples(),
    }
}

pub(crate) fn section(subjects: &Subjects<'_>) -> Section {
    let mut blocks = rss_and_vsz(subjects);
    let note = "Anonymous memory is demand: without swap it cannot be dropped. File memory is page cache that the process maps; \
                the kernel takes it back when it needs to. GiB is 2^30 bytes.";
    blocks.extend(tables(
        subjects,
        &head(
            "memory-kinds",
            "Anonymous against file memory",
            Part::Usual,
            note,
        ),
        KINDS,
    ));
    let note = "The study takes VSZ less RSS for swap, and RSS plus VSZ for the total. VSZ counts address space that was never \
                touched, mapped files most of all, and contains RSS already; so neither is memory. Swap is VmSwap of \
                /proc/PID/status. GiB is 2^30 bytes.";
    blocks.extend(tables(
        subjects,
        &head(
            "memory-study",
            "Swap and total as the study defines them",
            Part::Usual,
            note,
        ),
        STUDY,
    ));
    let note = "Limit: that of the level with the least headroom, where it stood most of the time. Unreclaimable: usage of that \
                level that cannot be dropped without swap, others in it included. Headroom: limit less unreclaimable. GiB is 2^30 \
                bytes.";
    blocks.extend(tables(
        subjects,
        &head("headroom", "Headroom and the limit", Part::Usual, note),
        HEADROOM,
    ));
    blocks.push(binding_levels(subjects));
    blocks.extend(enough::blocks(subjects));
    blocks.extend(timelines(subjects));
    blocks.extend(
        subjects
            .all
            .iter()
            .filter_map(|subject| matrix(subjects, subject)),
    );
    Section {
        id: "memory".to_owned(),
        title: "Memory".to_owned(),
        blocks,
    }
}

fn rss_and_vsz(subjects: &Subjects<'_>) -> Vec<Block> {
    let gib = "GiB is 2^30 bytes. RSS: RssAnon, RssFile and RssShmem of /proc/PID/status. VSZ: vsize of /proc/PID/stat, address \
               space and not memory. A value a tick.";
    let mut blocks = tables(
        subjects,
        &head("memory", "RSS and VSZ", Part::Usual, gib),
        RSS_AND_VSZ,
    );
    let note = "The study's table begins with the process, so its minima are those of a program that has just started (0.016 GB).";
    blocks.extend(tables(
        subjects,
        &head(
            "memory-from-start",
            "RSS and VSZ from the start on",
            Part::All,
            note,
        ),
        RSS_AND_VSZ,
    ));
    blocks.extend(tables(
        subjects,
        &head("memory-at-tip", "RSS and VSZ at the tip", Part::Steady, gib),
        RSS_AND_VSZ,
    ));
    blocks
}

fn binding_levels(subjects: &Subjects<'_>) -> Block {
    let columns = [
        ("Run", ""),
        ("Level", ""),
        ("Share of the time", "%"),
        ("Others max", "GiB"),
    ];
    let note = "The level that had the least headroom. Others: unreclaimable memory at that level that is not of the validator's \
                own cgroup, at most over the whole run. Recordings by the old rule have no levels: there the limit is the smallest of all, and unreclaimable a sum \
                of anonymous, shared and kernel memory, which can be too low.";
    let mut listed = table("binding-level", "Which limit is met first", &columns, note);
    for subject in &subjects.all {
        let levels = &subject.run.binding_levels;
        if levels.is_empty() {
            let old = Cell::Text("not known, or headroom by the old rule".to_owned());
            listed.rows.push(vec![
                Cell::Text(subject.name.clone()),
                old,
                number(None, 0, "not recorded"),
                number(None, 3, "not recorded"),
            ]);
        }
        for level in levels {
            let others = match level.level.as_str() {
                "1" => highest(subject.run.signal(Signal::OthersParent)),
                "machine" => highest(subject.run.signal(Signal::OthersMachine)),
                _ => None,
            };
            listed.rows.push(vec![
                Cell::Text(subject.name.clone()),
                Cell::Text(level_title(level)),
                number(Some(100.0 * level.share), 0, ""),
                number(
                    others.map(|bytes| bytes / GIB),
                    3,
                    "not known at this level",
                ),
            ]);
        }
    }
    Block::Table(listed)
}

fn highest(values: &[Option<f64>]) -> Option<f64> {
    values.iter().copied().flatten().reduce(f64::max)
}

fn level_title(level: &BindingLevel) -> String {
    match level.level.as_str() {
        "machine" => "the machine".to_owned(),
        "numa" => format!("NUMA {}", level.path),
        "above" => format!("a limit above {}", level.path),
        level_name => match level_name.strip_suffix("_swap") {
            Some(number) => format!("{number}: memory and swap of {}", level.path),
            None => format!("{level_name}: {}", level.path),
        },
    }
}

fn timelines(subjects: &Subjects<'_>) -> Vec<Block> {
    let levels = "Levels at each tick; a long run is drawn by the smallest and the largest value of each stretch, so no peak is lost.";
    let draw =
        |id: &str, title: &str, caption: &str, traces: &dyn Fn(&Subject<'_>) -> Vec<Trace>| {
            let chart = timeline(subjects, "Memory (GiB)", "B", traces)?;
            Some(figure(id, title, &format!("{caption} {levels}"), chart))
        };
    let signal = |subject: &Subject<'_>, name, signal| {
        Trace::ticks(subject, name, subject.run.signal(signal))
    };
    [
        draw(
            "rss-over-time",
            "Resident memory over time",
            "RSS.",
            &|subject| vec![Trace::ticks(subject, "", &subject.measured.series.rss)],
        ),
        draw(
            "vsz-over-time",
            "Virtual memory over time",
            "VSZ: address space.",
            &|subject| vec![signal(subject, "", Signal::Virtual)],
        ),
        draw(
            "anon-and-file",
            "Anonymous against file memory over time",
            "RssAnon and RssFile.",
            &|subject| {
                vec![
                    signal(subject, "anonymous", Signal::RssAnon),
                    signal(subject, "file", Signal::RssFile),
                ]
            },
        ),
        draw(
            "headroom-over-time",
            "What cannot be reclaimed, and the limit",
            "When the first reaches the second, the kernel must swap or kill.",
            &|subject| {
                vec![
                    signal(subject, "unreclaimable", Signal::Unreclaimable),
                    signal(subject, "limit", Signal::Limit),
                ]
            },
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// In the study's order.
pub(crate) const CORRELATED: [&str; 4] = ["RSS", "VSZ", "Major faults", "Minor faults"];

pub(crate) fn correlations(subject: &Subject<'_>, numbers: &Numbers) -> Vec<Vec<Option<f64>>> {
    let series = &subject.measured.series;
    let values = [
        series.rss.as_slice(),
        subject.run.signal(Signal::Virtual),
        &series.major,
        &series.minor,
    ];
    let values = values.map(|values| within(subject.run, values, numbers.window));
    correlation::matrix(&values.each_ref().map(Vec::as_slice))
}

fn matrix(subjects: &Subjects<'_>, subject: &Subject<'_>) -> Option<Block> {
    let values = correlations(subject, &subject.usual);
    if values.iter().flatten().all(Option::is_none) {
        return None;
    }
    let single = subjects.single().is_some();
    let id = if single {
        "correlation".to_owned()
    } else {
        format!("correlation-{}", subject.id)
    };
    let title = if single {
        String::new()
    } else {
        format!(": {}", subject.name)
    };
    Some(figure(
        &id,
        &format!("Correlation of memory and faults{title}"),
        "Pearson's correlation over ticks from the first execution on; faults as rates per second. Where one of two is constant \
         there is none. Levels that grow over a run correlate with everything that grows: no cause follows from this.",
        Chart::Matrix(Matrix {
            names: CORRELATED.map(str::to_owned).to_vec(),
            values,
        }),
    ))
}
