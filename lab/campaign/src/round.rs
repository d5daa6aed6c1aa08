//! A round runs the campaign's plan with two programs: release and baseline. An attempt runs on one
//! host and has all experiments of its round: `attempts/VERSION-ROUND/HOST-ATTEMPT`.

use crate::{
    args::RoundArgs,
    programs::{ResolvedProgram, sha256},
    settings::{self, Campaign},
};
use anyhow::{Result, bail, ensure};
use faultline_common::{args::UsageError, files::AtPath, output::say};
use faultline_experiments::{
    HostBlock, block_attempt_name, block_attempt_names,
    command::{begin_or_continue, void},
    folder::ExperimentFolder,
    host_name,
    journal::{self, JournalState},
    lock::Lock,
    plan::{self, Plan},
    report::{CompletedRun, Experiment},
    runner::ExperimentEnd,
};
use faultline_text::shell_quoted;
use itertools::Itertools;
use serde::{Deserialize, Serialize};
use std::{
    fs,
    path::{Path, PathBuf},
};
use toml::de::DeTable;

pub const EXPERIMENTS: &str = "experiments";
const CAMPAIGN_KEYS: [&str; 6] = ["folder", "arm", "factors", "concurrent", "lane", "order"];
/// The default; in a plan without `search` also the minimum, as fewer allow no test.
const MIN_REPLICATES: u32 = 3;
const WORKLOAD: &str = "[workload]";

/// Everything that a version's round depends on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Round {
    pub version: String,
    /// From 1.
    pub number: u32,
    pub plan_digest: String,
    pub baseline: ResolvedProgram,
    pub program: ResolvedProgram,
}

impl Round {
    /// The experiments in order. With `search` in the plan, each program and replicate has its
    /// experiment, and the order of programs alternates. Otherwise one experiment has both programs
    /// as arms.
    pub fn experiments(&self, campaign: &Campaign) -> Result<Vec<CampaignExperiment>> {
        let file = campaign.plan.display();
        let table: toml::Table =
            (campaign.plan_text.parse()).map_err(|error: toml::de::Error| {
                UsageError(format!("{file}: {}", error.to_string().trim_end()))
            })?;
        if let Some(key) = CAMPAIGN_KEYS.iter().find(|key| table.contains_key(**key)) {
            bail!(UsageError(format!(
                "{file}: {key}: the campaign sets it, leave it out"
            )));
        }
        let replicates = table.get("replicates");
        if table.contains_key("search") {
            let replicates = match replicates {
                None => MIN_REPLICATES,
                Some(value) => value
                    .as_integer()
                    .and_then(|number| u32::try_from(number).ok())
                    .filter(|number| (1..=1000).contains(number))
                    .ok_or_else(|| {
                        UsageError(format!(
                            "{file}: replicates is not a whole number from 1 to 1000"
                        ))
                    })?,
            };
            return self.search_experiments(campaign, replicates);
        }
        let number = replicates.and_then(toml::Value::as_integer);
        if let Some(few) = number.filter(|number| (1..MIN_REPLICATES.into()).contains(number)) {
            bail!(UsageError(format!(
                "{file}: replicates: {few} are too few to test a difference: at least {MIN_REPLICATES}"
            )));
        }
        let added_keys = match replicates {
            Some(_) => String::new(),
            None => format!("replicates = {MIN_REPLICATES}\n"),
        };
        let baseline = format!("baseline {}", campaign.baseline.version);
        let text = [
            &campaign.plan_text,
            "\n",
            &arm_table(&baseline, &self.baseline),
            &arm_table(&self.version, &self.program),
        ];
        let folder = self.digests_folder(campaign).join(self.name());
        Ok(vec![CampaignExperiment {
            name: self.name(),
            plan: parse_plan(campaign, &folder, &added_keys, &text.concat(), None)?,
            search: None,
        }])
    }

    fn search_experiments(
        &self,
        campaign: &Campaign,
        replicates: u32,
    ) -> Result<Vec<CampaignExperiment>> {
        let mut experiments = Vec::new();
        for replicate in 1..=replicates {
            let baseline_first = replicate % 2 == 1;
            for is_baseline in [baseline_first, !baseline_first] {
                let (program, arm) = if is_baseline {
                    (&self.baseline, "baseline")
                } else {
                    (&self.program, "release")
                };
                let name = format!("{}-{replicate}-{arm}", self.name());
                let (text, binary_line) = search_plan_text(campaign, program)?;
                let folder = self.digests_folder(campaign).join(&name);
                experiments.push(CampaignExperiment {
                    plan: parse_plan(
                        campaign,
                        &folder,
                        "replicates = 1\n",
                        &text,
                        Some(binary_line),
                    )?,
                    name,
                    search: Some(SearchExperiment {
                        is_baseline,
                        replicate,
                    }),
                });
            }
        }
        Ok(experiments)
    }

    pub fn name(&self) -> String {
        format!("{}-{}", self.version, self.number)
    }

