use super::View;
use super::words::{count, took};
use faultline_catalog::{Batch, Status, Tick, metrics};
use faultline_text::{escaped, time};
use std::fmt::{self, Write};

pub(super) fn write(view: &View<'_>, tick: &Tick, out: &mut String) -> fmt::Result {
    out.push_str(
        "<section>\n<h2>Sources</h2>\n<div class=\"card flush\"><table>\n<thead><tr><th>Source</th><th>State</th>\
         <th class=\"number\">Looked</th><th class=\"number\">Took</th><th>Problems since the start</th></tr></thead>\n<tbody>\n",
    );
    for (i, batch) in tick.batches.iter().enumerate() {
        // The daemon has a second batch, with the statistics of all sources.
        if tick
            .batches
            .iter()
            .take(i)
            .all(|earlier| earlier.source != batch.source)
        {
            row(view, tick, batch, out)?;
        }
    }
    out.push_str("</tbody>\n</table></div>\n</section>\n");
    Ok(())
}

fn row(view: &View<'_>, tick: &Tick, batch: &Batch, out: &mut String) -> fmt::Result {
    let (tone, word) = if batch.up {
        ("good", "up")
    } else {
        ("bad", "down")
    };
    write!(
        out,
        "<tr><th scope=\"row\">{}</th><td><span class=\"state {tone}\">{word}</span></td>\
         <td class=\"number\" data-title=\"looked\">{} ago</td><td class=\"number\" data-title=\"took\">{}</td>",
        batch.source.name().replace('_', " "),
        time(view.now.since(batch.at)),
        took(batch.took),
    )?;
    let counts: Vec<(f64, &str)> = Status::ALL
        .iter()
        .filter_map(|status| Some((known(tick, batch, *status)?, status.name())))
        .filter(|(times, _)| *times > 0.0)
        .collect();
    match (batch.problems.last(), counts.is_empty()) {
        (None, true) => out.push_str("<td class=\"problems none quiet\">none"),
        (None, false) => write!(
            out,
            "<td class=\"problems\">{} <span class=\"quiet\">none now</span>",
            kinds(&counts)
        )?,
        (Some(newest), _) => {
            let (kind, what) = (newest.status.name(), escaped(&newest.what));
            write!(
                out,
                "<td class=\"problems\">{}<span class=\"what\"><b>{kind}:</b> {what}",
                kinds(&counts)
            )?;
            if batch.problems.len() > 1 {
                write!(
                    out,
                    " <span class=\"quiet\">(and {} more now)</span>",
                    batch.problems.len() - 1
                )?;
            }
            out.push_str("</span>");
        }
    }
    out.push_str("</td></tr>\n");
    Ok(())
}

/// Problems of this kind since the start; `None` if nothing counts them.
fn known(tick: &Tick, batch: &Batch, status: Status) -> Option<f64> {
    tick.number_of(
        &metrics::daemon::SOURCE_PROBLEMS,
        &[batch.source.name(), status.name()],
    )
}

fn kinds(counts: &[(f64, &str)]) -> String {
    counts
        .iter()
        .map(|(times, kind)| format!("<span class=\"kind\">{} {kind}</span>", count(*times)))
        .collect()
}
