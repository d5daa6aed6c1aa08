use super::*;
use crate::{
    blocks::HostBlock,
    host::{HostFinding, KNOWN_VALIDATORS},
    plan::parse,
};
use faultline_agave::identify::Program;
use faultline_kernel::{Level, LevelMemory};
use faultline_runner::isolation::{CpuSet, LauncherAbilities};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

const GIB: u64 = 1 << 30;
const CACHE_VARIABLE: &str = "AGAVE_PROGRAM_CACHE_ENTRIES";

const TWO_ARMS: &str = r#"
name = "p"
folder = "/state"
replicates = 4
[begin]
how = "download"
[workload]
command = ["/agave-validator", "--ledger", "{ledger}"]
ledger = "/mnt/ledger"
accounts = "/mnt/accounts"
[stop]
duration = "1h"
[[arm]]
name = "small"
memory_max = "4G"
[[arm]]
name = "large"
memory_max = "8G"
"#;

const CONCURRENT: &str = r#"
name = "p"
folder = "/state"
[begin]
how = "download"
[workload]
command = ["/agave-validator"]
[concurrent]
[[lane]]
name = "a"
ledger = "/mnt/a"
rpc_port = 8899
gossip_port = 8001
port_range = "8002-8040"
cpus = "0-1"
[[lane]]
name = "b"
ledger = "/mnt/b"
rpc_port = 8999
gossip_port = 8101
port_range = "8102-8140"
cpus = "2-3"
[[arm]]
name = "one"
memory_max = "4G"
"#;

fn plan(text: &str) -> Plan {
    parse(text, Path::new("/p.toml")).unwrap_or_else(|m| panic!("{m:#?}"))
}

/// Facts of a host without any finding about the plan.
fn fit_host(plan: &Plan) -> HostFacts {
    let open_files = Some(1_048_576);
    let abilities = LauncherAbilities {
        memory_high: true,
        swap_max: true,
        cpus: true,
        io: true,
        pressure: true,
        open_files,
    };
    let mut folders = BTreeMap::new();
    for (number, (_, path)) in (1..)
        .zip(super::folders::work_folders(plan))
        .chain([(50, (String::new(), plan.folder.as_path()))])
    {
        let fact = FolderFacts {
            exists: true,
            canonical_path: Some(path.to_owned()),
            why_not_clearable: None,
            device: Some(number),
            non_folder_on_path: None,
            free: Some(1000 * GIB),
        };
        folders.insert(path.to_owned(), fact);
    }
    HostFacts {
        launcher: Ok(LauncherFacts {
            name: "cgroup v2".to_owned(),
            abilities,
        }),
        ram: Some(64 * GIB),
        outer_limits: Ok(Vec::new()),
        swap: Some(0),
        cpus: CpuSet::parse("0-7").ok(),
        programs: BTreeMap::from([(
            "/agave-validator".to_owned(),
            Ok(PathBuf::from("/agave-validator")),
        )]),
        text_presences: BTreeMap::new(),
        folders,
        io_device_numbers: BTreeMap::new(),
        path_checks: BTreeMap::new(),
        inaccessible: BTreeMap::new(),
        user: Ok(()),
        tools: super::TOOLS.into(),
        runs_as_other_user: false,
        recorder_program: Ok("/faultlined".into()),
        recorder_config: None,
        at_tip_delay: Some(Duration::from_secs(60)),
        stakes: BTreeMap::from([("main".to_owned(), Stake::Known(0))]),
        snapshot_bytes: None,
        host_violations: Vec::new(),
        home_folders: vec!["/root".into()],
    }
}

fn shown_findings(plan: &Plan, facts: &HostFacts) -> Vec<(Severity, String)> {
    check_plan(plan, plan.run_count(), facts, false)
        .into_iter()
        .map(|found| (found.severity, found.what))
        .collect()
}

/// Asserts that the only finding has this severity, and that its text contains `expected`.
#[track_caller]
fn assert_only_finding(plan: &Plan, facts: &HostFacts, severity: Severity, expected: &str) {
    match shown_findings(plan, facts).as_slice() {
        [(found, what)] if *found == severity && what.contains(expected) => {}
        other => panic!("{expected:?} is wanted: {other:#?}"),
    }
}

/// The plan of `text`, with `from` replaced by `to`.
fn plan_with(text: &str, from: &str, to: &str) -> Plan {
    assert!(text.contains(from), "{from}");
    plan(&text.replace(from, to))
}

fn folder_mut<'f>(facts: &'f mut HostFacts, path: &str) -> &'f mut FolderFacts {
    facts.folders.get_mut(Path::new(path)).unwrap()
}

use Severity::{Refuse, Warn};

#[test]
fn a_fitting_plan_has_no_findings() {
    for text in [TWO_ARMS, CONCURRENT] {
        let plan = plan(text);
        assert_eq!(shown_findings(&plan, &fit_host(&plan)), []);
    }
}

