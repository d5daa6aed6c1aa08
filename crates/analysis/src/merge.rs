//! `faultline merge`: a run that a restart has cut in two becomes one recording.

use crate::args::MergeArgs;
use faultline_recording::merge;
use faultline_text::{count, time};

/// Joins the parts; what was joined, in words.
///
/// # Errors
/// They are not parts of one run, one cannot be read, or the file for the whole is there already.
pub fn run(args: &MergeArgs) -> anyhow::Result<String> {
    let merged = merge(&args.files, &args.out)?;
    let gaps: Vec<String> = merged.gaps.iter().map(|gap| time(*gap)).collect();
    let (sessions, ticks, gaps) = (merged.sessions, count(merged.ticks), gaps.join(", "));
    Ok(format!(
        "{}: {sessions} sessions with {ticks} ticks; not recorded in between: {gaps}\n",
        args.out.display()
    ))
}
