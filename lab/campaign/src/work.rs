//! Runs the plan for each version without a result. Every step can be repeated: a build without a
//! stored digest is done again, an experiment continues from its journal, and a round's rows are
//! one transaction.

use crate::{
    args::RunArgs,
    collected::{RoundOutcome, collect_round},
    compare, page,
    programs::{self, ResolvedProgram, Stopped},
    round::{self, CampaignExperiment, Round},
    settings::{Campaign, Program},
    store::{Conditions, FROM_FILE, FROM_WATCH, ListedVersion, Store, find_version},
};
use anyhow::{Context as _, Result, bail, ensure};
use faultline_common::{clock, output::say, signals::Signals};
use faultline_experiments::{command, runner::ExperimentEnd};
use faultline_runner::isolation::folders::InUse;
use faultline_text::shell_quoted;
use itertools::Itertools;
use std::time::Duration;

/// The second round confirms the findings of the first.
const MAX_ROUNDS: u32 = 2;

/// Maximum retries of a version's rounds after damaged recordings, in one `campaign run`.
const MAX_RETRIES: u32 = 2;

pub enum VersionOutcome {
    Done,
    /// `campaign slurm` submits a round of the version, which a task of Slurm then runs.
    Pending,
    /// The version is not done, and no other version can be run now.
    Stopped(String),
    Failed(String),
}

impl From<anyhow::Error> for VersionOutcome {
    fn from(error: anyhow::Error) -> Self {
        let why = format!("{error:#}");
        if error.is::<InUse>() || error.is::<Stopped>() {
            Self::Stopped(why)
        } else {
            Self::Failed(why)
        }
    }
}

/// Adds and removes versions so that the list matches `campaign.toml`, and returns it.
pub fn sync_listed_versions(campaign: &Campaign, store: &Store) -> Result<Vec<ListedVersion>> {
    let known = store.listed_versions()?;
    for program in &campaign.programs {
        let is_same = |listed: &ListedVersion| {
            listed.source == FROM_FILE && !listed.removed && listed.program == *program
        };
        if !known.iter().any(is_same) {
            store.add(program, FROM_FILE, clock::unix_ns())?;
        }
    }
    let baseline = find_version(&known, &campaign.baseline.version);
    if baseline.is_none_or(|listed| listed.removed || listed.program != campaign.baseline) {
        store.add(&campaign.baseline, BASELINE, clock::unix_ns())?;
    }
    for listed in known {
        let version = &listed.program.version;
        if matches!(listed.source.as_str(), FROM_FILE | BASELINE) && !campaign.configures(version) {
            store.remove(version)?;
        }
    }
    store.listed_versions()
}

/// Names a version that is on the list with and without a leading `v`.
pub fn duplicate(listed: &[ListedVersion]) -> Option<String> {
    let version = listed
        .iter()
        .filter(|listed| !listed.removed)
        .map(|listed| listed.program.without_v())
        .duplicates()
        .next()?;
    Some(format!(
        "{version} and v{version} are both on the list, and are measured as two versions: remove one by `faultline campaign remove`, or from campaign.toml if it is there"
    ))
}

/// Runs a round, or returns the outcome of a version whose round has no result.
pub type RunRound<'r> =
    &'r mut dyn FnMut(&Round, &mut Signals) -> Result<Vec<CampaignExperiment>, VersionOutcome>;

/// Fails also if the campaign has stopped or a version has no result.
pub fn run(campaign: &Campaign, store: &mut Store, args: &RunArgs) -> Result<()> {
    let folder = shell_quoted(&campaign.folder);
    match advance(campaign, store, None, &mut |round, signals| {
        run_on_this_host(campaign, round, args, signals)
    }) {
        Ok(failed) if failed.is_empty() => Ok(()),
        Ok(failed) => bail!(
            "{}; `faultline campaign run {folder}` tries again",
            without_result(&failed)
        ),
        Err(error) => bail!(
            "the campaign has stopped: {}; `faultline campaign run {folder}` continues",
            error.downcast::<Stopped>()?
        ),
    }
}

