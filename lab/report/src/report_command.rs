use crate::{
    args::ReportArgs,
    report::{self, Options},
    run::{self, Run},
};
use anyhow::{Context as _, Result, bail};
use faultline_text::clean;
use itertools::Itertools;
use std::path::Path;

const DEFAULT_FOLDER: &str = "report";

pub fn report_command(args: &ReportArgs) -> Result<String> {
    let mut runs = args
        .runs
        .iter()
        .map(|path| {
            run::load(path).with_context(|| format!("{}: no run to report", path.display()))
        })
        .collect::<Result<Vec<_>>>()?;
    reject_overlaps(&runs)?;
    for (run, path) in runs.iter_mut().zip(&args.runs) {
        run.predict_cache(path);
    }
    let options = options(args, &runs);
    let mut report = report::build(runs, &options);
    report.unfolded = args.unfold;
    let out = args.out.as_deref().unwrap_or(Path::new(DEFAULT_FOLDER));
    let written = faultline_pages::render::write(&report, out, args.force)?;
    Ok(format!(
        "{}\n{}\n",
        clean(&report.verdict.headline),
        written.page.display()
    ))
}

/// Fails if two recordings overlap: copies of one run would overstate the certainty.
fn reject_overlaps(runs: &[Run]) -> Result<()> {
    let mut pairs = runs.iter().tuple_combinations();
    match pairs.find(|(one, other)| one.overlaps(other)) {
        None => Ok(()),
        Some((one, other)) => bail!(
            "{} and {} hold the same time of the same process: give each run once, and leave out copies and parts of it",
            one.file,
            other.file
        ),
    }
}

fn options(args: &ReportArgs, runs: &[Run]) -> Options {
    let chosen = args.primary.as_deref().and_then(report::scalar);
    Options {
        primary: chosen.unwrap_or_else(|| report::default_scalar(runs)),
        margin: args.margin.unwrap_or(5.0) / 100.0,
        seed: args.seed,
        per_second: args.per_second,
    }
}
