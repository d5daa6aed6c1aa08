use super::bar;
use faultline_status::{Figure, MemoryStatus, Status};
use faultline_text::{bytes_f64, escaped};
use std::fmt::{self, Write};

pub(super) fn write(status: &Status, out: &mut String) -> fmt::Result {
    let types = [
        ("anonymous", Figure::Anon),
        ("file", Figure::File),
        ("shared", Figure::Shared),
    ];
    let resident: Vec<(&str, f64)> = types
        .into_iter()
        .filter_map(|(title, figure)| Some((title, status.figure(figure)?)))
        .collect();
    if status.memory.is_none() && resident.is_empty() {
        return Ok(());
    }
    let owner = status.target.name.as_deref().unwrap_or("this machine");
    writeln!(
        out,
        "<section>\n<h2>Memory of {}</h2>\n<div class=\"card memory\">",
        escaped(owner)
    )?;
    if let Some(memory) = &status.memory {
        headroom(memory, out)?;
    }
    rss(&resident, out)?;
    out.push_str("</div>\n</section>\n");
    Ok(())
}

fn headroom(memory: &MemoryStatus, out: &mut String) -> fmt::Result {
    for (index, fact) in memory.facts().iter().enumerate() {
        let text = escaped(&fact.text);
        if index > 0 {
            writeln!(out, "<p class=\"quiet\">{text}.</p>")?;
            continue;
        }
        writeln!(out, "<p><strong>{text}</strong></p>")?;
        if let Some(level) = memory.binding() {
            bar(level.share(), level.tone(), "cannot be dropped", out)?;
        }
    }
    Ok(())
}

fn rss(resident: &[(&str, f64)], out: &mut String) -> fmt::Result {
    if resident.is_empty() {
        return Ok(());
    }
    let sum = resident.iter().map(|(_, size)| size).sum();
    let types: Vec<String> = resident
        .iter()
        .map(|(title, size)| format!("{} {title}", bytes_f64(*size)))
        .collect();
    writeln!(
        out,
        "<p class=\"quiet\">Resident (RSS) {}: {}.</p>",
        bytes_f64(sum),
        types.join(", ")
    )
}
