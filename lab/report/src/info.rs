mod summary;
mod text;

use crate::args::InfoArgs;
use faultline_common::output::{json, say};
use faultline_recording::Recording;
use std::io::Write;
pub use summary::RecordingSummary;

/// An unreadable recording is reported on stderr and skipped; the exit code is then 1.
pub fn run(args: &InfoArgs, out: &mut dyn Write) -> anyhow::Result<u8> {
    let mut code = 0;
    for (i, file) in args.files.iter().enumerate() {
        match Recording::open(file).and_then(|recording| RecordingSummary::of(&recording)) {
            Ok(summary) if args.json => write!(out, "{}", json(&summary)?)?,
            Ok(summary) => {
                let between = if i > 0 { "\n" } else { "" };
                write!(out, "{between}{}", text::describe(&summary, args.manifest))?;
            }
            Err(error) => {
                say(&error.to_string());
                code = 1;
            }
        }
    }
    Ok(code)
}