#[test]
fn limits_that_the_launcher_does_not_have_are_refused() {
    let high = plan_with(
        TWO_ARMS,
        "memory_max = \"8G\"",
        "memory_max = \"8G\"\nmemory_high = \"7G\"",
    );
    let mut facts = fit_host(&high);
    facts.launcher.as_mut().unwrap().abilities.memory_high = false;
    facts.launcher.as_mut().unwrap().name = "cgroup v1".to_owned();
    assert_only_finding(
        &high,
        &facts,
        Refuse,
        "arm \"large\" sets memory_high, which cgroup v1 does not have",
    );

    let plan = plan(TWO_ARMS);
    let mut facts = fit_host(&plan);
    facts.launcher.as_mut().unwrap().abilities.swap_max = false;
    assert_eq!(
        shown_findings(&plan, &facts),
        [],
        "without swap nothing can hide there"
    );
    facts.swap = Some(GIB);
    assert!(
        shown_findings(&plan, &facts)
            .iter()
            .all(|(severity, what)| *severity == Refuse && what.contains("must not swap"))
    );
    facts.launcher = Err("no cgroups".to_owned());
    assert_only_finding(
        &plan,
        &facts,
        Refuse,
        "no cgroup can be made here: no cgroups",
    );
}

#[test]
fn a_limit_near_total_memory_warns_and_a_larger_one_is_refused() {
    let plan = plan(TWO_ARMS);
    let with = |ram: u64| HostFacts {
        ram: Some(ram),
        ..fit_host(&plan)
    };
    assert_only_finding(&plan, &with(8 * GIB + GIB / 4), Warn, "95 % or more");
    assert_only_finding(&plan, &with(8 * GIB - GIB / 4), Warn, "95 % or more");
    assert_only_finding(
        &plan,
        &with(7 * GIB),
        Refuse,
        "memory_max of arm \"large\" is 8 GiB, and this host has 7 GiB",
    );
    assert_eq!(
        shown_findings(
            &plan,
            &HostFacts {
                ram: None,
                ..fit_host(&plan)
            }
        ),
        []
    );
}

#[test]
fn a_throttling_limit_is_compared_with_the_memory_around_it_too() {
    let plan = plan_with(TWO_ARMS, "memory_max = \"8G\"", "memory_high = \"8G\"");
    let mut facts = fit_host(&plan);
    facts.ram = Some(7 * GIB);
    assert_only_finding(
        &plan,
        &facts,
        Refuse,
        "memory_high of arm \"large\" is 8 GiB, and this host has 7 GiB",
    );
    facts = fit_host(&plan);
    facts.outer_limits = Err("no access".to_owned());
    let unreadable = shown_findings(&plan, &facts);
    assert!(
        unreadable
            .iter()
            .any(|(_, what)| what.starts_with("memory_high of arm \"large\" is 8 GiB, and a limit")),
        "{unreadable:#?}"
    );
    let both = plan_with(
        TWO_ARMS,
        "memory_max = \"8G\"",
        "memory_max = \"8G\"\nmemory_high = \"7G\"",
    );
    facts = fit_host(&both);
    facts.ram = Some(6 * GIB);
    assert_only_finding(
        &both,
        &facts,
        Refuse,
        "memory_max of arm \"large\" is 8 GiB",
    );
}

#[test]
fn a_limit_beyond_a_parent_cgroup_is_refused_beyond_the_host_warned() {
    let plan = plan(TWO_ARMS);
    let with = |level, path: &str, left: u64| HostFacts {
        outer_limits: Ok(vec![LevelMemory {
            id: level,
            path: path.into(),
            limit: 20 * GIB,
            unreclaimable: 20 * GIB - left,
            dirty: None,
        }]),
        ..fit_host(&plan)
    };
    assert_eq!(
        shown_findings(&plan, &with(Level::Machine, "", 8 * GIB)),
        []
    );
    assert_only_finding(
        &plan,
        &with(Level::Cgroup(1), "/sol.slice", 7 * GIB),
        Refuse,
        "of arm \"large\" is 8 GiB, and cgroup /sol.slice around it has 7.0 GiB of 20.0 GiB left",
    );
    assert_only_finding(
        &plan,
        &with(Level::Machine, "", 7 * GIB),
        Warn,
        "of arm \"large\" is 8 GiB, and this machine has 7.0 GiB of 20.0 GiB left",
    );
}

#[test]
fn concurrent_limits_and_a_reserve_must_fit_in_memory() {
    let plan = plan(CONCURRENT);
    let with = |ram: u64| HostFacts {
        ram: Some(ram),
        ..fit_host(&plan)
    };
    assert_eq!(shown_findings(&plan, &with(8 * GIB + GIB / 2)), []);
    assert_only_finding(
        &plan,
        &with(8 * GIB + GIB / 4),
        Refuse,
        "with 512 MiB for the rest of the host",
    );
    let open = plan_with(CONCURRENT, "memory_max = \"4G\"", "");
    assert_only_finding(
        &open,
        &fit_host(&open),
        Refuse,
        "arm \"one\" has no memory_max",
    );
}

#[test]
fn concurrent_lanes_sharing_a_device_or_cpu_are_reported() {
    let plan = plan(CONCURRENT);
    let mut facts = fit_host(&plan);
    folder_mut(&mut facts, "/mnt/b").device = Some(1);
    assert_only_finding(&plan, &facts, Refuse, "on the same device");
    let meant = |how: &str| {
        plan_with(
            CONCURRENT,
            "[concurrent]",
            &format!("[concurrent]\nshared_device = {how:?}"),
        )
    };
    assert_only_finding(&meant("warn"), &facts, Warn, "on the same device");
    assert_eq!(shown_findings(&meant("ignore"), &facts), []);
    let limited = plan_with(
        CONCURRENT,
        "memory_max = \"4G\"",
        "memory_max = \"4G\"\nio = [{ device = \"/mnt/a\", read_bytes = \"100M\" }]",
    );
    assert_eq!(shown_findings(&limited, &facts), []);
    let portless = plan_with(CONCURRENT, "gossip_port = 8101", "");
    assert_only_finding(
        &portless,
        &fit_host(&portless),
        Warn,
        "not every lane has all its ports",
    );
    let open = plan_with(CONCURRENT, "cpus = \"2-3\"", "");
    assert_only_finding(&open, &fit_host(&open), Warn, "not every lane has CPUs");
    let beyond = plan_with(CONCURRENT, "cpus = \"2-3\"", "cpus = \"7-8\"");
    assert_only_finding(
        &beyond,
        &fit_host(&beyond),
        Refuse,
        "lane \"b\" wants CPU 8, and this host has 0-7",
    );
}

