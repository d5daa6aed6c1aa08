//! Fill level of the program cache. The plots show its use.

use super::words::count;
use faultline_catalog::{Metric, Tick, metrics};
use std::fmt::{self, Write};

pub(super) fn write(tick: &Tick, out: &mut String) -> fmt::Result {
    let known = |metric: &Metric, labels: &[&str]| tick.number_of(metric, labels);
    let loaded = known(&metrics::validator::CACHE_LOADED, &[]);
    let [observed, configured] =
        ["observed", "configured"].map(|kind| known(&metrics::validator::CACHE_CAPACITY, &[kind]));
    let capacity = observed.or(configured).filter(|capacity| *capacity > 0.0);
    if loaded.is_none() && capacity.is_none() {
        return Ok(());
    }
    out.push_str("<section>\n<h2>Program cache</h2>\n<div class=\"card memory\">\n");
    match (loaded, capacity) {
        (Some(loaded), Some(capacity)) => entries(loaded, capacity, out)?,
        (Some(loaded), None) => writeln!(
            out,
            "<p><strong>{}</strong> entries at the last eviction pass</p>",
            count(loaded)
        )?,
        (None, Some(capacity)) => writeln!(
            out,
            "<p><strong>{}</strong> entries at most <span class=\"quiet\">how many there are is known from the first eviction on</span></p>",
            count(capacity)
        )?,
        (None, None) => {}
    }
    if let (Some(observed), Some(configured)) = (observed, configured)
        && observed != configured
    {
        writeln!(
            out,
            "<p class=\"quiet\">Evictions begin at {} entries; by its version or the configuration it would be {}.</p>",
            count(observed),
            count(configured)
        )?;
    }
    if known(&metrics::validator::CACHE_HITS, &[]).is_some() {
        out.push_str("<p class=\"quiet\">Hits are as the validator counts them: before version 4.4.0 too many.</p>\n");
    }
    out.push_str("</div>\n</section>\n");
    Ok(())
}

fn entries(loaded: f64, capacity: f64, out: &mut String) -> fmt::Result {
    let share = (loaded / capacity * 100.0).clamp(0.0, 100.0);
    writeln!(
        out,
        "<p class=\"split\"><span><strong>{}</strong> entries at the last eviction pass</span> <span class=\"quiet\">of {} at most</span></p>\n\
         <div class=\"bar\" role=\"img\" aria-label=\"{share:.0} percent of the program cache\"><div class=\"good\" style=\"width:{share:.1}%\"></div></div>",
        count(loaded),
        count(capacity)
    )
}
