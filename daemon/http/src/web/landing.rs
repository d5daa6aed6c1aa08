//! `/`: the operator's overview, one page of plain HTML without scripts or external content.

mod answers;
mod cache;
mod memory;
mod plots;
mod sources;
mod target;

use super::PageInfo;
use crate::sinks::history::History;
use faultline_status::{Status, StatusItem, Tone};
use faultline_text::{count, escaped, moment};
use std::fmt::{self, Write};
use std::time::Duration;

pub(super) use answers::card;

pub(super) struct View<'a> {
    /// The status at the newest tick; `None` before the first tick.
    pub(super) status: Option<Status>,
    /// Why the newest tick is too old; `None` while sampling works.
    pub(super) stale: Option<String>,
    pub(super) interval: Duration,
    pub(super) history: &'a History,
    pub(super) info: &'a PageInfo,
}

const STYLE: &str = include_str!("landing/style.css");

pub(super) fn page(view: &View<'_>) -> String {
    let mut out = String::with_capacity(24 * 1024);
    write(view, &mut out).map_or_else(|fmt::Error| String::new(), |()| out)
}

fn write(view: &View<'_>, out: &mut String) -> fmt::Result {
    let status = view.status.as_ref();
    let title = status.map_or("starting", |status| status.target.headline());
    write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<meta http-equiv=\"refresh\" content=\"5\">\n\
         <title>{} · faultline</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n",
        escaped(title)
    )?;
    header(view, out)?;
    out.push_str("<main>\n");
    banners(view, out)?;
    match &view.status {
        None => out.push_str(
            "<section class=\"hero\"><h1>starting</h1><p class=\"lead\">The first tick is on its way.</p></section>\n",
        ),
        Some(status) => {
            target::write(view, status, out)?;
            facts("Votes and rewards", &status.votes, out)?;
            facts("Capacity", &status.capacity, out)?;
            memory::write(status, out)?;
            cache::write(status, view.history, out)?;
            plots::write(view, &status.cache, out)?;
            sources::write(&status.sources, status.time, out)?;
        }
    }
    out.push_str("</main>\n");
    footer(view, out)?;
    out.push_str("</body>\n</html>\n");
    Ok(())
}

fn header(view: &View<'_>, out: &mut String) -> fmt::Result {
    write!(
        out,
        "<header><p class=\"brand\">faultline <span>{}</span></p>\n<nav><a href=\"/metrics\">metrics</a> \
         <a href=\"/status\">status</a> <a href=\"/status.svg\">card</a> <a href=\"/healthz\">health</a> <a href=\"/readyz\">readiness</a>",
        escaped(view.info.version)
    )?;
    if let Some(docs) = &view.info.docs {
        write!(out, " <a href=\"{}\">documentation</a>", escaped(docs))?;
    }
    out.push_str("</nav></header>\n");
    Ok(())
}

fn banners(view: &View<'_>, out: &mut String) -> fmt::Result {
    if view.status.as_ref().is_some_and(|status| status.is_demo) {
        out.push_str(
            "<p class=\"banner demo\"><strong>DEMO</strong> The target is a simulated validator. \
             <code>--record FILE</code> records it, <code>faultline report FILE</code> describes the recording. \
             <code>faultline try</code> compares two cache sizes.</p>\n",
        );
    }
    if let Some(stale) = &view.stale {
        writeln!(
            out,
            "<p class=\"banner stale\"><strong>STALE</strong> Sampling has stopped: {stale}.</p>"
        )?;
    }
    Ok(())
}

/// Writes a section of one line, or nothing without facts.
fn facts(title: &str, facts: &[StatusItem], out: &mut String) -> fmt::Result {
    if facts.is_empty() {
        return Ok(());
    }
    write!(
        out,
        "<section>\n<h2>{title}</h2>\n<div class=\"card title\">"
    )?;
    badges(facts, out)?;
    out.push_str("</div>\n</section>\n");
    Ok(())
}

/// Writes a bar for a share from 0 to 1.
fn bar(share: f64, tone: Tone, subject: &str, out: &mut String) -> fmt::Result {
    let class = match tone {
        Tone::Plain | Tone::Good => "good",
        Tone::Warn => "busy",
        Tone::Bad => "bad",
    };
    let percent = share * 100.0;
    writeln!(
        out,
        "<div class=\"bar\" role=\"img\" aria-label=\"{percent:.0} percent {subject}\"><div class=\"{class}\" style=\"width:{percent:.1}%\"></div></div>"
    )
}

fn badges(badges: &[StatusItem], out: &mut String) -> fmt::Result {
    for part in badges {
        let class = match part.tone {
            Tone::Plain => "nowrap",
            Tone::Good => "badge good",
            Tone::Warn => "badge busy",
            Tone::Bad => "badge bad",
        };
        write!(
            out,
            "<span class=\"{class}\">{}</span> ",
            escaped(&part.text)
        )?;
    }
    Ok(())
}

fn footer(view: &View<'_>, out: &mut String) -> fmt::Result {
    out.push_str("<footer>");
    if let Some(status) = &view.status {
        write!(
            out,
            "Tick {} at {}. ",
            count(status.tick),
            moment((status.tick_time * 1e9) as i64)
        )?;
    }
    out.push_str("This page renews itself every 5 s.</footer>\n");
    Ok(())
}

#[cfg(test)]
mod tests;
