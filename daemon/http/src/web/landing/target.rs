use super::View;
use faultline_status::{Figure, Status};
use faultline_text::{escaped, short};
use std::fmt::{self, Write};

pub(super) fn write(view: &View<'_>, status: &Status, out: &mut String) -> fmt::Result {
    let target = &status.target;
    out.push_str("<section class=\"hero\">\n");
    let Some(name) = &target.name else {
        out.push_str("<div class=\"title\"><h1>waiting for a validator</h1></div>\n");
        return writeln!(
            out,
            "<p class=\"lead\">None was found. It is looked for {}, and followed as soon as it is there.</p>\n</section>",
            escaped(&view.info.search)
        );
    };
    write!(out, "<div class=\"title\"><h1>{}</h1>", escaped(name))?;
    super::badges(&target.state, out)?;
    write!(out, "</div>\n<p class=\"lead\">{}", target.explanation)?;
    if let Some(slots) = status.figure(Figure::SlotsBehind) {
        let word = if slots == 1.0 { "slot" } else { "slots" };
        let slots = short(slots);
        write!(out, " <span class=\"nowrap\">{slots} {word} behind.</span>")?;
    }
    out.push_str("</p>\n<dl>\n");
    for fact in &target.facts {
        let (name, value) = (&fact.name, escaped(&fact.value));
        writeln!(out, "<div><dt>{name}</dt><dd>{value}</dd></div>")?;
    }
    out.push_str("</dl>\n</section>\n");
    Ok(())
}
