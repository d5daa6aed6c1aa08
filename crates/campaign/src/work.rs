//! Runs the plan for what has no result. Every step can be repeated: a build whose digest is not kept is made again, an
//! experiment continues by its own journal, and the rows of a round are kept in one transaction.

use crate::compare;
use crate::programs::{self, Obtained, sha256};
use crate::round::{self, Leg};
use crate::settings::{Campaign, Program};
use crate::store::{Conditions, FROM_FILE, FROM_WATCH, Listed, RunRow, Store};
use crate::{page, watch};
use anyhow::{Context as _, ensure};
use faultline_analysis::render;
use faultline_analysis::report::cells::GIB;
use faultline_analysis::report::releases;
use faultline_analysis::run::Run;
use faultline_command::clock;
use faultline_command::output::say;
use faultline_command::signals::Signals;
use faultline_experiments::args::Launching;
use faultline_experiments::command::advance;
use faultline_experiments::outcome::Validity;
use faultline_experiments::report::{Counted, Experiment};
use faultline_experiments::runner::Over;
use faultline_experiments::search::{Answer, Outcome};
use std::fs;
use std::time::{Duration, SystemTime};

/// Rounds at most: what the first finds has to be found again.
const ROUNDS: u32 = 2;

/// Why it stops.
const SIGNAL: &str = "a signal asked to";

/// How experiments are started.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Starting {
    /// How cgroups are created.
    pub(crate) launcher: Launching,
    /// The validator may vote.
    pub(crate) i_vote: bool,
}

/// How work on a version ended.
enum Worked {
    Done,
    /// Not, and no other can be worked on now.
    Stopped(String),
    /// Not; others may.
    Failed(String),
}

/// Brings the list up to date: what `campaign.toml` names is on it, and what it names no more is not.
///
/// # Errors
/// The database cannot be read or written.
pub(crate) fn list(campaign: &Campaign, store: &Store) -> anyhow::Result<Vec<Listed>> {
    let known = store.listed()?;
    for program in &campaign.programs {
        let same = known.iter().find(|one| one.program == *program);
        if !same.is_some_and(|one| one.source == FROM_FILE && !one.removed) {
            store.add(program, FROM_FILE, now())?;
        }
    }
    for one in known
        .iter()
        .filter(|one| one.source == FROM_FILE && !one.removed)
    {
        let mut named = campaign.programs.iter().chain([&campaign.baseline]);
        if !named.any(|program| program.version == one.program.version) {
            store.remove(&one.program.version)?;
        }
    }
    store.listed()
}

/// Runs the plan for every version without a result, and renews the pages; why it stopped, if it did.
///
/// # Errors
/// The campaign's files cannot be read or written.
pub(crate) fn run(
    campaign: &Campaign,
    store: &mut Store,
    starting: Starting,
) -> anyhow::Result<Result<(), String>> {
    let mut signals = Signals::listen().context("signals cannot be heard")?;
    list(campaign, store)?;
    if look(campaign, store, &mut signals)?.is_none() {
        return Ok(Err(SIGNAL.to_owned()));
    }
    let Some(baseline) = baseline(campaign, store, &mut signals)? else {
        return Ok(Err(SIGNAL.to_owned()));
    };
    // Mistakes of the plan come before anything is built for it.
    round::legs(campaign, "0", 1, (&baseline, &baseline))?;
    page::renew(campaign, store)?;
    let conditions = conditions(campaign, &baseline);
    let mut failed = Vec::new();
    for one in list(campaign, store)?
        .into_iter()
        .filter(|one| !one.removed && !is_baseline(campaign, one))
    {
        let version = one.program.version.clone();
        if stopped(&mut signals)? {
            return Ok(Err(SIGNAL.to_owned()));
        }
        match version_done(
            campaign,
            store,
            (&one, &baseline, &conditions),
            starting,
            &mut signals,
        )? {
            Worked::Done => store.found(&version, None, None)?,
            Worked::Stopped(why) => return Ok(Err(why)),
            Worked::Failed(why) => {
                say(&format!("{version}: {why}"));
                store.found(&version, None, Some(&why))?;
                failed.push(version);
            }
        }
        page::renew(campaign, store)?;
    }
    Ok(if failed.is_empty() {
        Ok(())
    } else {
        Err(format!("without a result: {}", failed.join(", ")))
    })
}

