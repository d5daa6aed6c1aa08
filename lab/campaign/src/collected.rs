//! Reads the results of a round: the campaign's plan, run with a release and the baseline.

use crate::{
    page,
    programs::sha256,
    round::{CampaignExperiment, EXPERIMENTS, Round, void_runs},
    settings::Campaign,
    store::{Conditions, RunRow, VOID},
};
use anyhow::{Result, ensure};
use faultline_common::files::AtPath;
use faultline_experiments::{
    folder::{ExperimentFolder, OUTPUT},
    outcome::{Outcome as RunOutcome, Validity},
    report::{CompletedRun, Experiment},
    search::{SearchAnswer, SearchOutcome},
};
use faultline_pages::{cells::gib, render};
use faultline_report::{
    measure::lifecycle::lifecycle,
    report::{comparability::ClusterConditions, releases},
    run::Run,
};
use faultline_text::clean;
use itertools::Itertools;
use std::{
    fs,
    io::{Read as _, Seek as _, SeekFrom},
    path::Path,
};

const OUTPUT_TAIL_BYTES: u64 = 4096;
const MAX_LAST_LINE_CHARS: usize = 300;

pub enum RoundOutcome {
    Rows(Vec<RunRow>),
    /// A recording cannot be read. All runs of its replicate are void and run again.
    Damaged(String),
    /// One program was viable in none of its runs. All runs of the round are void.
    NotViable(String),
}

struct CollectedRun {
    row: RunRow,
    is_viable: bool,
}

/// Fails also if a program file has changed since the round began.
pub fn collect_round(
    campaign: &Campaign,
    round: &Round,
    conditions: &Conditions,
    experiments: &[CampaignExperiment],
) -> Result<RoundOutcome> {
    let row_template = &RunRow {
        version: round.version.clone(),
        program_digest: round.program.digest.clone(),
        conditions: conditions.clone(),
        round: round.number,
        ..RunRow::default()
    };
    let mut runs = Vec::new();
    for experiment in experiments {
        runs.extend(collect_experiment(campaign, row_template, experiment)?);
    }
    fill_in_machine(&mut runs);
    for program in [&round.baseline, &round.program] {
        let mut folders = experiments
            .iter()
            .map(|experiment| experiment.plan.folder.display());
        ensure!(
            sha256(&program.file)? == program.digest,
            "{}: the program has changed since these runs began: restore it, and remove the folders of the runs: {}",
            program.file.display(),
            folders.join(", ")
        );
    }
    let damaged = runs
        .iter()
        .map(|run| &run.row)
        .filter(|row| row.is_void())
        .collect_vec();
    if let Some(first) = damaged.first() {
        let why = format!(
            "{}: the recording of a completed run cannot be read",
            first.recording
        );
        void_runs(experiments, &why, |replicate| {
            damaged.iter().any(|row| row.replicate == replicate)
        })?;
        return Ok(RoundOutcome::Damaged(why));
    }
    if let Some(why) = not_viable(campaign, row_template, &runs) {
        void_runs(experiments, &why, |_| true)?;
        return Ok(RoundOutcome::NotViable(why));
    }
    Ok(RoundOutcome::Rows(
        runs.into_iter().map(|run| run.row).collect(),
    ))
}

fn not_viable(campaign: &Campaign, row_template: &RunRow, runs: &[CollectedRun]) -> Option<String> {
    [
        (true, row_template.conditions.baseline.as_str()),
        (false, row_template.version.as_str()),
    ]
    .into_iter()
    .find_map(|(is_baseline, version)| {
        let runs_of_arm = || runs.iter().filter(|run| run.row.is_baseline == is_baseline);
        let last = runs_of_arm()
            .next_back()
            .filter(|_| runs_of_arm().all(|run| !run.is_viable))?;
        let output = campaign
            .folder
            .join(&last.row.recording)
            .with_file_name(OUTPUT);
        let output_note = match last_line(&output) {
            Some(line) => format!("its last line: {line}"),
            None => "it has no output that can be read".to_owned(),
        };
        Some(format!(
            "{version} did not reach the tip in any of its {} runs: {}; {output_note} ({})",
            runs_of_arm().count(),
            last.row.outcome,
            output.display()
        ))
    })
}

fn last_line(path: &Path) -> Option<String> {
    let mut file = fs::File::open(path).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(OUTPUT_TAIL_BYTES)))
        .ok()?;
    let mut bytes = Vec::new();
    file.take(OUTPUT_TAIL_BYTES).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let line = text.lines().rev().find(|line| !line.trim().is_empty())?;
    Some(clean(
        &line.chars().take(MAX_LAST_LINE_CHARS).collect::<String>(),
    ))
}

