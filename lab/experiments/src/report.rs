//! Combines the journal with the recordings of the runs that count. Works at any time and changes
//! nothing.

mod context;
mod headline;
mod search;
mod section;

pub use super::journal::CountedRun;
use super::{
    folder::{Folder, OUTPUT, RECORDING},
    journal::JournalState,
    outcome::Validity,
    plan::{Kind, Plan},
    replay,
    saved::{find_folder, read_for_report},
    search::Answer,
};
use crate::args::ExperimentReportArgs;
use anyhow::{Result, anyhow};
use faultline_common::{evidence::update, files::put};
use faultline_pages::{model, render};
use faultline_report::{
    report::{self, Options},
    run::{self, Run},
};
use faultline_status::RamEvidence;
use faultline_text::clean;
use std::path::{Path, PathBuf};

pub const REPORT: &str = "report";

/// Folder for the slots of each replay.
const SLOTS: &str = "slots";

#[derive(Debug)]
pub struct Experiment {
    pub folder: Folder,
    pub plan: Plan,
    pub journal_state: JournalState,
}

#[derive(Debug)]
pub struct ExperimentReport {
    pub report: model::Report,
    /// The slots of each replay as CSV, by name.
    pub slots: Vec<(String, String)>,
    /// What a search proved, or why nothing is proven.
    pub ram: Result<RamEvidence, String>,
}

pub fn report_command(args: &ExperimentReportArgs) -> Result<String> {
    let experiment = Experiment::read(&args.experiment)?;
    let ExperimentReport { report, slots, ram } = experiment.report()?;
    if let Some(path) = &args.evidence {
        let ram = ram.map_err(|why| anyhow!("{} is not written: {why}", path.display()))?;
        update(path, |evidence| evidence.ram = Some(ram))?;
    }
    // The default folder contains nothing else.
    let force = args.force || args.out.is_none();
    let out: PathBuf = args
        .out
        .clone()
        .unwrap_or_else(|| experiment.folder.path().join(REPORT));
    let written = render::write(&report, &out, force)?;
    if !out
        .extension()
        .is_some_and(|ending| ending.eq_ignore_ascii_case("html"))
    {
        for (name, text) in slots {
            put(
                &out,
                &out.join(SLOTS).join(format!("{name}.csv")),
                &text,
                force,
            )?;
        }
    }
    Ok(format!(
        "{}\n{}\n",
        clean(&report.verdict.headline),
        written.page.display()
    ))
}

impl Experiment {
    pub fn read(path: &Path) -> Result<Self> {
        let folder = find_folder(path)?;
        let (plan, journal_state) = read_for_report(&folder)?;
        Ok(Experiment {
            folder,
            plan,
            journal_state,
        })
    }

    pub fn counted(&self) -> Vec<CountedRun<'_>> {
        self.journal_state.counted()
    }

    pub fn report(&self) -> Result<ExperimentReport> {
        let options = self.options();
        let counted = self.counted();
        let mut unread = Vec::new();
        let (mut runs, mut slots) = (Vec::new(), Vec::new());
        for counted_run in &counted {
            if matches!(counted_run.ending.validity, Validity::Invalid(_)) {
                continue;
            }
            let run = self.run(counted_run, &mut unread);
            if !run.replayed.slots.is_empty() {
                slots.push((self.name(counted_run), replay::csv(&run.replayed)));
            }
            runs.push(run);
        }
        let searches = search::searches(self, &runs);
        let context = context::context(self, &counted, &searches, unread);
        Ok(ExperimentReport {
            report: report::build_with_context(runs, &options, context),
            slots,
            ram: search::evidence(&searches),
        })
    }

    fn options(&self) -> Options {
        let (rules, default) = (&self.plan.report, Options::default());
        let primary = rules.primary.as_deref().and_then(report::scalar);
        Options {
            primary: primary.unwrap_or(default.primary),
            margin: rules.margin.unwrap_or(default.margin),
            ..default
        }
    }

    pub fn recording(&self, counted_run: &CountedRun<'_>) -> PathBuf {
        self.run_folder(counted_run).join(RECORDING)
    }

    fn run_folder(&self, counted_run: &CountedRun<'_>) -> PathBuf {
        let CountedRun {
            scheduled, attempt, ..
        } = *counted_run;
        self.journal_state
            .run_folder(&self.folder, scheduled, attempt)
    }

    pub fn searched(&self, counted_run: &CountedRun<'_>) -> Option<&Answer> {
        let newest = self.journal_state.newest_run(counted_run.scheduled.run)?;
        newest.searched.answer.as_ref()
    }

    /// `None` if the recording cannot be read.
    pub fn load(&self, counted_run: &CountedRun<'_>) -> Option<Run> {
        let mut unread = Vec::new();
        let run = self.run(counted_run, &mut unread);
        unread.is_empty().then_some(run)
    }

    fn name(&self, counted_run: &CountedRun<'_>) -> String {
        let folder = self.run_folder(counted_run);
        folder
            .parent()
            .and_then(Path::file_name)
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_else(|| format!("{:03}", counted_run.scheduled.run))
    }

    /// Without a readable recording, still with its outcome.
    fn run(&self, counted_run: &CountedRun<'_>, unread: &mut Vec<String>) -> Run {
        let path = self.recording(counted_run);
        let mut run = run::load(&path).unwrap_or_else(|error| {
            unread.push(format!("run {}: {error}", counted_run.scheduled.run));
            Run::default()
        });
        run.predict_cache(&path);
        if self.plan.workload.kind == Kind::Replay {
            let log = self.run_folder(counted_run).join(OUTPUT);
            match replay::read(&log) {
                Ok(log) => run.replayed = log.replayed,
                Err(error) => unread.push(format!(
                    "run {}: {}: {error}",
                    counted_run.scheduled.run,
                    log.display()
                )),
            }
        }
        // All recordings have the same file name.
        run.file = path
            .strip_prefix(self.folder.path())
            .unwrap_or(&path)
            .display()
            .to_string();
        // The journal overrides the recording.
        let mut labels = counted_run
            .scheduled
            .labels(&self.plan.name, counted_run.turn);
        let known = |key: &str| key == "second" || labels.iter().any(|(known, _)| known == key);
        run.labels.retain(|(key, _)| !known(key));
        labels.append(&mut run.labels);
        run.labels = labels;
        let arm = self.plan.arm(&counted_run.scheduled.arm);
        run.from_experiment = Some(headline::of_ending(
            counted_run.ending,
            arm,
            self.plan.workload.kind,
        ));
        run
    }
}

#[cfg(test)]
mod tests;