/// Whether this is a row of a pinned baseline, which is not under test.
pub(crate) fn is_baseline(campaign: &Campaign, one: &Listed) -> bool {
    one.source == BASELINE || one.program.version == campaign.baseline.version
}

/// Source of the baseline's own row.
pub(crate) const BASELINE: &str = "baseline";

/// Plan and baseline of this campaign now.
pub(crate) fn conditions(campaign: &Campaign, baseline: &Obtained) -> Conditions {
    Conditions {
        plan_digest: campaign.plan_digest.clone(),
        baseline: campaign.baseline.version.clone(),
        baseline_digest: baseline.digest.clone(),
    }
}

/// Adds what is published; without a network it says so. `None` if a signal asked to stop.
fn look(campaign: &Campaign, store: &Store, signals: &mut Signals) -> anyhow::Result<Option<()>> {
    let Some(watched) = &campaign.watch else {
        return Ok(Some(()));
    };
    let versions = match watch::published(campaign, watched, signals) {
        Ok(Some(versions)) => versions,
        Ok(None) => return Ok(None),
        Err(error) => {
            say(&format!(
                "new versions are not known: {error:#}; continuing with those of the list"
            ));
            return Ok(Some(()));
        }
    };
    let known = store.listed()?;
    for version in versions {
        if !known.iter().any(|one| one.program.version == version) {
            say(&format!("{version} was published, and is added"));
            store.add(
                &Program {
                    version,
                    ..Program::default()
                },
                FROM_WATCH,
                now(),
            )?;
        }
    }
    Ok(Some(()))
}

/// Whether a signal asked to stop: an experiment hears those that come while it runs, and nobody those between two of them.
fn stopped(signals: &mut Signals) -> anyhow::Result<bool> {
    Ok(signals
        .wait(None, Duration::ZERO)?
        .iter()
        .any(|heard| heard.stops().is_some()))
}

fn baseline(
    campaign: &Campaign,
    store: &Store,
    signals: &mut Signals,
) -> anyhow::Result<Option<Obtained>> {
    let listed = store.listed()?;
    let version = &campaign.baseline.version;
    let same = listed.iter().find(|one| one.program.version == *version);
    let obtained = programs::obtain(campaign, &campaign.baseline, same, signals)?;
    let Some(obtained) = obtained else {
        return Ok(None);
    };
    if same.is_none() {
        store.add(&campaign.baseline, BASELINE, now())?;
    }
    store.found(version, Some(&obtained.digest), None)?;
    store.name_baseline(version, &obtained.digest)?;
    Ok(Some(obtained))
}

/// Everything that is left to be done for a version.
fn version_done(
    campaign: &Campaign,
    store: &mut Store,
    (one, baseline, conditions): (&Listed, &Obtained, &Conditions),
    starting: Starting,
    signals: &mut Signals,
) -> anyhow::Result<Worked> {
    let version = &one.program.version;
    // Of a version that is done nothing is obtained, and its file may be another by now.
    if let Err(error) = programs::unchanged(campaign, &one.program, one) {
        return Ok(Worked::Failed(format!("{error:#}")));
    }
    while let Some(round) = next_round(campaign, store, version, conditions)? {
        // Read anew: after a first round its digest is final.
        let listed = store.listed()?;
        let same = listed.iter().find(|one| one.program.version == *version);
        let program = match programs::obtain(campaign, &one.program, same, signals) {
            Ok(Some(program)) => program,
            Ok(None) => return Ok(Worked::Stopped(SIGNAL.to_owned())),
            Err(error) => return Ok(Worked::Failed(format!("{error:#}"))),
        };
        store.found(version, Some(&program.digest), None)?;
        let legs = round::legs(campaign, version, round, (baseline, &program))?;
        for leg in &legs {
            if stopped(signals)? {
                return Ok(Worked::Stopped(SIGNAL.to_owned()));
            }
            say(&format!(
                "{version}: round {round}, in {}",
                leg.plan.folder.display()
            ));
            match advance(leg.plan.clone(), starting.launcher, starting.i_vote) {
                Ok(Over::Finished) => {}
                Ok(Over::Stopped(why)) => return Ok(Worked::Stopped(why)),
                Ok(Over::GaveUp(why)) => return Ok(Worked::Failed(why)),
                Err(error) => return Ok(Worked::Failed(format!("{error:#}"))),
            }
        }
        let finished = Round {
            version,
            round,
            program: &program,
            conditions,
        };
        let runs = collected(campaign, &finished, &legs, baseline);
        let runs = match runs {
            Ok(runs) => runs,
            Err(error) => return Ok(Worked::Failed(format!("{error:#}"))),
        };
        store.add_runs(&runs)?;
    }
    Ok(Worked::Done)
}

