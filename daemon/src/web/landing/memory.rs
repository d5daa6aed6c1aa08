//! How much memory there is, and how much of it is spoken for.

use super::words::bytes;
use faultline_catalog::{Metric, Tick, metrics};
use std::fmt::{self, Write};

/// Types of resident memory with what the page calls them.
const TYPES: [(&str, &str); 3] = [("anon", "anonymous"), ("file", "file"), ("shmem", "shared")];

/// The section; nothing if neither a limit nor resident memory is known.
pub(super) fn write(tick: &Tick, out: &mut String) -> fmt::Result {
    let known = |metric: &Metric, labels: &[&str]| tick.number_of(metric, labels);
    let limit = known(&metrics::cgroup::EFFECTIVE_LIMIT, &[]).filter(|limit| *limit > 0.0);
    let bound = known(&metrics::cgroup::UNRECLAIMABLE, &[]);
    let resident = TYPES.map(|(kind, title)| (title, known(&metrics::process::RESIDENT, &[kind])));
    if limit.is_none() && resident.iter().all(|(_, size)| size.is_none()) {
        return Ok(());
    }
    out.push_str("<section>\n<h2>Memory</h2>\n<div class=\"card memory\">\n");
    if let (Some(limit), Some(bound)) = (limit, bound) {
        headroom(limit, bound, out)?;
    } else if let Some(limit) = limit {
        writeln!(out, "<p><strong>{}</strong> at most</p>", bytes(limit))?;
    }
    rss(&resident, out)?;
    out.push_str("</div>\n</section>\n");
    Ok(())
}

fn headroom(limit: f64, bound: f64, out: &mut String) -> fmt::Result {
    let share = (bound / limit * 100.0).clamp(0.0, 100.0);
    let tone = match share {
        s if s >= 95.0 => "bad",
        s if s >= 85.0 => "busy",
        _ => "good",
    };
    write!(
        out,
        "<p class=\"split\"><span><strong>{}</strong> headroom</span> <span class=\"quiet\">of {} at most</span></p>\n\
         <div class=\"bar\" role=\"img\" aria-label=\"{share:.0} percent cannot be dropped\"><div class=\"{tone}\" style=\"width:{share:.1}%\"></div></div>\n\
         <p class=\"quiet\">{} ({share:.0} %) cannot be dropped without swap; page cache makes way and is not counted.</p>\n",
        bytes((limit - bound).max(0.0)),
        bytes(limit),
        bytes(bound),
    )
}

fn rss(resident: &[(&str, Option<f64>)], out: &mut String) -> fmt::Result {
    let known: Vec<(&str, f64)> = resident
        .iter()
        .filter_map(|(title, size)| Some((*title, (*size)?)))
        .collect();
    if known.is_empty() {
        return Ok(());
    }
    let sum: f64 = known.iter().map(|(_, size)| size).sum();
    write!(out, "<p class=\"quiet\">Resident (RSS) {}:", bytes(sum))?;
    for (i, (title, size)) in known.iter().enumerate() {
        write!(
            out,
            "{} {} {title}",
            if i == 0 { "" } else { "," },
            bytes(*size)
        )?;
    }
    out.push_str(".</p>\n");
    Ok(())
}
