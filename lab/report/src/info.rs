mod summary;
mod text;

use crate::args::InfoArgs;
use faultline_common::output::{json, say};
use faultline_recording::Recording;
use std::io::Write;
pub use summary::RecordingSummary;

/// An unreadable recording is reported on stderr and skipped; the exit code is then 1.
pub fn run(args: &InfoArgs, out: &mut dyn Write) -> anyhow::Result<u8> {
    let (mut code, mut between) = (0, "");
    for file in &args.files {
        match Recording::open(file).and_then(|recording| RecordingSummary::of(&recording)) {
            Ok(summary) if args.json => write!(out, "{}", json(&summary)?)?,
            Ok(summary) => {
                write!(out, "{between}{}", text::describe(&summary, args.manifest))?;
                between = "\n";
            }
            Err(error) => {
                say(&error.to_string());
                code = 1;
            }
        }
    }
    Ok(code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use faultline_recording::{NewRecording, NewSession, Writer};

    #[test]
    fn no_blank_line_replaces_an_unreadable_recording() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.fltl");
        let session = NewSession {
            started: faultline_metrics::Stamp::default(),
            interval: std::time::Duration::from_secs(1),
            version: "0.1.0".to_owned(),
            manifest: serde_json::Value::Null,
        };
        let labels = Vec::new();
        let recording = NewRecording { labels, session };
        Writer::create(&path, &recording).unwrap().commit().unwrap();
        let args = InfoArgs {
            files: vec![folder.path().join("missing.fltl"), path.clone(), path],
            json: false,
            manifest: false,
        };
        let mut out = Vec::new();
        assert_eq!(run(&args, &mut out).unwrap(), 1);
        let out = String::from_utf8(out).unwrap();
        assert!(
            !out.starts_with('\n') && out.matches("\n\n").count() == 1,
            "{out}"
        );
    }
}