fn collect_experiment(
    campaign: &Campaign,
    row_template: &RunRow,
    experiment: &CampaignExperiment,
) -> Result<Vec<CollectedRun>> {
    let results = Experiment::read(&experiment.plan.folder)?;
    let report_path = page::report_path(&experiment.name, &row_template.conditions);
    let out = campaign.folder.join(page::FOLDER).join(&report_path);
    fs::create_dir_all(out.parent().unwrap_or(&campaign.folder)).at(&out)?;
    render::write(&results.report()?.report, &out, true)?;
    let completed = results.journal_state.completed_runs();
    ensure!(
        !completed.is_empty(),
        "{}: none of its runs has a result",
        experiment.plan.folder.display()
    );
    let mut collected = Vec::new();
    let mut measured = Vec::new();
    for completed_run in &completed {
        let run = results.load(completed_run);
        let is_viable = is_viable(&completed_run.ending.outcome, run.as_ref());
        let mut row = run_row(
            row_template,
            experiment,
            (&results, completed_run, run.as_ref()),
        );
        let least_ram = results
            .search_answer(completed_run)
            .filter(|_| row.is_usable())
            .and_then(least_ram);
        row.values
            .extend(least_ram.map(|memory| (releases::LEAST_RAM.to_owned(), memory)));
        row.report.clone_from(&report_path);
        // A search changes the memory limit, so its other values are not comparable.
        measured.extend(run.filter(|_| row.is_usable() && experiment.search.is_none()));
        collected.push(CollectedRun { row, is_viable });
    }
    // `measured` has only usable runs: if one of them has too little time at the tip, all runs are
    // compared from their first executed transaction.
    let values = releases::values(measured);
    let rows = collected.iter_mut().map(|run| &mut run.row);
    for (row, values) in rows.filter(|row| row.is_usable()).zip(values) {
        row.values.extend(
            releases::metrics()
                .zip(values)
                .filter_map(|(metric, value)| Some((metric.id.to_owned(), value?))),
        );
    }
    Ok(collected)
}

/// Fills in unknown machines: all runs of a round are on one host.
fn fill_in_machine(runs: &mut [CollectedRun]) {
    let mut machines = runs.iter().map(|run| &run.row.machine);
    if let Some(machine) = machines.find(|name| *name != UNKNOWN).cloned() {
        for run in runs.iter_mut().filter(|run| run.row.machine == UNKNOWN) {
            run.row.machine.clone_from(&machine);
        }
    }
}

/// False if the program ends by itself before it is at the tip, or executes no transaction.
fn is_viable(outcome: &RunOutcome, run: Option<&Run>) -> bool {
    match outcome {
        RunOutcome::NeverExecuted => false,
        RunOutcome::Exited { .. } | RunOutcome::Killed { .. } => {
            run.is_some_and(|run| lifecycle(run).first_at_tip.is_some())
        }
        _ => true,
    }
}

