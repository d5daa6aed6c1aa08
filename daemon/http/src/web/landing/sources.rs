//! The table of sources: state, age and duration of the last sample, and problems.

use faultline_status::SourceStatus;
use faultline_text::{escaped, seconds, short};
use std::fmt::{self, Write};

pub(super) fn write(sources: &[SourceStatus], now: f64, out: &mut String) -> fmt::Result {
    out.push_str(
        "<section>\n<h2>Sources</h2>\n<div class=\"card flush\"><table>\n<thead><tr><th>Source</th><th>State</th>\
         <th class=\"number\">Sampled</th><th class=\"number\">Took</th><th>Problems since the start</th></tr></thead>\n<tbody>\n",
    );
    for source in sources {
        row(source, now, out)?;
    }
    out.push_str("</tbody>\n</table></div>\n</section>\n");
    Ok(())
}

fn row(source: &SourceStatus, now: f64, out: &mut String) -> fmt::Result {
    let (tone, word) = if source.is_up {
        ("good", "up")
    } else {
        ("bad", "down")
    };
    write!(
        out,
        "<tr><th scope=\"row\">{}</th><td><span class=\"state {tone}\">{word}</span></td>\
         <td class=\"number\" data-title=\"sampled\">{} ago</td><td class=\"number\" data-title=\"took\">{}</td>",
        source.name.replace('_', " "),
        seconds(source.age),
        seconds(source.took),
    )?;
    let kinds: String = source
        .problems
        .iter()
        .map(|(kind, times)| format!("<span class=\"kind\">{} {kind}</span>", short(*times)))
        .collect();
    match &source.newest_problem {
        None if source.is_up && kinds.is_empty() => {
            out.push_str("<td class=\"problems none quiet\">none");
        }
        None => {
            let now = match source.values_from {
                _ if source.is_up => "none now".to_owned(),
                Some(time) => format!("no new values for {}", seconds(now - time)),
                None => "it waits for its first values".to_owned(),
            };
            write!(
                out,
                "<td class=\"problems\">{kinds} <span class=\"quiet\">{now}</span>"
            )?;
        }
        Some((kind, what)) => {
            write!(
                out,
                "<td class=\"problems\">{kinds}<span class=\"what\"><b>{kind}:</b> {}",
                escaped(what)
            )?;
            let more = source.current_problems.saturating_sub(1);
            if more > 0 {
                write!(out, " <span class=\"quiet\">(and {more} more now)</span>")?;
            }
            out.push_str("</span>");
        }
    }
    out.push_str("</td></tr>\n");
    Ok(())
}
