//! `/`: the operator's overview, one page of plain HTML without scripts or external content.

mod answers;
mod plots;

use super::PageInfo;
use crate::sinks::history::History;
use faultline_metrics::AMBIGUOUS_PREFIX;
use faultline_status::{Figure, MemoryStatus, SourceStatus, Status, StatusItem, Tone};
use faultline_text::{bytes_f64, count, counted, duration_f64, escaped, short, utc};
use itertools::{Itertools, chain};
use std::time::Duration;

pub use answers::status_svg;

pub struct View<'a> {
    /// `None` before the first tick.
    pub status: Option<Status>,
    /// Why the newest tick is too old; `None` while sampling works.
    pub stale_reason: Option<String>,
    pub tick_interval: Duration,
    pub history: &'a History,
    pub page_info: &'a PageInfo,
}

const STYLE: &str = include_str!("landing/style.css");

pub fn page(view: &View<'_>) -> String {
    let (title, sections) = match &view.status {
        None => (
            "starting",
            "<section class=\"hero\"><h1>starting</h1><p class=\"lead\">The first sample is not complete yet.</p></section>\n".to_owned(),
        ),
        Some(status) => (status.target.headline(), sections(view, status)),
    };
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<meta http-equiv=\"refresh\" content=\"5\">\n\
         <title>{} · faultline</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <header><p class=\"brand\">faultline <span>{}</span></p>\n<nav><a href=\"/metrics\">metrics</a> \
         <a href=\"/status\">status</a> <a href=\"/status.svg\">image</a> <a href=\"/healthz\">health</a> \
         <a href=\"/readyz\">readiness</a></nav></header>\n<main>\n{}{sections}</main>\n{}</body>\n</html>\n",
        escaped(title),
        escaped(view.page_info.version),
        banners(view),
        footer(view)
    )
}

fn sections(view: &View<'_>, status: &Status) -> String {
    [
        target_section(view, status),
        items_section("Votes and rewards", &status.votes),
        items_section("Capacity", &status.capacity),
        memory_section(status),
        plots::cache_section(status, view.history),
        plots::last_minute_section(view, &status.cache),
        sources_section(&status.sources, status.time),
    ]
    .concat()
}

fn banners(view: &View<'_>) -> String {
    let is_demo = view.status.as_ref().is_some_and(|status| status.is_demo);
    let demo = "<p class=\"banner demo\"><strong>DEMO</strong> The target is a simulated validator. \
                <code>--record FILE</code> records it, <code>faultline report FILE</code> describes the recording. \
                <code>faultline try</code> compares two cache sizes.</p>\n";
    let stale = view.stale_reason.as_ref().map(|stale| {
        format!(
            "<p class=\"banner stale\"><strong>STALE</strong> Sampling has stopped: {stale}.</p>\n"
        )
    });
    chain!(is_demo.then(|| demo.to_owned()), stale).collect()
}

fn target_section(view: &View<'_>, status: &Status) -> String {
    let target = &status.target;
    let name = escaped(target.headline());
    let answers = answers::list(&status.answers);
    if target.name.is_none() {
        let lead = not_found(view, status);
        return format!(
            "<section class=\"hero\">\n<div class=\"title\"><h1>{name}</h1></div>\n<p class=\"lead\">{lead}</p>\n{answers}</section>\n"
        );
    }
    let behind = status.figure(Figure::SlotsBehind).map(|slots| {
        let slots = counted(slots, "slot");
        format!(" <span class=\"nowrap\">{slots} behind.</span>")
    });
    let fact = |name, value| format!("<div><dt>{name}</dt><dd>{}</dd></div>\n", escaped(value));
    let facts = target
        .facts
        .iter()
        .map(|known| fact(&known.name, &known.value));
    format!(
        "<section class=\"hero\">\n<div class=\"title\"><h1>{name}</h1>{}</div>\n<p class=\"lead\">{}{}</p>\n\
         {answers}<dl>\n{}</dl>\n</section>\n",
        badges(&target.state),
        target.explanation,
        behind.unwrap_or_default(),
        facts.collect::<String>()
    )
}

fn not_found(view: &View<'_>, status: &Status) -> String {
    let problem = status.target.search_problem.as_deref();
    // An ambiguous problem is "ambiguous: N validators found: THESE".
    match problem.and_then(|text| text.strip_prefix(AMBIGUOUS_PREFIX)?.split_once(": ")) {
        Some((_, found)) => format!("{}.", escaped(found)),
        None => format!(
            "No process was found. The daemon looks for one {}, and follows it as soon as it runs.",
            escaped(&view.page_info.search)
        ),
    }
}

fn items_section(title: &str, items: &[StatusItem]) -> String {
    if items.is_empty() {
        return String::new();
    }
    let badges = badges(items);
    format!("<section>\n<h2>{title}</h2>\n<div class=\"card title\">{badges}</div>\n</section>\n")
}

