use crate::args::MergeArgs;
use faultline_recording::merge;
use faultline_text::{count, time};

pub fn run(args: &MergeArgs) -> anyhow::Result<String> {
    let merged = merge(&args.files, &args.out)?;
    let gaps: Vec<String> = merged.gaps.iter().map(|gap| time(*gap)).collect();
    let (sessions, ticks, gaps) = (merged.sessions, count(merged.ticks), gaps.join(", "));
    Ok(format!(
        "{}: {sessions} sessions with {ticks} ticks; not recorded in between: {gaps}\n",
        args.out.display()
    ))
}
