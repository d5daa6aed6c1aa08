use crate::{
    args::ReportArgs,
    report::{self, Options},
    run,
};
use anyhow::{Context as _, Result, bail};
use faultline_text::clean;
use itertools::Itertools;
use std::path::Path;

pub fn report_command(args: &ReportArgs) -> Result<String> {
    let mut recordings = args
        .runs
        .iter()
        .map(|path| {
            run::load(path).with_context(|| format!("{}: no run to report", path.display()))
        })
        .collect::<Result<Vec<_>>>()?;
    // A copy would count as a second run and make the result look more certain.
    for ((first, path), (second, other_path)) in
        recordings.iter().zip(&args.runs).tuple_combinations()
    {
        if first.shares_recording_with(second) {
            bail!(
                "{} and {} recorded the same process at the same time: give each run once, without copies and parts of it",
                path.display(),
                other_path.display()
            );
        }
    }
    for (recording, path) in recordings.iter_mut().zip(&args.runs) {
        // The report shows the cache sizes that this predicts from the trace next to the recording.
        recording.predict_program_cache(path);
    }
    let chosen = args.primary.as_deref().and_then(report::run_metric);
    let options = Options {
        primary: chosen.unwrap_or_else(|| report::default_metric(&recordings)),
        margin: args.margin.unwrap_or(5.0) / 100.0,
        seed: args.seed,
        compare_rates: args.per_second,
    };
    let mut report = report::build(recordings, &options);
    report.folds_start_open = args.unfold;
    let out = args.out.as_deref().unwrap_or(Path::new("report"));
    let page = faultline_pages::render::write(&report, out, args.force)?.page;
    Ok(format!(
        "{}\n{}\n",
        clean(&report.verdict.headline),
        page.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use faultline_recording::{NewRecording, NewSession, Writer};
    use std::fs;

    #[test]
    fn copies_with_the_same_file_name_are_named_by_path() {
        let folder = tempfile::tempdir().unwrap();
        let runs = ["a", "b"].map(|arm| folder.path().join(arm).join("run.fltl"));
        for run in &runs {
            fs::create_dir(run.parent().unwrap()).unwrap();
        }
        let session = NewSession {
            started: faultline_metrics::Stamp::default(),
            interval: std::time::Duration::from_secs(1),
            version: "0.1.0".to_owned(),
            manifest: serde_json::Value::Null,
        };
        let labels = Vec::new();
        let recording = NewRecording { labels, session };
        let mut writer = Writer::create(&runs[0], &recording).unwrap();
        writer.commit().unwrap();
        drop(writer);
        fs::copy(&runs[0], &runs[1]).unwrap();
        let args = ReportArgs {
            runs: runs.to_vec(),
            out: None,
            primary: None,
            margin: None,
            per_second: false,
            unfold: false,
            seed: 1,
            force: false,
        };
        let error = report_command(&args).unwrap_err().to_string();
        let expected = format!("{} and {} recorded", runs[0].display(), runs[1].display());
        assert!(error.starts_with(&expected), "{error}");
    }
}