fn bar(share: f64, tone: Tone, subject: &str) -> String {
    let class = match tone {
        Tone::Plain | Tone::Good => "good",
        Tone::Warn => "busy",
        Tone::Bad => "bad",
    };
    let percent = share * 100.0;
    format!(
        "<div class=\"bar\" role=\"img\" aria-label=\"{percent:.0} percent {subject}\"><div class=\"{class}\" style=\"width:{percent:.1}%\"></div></div>\n"
    )
}

fn badges(items: &[StatusItem]) -> String {
    let badge = |item: &StatusItem| {
        let class = match item.tone {
            Tone::Plain => "nowrap",
            Tone::Good => "badge good",
            Tone::Warn => "badge busy",
            Tone::Bad => "badge bad",
        };
        format!("<span class=\"{class}\">{}</span> ", escaped(&item.text))
    };
    items.iter().map(badge).collect()
}

fn memory_section(status: &Status) -> String {
    let types = [
        ("anonymous", Figure::Anon),
        ("file", Figure::File),
        ("shared", Figure::Shared),
    ];
    let resident = types
        .into_iter()
        .filter_map(|(title, figure)| Some((title, status.figure(figure)?)))
        .collect_vec();
    if status.memory.is_none() && resident.is_empty() {
        return String::new();
    }
    let owner = status.target.name.as_deref().unwrap_or("this machine");
    format!(
        "<section>\n<h2>Memory of {}</h2>\n<div class=\"card memory\">\n{}{}</div>\n</section>\n",
        escaped(owner),
        status
            .memory
            .as_ref()
            .map(headroom_lines)
            .unwrap_or_default(),
        resident_line(&resident)
    )
}

fn headroom_lines(memory: &MemoryStatus) -> String {
    let mut out = String::new();
    for (index, item) in memory.items().iter().enumerate() {
        let text = escaped(&item.text);
        if index > 0 {
            out += &format!("<p class=\"quiet\">{text}.</p>\n");
            continue;
        }
        out += &format!("<p><strong>{text}</strong></p>\n");
        if let Some(level) = memory.binding() {
            out += &bar(level.share(), level.tone(), "cannot be dropped");
        }
    }
    out
}

fn resident_line(resident: &[(&str, f64)]) -> String {
    if resident.is_empty() {
        return String::new();
    }
    let sum = resident.iter().map(|(_, size)| size).sum();
    let part = |(title, size): &(&str, f64)| format!("{} {title}", bytes_f64(*size));
    format!(
        "<p class=\"quiet\">Resident (RSS) {}: {}.</p>\n",
        bytes_f64(sum),
        resident.iter().map(part).join(", ")
    )
}

fn sources_section(sources: &[SourceStatus], now: f64) -> String {
    let rows: String = sources
        .iter()
        .map(|source| source_row(source, now))
        .collect();
    format!(
        "<section>\n<h2>Sources</h2>\n<div class=\"card flush\"><table>\n<thead><tr><th>Source</th><th>State</th>\
         <th class=\"number\">Sampled</th><th class=\"number\">Took</th><th>Problems since the start</th></tr></thead>\n<tbody>\n\
         {rows}</tbody>\n</table></div>\n</section>\n"
    )
}

fn source_row(source: &SourceStatus, now: f64) -> String {
    let (class, word) = if source.is_up {
        ("good", "up")
    } else {
        ("bad", "down")
    };
    let kinds: String = source
        .problems
        .iter()
        .map(|(kind, times)| format!("<span class=\"kind\">{} {kind}</span>", short(*times)))
        .collect();
    let problems = match &source.newest_problem {
        None if source.is_up && kinds.is_empty() => {
            "<td class=\"problems none quiet\">none".to_owned()
        }
        None => {
            let state = match source.newest_values_at {
                _ if source.is_up => "none now".to_owned(),
                Some(time) => format!("no new values for {}", duration_f64(now - time)),
                None => "no values yet".to_owned(),
            };
            format!("<td class=\"problems\">{kinds} <span class=\"quiet\">{state}</span>")
        }
        Some((kind, what)) => {
            let more = match source.current_problems.saturating_sub(1) {
                0 => String::new(),
                more => format!(" <span class=\"quiet\">(and {more} more now)</span>"),
            };
            format!(
                "<td class=\"problems\">{kinds}<span class=\"what\"><b>{kind}:</b> {}{more}</span>",
                escaped(what)
            )
        }
    };
    format!(
        "<tr><th scope=\"row\">{}</th><td><span class=\"state {class}\">{word}</span></td>\
         <td class=\"number\" data-title=\"sampled\">{} ago</td><td class=\"number\" data-title=\"took\">{}</td>\
         {problems}</td></tr>\n",
        source.name.replace('_', " "),
        duration_f64(source.age),
        duration_f64(source.took),
    )
}

fn footer(view: &View<'_>) -> String {
    let tick = view.status.as_ref().map(|status| {
        let time = utc((status.tick_time * 1e9) as i64);
        format!("Tick {} at {time}. ", count(status.tick))
    });
    let tick = tick.unwrap_or_default();
    format!("<footer>{tick}This page renews itself every 5 s.</footer>\n")
}

#[cfg(test)]
mod tests;
