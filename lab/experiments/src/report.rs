//! Writes the report of an experiment from its journal and recordings, at any time; changes neither.
//!
//! A turn is the runs that execute at the same time. An attempt executes a turn once. A run counts
//! ([`CompletedRun`]) if all runs of the newest attempt at its turn have results. A run that counts
//! may be invalid: it did not have the settings of its arm. The report names invalid runs, but does
//! not compare them.

mod headline;
mod search;
mod section;

pub use super::journal::CompletedRun;
use super::{
    folder::{ExperimentFolder, OUTPUT, RECORDING},
    journal::JournalState,
    lock::{self, Holder},
    outcome::{Outcome, Validity},
    plan::{PageCache, Plan, WorkloadKind},
    replay,
    saved::{find_folder, read_for_report},
    search::SearchAnswer,
};
use crate::args::ExperimentReportArgs;
use anyhow::{Result, anyhow, ensure};
use faultline_common::{evidence::update, files::write_report_file};
use faultline_pages::{
    groups::by_key,
    model::{self, Caveat},
    render,
};
use faultline_report::{
    report::{self, Options, ReportContext},
    run::{self, Run},
};
use faultline_status::RamEvidence;
use faultline_text::{clean, count};
use headline::{ArmTally, is_invalid, join_first};
use itertools::{Itertools, chain};
use search::SearchReport;
use std::path::{Path, PathBuf};

pub const REPORT: &str = "report";

/// Folder with a CSV file of the slots of each replay.
const SLOTS: &str = "slots";

const MAX_NAMED: usize = 8;
const INVALID_REMEDY: &str = "Fix the cause, and run these again in a new experiment.";
const UNPROVEN_REMEDY: &str = "If datapoints of the program cache are missing, see `recorder.log` of the run. \
     If files were in memory at the beginning, end what else uses them, or set `begin.page_cache = \"drop-all\"`. \
     If the recorder stalled, give the experiment's folder a separate disk, and leave CPU time free. \
     If the run lasted too long, neither stop the runner nor suspend the host.";

pub struct Experiment {
    pub folder: ExperimentFolder,
    pub plan: Plan,
    pub journal_state: JournalState,
}

pub struct ExperimentReport {
    pub report: model::Report,
    /// The slots of each replay as CSV, by name.
    pub slots: Vec<(String, String)>,
    /// The memory that a search proved to be enough, or why it proved none.
    pub proven_ram: Result<RamEvidence, String>,
}

