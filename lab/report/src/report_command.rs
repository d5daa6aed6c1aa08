use crate::args::ReportArgs;
use crate::report::{self, Options};
use crate::run::{self, Run};
use anyhow::{Context as _, bail};
use faultline_text::clean;
use std::path::{Path, PathBuf};

const DEFAULT_FOLDER: &str = "report";

pub fn report_command(args: &ReportArgs) -> anyhow::Result<String> {
    let mut runs = args
        .runs
        .iter()
        .map(|path| {
            run::load(path).with_context(|| format!("{}: no run to report", path.display()))
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    reject_overlaps(&runs)?;
    runs.iter_mut()
        .zip(&args.runs)
        .for_each(|(run, path)| run.predict_cache(path));
    let options = options(args, &runs);
    let mut report = report::build(runs, &options);
    report.unfolded = args.unfold;
    let out: PathBuf = args
        .out
        .clone()
        .unwrap_or_else(|| Path::new(DEFAULT_FOLDER).to_owned());
    let written = faultline_pages::render::write(&report, &out, args.force)?;
    Ok(format!(
        "{}\n{}\n",
        clean(&report.verdict.headline),
        written.page.display()
    ))
}

/// Fails if two recordings overlap: copies of one run would overstate the certainty.
fn reject_overlaps(runs: &[Run]) -> anyhow::Result<()> {
    for (index, one) in runs.iter().enumerate() {
        if let Some(other) = runs
            .iter()
            .skip(index + 1)
            .find(|other| one.overlaps(other))
        {
            bail!(
                "{} and {} hold the same time of the same process: give each run once, and leave out copies and parts of it",
                one.file,
                other.file
            );
        }
    }
    Ok(())
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
