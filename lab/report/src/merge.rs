use crate::args::MergeArgs;
use faultline_recording::merge;
use faultline_text::{counted, duration};
use itertools::Itertools;

pub fn run(args: &MergeArgs) -> anyhow::Result<String> {
    let merged = merge(&args.files, &args.out)?;
    let gaps = merged.gaps.iter().map(|gap| duration(*gap)).join(", ");
    let (sessions, ticks) = (merged.sessions as f64, merged.ticks as f64);
    let (sessions, ticks) = (counted(sessions, "session"), counted(ticks, "sample"));
    Ok(format!(
        "{}: {sessions} with {ticks}; from one recording's end to the next one's start: {gaps}\n",
        args.out.display()
    ))
}