    /// The folder's name has the digests, so that no experiment continues with another program.
    pub fn digests_folder(&self, campaign: &Campaign) -> PathBuf {
        let digests = format!(
            "{:.8}-{:.8}-{:.8}",
            self.plan_digest, self.baseline.digest, self.program.digest
        );
        campaign.folder.join(EXPERIMENTS).join(digests)
    }
}

pub struct CampaignExperiment {
    pub name: String,
    pub plan: Plan,
    /// `None` in a plan without `search`.
    pub search: Option<SearchExperiment>,
}

impl CampaignExperiment {
    pub fn replicate(&self, run: &CompletedRun<'_>) -> u32 {
        self.search
            .map_or(run.scheduled.replicate, |search| search.replicate)
    }
}

/// Voids all results of each replicate for which `should_void` is true: a pair is repeated as a whole.
pub fn void_runs(
    experiments: &[CampaignExperiment],
    reason: &str,
    should_void: impl Fn(u32) -> bool,
) -> Result<()> {
    for experiment in experiments {
        let results = Experiment::read(&experiment.plan.folder)?;
        let completed = results.journal_state.completed_runs();
        let runs = completed
            .iter()
            .filter(|run| should_void(experiment.replicate(run)))
            .collect_vec();
        void(&experiment.plan.folder, &runs, reason)?;
    }
    Ok(())
}

/// The plan of a search has neither arms nor replicates: it runs one program.
#[derive(Clone, Copy)]
pub struct SearchExperiment {
    pub is_baseline: bool,
    /// From 1.
    pub replicate: u32,
}

/// The experiments of an imaginary version, to check or show a plan before there is a release.
pub fn example_experiments(campaign: &Campaign) -> Result<Vec<CampaignExperiment>> {
    let program = ResolvedProgram {
        file: campaign.folder.join("program"),
        digest: String::new(),
    };
    Round {
        version: "0".to_owned(),
        number: 1,
        plan_digest: campaign.plan_digest.clone(),
        baseline: program.clone(),
        program,
    }
    .experiments(campaign)
}

fn arm_table(name: &str, program: &ResolvedProgram) -> String {
    let binary = quoted(program.file.display());
    format!("[[arm]]\nname = {}\nbinary = {binary}\n", quoted(name))
}

/// Returns the plan's text with a line for the program, and the number of this line. The key
/// `replicates` is removed, but not its line.
fn search_plan_text(campaign: &Campaign, program: &ResolvedProgram) -> Result<(String, usize)> {
    let mut text = campaign.plan_text.clone();
    let table = DeTable::parse(&campaign.plan_text)?;
    if let Some((key, value)) = table.get_ref().get_key_value("replicates") {
        text.replace_range(key.span().start..value.span().end, "");
    }
    let mut lines = text.lines().collect_vec();
    let Some(workload_line) = lines.iter().position(|line| line.trim() == WORKLOAD) else {
        let file = campaign.plan.display();
        bail!(UsageError(format!(
            "{file}: a plan that searches needs a line {WORKLOAD}: the campaign adds the program below it"
        )));
    };
    let binary = format!("binary = {}", quoted(program.file.display()));
    lines.insert(workload_line + 1, &binary);
    Ok((lines.join("\n") + "\n", workload_line + 2))
}

/// `binary_line` is a line that the campaign added to the plan's `text`.
fn parse_plan(
    campaign: &Campaign,
    folder: &Path,
    added_keys: &str,
    text: &str,
    binary_line: Option<usize>,
) -> Result<Plan> {
    let text = format!("folder = {}\n{added_keys}{text}", quoted(folder.display()));
    let added_lines = 1 + added_keys.lines().count();
    let own_lines = 1..=campaign.plan_text.lines().count();
    plan::parse(&text, &campaign.plan).map_err(|mut errors| {
        // Report line numbers of the plan's own file, and none for added lines.
        for error in &mut errors {
            error.line = error.line.and_then(|line| {
                let line = line.checked_sub(added_lines)?;
                let follows_binary = binary_line.is_some_and(|binary| line >= binary);
                Some(line - usize::from(follows_binary)).filter(|line| own_lines.contains(line))
            });
        }
        settings::usage_error(&errors).into()
    })
}

/// A JSON string of serde_json is also a TOML string.
fn quoted(text: impl ToString) -> String {
    serde_json::Value::from(text.to_string()).to_string()
}

const ATTEMPTS: &str = "attempts";
const LOCK: &str = "lock";

impl Round {
    fn experiments_in(
        &self,
        campaign: &Campaign,
        attempt: &Path,
    ) -> Result<Vec<CampaignExperiment>> {
        let mut experiments = self.experiments(campaign)?;
        for experiment in &mut experiments {
            experiment.plan.folder = attempt.join(&experiment.name);
        }
        Ok(experiments)
    }

