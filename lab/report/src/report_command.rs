use crate::{
    args::ReportArgs,
    report::{self, Options},
    run::{self, Run},
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
    let mut pairs = recordings.iter().tuple_combinations();
    if let Some((first, second)) =
        pairs.find(|(first, second): &(&Run, &Run)| first.shares_recording_with(second))
    {
        bail!(
            "{} and {} recorded the same process at the same time: give each run once, without copies and parts of it",
            first.file,
            second.file
        );
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