#[test]
fn a_program_that_ignores_the_cache_size_option_is_refused() {
    let plan = plan_with(TWO_ARMS, "memory_max = \"8G\"", "cache_entries = 1024");
    let with = |switch: TextPresence| HostFacts {
        text_presences: BTreeMap::from([(
            ("/agave-validator".into(), CACHE_VARIABLE.to_owned()),
            switch,
        )]),
        ..fit_host(&plan)
    };
    assert_eq!(shown_findings(&plan, &with(TextPresence::Present)), []);
    assert_only_finding(
        &plan,
        &with(TextPresence::Missing),
        Refuse,
        "AGAVE_PROGRAM_CACHE_ENTRIES is not in /agave-validator, which would ignore it silently",
    );
    assert_only_finding(
        &plan,
        &with(TextPresence::Script),
        Refuse,
        "/agave-validator is a script",
    );
    assert_only_finding(
        &plan,
        &with(TextPresence::Unreadable("denied".to_owned())),
        Refuse,
        "denied",
    );
    // The binary in the plan takes precedence over the first word of the command.
    let named = plan_with(
        TWO_ARMS,
        "memory_max = \"8G\"",
        "cache_entries = 1024\nbinary = \"/b/fdctl\"",
    );
    assert_eq!(shown_findings(&named, &with(TextPresence::Script)), []);
}

#[test]
fn an_unsupported_validator_option_is_refused_naming_supporting_releases() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("agave-validator");
    fs::write(
        &file,
        b"\x7fELF accounts-db-read-cache-limit-mb accounts-index-bins",
    )
    .unwrap();
    let with = |arguments: &str| {
        plan_with(
            TWO_ARMS,
            "memory_max = \"8G\"",
            &format!("arguments = {arguments}\nbinary = {:?}", file.display()),
        )
    };
    let gathered = |plan: &Plan| HostFacts {
        text_presences: super::programs::search_program_files(plan, &fit_host(plan)),
        ..fit_host(plan)
    };
    let has =
        with("[\"--accounts-db-read-cache-limit-mb\", \"10,20\", \"--accounts-index-bins=16\"]");
    assert_eq!(shown_findings(&has, &gathered(&has)), []);
    let lacks = with("[\"--accounts-db-read-cache-limit=10,20\"]");
    assert_only_finding(
        &lacks,
        &gathered(&lacks),
        Refuse,
        "gives --accounts-db-read-cache-limit, which",
    );
    fs::write(&file, "#!/bin/sh").unwrap();
    assert_only_finding(
        &lacks,
        &gathered(&lacks),
        Warn,
        "is a script: whether its program has the option is not known",
    );
}

#[test]
fn a_voting_validator_is_refused_without_the_i_vote_option() {
    let i_vote =
        |plan: &Plan, facts: &HostFacts| check_plan(plan, plan.run_count(), facts, true).len();
    for (from, to, column) in [
        (
            "\"{ledger}\"]",
            "\"{ledger}\", \"--vote-account\", \"k.json\"]",
            "workload",
        ),
        (
            "memory_max = \"8G\"",
            "environment = { MORE = \"--x --vote-account k\" }",
            "arm \"large\"",
        ),
        (
            "memory_max = \"8G\"",
            "arguments = [\"--vote-account=k.json\"]",
            "arm \"large\"",
        ),
    ] {
        let plan = plan_with(TWO_ARMS, from, to);
        assert_only_finding(
            &plan,
            &fit_host(&plan),
            Refuse,
            &format!("{column} sets a vote account"),
        );
        assert_eq!(i_vote(&plan, &fit_host(&plan)), 0);
    }
    let plan = plan(TWO_ARMS);
    let staked = |stake: Stake| HostFacts {
        stakes: BTreeMap::from([("main".to_owned(), stake)]),
        ..fit_host(&plan)
    };
    assert_only_finding(
        &plan,
        &staked(Stake::Known(3_000_000_000)),
        Refuse,
        "has a stake of 3 SOL",
    );
    assert_only_finding(
        &plan,
        &staked(Stake::NotYetActive),
        Refuse,
        "has a vote account that votes",
    );
    for stake in [Stake::Known(1), Stake::NotYetActive] {
        assert_eq!(i_vote(&plan, &staked(stake)), 0);
    }
}