/// The row of a run, without its values. A completed run is void if its recording cannot be read.
fn run_row(
    row_template: &RunRow,
    experiment: &CampaignExperiment,
    (results, completed, run): (&Experiment, &CompletedRun<'_>, Option<&Run>),
) -> RunRow {
    // Symbolic links are not resolved: the stored path must not lead out of the campaign's folder.
    let recording = ExperimentFolder::new(&experiment.plan.folder)
        .recording(completed.scheduled, completed.attempt);
    let campaign_folder = recording
        .ancestors()
        .find(|folder| folder.ends_with(EXPERIMENTS))
        .and_then(Path::parent)
        .unwrap_or(&recording);
    let baseline_arm = results.plan.arms.first();
    let is_baseline = baseline_arm.is_some_and(|arm| arm.name == completed.scheduled.arm);
    let mut row = RunRow {
        machine: run.map_or_else(|| UNKNOWN.to_owned(), machine),
        kernel: run
            .and_then(|run| run.facts.kernel.clone())
            .unwrap_or_else(|| UNKNOWN.to_owned()),
        is_baseline: experiment
            .search
            .map_or(is_baseline, |search| search.is_baseline),
        replicate: experiment.replicate(completed),
        began_unix_ns: run
            .map(|run| run.origin_unix_ns)
            .filter(|began| *began > 0)
            .unwrap_or(results.journal_state.began_unix_ns),
        outcome: completed.ending.outcome.to_string(),
        validity: match &completed.ending.validity {
            Validity::Valid => "valid",
            Validity::Unproven(_) => "unproven",
            Validity::Invalid(_) => "invalid",
        }
        .to_owned(),
        recording: recording
            .strip_prefix(campaign_folder)
            .unwrap_or(&recording)
            .display()
            .to_string(),
        recording_digest: sha256(&recording).ok(),
        cluster: run.map(ClusterConditions::of_recording).unwrap_or_default(),
        ..row_template.clone()
    };
    let is_readable = run.is_some() && row.recording_digest.is_some();
    if row.is_usable() && !is_readable {
        row.validity = VOID.to_owned();
    }
    row
}

/// The smallest sufficient memory of a search, in GiB. `None` if the search found only a bound, or
/// if the memory may still grow.
fn least_ram(answer: &SearchAnswer) -> Option<f64> {
    let is_measured =
        matches!(answer.outcome, SearchOutcome::Found(_)) && answer.is_stable == Some(true);
    answer
        .sufficient_sizes
        .first()
        .filter(|_| is_measured)
        .map(|size| gib(size.bytes as f64))
}

const UNKNOWN: &str = "not known";

/// Machines with equal processor, threads and memory are the same.
fn machine(run: &Run) -> String {
    let facts = &run.facts;
    let threads = facts
        .host
        .iter()
        .find_map(|(name, threads)| (*name == "Threads").then(|| format!("{threads} threads")));
    let memory = facts
        .memory_bytes
        .map(|bytes| format!("{} GiB", gib(bytes as f64).round()));
    let description = [facts.cpu.clone(), threads, memory]
        .into_iter()
        .flatten()
        .join(", ");
    if description.is_empty() {
        UNKNOWN.to_owned()
    } else {
        description
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        round::tests::{search_round, write},
        settings::RESULTS,
        store::Store,
    };
    use faultline_recording::{NewRecording, NewSession, Writer};
    use serde_json::json;

    #[test]
    fn a_search_without_a_recording_has_the_machine_of_its_round() {
        let root = tempfile::tempdir().unwrap();
        let (campaign, round) = search_round(root.path());
        let experiments = round.experiments(&campaign).unwrap();
        for experiment in &experiments {
            write(experiment, RunOutcome::OutOfMemory);
        }
        let results = Experiment::read(&experiments[1].plan.folder).unwrap();
        let path = results.recording(&results.journal_state.completed_runs()[0]);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let session = NewSession {
            started: Default::default(),
            interval: std::time::Duration::from_secs(1),
            version: "0.1.0".to_owned(),
            manifest: json!({ "host": { "cpu": { "model": "a processor" } } }),
        };
        let labels = Vec::new();
        let mut writer = Writer::create(&path, &NewRecording { labels, session }).unwrap();
        writer.commit().unwrap();
        drop(writer);
        let conditions = Conditions::default();
        let outcome = collect_round(&campaign, &round, &conditions, &experiments).unwrap();
        let RoundOutcome::Rows(runs) = outcome else {
            panic!("a round of results has rows");
        };
        assert!(
            runs.iter().all(|run| run.machine == "a processor"),
            "{runs:?}"
        );
    }

    #[test]
    fn output_that_cannot_be_read_is_not_called_empty() {
        let root = tempfile::tempdir().unwrap();
        let (campaign, round) = search_round(root.path());
        let experiments = round.experiments(&campaign).unwrap();
        for experiment in &experiments {
            write(experiment, RunOutcome::NeverExecuted);
        }
        let conditions = Conditions::default();
        let outcome = collect_round(&campaign, &round, &conditions, &experiments).unwrap();
        let RoundOutcome::NotViable(why) = outcome else {
            panic!("no run is viable");
        };
        let unread = "; it has no output that can be read (";
        assert!(why.contains(unread), "{why}");
    }

    #[test]
    fn the_runs_of_a_link_below_experiments_are_stored_and_read() {
        let root = tempfile::tempdir().unwrap();
        let disk = root.path().join("disk");
        fs::create_dir(&disk).unwrap();
        let (campaign, round) = search_round(&disk.join(".."));
        let experiments = round.experiments(&campaign).unwrap();
        for experiment in &experiments {
            let (folder, target) = (&experiment.plan.folder, disk.join(&experiment.name));
            fs::create_dir(&target).unwrap();
            fs::create_dir_all(folder.parent().unwrap()).unwrap();
            std::os::unix::fs::symlink(&target, folder).unwrap();
            write(experiment, RunOutcome::OutOfMemory);
        }
        let conditions = Conditions::default();
        let outcome = collect_round(&campaign, &round, &conditions, &experiments).unwrap();
        let RoundOutcome::Rows(runs) = outcome else {
            panic!("a round of results has rows");
        };
        let mut store = Store::open(&root.path().join(RESULTS)).unwrap();
        store.add_runs(&runs).unwrap();
        let stored = store.runs().unwrap();
        assert_eq!(stored.len(), experiments.len());
        for (run, experiment) in stored.iter().zip(&experiments) {
            let path = root.path().join(&run.recording);
            assert!(path.starts_with(&experiment.plan.folder), "{path:?}");
        }
    }
}
