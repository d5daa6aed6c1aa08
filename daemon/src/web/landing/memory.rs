use super::words::bytes;
use crate::memory_status::{LevelStatus, MemoryStatus};
use faultline_catalog::{Tick, metrics};
use faultline_text::escaped;
use std::fmt::{self, Write};

const TYPES: [(&str, &str); 3] = [("anon", "anonymous"), ("file", "file"), ("shmem", "shared")];

pub(super) fn write(tick: &Tick, out: &mut String) -> fmt::Result {
    let status = MemoryStatus::of(tick);
    let resident =
        TYPES.map(|(kind, title)| (title, tick.number_of(&metrics::process::RESIDENT, &[kind])));
    if status.is_none() && resident.iter().all(|(_, size)| size.is_none()) {
        return Ok(());
    }
    out.push_str("<section>\n<h2>Memory</h2>\n<div class=\"card memory\">\n");
    if let Some(status) = status {
        match status.binding() {
            Some(level) => headroom(level, out)?,
            None => writeln!(
                out,
                "<p><strong>Headroom is not known</strong>: {}.</p>",
                MemoryStatus::UNKNOWN
            )?,
        }
        levels(&status.levels, out)?;
        for note in &status.notes {
            writeln!(out, "<p class=\"quiet\">{}</p>", escaped(note))?;
        }
    }
    rss(&resident, out)?;
    out.push_str("</div>\n</section>\n");
    Ok(())
}

fn headroom(level: &LevelStatus, out: &mut String) -> fmt::Result {
    let share = level.share() * 100.0;
    let tone = match share {
        s if s >= 95.0 => "bad",
        s if s >= 85.0 => "busy",
        _ => "good",
    };
    let others = level
        .others_text()
        .map_or(String::new(), |others| format!("; {others}"));
    let dirty = level
        .dirty
        .filter(|dirty| *dirty > 0.0)
        .map_or(String::new(), |dirty| {
            format!(" {} of the cache must be written first.", bytes(dirty))
        });
    write!(
        out,
        "<p class=\"split\"><span><strong>{}</strong> headroom</span> <span class=\"quiet\">of {} in {}</span></p>\n\
         <div class=\"bar\" role=\"img\" aria-label=\"{share:.0} percent cannot be dropped\"><div class=\"{tone}\" style=\"width:{share:.1}%\"></div></div>\n\
         <p class=\"quiet\">{} ({share:.0} %) cannot be dropped without swap{others}. Page cache can be dropped and is not counted.{dirty}</p>\n",
        bytes(level.headroom),
        bytes(level.limit),
        escaped(&level.title),
        bytes(level.unreclaimable),
    )
}

fn levels(levels: &[LevelStatus], out: &mut String) -> fmt::Result {
    if levels.len() < 2 {
        return Ok(());
    }
    out.push_str("<p class=\"quiet\">");
    for (i, level) in levels.iter().enumerate() {
        write!(
            out,
            "{}{}: {} of {} left",
            if i == 0 { "" } else { "; " },
            escaped(&level.title),
            bytes(level.headroom),
            bytes(level.limit)
        )?;
    }
    out.push_str(".</p>\n");
    Ok(())
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
