use crate::args::MergeArgs;
use faultline_recording::merge;
use faultline_text::{counted, duration};
use itertools::Itertools;

pub fn run(args: &MergeArgs) -> anyhow::Result<String> {
    let merged = merge(&args.files, &args.out)?;
    let gaps = merged.gaps.iter().map(|gap| duration(*gap)).join(", ");
    let sessions = counted(merged.sessions as f64, "session");
    let ticks = counted(merged.ticks as f64, "sample");
    Ok(format!(
        "{}: {sessions} with {ticks}; gaps between the recordings: {gaps}\n",
        args.out.display()
    ))
}