/// The round that is next: the first, or a second one where the first has found something; `None` if nothing is left.
pub(crate) fn next_round(
    campaign: &Campaign,
    store: &Store,
    version: &str,
    conditions: &Conditions,
) -> anyhow::Result<Option<u32>> {
    let runs = store.runs()?;
    let of_version = runs
        .iter()
        .filter(|run| run.release == *version && run.conditions == *conditions);
    let Some(newest) = of_version.max_by_key(|run| run.round) else {
        return Ok(Some(1));
    };
    let (round, machine) = (newest.round, newest.machine.clone());
    if round >= ROUNDS {
        return Ok(None);
    }
    let groups = compare::groups(&runs, campaign.margin);
    let group = groups
        .iter()
        .find(|group| group.conditions == *conditions && group.machine == machine);
    let release = group.and_then(|group| {
        group
            .releases
            .iter()
            .find(|release| release.version == version)
    });
    let found = |release: &compare::Release| {
        release
            .judged
            .iter()
            .flatten()
            .any(|one| one.mark.needs_repetition())
    };
    Ok(release.is_some_and(found).then_some(round + 1))
}

/// A round that is finished.
struct Round<'r> {
    version: &'r str,
    round: u32,
    program: &'r Obtained,
    conditions: &'r Conditions,
}

/// The runs of a round, of programs that are still what they were at its beginning.
fn collected(
    campaign: &Campaign,
    round: &Round<'_>,
    legs: &[Leg],
    baseline: &Obtained,
) -> anyhow::Result<Vec<RunRow>> {
    let mut rows = Vec::new();
    for leg in legs {
        rows.extend(collect(campaign, round, leg)?);
    }
    for program in [baseline, round.program] {
        let folders = legs.iter().map(|leg| leg.plan.folder.display().to_string());
        ensure!(
            sha256(&program.file)? == program.digest,
            "{}: another program than at the beginning of these runs: put the first one back, and remove what was run: {}",
            program.file.display(),
            folders.collect::<Vec<_>>().join(", ")
        );
    }
    Ok(rows)
}

/// Writes the report of a part of a round; its runs.
fn collect(campaign: &Campaign, round: &Round<'_>, leg: &Leg) -> anyhow::Result<Vec<RunRow>> {
    let experiment = Experiment::read(&leg.plan.folder)?;
    let report = page::report_name(&leg.name, round.conditions);
    let out = campaign.folder.join(page::FOLDER).join(&report);
    fs::create_dir_all(out.parent().unwrap_or(&campaign.folder))
        .with_context(|| out.display().to_string())?;
    render::write(&experiment.report()?.0, &out, true)?;
    let counted = experiment.counted();
    ensure!(
        !counted.is_empty(),
        "{}: no run counts",
        leg.plan.folder.display()
    );
    let (mut rows, mut measured) = (Vec::new(), Vec::new());
    for one in &counted {
        let run = experiment.load(one);
        let mut row = row(campaign, round, leg, (&experiment, one, run.as_ref()))?;
        let found = experiment
            .searched(one)
            .filter(|_| row.is_whole())
            .and_then(least_ram);
        row.values
            .extend(found.map(|gib| (releases::LEAST_RAM.to_owned(), gib)));
        row.report.clone_from(&report);
        // The limit of a search was moved: nothing else that it measured is comparable.
        measured.extend(run.filter(|_| row.is_whole() && leg.searches.is_none()));
        rows.push(row);
    }
    // Of whole runs alone: which part of them is compared depends on all.
    let values = releases::values(&measured);
    for (row, values) in rows.iter_mut().filter(|row| row.is_whole()).zip(values) {
        let known = releases::metrics().zip(values);
        row.values
            .extend(known.filter_map(|(metric, value)| Some((metric.id.to_owned(), value?))));
    }
    // A recording without ticks says nothing of the machine; the others of its round do.
    if let Some(known) = rows
        .iter()
        .find(|row| row.machine != UNKNOWN)
        .map(|row| row.machine.clone())
    {
        rows.iter_mut()
            .filter(|row| row.machine == UNKNOWN)
            .for_each(|row| row.machine.clone_from(&known));
    }
    Ok(rows)
}

