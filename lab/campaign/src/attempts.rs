//! Runs a round on this host; tasks do so on several. An attempt has all experiments of its round,
//! because they share a host: `attempts/VERSION-ROUND/HOST-NUMBER`.

use crate::{
    args::RoundArgs,
    collected::void_runs,
    programs::sha256,
    round::{CampaignExperiment, Round},
    settings::Campaign,
};
use anyhow::{Result, ensure};
use faultline_common::{files::AtPath, output::say};
use faultline_experiments::{
    blocks::{BlockContext, attempt_name, attempt_names, host_name},
    command::advance,
    folder::Folder,
    journal::{self, JournalState},
    lock::Lock,
    runner::ExperimentEnd,
};
use itertools::Itertools;
use std::{
    fs,
    path::{Path, PathBuf},
};

const ATTEMPTS: &str = "attempts";
const LOCK: &str = "lock";

impl Round {
    fn experiments_in(
        &self,
        campaign: &Campaign,
        attempt: &Path,
    ) -> Result<Vec<CampaignExperiment>> {
        let mut experiments = self.experiments(campaign)?;
        for one in &mut experiments {
            one.plan.folder = attempt.join(&one.name);
        }
        Ok(experiments)
    }

    fn attempts(&self, campaign: &Campaign) -> PathBuf {
        self.folder(campaign).join(ATTEMPTS).join(self.name())
    }

    pub fn lock_file(&self, campaign: &Campaign) -> PathBuf {
        self.attempts(campaign).join(LOCK)
    }

    pub fn lock(&self, campaign: &Campaign) -> Result<Lock> {
        let folder = self.attempts(campaign);
        fs::create_dir_all(&folder).at(&folder)?;
        Lock::take_or(&self.lock_file(campaign), |process| {
            let (number, version) = (self.number, &self.version);
            format!("round {number} of {version} is being run already{process}")
        })
    }

    /// The experiments of the first attempt that has all results. Those of `campaign run` come
    /// before the attempts of tasks, which are in order of their numbers. Names the others.
    pub fn finished(&self, campaign: &Campaign) -> Result<Option<Vec<CampaignExperiment>>> {
        let folder = self.attempts(campaign);
        let mut candidates = vec![("campaign run".to_owned(), self.experiments(campaign)?)];
        for (_, name) in attempt_names(&folder)? {
            let experiments = self.experiments_in(campaign, &folder.join(&name))?;
            candidates.push((name, experiments));
        }
        let (mut counted, mut others) = (None, Vec::new());
        for (name, experiments) in candidates {
            match is_finished(&experiments) {
                Ok(true) if counted.is_none() => counted = Some((name, experiments)),
                Ok(_) if has_begun(&experiments) => others.push(name),
                Ok(_) => {}
                Err(error) => say(&format!("warning: {error:#}: this attempt does not count")),
            }
        }
        if let (Some((name, _)), false) = (&counted, others.is_empty()) {
            say(&format!(
                "{}: attempt {name} has the results of round {} that count; not used: {}",
                self.version,
                self.number,
                others.iter().join(", ")
            ));
        }
        Ok(counted.map(|(_, experiments)| experiments))
    }