#[test]
fn an_unknown_stake_is_refused_except_on_a_private_cluster() {
    let unknown = |plan: &Plan| HostFacts {
        stakes: BTreeMap::from([(
            "main".to_owned(),
            Stake::Unknown("no connection".to_owned()),
        )]),
        ..fit_host(plan)
    };
    let with = |more: &str| plan_with(TWO_ARMS, "accounts =", &format!("{more}\naccounts ="));
    let reached = "cluster = \"localnet\"\ncluster_rpc = \"http://127.0.0.1:1\"";
    for more in [
        "",
        "cluster = \"mainnet-beta\"",
        "cluster = \"devnet\"",
        reached,
    ] {
        let plan = with(more);
        let why = "cannot determine whether the identity has stake: no connection";
        assert_only_finding(&plan, &unknown(&plan), Refuse, why);
        assert_eq!(
            check_plan(&plan, plan.run_count(), &unknown(&plan), true),
            [],
            "{more}"
        );
        let remedy = &check_plan(&plan, plan.run_count(), &unknown(&plan), false)[0].remedy;
        for word in ["workload.identity", "workload.cluster_rpc", "--i-vote"] {
            assert!(remedy.contains(word), "{remedy}");
        }
    }
    let own = with("cluster = \"localnet\"");
    assert_only_finding(&own, &unknown(&own), Warn, "cannot determine");
}

#[test]
fn an_identity_not_in_the_command_may_differ() {
    let with = |words: &str| {
        let words = format!("[\"/agave-validator\", {words}]\nidentity = \"/id.json\"");
        plan_with(
            TWO_ARMS,
            "[\"/agave-validator\", \"--ledger\", \"{ledger}\"]",
            &words,
        )
    };
    let elsewhere = with("\"--identity\", \"/other.json\"");
    assert_only_finding(
        &elsewhere,
        &fit_host(&elsewhere),
        Refuse,
        "workload names another identity",
    );
    assert_eq!(
        check_plan(
            &elsewhere,
            elsewhere.run_count(),
            &fit_host(&elsewhere),
            true
        ),
        []
    );
    let script = with("\"/start.sh\"");
    assert_only_finding(
        &script,
        &fit_host(&script),
        Warn,
        "the validator may use another one",
    );
    // If only one arm names the identity, the other arm may still use another one.
    let text = "identity = \"/id.json\"\naccounts =";
    let large = "memory_max = \"8G\"\narguments = [\"--identity\", \"{identity}\"]";
    let one_arm = plan(
        &TWO_ARMS
            .replace("accounts =", text)
            .replace("memory_max = \"8G\"", large),
    );
    assert_only_finding(
        &one_arm,
        &fit_host(&one_arm),
        Warn,
        "the validator may use another one",
    );
    let other = large.replace("{identity}", "/id.json.staked");
    let two_arms = plan(
        &TWO_ARMS
            .replace("accounts =", text)
            .replace("memory_max = \"8G\"", &other),
    );
    assert_only_finding(
        &two_arms,
        &fit_host(&two_arms),
        Refuse,
        "arm \"large\" names another identity",
    );
    for words in ["\"--identity\", \"{identity}\"", "\"--identity=/id.json\""] {
        let plan = with(words);
        assert_eq!(shown_findings(&plan, &fit_host(&plan)), [], "{words}");
    }
}

#[test]
fn a_vote_account_is_found_in_any_argument_form() {
    let in_command = |words: &str| {
        plan_with(
            TWO_ARMS,
            "[\"/agave-validator\", \"--ledger\", \"{ledger}\"]",
            words,
        )
    };
    for words in [
        "[\"/bin/bash\", \"-c\", \"exec x --vote-account=foo\"]",
        "[\"/agave-validator\", \"--vote-account={ledger}/k\"]",
        "[\"/bin/bash\", \"-c\", \"exec x --vote-account k\", \"--no-voting\"]",
        "[\"python3\", \"-c\", \"run(['v', '--authorized-voter', 'k'])\"]",
    ] {
        let plan = in_command(words);
        assert_only_finding(
            &plan,
            &fit_host(&plan),
            Refuse,
            "workload sets a vote account",
        );
    }
}

#[test]
fn a_resumed_experiment_is_only_warned_of_a_voting_validator() {
    let votes = plan_with(
        TWO_ARMS,
        "memory_max = \"8G\"",
        "arguments = [\"--vote-account=k.json\"]",
    );
    // No request is sent, because the keypair of the identity does not exist.
    let warnings = super::vote_warnings(&votes);
    assert!(warnings.iter().all(|warning| warning.severity == Warn));
    let has = |text: &str| warnings.iter().any(|warning| warning.what.contains(text));
    assert!(has("sets a vote account"), "{warnings:?}");
    let stops = |warning: &Finding| warning.remedy.contains("faultline experiment stop");
    assert!(warnings.iter().all(stops), "{warnings:?}");
}

#[test]
fn no_voting_does_not_excuse_a_vote_account() {
    let plan = plan_with(
        TWO_ARMS,
        "\"{ledger}\"]",
        "\"{ledger}\", \"--vote-account\", \"k\", \"--no-voting\"]",
    );
    assert_only_finding(
        &plan,
        &fit_host(&plan),
        Refuse,
        "workload sets a vote account",
    );
}

#[test]
fn an_identity_file_that_is_not_a_keypair_is_reported_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("id.json");
    fs::write(&file, "name = \"p\"\n").unwrap();
    let plan = plan_with(TWO_ARMS, "[stop]", &format!("identity = {file:?}\n[stop]"));
    let gathered = gather_facts(&plan, Err("not asked".to_owned()));
    let facts = HostFacts {
        path_checks: gathered.path_checks,
        stakes: gathered.stakes,
        ..fit_host(&plan)
    };
    assert_only_finding(
        &plan,
        &facts,
        Refuse,
        "id.json: is no keypair as solana-keygen writes it",
    );
    fs::write(&file, format!("{:?}", [1_u8; 64])).unwrap();
    assert_eq!(
        gather_facts(&plan, Err(String::new())).path_checks[&file],
        Ok(())
    );
}

