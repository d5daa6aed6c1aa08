//! Runs the plan for what has no result. Every step can be repeated: a build whose digest is not kept is made again, an
//! experiment continues by its own journal, and the rows of a round are kept in one transaction.

use crate::collected::{Collected, Round, collected};
use crate::compare;
use crate::programs::{self, Obtained};
use crate::settings::{Campaign, Program};
use crate::store::{Conditions, FROM_FILE, FROM_WATCH, Listed, Store};
use crate::{page, round, watch};
use anyhow::Context as _;
use faultline_command::clock;
use faultline_command::output::say;
use faultline_command::signals::Signals;
use faultline_experiments::args::Launching;
use faultline_experiments::command::advance;
use faultline_experiments::runner::Over;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// Rounds at most: what the first finds has to be found again.
const ROUNDS: u32 = 2;

/// How often damaged recordings of a version are repeated in one `campaign run`.
const REPEATS: u32 = 2;

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
    if check_requests(campaign, store, &mut signals)?.is_none() {
        return Ok(Err(SIGNAL.to_owned()));
    }
    let Some(baseline) = baseline(campaign, store, &mut signals)? else {
        return Ok(Err(SIGNAL.to_owned()));
    };
    // Mistakes of the plan come before anything is built for it.
    round::experiments(campaign, "0", 1, (&baseline, &baseline))?;
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
fn check_requests(
    campaign: &Campaign,
    store: &Store,
    signals: &mut Signals,
) -> anyhow::Result<Option<()>> {
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
        .any(|signal| signal.stops().is_some()))
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
    let mut repeats = 0;
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
        let experiments = round::experiments(campaign, version, round, (baseline, &program))?;
        for experiment in &experiments {
            if stopped(signals)? {
                return Ok(Worked::Stopped(SIGNAL.to_owned()));
            }
            say(&format!(
                "{version}: round {round}, in {}",
                experiment.plan.folder.display()
            ));
            match advance(experiment.plan.clone(), starting.launcher, starting.i_vote) {
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
        match collected(campaign, &finished, &experiments, baseline) {
            Ok(Collected::Rows(runs)) => store.add_runs(&runs)?,
            Ok(Collected::Damaged(why)) if repeats < REPEATS => {
                repeats += 1;
                say(&format!("{version}: {why}; its pair is repeated"));
            }
            Ok(Collected::Damaged(why) | Collected::NotStarted(why)) => {
                return Ok(Worked::Failed(why));
            }
            Err(error) => return Ok(Worked::Failed(format!("{error:#}"))),
        }
    }
    Ok(Worked::Done)
}

/// The round that is next for a version of the list, under the baseline that the list has.
pub(crate) fn next(
    campaign: &Campaign,
    store: &Store,
    one: &Listed,
    all: &[Listed],
) -> anyhow::Result<Option<u32>> {
    let version = &campaign.baseline.version;
    let baseline = all.iter().find(|one| one.program.version == *version);
    let Some(digest) = baseline.and_then(|baseline| baseline.digest.clone()) else {
        return Ok(Some(1));
    };
    let baseline = Obtained {
        file: PathBuf::new(),
        digest,
    };
    let conditions = conditions(campaign, &baseline);
    next_round(campaign, store, &one.program.version, &conditions)
}

/// The round that is next: one with void runs, the first, or a second one where the first has found something; `None` if
/// nothing is left.
fn next_round(
    campaign: &Campaign,
    store: &Store,
    version: &str,
    conditions: &Conditions,
) -> anyhow::Result<Option<u32>> {
    let runs = store.runs()?;
    let of_version = || {
        runs.iter()
            .filter(|run| run.release == *version && run.conditions == *conditions)
    };
    if let Some(void) = of_version().find(|run| run.is_void()) {
        return Ok(Some(void.round));
    }
    let Some(newest) = of_version().max_by_key(|run| run.round) else {
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

/// Now, in nanoseconds since 1970.
pub(crate) fn now() -> i64 {
    let since: Duration = clock::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}
