//! `/`: the operator's overview, one page of plain HTML without scripts or external content.

mod cache;
mod earns;
mod memory;
mod plots;
mod runs_out;
mod sources;
mod target;
mod words;

use super::PageInfo;
use super::health::health;
use crate::sinks::history::Plot;
use faultline_catalog::{Stamp, Tick, metrics};
use faultline_text::escaped;
use std::fmt::{self, Write};
use std::time::Duration;

pub(super) struct View<'a> {
    pub(super) tick: Option<&'a Tick>,
    pub(super) now: Stamp,
    pub(super) interval: Duration,
    pub(super) plots: Vec<(Plot, Vec<(f64, f64)>)>,
    pub(super) info: &'a PageInfo,
}

const STYLE: &str = include_str!("landing/style.css");

pub(super) fn page(view: &View<'_>) -> String {
    let mut out = String::with_capacity(24 * 1024);
    write(view, &mut out).map_or_else(|fmt::Error| String::new(), |()| out)
}

fn write(view: &View<'_>, out: &mut String) -> fmt::Result {
    let title = view
        .tick
        .and_then(target::title)
        .unwrap_or_else(|| "waiting for a validator".to_owned());
    write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<meta http-equiv=\"refresh\" content=\"5\">\n\
         <title>{} · faultline</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n",
        escaped(&title)
    )?;
    header(view, out)?;
    out.push_str("<main>\n");
    banners(view, out)?;
    match view.tick {
        None => out.push_str(
            "<section class=\"hero\"><h1>starting</h1><p class=\"lead\">The first tick is on its way.</p></section>\n",
        ),
        Some(tick) => {
            target::write(view, tick, out)?;
            earns::write(tick, out)?;
            runs_out::write(tick, out)?;
            memory::write(tick, out)?;
            cache::write(tick, out)?;
            plots::write(view, out)?;
            sources::write(view, tick, out)?;
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
         <a href=\"/healthz\">health</a> <a href=\"/readyz\">readiness</a>",
        escaped(view.info.version)
    )?;
    if let Some(docs) = &view.info.docs {
        write!(out, " <a href=\"{}\">documentation</a>", escaped(docs))?;
    }
    out.push_str("</nav></header>\n");
    Ok(())
}

fn banners(view: &View<'_>, out: &mut String) -> fmt::Result {
    if view
        .tick
        .is_some_and(|tick| tick.number_of(&metrics::daemon::DEMO, &[]) == Some(1.0))
    {
        out.push_str("<p class=\"banner demo\"><strong>DEMO</strong> The target is a simulated validator.</p>\n");
    }
    match health(view.tick.map(|tick| tick.at), view.now, view.interval) {
        Ok(()) => Ok(()),
        Err(stale) => {
            writeln!(
                out,
                "<p class=\"banner stale\"><strong>STALE</strong> Sampling has stopped: {stale}.</p>"
            )
        }
    }
}

fn footer(view: &View<'_>, out: &mut String) -> fmt::Result {
    out.push_str("<footer>");
    if let Some(tick) = view.tick {
        write!(
            out,
            "Tick {} at {}. ",
            words::count(tick.number as f64),
            words::date(tick.at.unix_seconds())
        )?;
    }
    out.push_str("This page renews itself every 5 s.</footer>\n");
    Ok(())
}

#[cfg(test)]
mod tests;