#[test]
fn a_file_where_a_folder_is_expected_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("base.toml");
    fs::write(&file, "").unwrap();
    for folder in [file.clone(), file.join("x/y")] {
        let plan = plan_with(TWO_ARMS, "\"/state\"", &format!("{folder:?}"));
        let mut facts = fit_host(&plan);
        let gathered = gather_facts(&plan, Err(String::new())).folders;
        facts
            .folders
            .insert(folder.clone(), gathered[&folder].clone());
        assert_only_finding(
            &plan,
            &facts,
            Refuse,
            &format!("{} exists and is not a folder", file.display()),
        );
    }
    let plan = plan(TWO_ARMS);
    let mut facts = fit_host(&plan);
    folder_mut(&mut facts, "/mnt/ledger").non_folder_on_path = Some("/mnt".into());
    folder_mut(&mut facts, "/mnt/ledger").why_not_clearable = Some("no mark".to_owned());
    assert_only_finding(
        &plan,
        &facts,
        Refuse,
        "ledger /mnt/ledger is a folder that cannot be made: /mnt exists",
    );
}

#[test]
fn swap_max_without_memory_max_is_refused_on_cgroup_v1() {
    let plan = plan_with(TWO_ARMS, "memory_max = \"8G\"", "swap_max = \"1G\"");
    assert_eq!(shown_findings(&plan, &fit_host(&plan)), []);
    let mut facts = fit_host(&plan);
    facts.launcher.as_mut().unwrap().name = "cgroup v1".to_owned();
    assert_only_finding(
        &plan,
        &facts,
        Refuse,
        "arm \"large\" sets swap_max without memory_max",
    );
}