pub fn report_command(args: &ExperimentReportArgs) -> Result<String> {
    let experiment = Experiment::read(&args.experiment)?;
    let ExperimentReport {
        report,
        slots,
        proven_ram,
    } = experiment.report()?;
    // Nothing else is stored in the default folder, so it may be overwritten.
    let force = args.force || args.out.is_none();
    let default = experiment.folder.path().join(REPORT);
    let out = args.out.as_ref().unwrap_or(&default);
    ensure!(
        args.out.is_some() || !out.is_symlink(),
        "{} is a symbolic link: remove it, or choose another folder with --out",
        out.display()
    );
    let written = render::write(&report, out, force)?;
    if !out
        .extension()
        .is_some_and(|ending| ending.eq_ignore_ascii_case("html"))
    {
        for (name, text) in slots {
            let path = out.join(SLOTS).join(format!("{name}.csv"));
            write_report_file(out, &path, &text, force)?;
        }
    }
    // The daemon shows the proven values of this file.
    if let Some(path) = &args.status_evidence {
        let ram = proven_ram.map_err(|why| {
            let (page, path) = (written.page.display(), path.display());
            anyhow!("the report is {page}, but {path} is not written: {why}")
        })?;
        update(path, |evidence| evidence.ram = Some(ram))?;
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
        Ok(Self {
            folder,
            plan,
            journal_state,
        })
    }

    pub fn report(&self) -> Result<ExperimentReport> {
        let completed = self.journal_state.completed_runs();
        let mut read_errors = Vec::new();
        let (mut runs, mut slots) = (Vec::new(), Vec::new());
        for completed_run in &completed {
            if is_invalid(completed_run) {
                continue;
            }
            let run = self.load_run(completed_run, &mut read_errors);
            if !run.offline_replay.slots.is_empty() {
                slots.push((
                    self.run_folder_name(completed_run),
                    replay::csv(&run.offline_replay),
                ));
            }
            runs.push(run);
        }
        let searches = search::searches(self, &runs);
        let context = context(self, &completed, &searches, &read_errors);
        let mut report = report::build_with_context(runs, &self.options(), context);
        let proven_ram = search::ram_evidence(&searches);
        // A search takes the headroom away on purpose, so it says nothing about the host.
        if let (Some(found), [arm]) = (search::headline(&searches), &mut report.answers[..])
            && completed
                .iter()
                .all(|run| is_invalid(run) || run.ending.outcome != Outcome::OutOfMemory)
        {
            let is_proven = proven_ram.is_ok()
                && searches
                    .iter()
                    .all(|search| !search.counts || search.ram_evidence().is_ok());
            let verdict = if is_proven { "fine" } else { "unknown" };
            let ram = &mut arm.findings[0];
            ram.verdict = verdict.to_owned();
            ram.text = format!("RAM: {found}");
        }
        Ok(ExperimentReport {
            report,
            slots,
            proven_ram,
        })
    }

    fn options(&self) -> Options {
        let (rules, default) = (&self.plan.report, Options::default());
        let primary = rules.primary_metric.as_deref().and_then(report::run_metric);
        Options {
            primary: primary.unwrap_or(default.primary),
            margin: rules.margin.unwrap_or(default.margin),
            ..default
        }
    }

    pub fn recording(&self, completed_run: &CompletedRun<'_>) -> PathBuf {
        self.attempt_folder(completed_run).join(RECORDING)
    }

    fn attempt_folder(&self, completed_run: &CompletedRun<'_>) -> PathBuf {
        self.journal_state
            .run_folder(&self.folder, completed_run.scheduled, completed_run.attempt)
    }

    pub fn search_answer(&self, completed_run: &CompletedRun<'_>) -> Option<&SearchAnswer> {
        // The run in the newest attempt at its turn.
        self.journal_state
            .newest_run(completed_run.scheduled.run)?
            .search_log
            .answer
            .as_ref()
    }

    /// `None` if the recording, or the log of a replay, cannot be read.
    pub fn load(&self, completed_run: &CompletedRun<'_>) -> Option<Run> {
        let mut read_errors = Vec::new();
        let run = self.load_run(completed_run, &mut read_errors);
        read_errors.is_empty().then_some(run)
    }

    fn run_folder_name(&self, completed_run: &CompletedRun<'_>) -> String {
        let folder = self.attempt_folder(completed_run);
        folder
            .parent()
            .and_then(Path::file_name)
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_else(|| format!("{:03}", completed_run.scheduled.run))
    }

    /// If the recording cannot be read, the run still has its outcome.
    fn load_run(&self, completed_run: &CompletedRun<'_>, read_errors: &mut Vec<String>) -> Run {
        let path = self.recording(completed_run);
        let mut run = run::load(&path).unwrap_or_else(|error| {
            read_errors.push(format!("run {}: {error}", completed_run.scheduled.run));
            Run::default()
        });
        // Hit rates of other sizes of the program cache, if the run was traced.
        run.predict_program_cache(&path);
        if self.plan.workload.kind == WorkloadKind::Replay {
            let log = self.attempt_folder(completed_run).join(OUTPUT);
            match replay::read(&log) {
                Ok(log) => run.offline_replay = log.offline_replay,
                Err(error) => read_errors.push(format!(
                    "run {}: {}: {error}",
                    completed_run.scheduled.run,
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
        // Labels of the journal replace those of the recording. The label `second` marks the second
        // run of an arm in a turn. The recording's is removed even if the journal has none.
        let mut labels = completed_run
            .scheduled
            .labels(&self.plan.name, completed_run.turn);
        let known = |key: &str| key == "second" || labels.iter().any(|(known, _)| known == key);
        run.labels.retain(|(key, _)| !known(key));
        labels.append(&mut run.labels);
        run.labels = labels;
        let arm = self.plan.arm(&completed_run.scheduled.arm);
        let kind = self.plan.workload.kind;
        run.experiment_outcome = Some(headline::experiment_outcome(
            completed_run.ending,
            arm,
            kind,
        ));
        run
    }
}

fn context<'e>(
    experiment: &'e Experiment,
    completed: &[CompletedRun<'e>],
    searches: &[SearchReport<'e>],
    read_errors: &[String],
) -> ReportContext {
    let plan = &experiment.plan;
    let (tallies, kind) = (headline::tallies(experiment, completed), plan.workload.kind);
    let headline = chain!(
        search::headline(searches),
        headline::early_end_sentences(&tallies, kind)
    )
    .join(" ");
    ReportContext {
        title: format!("Experiment {}", plan.name),
        headline_prefix: headline::unfinished_count(&tallies)
            .map(|counted| format!("Not finished: {counted}.")),
        headline: Some(headline).filter(|text| !text.is_empty()),
        bullets: tallies
            .iter()
            .filter_map(|tally| headline::no_completed_run_sentence(tally, kind))
            .collect(),
        caveats: caveats(experiment, &tallies, completed, read_errors),
        sections: chain!(
            search::section(searches),
            [section::section(experiment, completed)]
        )
        .collect(),
        arms: plan.arms.iter().map(|arm| arm.name.clone()).collect(),
    }
}

fn caveats(
    experiment: &Experiment,
    tallies: &[ArmTally<'_>],
    completed: &[CompletedRun<'_>],
    read_errors: &[String],
) -> Vec<Caveat> {
    let mut caveats = Vec::from_iter(unfinished(experiment, tallies));
    let unreadable = experiment.journal_state.unreadable_journals.join("; ");
    if !unreadable.is_empty() {
        caveats.push(Caveat::new(
            format!(
                "These block attempts do not count, because their journals cannot be used: {unreadable}."
            ),
            "Restore the journals, or move the folders of the attempts away. Then report again.",
        ));
    }
    if !read_errors.is_empty() {
        let read_errors = read_errors.join("; ");
        caveats.push(Caveat::new(
            format!(
                "Recordings or logs that cannot be read: {read_errors}. The report lacks their values."
            ),
            "Copy missing files back, and recover damaged recordings as their errors say. Otherwise repeat the experiment.",
        ));
    }
    caveats.extend(invalid_or_unproven(completed));
    if experiment.plan.page_cache == PageCache::Leave && !completed.is_empty() {
        caveats.push(Caveat::new(
            "No run is proven to have begun cold, because begin.page_cache is \"leave\": no limit accounts for files that were in the page cache already.",
            "To compare memory, set begin.page_cache = \"drop-files\" in a new experiment.",
        ));
    }
    let early = completed
        .iter()
        .filter(|run| run.ending.outcome != Outcome::Completed && !is_invalid(run))
        .map(CompletedRun::name)
        .collect_vec();
    if !early.is_empty() && early.len() < completed.len() {
        let early = join_first(&early, "; ", MAX_NAMED);
        caveats.push(Caveat::new(
            format!(
                "Ended before their time: {early}. Their averages cover only the time until they ended."
            ),
            "Read the averages of these runs together with their outcome.",
        ));
    }
    let warnings = completed.iter().flat_map(|run| {
        run.ending
            .notes
            .iter()
            .filter_map(|note| Some((note.strip_prefix("warning: ")?, run.name())))
    });
    for (warning, runs) in by_key(warnings) {
        caveats.push(Caveat::new(
            format!("{}: {warning}", join_first(&runs, "; ", MAX_NAMED)),
            "Fix the cause of the warnings, and run again.",
        ));
    }
    caveats
}

fn invalid_or_unproven(completed: &[CompletedRun<'_>]) -> Vec<Caveat> {
    let (mut invalid, mut unproven) = (Vec::new(), Vec::new());
    for run in completed {
        match &run.ending.validity {
            Validity::Valid => {}
            Validity::Invalid(why) => invalid.push((why, run.name())),
            Validity::Unproven(why) => unproven.push((why, run.name())),
        }
    }
    let mut caveats = Vec::new();
    for (runs, finding, remedy) in [
        (
            invalid,
            "Left out, because the run did not have the settings of its arm",
            INVALID_REMEDY,
        ),
        (
            unproven,
            "Counted, but it is not proven that the run had the settings of its arm",
            UNPROVEN_REMEDY,
        ),
    ] {
        for (why, runs) in by_key(runs) {
            let runs = join_first(&runs, "; ", MAX_NAMED);
            caveats.push(Caveat::new(format!("{finding}: {runs}: {why}."), remedy));
        }
    }
    caveats
}

fn unfinished(experiment: &Experiment, tallies: &[ArmTally<'_>]) -> Option<Caveat> {
    let counted = headline::unfinished_count(tallies)?;
    let journal_state = &experiment.journal_state;
    let arms = tallies
        .iter()
        .filter(|tally| tally.counted() < tally.planned)
        .map(|tally| {
            let counted = count(tally.counted() as u64);
            format!("{} {counted} of {}", tally.arm, count(tally.planned as u64))
        })
        .join(", ");
    let mut text = format!("The experiment is not finished: {counted} ({arms}).");
    let stopped = journal_state.stopped.as_ref();
    text.extend(stopped.map(|why| format!(" It was stopped: {why}.")));
    // A runner holds the lock of the experiment as long as it runs. Runners of host blocks, each with
    // some turns on one host, have their own locks.
    let holder = lock::holder(&experiment.folder.lock());
    let is_running = matches!(holder, Ok(Holder::Process(_)));
    let remedy = if is_running || journal_state.running_host_blocks > 0 {
        "It is running: report again later."
    } else {
        "Continue with faultline experiment resume, and report again."
    };
    Some(Caveat::new(text, remedy))
}

#[cfg(test)]
mod tests;