pub fn without_result(failed: &[String]) -> String {
    format!("without a result: {}", failed.join(", "))
}

/// Advances every version as far as `run_round` allows, and returns the failed versions. With
/// `only`, no other version advances, and no published version is added.
pub fn advance(
    campaign: &Campaign,
    store: &mut Store,
    only: Option<&[String]>,
    run_round: RunRound<'_>,
) -> Result<Vec<String>> {
    let mut signals = Signals::listen().context("signals cannot be received")?;
    sync_listed_versions(campaign, store)?;
    if only.is_none() {
        add_published_versions(campaign, store, &mut signals)?;
    }
    let baseline = baseline(campaign, store, &mut signals)?;
    // Fails if the plan is wrong.
    round::example_experiments(campaign)?;
    page::rewrite_pages(campaign, store)?;
    let mut failed = Vec::new();
    for listed in sync_listed_versions(campaign, store)?
        .into_iter()
        .filter(|listed| !listed.removed && !is_baseline(campaign, listed))
    {
        let version = listed.program.version.clone();
        if only.is_some_and(|only| !only.contains(&version)) {
            continue;
        }
        check_signals(&mut signals)?;
        match advance_version(
            campaign,
            store,
            (&listed, &baseline),
            run_round,
            &mut signals,
        )? {
            VersionOutcome::Done => store.set_error(&version, None)?,
            VersionOutcome::Pending => {}
            VersionOutcome::Stopped(why) => bail!(Stopped(why)),
            VersionOutcome::Failed(why) => {
                // `only` is set by `campaign slurm --follow-up`. It runs no round, so the error that
                // an earlier round stored is still the cause.
                let why = listed.error.filter(|_| only.is_some()).unwrap_or(why);
                say(&format!("{version}: {why}"));
                store.set_error(&version, Some(&why))?;
                failed.push(version);
            }
        }
        page::rewrite_pages(campaign, store)?;
    }
    Ok(failed)
}

fn run_on_this_host(
    campaign: &Campaign,
    round: &Round,
    args: &RunArgs,
    signals: &mut Signals,
) -> Result<Vec<CampaignExperiment>, VersionOutcome> {
    let _lock = round.lock(campaign)?;
    let experiments = round.experiments(campaign)?;
    for experiment in &experiments {
        check_signals(signals)?;
        say(&format!(
            "{}: round {}, in {}",
            round.version,
            round.number,
            experiment.plan.folder.display()
        ));
        match command::begin_or_continue(
            experiment.plan.clone(),
            args.launcher,
            args.vote_confirmed,
            None,
        )? {
            ExperimentEnd::Finished => {}
            ExperimentEnd::Stopped(why) => return Err(VersionOutcome::Stopped(why)),
            ExperimentEnd::GaveUp(why) | ExperimentEnd::UnfitHost(why) => {
                return Err(VersionOutcome::Failed(why));
            }
        }
    }
    Ok(experiments)
}

pub fn say_done(campaign: &Campaign, versions: &str) {
    let page = campaign.folder.join(page::FOLDER).join("index.html");
    say(&format!("{versions} has its result: {}", page.display()));
}

pub fn is_baseline(campaign: &Campaign, listed: &ListedVersion) -> bool {
    listed.program.version == campaign.baseline.version
}

pub const BASELINE: &str = "baseline";

fn conditions(campaign: &Campaign, baseline_digest: &str) -> Conditions {
    Conditions {
        plan_digest: campaign.plan_digest.clone(),
        baseline: campaign.baseline.version.clone(),
        baseline_digest: baseline_digest.to_owned(),
    }
}

/// Adds published versions to the list. Reports and ignores errors other than [`Stopped`].
fn add_published_versions(campaign: &Campaign, store: &Store, signals: &mut Signals) -> Result<()> {
    let Some(watched) = &campaign.watch else {
        return Ok(());
    };
    let versions = match programs::published_versions(campaign, watched, signals) {
        Err(error) if !error.is::<Stopped>() => {
            say(&format!(
                "new versions are not known: {error:#}; continuing with those of the list"
            ));
            return Ok(());
        }
        versions => versions?,
    };
    let known = store.listed_versions()?;
    for version in versions {
        if known
            .iter()
            .all(|listed| listed.program.without_v() != version)
        {
            say(&format!("{version} was published, and is added"));
            let program = Program {
                version,
                ..Program::default()
            };
            store.add(&program, FROM_WATCH, clock::unix_ns())?;
        }
    }
    Ok(())
}