#[test]
fn a_recorder_rejecting_its_configuration_is_reported_before_any_run() {
    let folder = tempfile::tempdir().unwrap();
    let script = |name: &str, text: &str| {
        let file = folder.path().join(name);
        fs::write(&file, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        file
    };
    let findings_for = |recorder: &Path| {
        let more = format!(
            "[recorder]\nprogram = {recorder:?}\nconfig = {:?}\n[stop]",
            folder.path().join("fine")
        );
        let plan = plan_with(TWO_ARMS, "[stop]", &more);
        let configuration = gather_facts(&plan, Err(String::new())).recorder_config;
        (
            shown_findings(
                &plan,
                &HostFacts {
                    recorder_config: configuration.clone(),
                    ..fit_host(&plan)
                },
            ),
            configuration,
        )
    };
    let fine = script("fine", "test \"$1 $2\" = 'check-config --config'");
    assert_eq!(findings_for(&fine), (vec![], Some(Ok(()))));
    let (message, _) = findings_for(&script(
        "bad",
        "for n in 1 2 3 4 5 6; do echo configuration: line $n >&2; done; exit 64",
    ));
    assert!(
        message[0]
            .1
            .ends_with("fine: line 1; line 2; and 4 more lines"),
        "{message:?}"
    );
    assert!(
        findings_for(&script("x", "").with_file_name("none"))
            .1
            .is_none()
    );
}

#[test]
fn a_tip_unreachable_within_the_time_limit_is_reported() {
    let within = |time: &str| {
        plan_with(
            TWO_ARMS,
            "[stop]",
            &format!("[stop]\nat_tip_within = \"{time}\""),
        )
    };
    for time in ["30s", "1m"] {
        assert_only_finding(
            &within(time),
            &fit_host(&within(time)),
            Warn,
            "reports the tip only after 1 min",
        );
    }
    assert_eq!(shown_findings(&within("2m"), &fit_host(&within("2m"))), []);
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("faultlined.toml");
    let plan = plan_with(
        TWO_ARMS,
        "[stop]",
        &format!("[recorder]\nconfig = {config:?}\n[stop]\nat_tip_within = \"30s\""),
    );
    let known = |text: &str| {
        fs::write(&config, text).unwrap();
        let at_tip_delay = gather_facts(&plan, Err(String::new())).at_tip_delay;
        (
            at_tip_delay,
            shown_findings(
                &plan,
                &HostFacts {
                    at_tip_delay,
                    ..fit_host(&plan)
                },
            )
            .len(),
        )
    };
    assert_eq!(
        known("[phase]\nat_tip_for = \"5s\"\n"),
        (Some(Duration::from_secs(5)), 0)
    );
    assert_eq!(known("[phase]\n"), (Some(Duration::from_secs(60)), 1));
    assert_eq!(known("["), (None, 0));
}

#[test]
fn arms_with_identical_settings_are_reported() {
    let twins = plan_with(TWO_ARMS, "memory_max = \"8G\"", "memory_max = \"4096M\"");
    assert_only_finding(
        &twins,
        &fit_host(&twins),
        Warn,
        "arms \"small\" and \"large\" have the same settings",
    );
    let named = plan(
        &twins
            .text
            .replace("\"--ledger\"", "\"--name={arm}\", \"--ledger\""),
    );
    assert_eq!(shown_findings(&named, &fit_host(&named)), []);
    let mut named_in_arms = twins;
    for arm in &mut named_in_arms.arms {
        arm.arguments = vec!["--name={arm}".to_owned()];
    }
    assert_eq!(
        shown_findings(&named_in_arms, &fit_host(&named_in_arms)),
        []
    );
}

#[test]
fn a_log_filter_that_hides_datapoints_gives_a_warning() {
    let plan = plan_with(
        TWO_ARMS,
        "memory_max = \"8G\"",
        "environment = { RUST_LOG = \"warn\" }",
    );
    let what = "RUST_LOG of arm \"large\" is \"warn\", which keeps solana_core::replay_stage from logging at info";
    assert_only_finding(&plan, &fit_host(&plan), Warn, what);
}

#[test]
fn the_documented_log_filter_suits_a_validator_but_not_a_replay() {
    let page = include_str!("../../../../docs/CONFIGURATION.md");
    let filter = page
        .lines()
        .find_map(|line| line.strip_prefix("RUST_LOG="))
        .unwrap();
    let plan = plan_with(
        TWO_ARMS,
        "[stop]",
        &format!("environment = {{ RUST_LOG = {filter:?} }}\n[stop]"),
    );
    assert_eq!(shown_findings(&plan, &fit_host(&plan)), []);
    let mut replay = plan;
    replay.workload.kind = WorkloadKind::Replay;
    let shown_findings = shown_findings(&replay, &fit_host(&replay));
    let of_log: Vec<_> = shown_findings
        .iter()
        .filter(|(_, what)| what.contains("RUST_LOG"))
        .collect();
    assert!(
        matches!(of_log[..], [(Warn, what)] if what.contains("keeps solana_metrics::metrics")),
        "{shown_findings:?}"
    );
}

#[test]
fn folders_without_permission_to_clear_are_refused() {
    let plan = plan(TWO_ARMS);
    let mut facts = fit_host(&plan);
    folder_mut(&mut facts, "/mnt/accounts").why_not_clearable = Some("no mark".to_owned());
    assert_only_finding(
        &plan,
        &facts,
        Refuse,
        "accounts cannot be cleared before a run: no mark",
    );
    let as_is = plan_with(TWO_ARMS, "download", "as-is");
    assert_only_finding(&as_is, &facts, Warn, "the starts are not equal");
    folder_mut(&mut facts, "/mnt/accounts").exists = false;
    assert!(
        shown_findings(&as_is, &facts)[0]
            .1
            .contains("accounts /mnt/accounts is not there")
    );

    let mut facts = fit_host(&plan);
    facts.home_folders = vec!["/mnt/ledger/sol".into()];
    assert_only_finding(
        &plan,
        &facts,
        Refuse,
        "ledger /mnt/ledger is the home folder /mnt/ledger/sol",
    );
}

#[test]
fn a_program_inside_a_cleared_folder_is_refused() {
    let binary = |how: &str| {
        let text = TWO_ARMS.replace("download", how);
        plan_with(
            &text,
            "memory_max = \"8G\"",
            "binary = \"/mnt/accounts/bin/fdctl\"",
        )
    };
    let inside = binary("download");
    assert_only_finding(
        &inside,
        &fit_host(&inside),
        Refuse,
        "/mnt/accounts/bin/fdctl is inside accounts /mnt/accounts, which is cleared",
    );
    let as_is = binary("as-is");
    assert_only_finding(&as_is, &fit_host(&as_is), Warn, "the starts are not equal");
    let plan = plan(TWO_ARMS);
    let mut facts = fit_host(&plan);
    facts.recorder_program = Ok("/mnt/ledger/faultlined".into());
    assert_only_finding(
        &plan,
        &facts,
        Refuse,
        "/mnt/ledger/faultlined is inside ledger /mnt/ledger",
    );
}

#[test]
fn a_recording_on_the_ledgers_device_gives_a_warning() {
    let plan = plan(TWO_ARMS);
    let mut facts = fit_host(&plan);
    folder_mut(&mut facts, "/state").device = Some(1);
    assert_only_finding(
        &plan,
        &facts,
        Warn,
        "folder /state is on the same device as ledger /mnt/ledger",
    );
}

#[test]
fn two_names_of_one_folder_are_refused() {
    let plan = plan(TWO_ARMS);
    let mut facts = fit_host(&plan);
    folder_mut(&mut facts, "/mnt/accounts").canonical_path = Some("/mnt/ledger/accounts".into());
    assert_only_finding(
        &plan,
        &facts,
        Refuse,
        "are the same folder, or one is inside the other",
    );
}

#[test]
fn recordings_require_free_space_and_downloads_an_estimate() {
    let plan = plan(TWO_ARMS);
    let mut facts = fit_host(&plan);
    // Two arms, four times: up to 6 h of start, an hour, and 2 min of grace.
    let recordings = &space_needs(&plan, plan.run_count(), &facts)[0];
    let bytes_per_run = (8 << 20) * (6 * 60 + 60 + 2) / 60;
    assert_eq!(recordings.bytes, 8 * bytes_per_run);
    assert_eq!(
        recordings.what,
        "recordings of 8 runs of up to 7 h 2 min; logs come on top"
    );
    folder_mut(&mut facts, "/state").free = Some(450 << 20);
    assert_only_finding(
        &plan,
        &facts,
        Refuse,
        "/state: 450.1 MiB are needed, and 450.0 MiB are free",
    );
    // A host block has one replicate.
    let host_block = HostBlock {
        replicate: Some(2),
        ..HostBlock::default()
    };
    let runs = host_block
        .turns(&plan)
        .into_iter()
        .map(|turn| turn.runs.len());
    assert_eq!(check_plan(&plan, runs.sum(), &facts, false), []);

    let mainnet = plan_with(TWO_ARMS, "[stop]", "cluster = \"mainnet-beta\"\n[stop]");
    let mut facts = fit_host(&mainnet);
    folder_mut(&mut facts, "/mnt/ledger").free = Some(99 * GIB);
    assert_only_finding(
        &mainnet,
        &facts,
        Warn,
        "/mnt/ledger: roughly 100.0 GiB are needed",
    );
    // On one disk, needs add up.
    folder_mut(&mut facts, "/mnt/ledger").free = Some(100 * GIB);
    assert_eq!(shown_findings(&mainnet, &facts), []);
    folder_mut(&mut facts, "/mnt/ledger").device = Some(50);
    folder_mut(&mut facts, "/state").free = Some(100 * GIB);
    assert!(
        shown_findings(&mainnet, &facts)
            .iter()
            .any(|(_, what)| what.contains("roughly 100.4 GiB are needed"))
    );
}

#[test]
fn missing_users_and_files_of_a_plan_are_refused() {
    let plan = plan_with(
        TWO_ARMS,
        "ledger = \"/mnt/ledger\"",
        "ledger = \"/mnt/ledger\"\nuser = \"sol\"",
    );
    let fits = fit_host(&plan);
    let why = || "is not there".to_owned();
    let mut facts = HostFacts {
        user: Err(why()),
        ..fits.clone()
    };
    assert_only_finding(&plan, &facts, Refuse, "user \"sol\": is not there");
    // systemd finds users in other sources than /etc/passwd.
    facts.launcher.as_mut().unwrap().name = "systemd".to_owned();
    assert_only_finding(&plan, &facts, Warn, "user \"sol\": is not there");
    assert_only_finding(
        &plan,
        &HostFacts {
            recorder_program: Err(why()),
            ..fits.clone()
        },
        Refuse,
        "there is no recorder",
    );
    let programs = BTreeMap::from([("/agave-validator".to_owned(), Err(why()))]);
    assert_only_finding(
        &plan,
        &HostFacts {
            programs,
            ..fits.clone()
        },
        Refuse,
        "the command begins with /agave-validator: is not there",
    );
    assert_only_finding(
        &plan,
        &HostFacts {
            path_checks: BTreeMap::from([("/f".into(), Err(why()))]),
            ..fits
        },
        Refuse,
        "/f: is not there",
    );
}

#[test]
fn limitations_of_an_experiment_design_are_reported() {
    let few = plan_with(TWO_ARMS, "replicates = 4", "replicates = 2");
    assert_only_finding(
        &few,
        &fit_host(&few),
        Warn,
        "2 runs of each arm can be described, but not tested",
    );
    let odd = plan_with(TWO_ARMS, "replicates = 4", "replicates = 3");
    assert_only_finding(
        &odd,
        &fit_host(&odd),
        Severity::Note,
        "only with an even number of replicates",
    );
    let warm = plan_with(
        TWO_ARMS,
        "how = \"download\"",
        "how = \"download\"\npage_cache = \"leave\"",
    );
    assert_only_finding(
        &warm,
        &fit_host(&warm),
        Warn,
        "files that the previous run read are still in the page cache",
    );
    let square = plan_with(
        TWO_ARMS,
        "replicates = 4",
        "replicates = 3\norder = \"latin-square\"",
    );
    assert_only_finding(
        &square,
        &fit_host(&square),
        Severity::Note,
        "a Latin square of 2 arms",
    );
}

#[test]
fn temporary_host_conditions_give_only_a_warning() {
    let plan = plan(TWO_ARMS);
    let host_finding = |is_temporary| HostFinding {
        severity: Refuse,
        is_temporary,
        what: "swap is on".to_owned(),
    };
    assert_only_finding(
        &plan,
        &HostFacts {
            host_violations: vec![host_finding(false)],
            ..fit_host(&plan)
        },
        Refuse,
        "this host now: swap is on",
    );
    assert_only_finding(
        &plan,
        &HostFacts {
            host_violations: vec![host_finding(true)],
            ..fit_host(&plan)
        },
        Warn,
        "this host now: swap is on",
    );
}

#[test]
fn the_most_severe_finding_comes_first() {
    let plan = plan_with(TWO_ARMS, "replicates = 4", "replicates = 1");
    let facts = HostFacts {
        recorder_program: Err("none".to_owned()),
        ..fit_host(&plan)
    };
    let severities: Vec<Severity> = check_plan(&plan, plan.run_count(), &facts, false)
        .into_iter()
        .map(|found| found.severity)
        .collect();
    assert_eq!(severities, [Refuse, Warn, Severity::Note]);
}

#[test]
fn facts_of_this_host_can_be_gathered() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = folder.path().join("ledger");
    let text = format!(
        "name = \"p\"\nfolder = {:?}\n[begin]\nhow = \"download\"\n[workload]\ncommand = [\"sh\", \"start.sh\"]\n\
         user = \"nobody-by-this-name\"\nledger = {ledger:?}\n[[arm]]\nname = \"a\"\ncache_entries = 5\n",
        folder.path().join("state")
    );
    let plan = plan(&text);
    let facts = gather_facts(&plan, Err("not asked".to_owned()));
    assert!(
        facts.ram.is_some_and(|ram| ram > 1 << 26) && facts.cpus.is_some() && facts.swap.is_some()
    );
    assert!(facts.user.is_err());
    let there = &facts.folders[&ledger];
    assert!(
        !there.exists
            && there.why_not_clearable.is_some()
            && there.device.is_some()
            && there.free.is_some()
    );
    let shell = facts.programs["sh"].clone().unwrap();
    let key = (shell, CACHE_VARIABLE.to_owned());
    assert_eq!(facts.text_presences[&key], TextPresence::Missing);
    assert!(matches!(facts.stakes["main"], Stake::Unknown(_)));
}

