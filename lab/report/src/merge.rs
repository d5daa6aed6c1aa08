use crate::args::MergeArgs;
use faultline_recording::merge;
use faultline_text::{counted, time};

pub fn run(args: &MergeArgs) -> anyhow::Result<String> {
    let merged = merge(&args.files, &args.out)?;
    let gaps: Vec<String> = merged.gaps.iter().map(|gap| time(*gap)).collect();
    let (sessions, ticks) = (merged.sessions as f64, merged.ticks as f64);
    let (sessions, ticks) = (counted(sessions, "session"), counted(ticks, "tick"));
    let gaps = gaps.join(", ");
    Ok(format!(
        "{}: {sessions} with {ticks}; not recorded in between: {gaps}\n",
        args.out.display()
    ))
}
