use super::*;
use faultline_experiments::{
    journal::{Entry, Journal, JournalLine, Planned},
    outcome::{Ending, Outcome},
    schedule::schedule,
};
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
    let text = problem("name = \"x\"\nreplicates = \"many\"\n");
    assert!(text.contains("plan.toml:2: replicates: "), "{text}");
    for value in ["0", "1001", "\"many\""] {
        let text = format!("replicates = {value}\n[search]\nwhat = \"memory\"\n");
        assert!(
            problem(&text).contains("replicates is not a whole number from 1 to 1000"),
            "{value}"
        );
    }
    let wrong = problem("name = \"x\"\n[workload]\nledgr = \"y\"\n");
    assert!(wrong.contains("plan.toml:3: "), "{wrong}");
    let variable = "[workload]\nenvironment = { SOLANA_METRICS_CONFIG = \"x\" }";
    let added_arm = problem(&example().plan_text.replace("[workload]", variable));
    let without_line = "plan.toml: arm \"baseline 2.1.14\": remove SOLANA_METRICS_CONFIG";
    assert!(added_arm.contains(without_line), "{added_arm}");
    let search = problem(
        "name = \"x\"\nreplicates = 2\nnothing = 3\n[workload]\nledgr = \"y\"\n[search]\nwhat = \"memory\"\n",
    );
    for wrong in ["plan.toml:3: nothing", "plan.toml:5: workload.ledgr"] {
        assert!(search.contains(wrong), "{search}");
    }
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

#[test]
fn a_search_plan_loses_only_its_own_replicates() {
    let mut campaign = example();
    let program = round(&campaign, 1).program;
    let mut lines_of = |text: &str| {
        campaign.plan_text = text.to_owned();
        let (text, line) = search_plan_text(&campaign, &program).unwrap();
        (text.lines().map(str::to_owned).collect_vec(), line)
    };
    for key in ["replicates = 3", "\"replicates\"=3", "'replicates' = 0b11"] {
        let (lines, line) = lines_of(&format!(
            "about = \"\"\"\nreplicates of a day\n\"\"\"\n{key} # two\n[workload]\nreplicates = 4\n"
        ));
        let expected = [
            "about = \"\"\"",
            "replicates of a day",
            "\"\"\"",
            " # two",
            "[workload]",
            "binary = \"/new\"",
            "replicates = 4",
        ];
        assert_eq!((lines, line), (expected.map(str::to_owned).to_vec(), 6));
    }
}

/// Writes all results of an experiment that searches.
pub fn write(experiment: &CampaignExperiment, outcome: Outcome) {
    let plan = &experiment.plan;
    fs::create_dir_all(&plan.folder).unwrap();
    let folder = ExperimentFolder::new(&plan.folder);
    fs::write(folder.plan(), &plan.text).unwrap();
    let mut journal = Journal::create(&folder.journal()).unwrap();
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
        journal.append(&JournalLine { unix_ns: 1, entry }).unwrap();
    }
}

/// The first round of a campaign in `folder` whose plan searches.
pub fn search_round(folder: &Path) -> (Campaign, Round) {
    let mut campaign = example();
    campaign.folder = folder.to_owned();
    campaign.plan_text = campaign.plan_text.replace("duration = \"2h\"\n", "")
        + "[search]\nwhat = \"memory\"\nfrom = \"24G\"\n";
    let [baseline, program] = ["old", "new"].map(|name| {
        let file = folder.join(name);
        fs::write(&file, name).unwrap();
        let digest = sha256(&file).unwrap();
        ResolvedProgram { file, digest }
    });
    let round = Round {
        version: "2.2.0".to_owned(),
        number: 1,
        plan_digest: campaign.plan_digest.clone(),
        baseline,
        program,
    };
    (campaign, round)
}

#[test]
fn the_first_attempt_with_all_searches_of_both_programs_counts() {
    let root = tempfile::tempdir().unwrap();
    let (campaign, round) = search_round(root.path());
    let attempt = |name: &str| {
        let folder = round.attempts_folder(&campaign).join(name);
        round.experiments_in(&campaign, &folder).unwrap()
    };
    assert_eq!(round.finished_attempt(&campaign).unwrap().map(|_| ()), None);
    let all = |outcome: Outcome| move |one: &CampaignExperiment| write(one, outcome.clone());
    attempt("n1-0")
        .iter()
        .skip(1)
        .for_each(all(Outcome::Completed));
    attempt("n2-2").iter().for_each(all(Outcome::OutOfMemory));
    attempt("n3-10").iter().for_each(all(Outcome::Completed));
    let broken = &attempt("n4-1")[0];
    write(broken, Outcome::Completed);
    let journal = ExperimentFolder::new(&broken.plan.folder).journal();
    let lines = fs::read_to_string(&journal).unwrap();
    fs::write(&journal, format!("broken\n{lines}")).unwrap();
    let finished = round.finished_attempt(&campaign).unwrap().unwrap();
    assert_eq!(finished.len(), 6);
    let expected = round
        .attempts_folder(&campaign)
        .join("n2-2/2.2.0-1-1-baseline");
    assert_eq!(finished[0].plan.folder, expected);
}