    /// Runs it in an attempt of this host, unless another attempt has all results.
    pub fn run(&self, campaign: &Campaign, args: &RoundArgs) -> Result<ExperimentEnd> {
        ensure!(
            self.plan_digest == campaign.plan_digest,
            "{}: the plan has changed since this round was submitted: submit it again",
            campaign.plan.display()
        );
        let _lock = self.lock(campaign)?;
        if self.finished(campaign)?.is_some() {
            return Ok(ExperimentEnd::Finished);
        }
        self.check_programs()?;
        let experiments = self.experiments_in(campaign, &self.own_attempt(campaign)?)?;
        for one in &experiments {
            let (folder, task) = (campaign.folder.display(), args.task);
            let block = BlockContext::all_replicates(format!(
                "`faultline campaign round {folder} {task}` continues"
            ));
            let plan = one.plan.clone();
            match advance(plan, args.launcher, args.i_vote, Some(block))? {
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

    /// The host's newest one if it can be continued, or a new one.
    fn own_attempt(&self, campaign: &Campaign) -> Result<PathBuf> {
        let (folder, host) = (self.attempts(campaign), host_name());
        let attempts = attempt_names(&folder)?;
        for (number, name) in attempts.iter().rev() {
            let attempt = folder.join(name);
            if *name == attempt_name(&host, *number)
                && is_finished(&self.experiments_in(campaign, &attempt)?).is_ok()
            {
                return Ok(attempt);
            }
        }
        let next = attempts
            .last()
            .map_or(0, |(number, _)| number.saturating_add(1));
        Ok(folder.join(attempt_name(&host, next)))
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
    let mut folders = experiments.iter().map(|one| Folder::new(&one.plan.folder));
    folders.any(|folder| folder.journal().exists())
}

/// Whether all runs have their results.
fn is_finished(experiments: &[CampaignExperiment]) -> Result<bool> {
    for one in experiments {
        let journal = Folder::new(&one.plan.folder).journal();
        if !journal.try_exists().at(&journal)? {
            return Ok(false);
        }
        let journal_state = JournalState::of(&journal::read(&journal)?);
        if journal_state.planned.is_none() || journal_state.next().is_some() {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::programs::ResolvedProgram;
    use faultline_experiments::{
        journal::{Entry, Journal, Line, Planned},
        outcome::{Ending, Outcome},
        schedule::schedule,
    };

    /// An attempt at a search has all results of its experiment.
    fn write(experiment: &CampaignExperiment, outcome: Outcome) {
        let plan = &experiment.plan;
        fs::create_dir_all(&plan.folder).unwrap();
        let mut journal = Journal::create(&Folder::new(&plan.folder).journal()).unwrap();
        let planned = Planned::new(plan, String::new(), schedule(plan));
        let ending = Box::new(Ending::new(outcome));
        for entry in [
            Entry::Planned(planned),
            Entry::TurnBegun {
                turn: 1,
                attempt: 1,
            },
            Entry::RunEnded {
                run: 1,
                attempt: 1,
                ending,
            },
        ] {
            journal.append(&Line { unix_ns: 1, entry }).unwrap();
        }
    }

    #[test]
    fn the_first_attempt_with_all_searches_of_both_programs_counts() {
        let root = tempfile::tempdir().unwrap();
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/campaign");
        let mut campaign = Campaign::read(&example).unwrap();
        campaign.folder = root.path().to_owned();
        campaign.plan_text = campaign.plan_text.replace("duration = \"2h\"\n", "")
            + "[search]\nwhat = \"memory\"\nfrom = \"24G\"\n";
        let program = |name: &str| ResolvedProgram {
            file: root.path().join(name),
            digest: "0123456789".to_owned(),
        };
        let round = Round {
            version: "2.2.0".to_owned(),
            number: 1,
            plan_digest: campaign.plan_digest.clone(),
            baseline: program("old"),
            program: program("new"),
        };
        let attempt = |name: &str| {
            let folder = round.attempts(&campaign).join(name);
            round.experiments_in(&campaign, &folder).unwrap()
        };
        assert_eq!(round.finished(&campaign).unwrap().map(|_| ()), None);
        let all = |outcome: Outcome| move |one: &CampaignExperiment| write(one, outcome.clone());
        attempt("n1-0")
            .iter()
            .skip(1)
            .for_each(all(Outcome::Completed));
        attempt("n2-2").iter().for_each(all(Outcome::OutOfMemory));
        attempt("n3-10").iter().for_each(all(Outcome::Completed));
        let broken = &attempt("n4-1")[0];
        write(broken, Outcome::Completed);
        let journal = Folder::new(&broken.plan.folder).journal();
        let lines = fs::read_to_string(&journal).unwrap();
        fs::write(&journal, format!("broken\n{lines}")).unwrap();
        let counted = round.finished(&campaign).unwrap().unwrap();
        assert_eq!(counted.len(), 6);
        let expected = round.attempts(&campaign).join("n2-2/2.2.0-1-1-baseline");
        assert_eq!(counted[0].plan.folder, expected);
    }
}
