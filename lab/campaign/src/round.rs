//! The plans of a round: the campaign's plan with each program.

use crate::{
    programs::ResolvedProgram,
    settings::{self, Campaign},
};
use anyhow::{Result, bail};
use faultline_common::args::UsageError;
use faultline_experiments::plan::{self, Plan};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

const EXPERIMENTS: &str = "experiments";
const CAMPAIGN_KEYS: [&str; 6] = ["folder", "arm", "factors", "concurrent", "lane", "order"];
/// Default; fewer replicates allow no test.
const REPLICATES: u32 = 3;
const WORKLOAD: &str = "[workload]";

/// What a round of a version depends on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Round {
    pub version: String,
    /// From 1.
    pub number: u32,
    pub plan_digest: String,
    pub baseline: ResolvedProgram,
    pub program: ResolvedProgram,
}

impl Round {
    /// The experiments in order. A plan with arms is one experiment. A plan that searches has no
    /// arms: it gives one for each program and replicate, alternating their order.
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
        let replicates = table.get("replicates").and_then(toml::Value::as_integer);
        if table.contains_key("search") {
            let replicates = replicates.and_then(|many| u32::try_from(many).ok());
            return self.searches(campaign, replicates.unwrap_or(REPLICATES));
        }
        if let Some(few) = replicates.filter(|many| (1..REPLICATES.into()).contains(many)) {
            bail!(UsageError(format!(
                "{file}: replicates: {few} are too few to test a difference: at least {REPLICATES}"
            )));
        }
        let more = match replicates {
            Some(_) => String::new(),
            None => format!("replicates = {REPLICATES}\n"),
        };
        let baseline = format!("baseline {}", campaign.baseline.version);
        let text = [
            &campaign.plan_text,
            "\n",
            &arm(&baseline, &self.baseline),
            &arm(&self.version, &self.program),
        ];
        let folder = self.folder(campaign).join(self.name());
        Ok(vec![CampaignExperiment {
            name: self.name(),
            plan: parse_plan(campaign, &folder, &more, &text.concat())?,
            searches: None,
        }])
    }

    fn searches(&self, campaign: &Campaign, replicates: u32) -> Result<Vec<CampaignExperiment>> {
        let mut experiments = Vec::new();
        for replicate in 1..=replicates {
            let baseline_first = replicate % 2 == 1;
            for of_baseline in [baseline_first, !baseline_first] {
                let (program, arm) = match of_baseline {
                    true => (&self.baseline, "baseline"),
                    false => (&self.program, "release"),
                };
                let name = format!("{}-{replicate}-{arm}", self.name());
                let text = searching(campaign, program)?;
                let folder = self.folder(campaign).join(&name);
                experiments.push(CampaignExperiment {
                    plan: parse_plan(campaign, &folder, "replicates = 1\n", &text)?,
                    name,
                    searches: Some(Search {
                        of_baseline,
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

    /// The folder's name contains the digests, so that an experiment with another program is not
    /// continued.
    pub fn folder(&self, campaign: &Campaign) -> PathBuf {
        let digests = [
            &self.plan_digest,
            &self.baseline.digest,
            &self.program.digest,
        ];
        let short = digests.map(|digest| digest.get(..8).unwrap_or_default());
        campaign.folder.join(EXPERIMENTS).join(short.join("-"))
    }
}

#[derive(Debug)]
pub struct CampaignExperiment {
    pub name: String,
    pub plan: Plan,
    pub searches: Option<Search>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Search {
    pub of_baseline: bool,
    /// From 1.
    pub replicate: u32,
}

/// The experiments of a round of no version, for what depends on the plan alone.
pub fn example(campaign: &Campaign) -> Result<Vec<CampaignExperiment>> {
    let none = ResolvedProgram {
        file: campaign.folder.join("program"),
        digest: String::new(),
    };
    let round = Round {
        version: "0".to_owned(),
        number: 1,
        plan_digest: campaign.plan_digest.clone(),
        baseline: none.clone(),
        program: none,
    };
    round.experiments(campaign)
}

fn arm(name: &str, program: &ResolvedProgram) -> String {
    let binary = quoted(&program.file.display().to_string());
    format!("[[arm]]\nname = {}\nbinary = {binary}\n", quoted(name))
}

fn searching(campaign: &Campaign, program: &ResolvedProgram) -> Result<String> {
    let is_replicates = |line: &str| line.trim_start().starts_with("replicates");
    let mut lines: Vec<String> = campaign
        .plan_text
        .lines()
        .filter(|line| !is_replicates(line))
        .map(str::to_owned)
        .collect();
    let Some(workload_line) = lines.iter().position(|line| line.trim() == WORKLOAD) else {
        let file = campaign.plan.display();
        bail!(UsageError(format!(
            "{file}: a plan that searches needs a line {WORKLOAD}, where its program is named"
        )));
    };
    lines.insert(
        workload_line + 1,
        format!("binary = {}", quoted(&program.file.display().to_string())),
    );
    Ok(lines.join("\n") + "\n")
}

fn parse_plan(campaign: &Campaign, folder: &Path, more: &str, text: &str) -> Result<Plan> {
    let text = format!(
        "folder = {}\n{more}{text}",
        quoted(&folder.display().to_string())
    );
    let added = 1 + more.lines().count();
    plan::parse(&text, &campaign.plan).map_err(|mut mistakes| {
        // Report line numbers of the plan's own file.
        mistakes
            .iter_mut()
            .for_each(|one| one.line = one.line.and_then(|line| line.checked_sub(added)));
        settings::all(&mistakes).into()
    })
}

/// A JSON string is a valid TOML string.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn example() -> Campaign {
        Campaign::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/campaign"))
            .unwrap()
    }

    fn round(campaign: &Campaign, number: u32) -> Round {
        let of = |file: &str, digest: &str| ResolvedProgram {
            file: file.into(),
            digest: digest.to_owned(),
        };
        Round {
            version: "2.2.0".to_owned(),
            number,
            plan_digest: campaign.plan_digest.clone(),
            baseline: of("/old", "0123456789"),
            program: of("/new", "89abcdef01"),
        }
    }

    #[test]
    fn a_campaign_rounds_plan_has_two_arms() {
        let campaign = example();
        let plan = round(&campaign, 2)
            .experiments(&campaign)
            .unwrap()
            .remove(0)
            .plan;
        let arms: Vec<(&str, &str)> = (plan.arms.iter())
            .map(|arm| {
                (
                    arm.name.as_str(),
                    arm.binary
                        .as_ref()
                        .and_then(|path| path.to_str())
                        .unwrap_or_default(),
                )
            })
            .collect();
        assert_eq!(arms, [("baseline 2.1.14", "/old"), ("2.2.0", "/new")]);
        assert_eq!((plan.replicates, plan.order), (3, plan::Order::Abba));
        assert!(plan.folder.ends_with(format!(
            "{}-01234567-89abcdef/2.2.0-2",
            &campaign.plan_digest[..8]
        )));
    }

    #[test]
    fn a_plan_must_not_set_keys_the_campaign_sets() {
        let mut campaign = example();
        let mut problem = |text: &str| {
            campaign.plan_text = text.to_owned();
            round(&campaign, 1)
                .experiments(&campaign)
                .err()
                .unwrap()
                .to_string()
        };
        assert!(
            problem("name = \"x\"\n[[arm]]\nname = \"y\"\n")
                .contains("plan.toml: arm: the campaign sets it")
        );
        let ordered = problem("name = \"x\"\norder = \"shuffle\"\n");
        assert!(
            ordered.contains("plan.toml: order: the campaign sets it"),
            "{ordered}"
        );
        assert!(problem("name = \"x\"\nreplicates = 2\n").contains("replicates: 2 are too few"));
        let wrong = problem("name = \"x\"\n[workload]\nledgr = \"y\"\n");
        assert!(wrong.contains("plan.toml:3: "), "{wrong}");
    }

    #[test]
    fn a_search_campaign_alternates_between_its_programs() {
        let mut campaign = example();
        let searching = "[search]\nwhat = \"memory\"\nfrom = \"24G\"\n";
        campaign.plan_text = campaign
            .plan_text
            .replace("[workload]", "replicates = 2\n[workload]")
            .replace("duration = \"2h\"\n", "")
            + searching;
        let experiments = round(&campaign, 1).experiments(&campaign).unwrap();
        let shown: Vec<(String, Option<&str>, u32)> = (experiments.iter())
            .map(|experiment| {
                (
                    experiment.name.clone(),
                    experiment
                        .plan
                        .workload
                        .binary
                        .as_ref()
                        .and_then(|path| path.to_str()),
                    experiment.plan.replicates,
                )
            })
            .collect();
        let expected = [
            ("1-baseline", "/old"),
            ("1-release", "/new"),
            ("2-release", "/new"),
            ("2-baseline", "/old"),
        ];
        assert_eq!(
            shown,
            expected.map(|(name, binary)| (format!("2.2.0-1-{name}"), Some(binary), 1))
        );
        assert!(
            experiments
                .iter()
                .all(|experiment| experiment.plan.folder.ends_with(&experiment.name))
        );
    }
}