/// Fails if a stop signal arrived since the last check. A running experiment handles signals
/// itself.
fn check_signals(signals: &mut Signals) -> Result<()> {
    ensure!(
        signals
            .wait(None, Duration::ZERO)?
            .iter()
            .all(|signal| signal.stop_signal_name().is_none()),
        Stopped::by_signal()
    );
    Ok(())
}

fn baseline(campaign: &Campaign, store: &Store, signals: &mut Signals) -> Result<ResolvedProgram> {
    let listed = store.listed_versions()?;
    let version = &campaign.baseline.version;
    let same = find_version(&listed, version);
    let obtained = programs::obtain(campaign, &campaign.baseline, same, signals)?;
    store.set_digest(version, &obtained.digest)?;
    store.set_error(version, None)?;
    store.set_baseline_version(version, &obtained.digest)?;
    Ok(obtained)
}

fn advance_version(
    campaign: &Campaign,
    store: &mut Store,
    (listed, baseline): (&ListedVersion, &ResolvedProgram),
    run_round: RunRound<'_>,
    signals: &mut Signals,
) -> Result<VersionOutcome> {
    let version = &listed.program.version;
    let conditions = conditions(campaign, &baseline.digest);
    // The loop below does not check the program of a finished version.
    if let Err(error) = programs::check_unchanged(campaign, &listed.program, listed) {
        return Ok(error.into());
    }
    let mut retries = 0;
    let mut damage = String::new();
    while let Some(number) = next_round(campaign, store, version, &conditions)? {
        // Read the list again: once a round has stored runs, `obtain` refuses another program.
        let current_list = store.listed_versions()?;
        let current = find_version(&current_list, version);
        let program = match programs::obtain(campaign, &listed.program, current, signals) {
            Ok(program) => program,
            Err(error) => return Ok(error.into()),
        };
        store.set_digest(version, &program.digest)?;
        let round = Round {
            version: version.clone(),
            number,
            plan_digest: campaign.plan_digest.clone(),
            baseline: baseline.clone(),
            program,
        };
        let experiments = match round.finished_attempt(campaign)? {
            Some(experiments) => experiments,
            None => match run_round(&round, signals) {
                Ok(experiments) => experiments,
                Err(VersionOutcome::Failed(why)) => {
                    return Ok(VersionOutcome::Failed(damage + &why));
                }
                Err(outcome) => return Ok(outcome),
            },
        };
        match collect_round(campaign, &round, &conditions, &experiments) {
            Ok(RoundOutcome::Rows(runs)) => {
                store.add_runs(&runs)?;
                store.set_error(version, None)?;
                damage.clear();
                page::rewrite_pages(campaign, store)?;
            }
            Ok(RoundOutcome::Damaged(why)) if retries < MAX_RETRIES => {
                retries += 1;
                say(&format!(
                    "{version}: {why}; both runs of its pair are repeated"
                ));
                damage = format!("{why}; ");
            }
            Ok(RoundOutcome::Damaged(why) | RoundOutcome::NotViable(why)) => {
                return Ok(VersionOutcome::Failed(why));
            }
            Err(error) => return Ok(error.into()),
        }
    }
    Ok(VersionOutcome::Done)
}

/// `None` if the baseline's program is not known yet.
pub fn current_conditions(campaign: &Campaign, listed: &[ListedVersion]) -> Option<Conditions> {
    let baseline = find_version(listed, &campaign.baseline.version)?;
    Some(conditions(campaign, baseline.digest.as_ref()?))
}

/// The round that this version needs next; `None` if it is finished.
pub fn pending_round(
    campaign: &Campaign,
    store: &Store,
    version: &ListedVersion,
    listed: &[ListedVersion],
) -> Result<Option<u32>> {
    let Some(conditions) = current_conditions(campaign, listed) else {
        return Ok(Some(1));
    };
    next_round(campaign, store, &version.program.version, &conditions)
}

