use super::View;
use faultline_metrics::AMBIGUOUS;
use faultline_status::{Figure, Status};
use faultline_text::{escaped, short};
use std::fmt::{self, Write};

pub(super) fn write(view: &View<'_>, status: &Status, out: &mut String) -> fmt::Result {
    let target = &status.target;
    out.push_str("<section class=\"hero\">\n");
    write!(
        out,
        "<div class=\"title\"><h1>{}</h1>",
        escaped(target.headline())
    )?;
    if target.name.is_none() {
        out.push_str("</div>\n");
        return not_found(view, status, out);
    }
    super::badges(&target.state, out)?;
    write!(out, "</div>\n<p class=\"lead\">{}", target.explanation)?;
    if let Some(slots) = status.figure(Figure::SlotsBehind) {
        let word = if slots == 1.0 { "slot" } else { "slots" };
        let slots = short(slots);
        write!(out, " <span class=\"nowrap\">{slots} {word} behind.</span>")?;
    }
    out.push_str("</p>\n");
    super::answers::write(&status.answers, out)?;
    out.push_str("<dl>\n");
    for fact in &target.facts {
        let (name, value) = (&fact.name, escaped(&fact.value));
        writeln!(out, "<div><dt>{name}</dt><dd>{value}</dd></div>")?;
    }
    out.push_str("</dl>\n</section>\n");
    Ok(())
}

fn not_found(view: &View<'_>, status: &Status, out: &mut String) -> fmt::Result {
    let problem = status.target.search_problem.as_deref();
    let several = problem.filter(|problem| problem.starts_with(AMBIGUOUS));
    let who = several.and_then(|problem| problem.splitn(3, ": ").last());
    match who {
        Some(who) => write!(out, "<p class=\"lead\">{}.", escaped(who))?,
        None => write!(
            out,
            "<p class=\"lead\">None was found. It is looked for {}, and followed as soon as it is there.",
            escaped(&view.info.search)
        )?,
    }
    out.push_str("</p>\n");
    super::answers::write(&status.answers, out)?;
    out.push_str("</section>\n");
    Ok(())
}
