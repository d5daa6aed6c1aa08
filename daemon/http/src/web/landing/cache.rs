//! Fill level of the program cache. The plots show its use.

use super::bar;
use faultline_status::{ProgramCacheStatus, Tone};
use faultline_text::escaped;
use std::fmt::{self, Write};

pub(super) fn write(cache: &ProgramCacheStatus, out: &mut String) -> fmt::Result {
    let Some(words) = cache.words() else {
        return Ok(());
    };
    out.push_str("<section>\n<h2>Program cache</h2>\n<div class=\"card memory\">\n");
    writeln!(out, "<p><strong>{words}</strong></p>")?;
    if let Some(share) = cache.share() {
        bar(share, Tone::Plain, "of the program cache", out)?;
    }
    for note in cache.warning.iter().chain(&cache.notes) {
        writeln!(out, "<p class=\"quiet\">{}</p>", escaped(note))?;
    }
    out.push_str("</div>\n</section>\n");
    Ok(())
}