/// A run without its values. A whole one has a recording that can be read; the next run of the campaign looks again.
fn row(
    campaign: &Campaign,
    round: &Round<'_>,
    leg: &Leg,
    (experiment, one, run): (&Experiment, &Counted<'_>, Option<&Run>),
) -> anyhow::Result<RunRow> {
    let recording = experiment.recording(one);
    let baseline = experiment.plan.arms.first().map(|arm| arm.name.as_str());
    let of_baseline = Some(one.scheduled.arm.as_str()) == baseline;
    let row = RunRow {
        release: round.version.to_owned(),
        program_digest: round.program.digest.clone(),
        conditions: round.conditions.clone(),
        machine: run.map_or_else(|| UNKNOWN.to_owned(), machine),
        kernel: run
            .and_then(|run| run.facts.kernel.clone())
            .unwrap_or_else(|| UNKNOWN.to_owned()),
        round: round.round,
        of_baseline: leg
            .searches
            .as_ref()
            .map_or(of_baseline, |search| search.of_baseline),
        replicate: leg
            .searches
            .as_ref()
            .map_or(one.scheduled.replicate, |search| search.replicate),
        began_unix_ns: began(experiment, run),
        outcome: one.ending.outcome.to_string(),
        validity: validity(&one.ending.validity).to_owned(),
        recording: recording
            .strip_prefix(&campaign.folder)
            .unwrap_or(&recording)
            .display()
            .to_string(),
        recording_digest: sha256(&recording).ok(),
        ..RunRow::default()
    };
    let read = run.is_some() && row.recording_digest.is_some();
    ensure!(
        read || !row.is_whole(),
        "{}: the recording of a completed run cannot be read",
        recording.display()
    );
    Ok(row)
}

/// The memory that a search has found to be enough, in GiB. A bound is no measurement, and neither is what has to grow further.
fn least_ram(answer: &Answer) -> Option<f64> {
    let found = matches!(answer.outcome, Outcome::Found { .. }) && answer.settles == Some(true);
    answer
        .memory
        .first()
        .filter(|_| found)
        .map(|memory| memory.bytes as f64 / GIB)
}

const UNKNOWN: &str = "not known";

/// When a run began: by its recording, else when the experiment did.
fn began(experiment: &Experiment, run: Option<&Run>) -> i64 {
    let planned = || {
        experiment
            .standing
            .begun
            .as_ref()
            .map_or(0, |begun| begun.unix_ns)
    };
    run.map(|run| run.origin_unix_ns)
        .filter(|began| *began > 0)
        .unwrap_or_else(planned)
}

fn validity(validity: &Validity) -> &'static str {
    match validity {
        Validity::Valid => "valid",
        Validity::Unproven(_) => "unproven",
        Validity::Invalid(_) => "invalid",
    }
}

/// Processor, threads and memory: machines with the same are alike.
fn machine(run: &Run) -> String {
    let fact = |name: &str| {
        run.facts
            .host
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value.clone())
    };
    let memory = run
        .facts
        .memory
        .map(|bytes| format!("{} GiB", (bytes as f64 / f64::from(1 << 30)).round()));
    let parts = [
        run.facts.cpu.clone(),
        fact("Threads").map(|threads| format!("{threads} threads")),
        memory,
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() {
        UNKNOWN.to_owned()
    } else {
        parts.join(", ")
    }
}

/// Now, in nanoseconds since 1970.
pub(crate) fn now() -> i64 {
    let since: Duration = clock::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}
