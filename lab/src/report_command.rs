//! `faultline report`.

use crate::cli::ReportArgs;
use crate::report::{self, DEFAULT, Options, SCALARS};
use crate::{render, run};
use anyhow::{Context as _, anyhow};
use std::path::{Path, PathBuf};

/// Where a report goes unless told otherwise.
const OUT: &str = "report";

/// Reads the runs and writes the report.
///
/// # Errors
/// A recording that cannot be read, a metric that does not exist, or a report that cannot be written.
pub fn report_command(args: &ReportArgs) -> anyhow::Result<()> {
    let options = options(args)?;
    let runs = args
        .runs
        .iter()
        .map(|path| run::load(path).with_context(|| format!("{}: no run to report", path.display())))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let report = report::build(&runs, &options);
    drop(runs);
    let out: PathBuf = args.out.clone().unwrap_or_else(|| Path::new(OUT).to_owned());
    let written = render::write(&report, &out, args.force)?;
    println!("{}", report.verdict.headline);
    println!("{}", written.page.display());
    Ok(())
}

fn options(args: &ReportArgs) -> anyhow::Result<Options> {
    let name = args.primary.as_deref().unwrap_or(DEFAULT);
    let primary = report::scalar(name).ok_or_else(|| {
        let known: Vec<&str> = SCALARS.iter().map(|scalar| scalar.id).collect();
        anyhow!("--primary {name}: no such metric; there are {}", known.join(", "))
    })?;
    Ok(Options { primary, margin: args.margin.unwrap_or(5.0) / 100.0, seed: args.seed })
}