#[test]
fn missing_host_requirements_are_reported_before_runs() {
    let plan = plan(TWO_ARMS);
    let without = |tool: &str| {
        let tools = super::TOOLS
            .into_iter()
            .filter(|one| *one != tool)
            .collect();
        HostFacts {
            tools,
            runs_as_other_user: true,
            ..fit_host(&plan)
        }
    };
    assert_only_finding(&plan, &without("fincore"), Warn, "fincore");
    assert_only_finding(&plan, &without("setpriv"), Refuse, "setpriv");
    assert_eq!(
        shown_findings(
            &plan,
            &HostFacts {
                runs_as_other_user: false,
                ..without("setpriv")
            }
        ),
        []
    );
    let mut leaves = plan.clone();
    leaves.page_cache = crate::plan::PageCache::Leave;
    assert!(
        !shown_findings(&leaves, &without("fincore"))
            .iter()
            .any(|what| format!("{what:?}").contains("fincore"))
    );

    let mut many = plan.clone();
    many.workload.open_files = Some(1_048_577);
    assert_only_finding(&many, &fit_host(&many), Refuse, "1048577");
    many.workload.open_files = Some(1_048_576);
    assert_eq!(shown_findings(&many, &fit_host(&many)), []);
}

#[test]
fn a_folder_that_its_user_may_not_write_is_refused() {
    let plan = plan(TWO_ARMS);
    let why = "cannot be used by user \"sol\" (it has mode 755, user 0 and group 0)";
    let facts = HostFacts {
        inaccessible: BTreeMap::from([("/mnt/ledger".into(), why.to_owned())]),
        ..fit_host(&plan)
    };
    assert_only_finding(
        &plan,
        &facts,
        Refuse,
        &format!("ledger /mnt/ledger {why}: every run would exit immediately"),
    );
}