/// Returns the round of a void run, else 1 if no round has runs, else 2 if the first round found a
/// difference. `None` if nothing is left. A run is void after `campaign verify --repeat` found its
/// recording, or that of its pair, damaged.
fn next_round(
    campaign: &Campaign,
    store: &Store,
    version: &str,
    conditions: &Conditions,
) -> Result<Option<u32>> {
    let mut runs = store.runs()?;
    runs.retain(|run| run.version == *version && run.conditions == *conditions);
    if let Some(void) = runs.iter().find(|run| run.is_void()) {
        return Ok(Some(void.round));
    }
    let Some(newest) = runs.iter().max_by_key(|run| run.round) else {
        return Ok(Some(1));
    };
    if newest.round >= MAX_ROUNDS {
        return Ok(None);
    }
    let needs_confirmation = compare::release_groups(&runs, campaign.margin)
        .iter()
        .filter(|group| group.machine == newest.machine)
        .take(1)
        .flat_map(|group| &group.releases)
        .flat_map(|release| &release.tests)
        .any(|test| test.verdict.needs_confirmation());
    Ok(needs_confirmation.then_some(newest.round + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        round::tests::{search_round, write},
        settings::{RESULTS, Watch},
        store::{RunRow, VOID},
    };
    use faultline_experiments::outcome::Outcome;
    use std::{io::Write as _, net::TcpListener, path::Path};

    /// A campaign with the results of its first round.
    fn scene(folder: &Path, outcome: &Outcome) -> (Campaign, Round, Store) {
        let (mut campaign, round) = search_round(folder);
        campaign.watch = None;
        campaign.baseline.path = Some(round.baseline.file.clone());
        campaign.programs = vec![Program {
            version: round.version.clone(),
            path: Some(round.program.file.clone()),
            ..Program::default()
        }];
        for experiment in &round.experiments(&campaign).unwrap() {
            write(experiment, outcome.clone());
        }
        let store = Store::open(&folder.join(RESULTS)).unwrap();
        (campaign, round, store)
    }

    #[test]
    fn a_damaged_recording_is_the_reason_for_a_round_without_result() {
        let root = tempfile::tempdir().unwrap();
        // There is no recording.
        let (campaign, round, mut store) = scene(root.path(), &Outcome::Completed);
        let only = [round.version.clone()];
        let failed = advance(&campaign, &mut store, Some(&only), &mut |_, _| {
            Err(VersionOutcome::Failed("round 1 has no result".to_owned()))
        });
        assert_eq!(failed.unwrap(), only);
        let listed = store.listed_versions().unwrap();
        let error = find_version(&listed, &round.version)
            .unwrap()
            .error
            .as_ref();
        let reason = "run.fltl: the recording of a completed run cannot be read; round 1 has";
        assert!(
            error.is_some_and(|error| error.contains(reason)),
            "{error:?}"
        );
    }

    #[test]
    fn the_first_round_is_on_the_pages_and_clears_errors_before_the_second_runs() {
        let root = tempfile::tempdir().unwrap();
        let (campaign, round, mut store) = scene(root.path(), &Outcome::OutOfMemory);
        for listed in sync_listed_versions(&campaign, &store).unwrap() {
            let version = &listed.program.version;
            store.set_error(version, Some("why")).unwrap();
        }
        let void = |number| RunRow {
            version: round.version.clone(),
            conditions: conditions(&campaign, &round.baseline.digest),
            round: number,
            replicate: 1,
            validity: VOID.to_owned(),
            ..RunRow::default()
        };
        store.add_runs(&[void(1), void(2)]).unwrap();
        let mut shown = None;
        let end = advance(&campaign, &mut store, None, &mut |next, _| {
            let results = root.path().join(page::FOLDER).join("results.json");
            let text = std::fs::read_to_string(results).unwrap();
            shown = Some((next.number, text.matches("\"round\": 1,").count()));
            Err(VersionOutcome::Stopped("a test".to_owned()))
        });
        assert!(end.is_err_and(|error| error.is::<Stopped>()));
        assert_eq!(shown, Some((2, 6)));
        let mut listed = store.listed_versions().unwrap().into_iter();
        assert!(listed.all(|listed| listed.error.is_none()));
    }

    #[test]
    fn a_stop_keeps_the_error_of_the_last_run() {
        let root = tempfile::tempdir().unwrap();
        let (campaign, round, mut store) = scene(root.path(), &Outcome::OutOfMemory);
        for experiment in &round.experiments(&campaign).unwrap() {
            std::fs::remove_dir_all(&experiment.plan.folder).unwrap();
        }
        let mut ends_with = |outcome: fn(String) -> VersionOutcome| {
            let _ = advance(&campaign, &mut store, None, &mut |_, _| {
                Err(outcome("why".to_owned()))
            });
            let listed = store.listed_versions().unwrap();
            let listed = find_version(&listed, &round.version).unwrap();
            listed.error.clone()
        };
        let failed = Some("why".to_owned());
        assert_eq!(ends_with(VersionOutcome::Failed), failed);
        assert_eq!(ends_with(VersionOutcome::Stopped), failed);
        assert_eq!(ends_with(|_| VersionOutcome::Pending), failed);
    }

    #[test]
    fn an_earlier_baseline_is_off_the_list() {
        let root = tempfile::tempdir().unwrap();
        let (mut campaign, _, store) = scene(root.path(), &Outcome::Completed);
        store.add(&campaign.baseline, BASELINE, 1).unwrap();
        let version = &campaign.baseline.version;
        store.set_digest(version, "beef").unwrap();
        let earlier = std::mem::replace(&mut campaign.baseline.version, "3.0.0".to_owned());
        let listed = sync_listed_versions(&campaign, &store).unwrap();
        let earlier = find_version(&listed, &earlier).unwrap();
        assert!(earlier.removed && !is_baseline(&campaign, earlier));
    }

    #[test]
    fn the_list_follows_a_baseline_that_changes_before_the_first_run() {
        let root = tempfile::tempdir().unwrap();
        let (mut campaign, _, store) = scene(root.path(), &Outcome::Completed);
        sync_listed_versions(&campaign, &store).unwrap();
        campaign.baseline.name = "nice".to_owned();
        campaign.baseline.path = Some("other".into());
        let listed = sync_listed_versions(&campaign, &store).unwrap();
        let same = find_version(&listed, &campaign.baseline.version).unwrap();
        assert_eq!(same.program, campaign.baseline);
        let earlier = std::mem::replace(&mut campaign.baseline.version, "3.0.0".to_owned());
        let listed = sync_listed_versions(&campaign, &store).unwrap();
        assert!(find_version(&listed, &earlier).is_none());
    }

    #[test]
    fn a_published_version_is_not_added_beside_its_form_with_a_v() {
        let root = tempfile::tempdir().unwrap();
        let (mut campaign, _, store) = scene(root.path(), &Outcome::Completed);
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        campaign.watch = Some(Watch {
            range: semver::VersionReq::STAR,
            command: None,
            package: "agave".to_owned(),
            index: format!("http://{}", server.local_addr().unwrap()),
        });
        let program = Program {
            version: "v1.3.0".to_owned(),
            ..Program::default()
        };
        store.add(&program, FROM_WATCH, 1).unwrap();
        let mut signals = Signals::listen().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = server.accept().unwrap();
                let index = "{\"vers\":\"1.3.0\"}\n{\"vers\":\"1.4.0\"}\n";
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}", index.len());
                write!(stream, "{head}\r\n\r\n{index}").unwrap();
                std::io::copy(&mut stream, &mut std::io::sink())
            });
            add_published_versions(&campaign, &store, &mut signals).unwrap();
        });
        let listed = store.listed_versions().unwrap();
        let versions = listed.iter().map(|listed| &*listed.program.version);
        assert_eq!(versions.collect_vec(), ["v1.3.0", "1.4.0"]);
    }
}