    fn attempts_folder(&self, campaign: &Campaign) -> PathBuf {
        self.digests_folder(campaign)
            .join(ATTEMPTS)
            .join(self.name())
    }

    pub fn lock_file(&self, campaign: &Campaign) -> PathBuf {
        self.attempts_folder(campaign).join(LOCK)
    }

    pub fn lock(&self, campaign: &Campaign) -> Result<Lock> {
        let folder = self.attempts_folder(campaign);
        fs::create_dir_all(&folder).at(&folder)?;
        Lock::take_with_message(&self.lock_file(campaign), |holder_suffix| {
            format!(
                "round {} of {} is being run already{holder_suffix}",
                self.number, self.version
            )
        })
    }

    /// The experiments of the first attempt whose runs all have results. `campaign run` is the
    /// first attempt. Warns of unreadable attempts, and prints the names of other begun attempts.
    pub fn finished_attempt(&self, campaign: &Campaign) -> Result<Option<Vec<CampaignExperiment>>> {
        let folder = self.attempts_folder(campaign);
        let mut candidates = vec![("campaign run".to_owned(), self.experiments(campaign)?)];
        for (_, name) in block_attempt_names(&folder)? {
            let experiments = self.experiments_in(campaign, &folder.join(&name))?;
            candidates.push((name, experiments));
        }
        let mut finished = None;
        let mut others = Vec::new();
        for (name, experiments) in candidates {
            match is_finished(&experiments) {
                Ok(true) if finished.is_none() => finished = Some((name, experiments)),
                Ok(_) if has_begun(&experiments) => others.push(name),
                Ok(_) => {}
                Err(error) => say(&format!(
                    "warning: {error:#}: the results of `{name}` do not count"
                )),
            }
        }
        if let (Some((name, _)), false) = (&finished, others.is_empty()) {
            say(&format!(
                "{}: the results of round {} are those of {name}; not used: {}",
                self.version,
                self.number,
                others.iter().join(", ")
            ));
        }
        Ok(finished.map(|(_, experiments)| experiments))
    }

    pub fn run(&self, campaign: &Campaign, args: &RoundArgs) -> Result<ExperimentEnd> {
        ensure!(
            self.plan_digest == campaign.plan_digest,
            "{}: the plan has changed since this round was submitted: submit it again",
            campaign.plan.display()
        );
        let _lock = self.lock(campaign)?;
        if self.finished_attempt(campaign)?.is_some() {
            return Ok(ExperimentEnd::Finished);
        }
        self.check_programs()?;
        let experiments = self.experiments_in(campaign, &self.own_attempt(campaign)?)?;
        for experiment in &experiments {
            let folder = shell_quoted(&campaign.folder);
            let host_block = HostBlock {
                how_to_resume: format!(
                    "`faultline campaign round {folder} {}` continues",
                    args.task_number
                ),
                ..HostBlock::default()
            };
            let plan = experiment.plan.clone();
            match begin_or_continue(plan, args.launcher, args.vote_confirmed, Some(host_block))? {
                ExperimentEnd::Finished => {}
                end => return Ok(end),
            }
        }
        if let Err(error) = self.check_programs() {
            void_runs(&experiments, &format!("{error:#}"), |_| true)?;
            return Err(error);
        }
        Ok(ExperimentEnd::Finished)
    }

    /// The host's newest attempt whose journals can be read, or a new one.
    fn own_attempt(&self, campaign: &Campaign) -> Result<PathBuf> {
        let folder = self.attempts_folder(campaign);
        let host = host_name();
        let attempts = block_attempt_names(&folder)?;
        for (number, name) in attempts.iter().rev() {
            let attempt = folder.join(name);
            if *name == block_attempt_name(&host, *number)
                && is_finished(&self.experiments_in(campaign, &attempt)?).is_ok()
            {
                return Ok(attempt);
            }
        }
        let next = attempts
            .last()
            .map_or(0, |(number, _)| number.saturating_add(1));
        Ok(folder.join(block_attempt_name(&host, next)))
    }

    fn check_programs(&self) -> Result<()> {
        for program in [&self.baseline, &self.program] {
            ensure!(
                sha256(&program.file)? == program.digest,
                "{}: this is not the program that was submitted (SHA-256 {}): every host needs the same one",
                program.file.display(),
                program.digest
            );
        }
        Ok(())
    }
}

fn has_begun(experiments: &[CampaignExperiment]) -> bool {
    experiments.iter().any(|experiment| {
        let folder = ExperimentFolder::new(&experiment.plan.folder);
        folder.journal().exists()
    })
}

fn is_finished(experiments: &[CampaignExperiment]) -> Result<bool> {
    for experiment in experiments {
        let journal = ExperimentFolder::new(&experiment.plan.folder).journal();
        if !journal.try_exists().at(&journal)? {
            return Ok(false);
        }
        let journal_state = JournalState::of(&journal::read(&journal)?);
        if journal_state.planned.is_none() || journal_state.next_attempt().is_some() {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
pub mod tests;