#[test]
fn a_search_with_a_validator_not_reporting_its_tip_gives_a_warning() {
    let (head, _) = TWO_ARMS.split_once("[stop]").unwrap();
    let text =
        head.replace("replicates = 4\n", "") + "[search]\nwhat = \"memory\"\nfrom = \"1G\"\n";
    let late = plan(&text);
    let facts = |plan: &Plan| HostFacts {
        swap: Some(0),
        ..fit_host(plan)
    };
    let warned = |plan: &Plan| {
        shown_findings(plan, &facts(plan))
            .iter()
            .any(|(_, what)| what.contains("no --full-rpc-api"))
    };
    assert!(warned(&late));
    assert!(!warned(&plan(
        &text.replace("\"{ledger}\"]", "\"{ledger}\", \"--full-rpc-api\"]")
    )));
}

#[test]
fn a_first_headroom_beyond_a_parent_cgroup_is_refused() {
    let (head, _) = TWO_ARMS.split_once("[stop]").unwrap();
    let text =
        head.replace("replicates = 4\n", "") + "[search]\nwhat = \"memory\"\nfrom = \"8G\"\n";
    let plan = plan(&text);
    let facts = HostFacts {
        outer_limits: Ok(vec![LevelMemory {
            id: Level::Cgroup(1),
            path: "/sol.slice".into(),
            limit: 7 * GIB,
            unreclaimable: 0,
            dirty: None,
        }]),
        ..fit_host(&plan)
    };
    let expected =
        "search.from is 8 GiB, and cgroup /sol.slice around it has 7.0 GiB of 7.0 GiB left";
    let findings = shown_findings(&plan, &facts);
    assert!(
        findings.contains(&(Refuse, expected.to_owned())),
        "{findings:#?}"
    );
}

#[test]
fn a_validator_whose_name_the_daemon_does_not_know_is_a_warning() {
    let expected = "faultlined does not know /b/stv-2.1.14 as a validator";
    for unknown in [
        "command = [\"/b/stv-2.1.14\"]",
        "command = [\"/s.sh\"]\nbinary = \"/b/stv-2.1.14\"",
    ] {
        let plan = plan_with(CONCURRENT, "command = [\"/agave-validator\"]", unknown);
        let program = PathBuf::from("/b/stv-2.1.14");
        let mut facts = fit_host(&plan);
        facts.programs = BTreeMap::from([("/b/stv-2.1.14".to_owned(), Ok(program))]);
        assert_only_finding(&plan, &facts, Warn, expected);
    }
    for (known, kind) in [
        ("/b/fdctl", "validator"),
        // The kernel truncates the name of the process to 15 bytes.
        ("/b/solana-test-validator-2.1.14", "validator"),
        ("/b/agave-ledger-tool", "replay"),
    ] {
        let workload = format!("command = [\"/s.sh\"]\nbinary = {known:?}\nkind = {kind:?}");
        let text = TWO_ARMS.replace("download", "as-is");
        let command = "command = [\"/agave-validator\", \"--ledger\", \"{ledger}\"]";
        let plan = plan_with(&text, command, &workload);
        let all = shown_findings(&plan, &fit_host(&plan));
        assert!(
            !all.iter()
                .any(|(_, what)| what.contains("faultlined does not know")),
            "{all:?}"
        );
    }
    for name in KNOWN_VALIDATORS
        .split([',', ' '])
        .filter(|word| word.len() > 2)
    {
        assert_eq!(Program::of_comm(name).map(Program::name), Some(name));
    }
}
