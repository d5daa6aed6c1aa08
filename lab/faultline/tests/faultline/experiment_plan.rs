//! Plans as a researcher has them: the ready ones, and what `faultline experiment plan` says to others.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot prepare its scene fails"
)]
#![expect(clippy::disallowed_methods, reason = "a test starts programs itself")]

use faultline_experiments::{
    plan::{Cluster, InitialState, Order, Plan, WorkloadKind, load},
    schedule::schedule,
};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

fn ready() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments")
}

fn read(name: &str) -> Plan {
    load(&ready().join(name)).unwrap_or_else(|mistakes| {
        let said: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
        panic!("{}", said.join("\n"))
    })
}

#[test]
fn every_shipped_plan_is_valid() {
    let mut names = Vec::new();
    for entry in fs::read_dir(ready()).expect("the folder of ready plans") {
        let file = entry
            .expect("an entry")
            .file_name()
            .into_string()
            .expect("a name");
        if file.ends_with(".toml") {
            let plan = read(&file);
            // A search compares nothing.
            if plan.memory_search.is_none() {
                assert!(plan.arms.len() > 1 && schedule(&plan).len() > 1, "{file}");
                assert!(plan.replicates >= 3, "{file}: too few for a test");
            }
            let balanced = plan.memory_search.is_some()
                || plan.order != Order::Abba
                || plan.concurrent.is_some()
                || plan.replicates.is_multiple_of(2);
            assert!(balanced, "{file}: ABBA is whole only in pairs");
            names.push(plan.name);
        }
    }
    let count = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), count, "two plans of the same name");
    assert!(count >= 8);
}

#[test]
fn the_tables_of_the_study_are_there() {
    let ram = read("ram.toml");
    let limits: Vec<Option<u64>> = ram
        .arms
        .iter()
        .map(|arm| arm.memory_max.map(|max| max >> 30))
        .collect();
    assert_eq!(limits, [128, 256, 512, 1024, 1536].map(Some));
    let cache = read("program-cache.toml");
    let entries: Vec<Option<u32>> = cache
        .arms
        .iter()
        .map(|arm| arm.program_cache_entries)
        .collect();
    assert_eq!(entries, [512, 1024, 2048].map(Some));
    for plan in [ram, cache] {
        assert_eq!(plan.stop.duration.as_secs(), 12 * 3600);
        assert_eq!(
            (plan.initial_state, plan.workload.cluster),
            (InitialState::Download, Some(Cluster::MainnetBeta))
        );
    }
}

#[test]
fn each_public_cluster_has_a_plan_with_its_entrypoints_and_known_validators() {
    let clusters = [
        ("mainnet-beta", Cluster::MainnetBeta),
        ("testnet", Cluster::Testnet),
        ("devnet", Cluster::Devnet),
    ];
    for (name, cluster) in clusters {
        let plan = read(&format!("{name}.toml"));
        assert_eq!(plan.workload.cluster, Some(cluster));
        assert!(
            plan.workload
                .entrypoints
                .iter()
                .all(|host| host.contains(&format!(".{name}.solana.com:")))
        );
        assert!(!plan.workload.known_validators.is_empty());
        assert!(
            plan.workload
                .command
                .iter()
                .any(|word| word == "--no-voting")
        );
    }
    assert_eq!(read("replay.toml").workload.kind, WorkloadKind::Replay);
    assert!(read("concurrent-cache.toml").concurrent.is_some());
    assert_eq!(read("local.toml").workload.cluster, Some(Cluster::Localnet));
}

#[test]
fn each_clusters_search_plan_fits_its_time_limit() {
    let clusters = [
        ("least-ram.toml", Cluster::MainnetBeta),
        ("least-ram-testnet.toml", Cluster::Testnet),
        ("least-ram-local.toml", Cluster::Localnet),
    ];
    for (name, cluster) in clusters {
        let plan = read(name);
        assert_eq!(plan.workload.cluster, Some(cluster), "{name}");
        assert!(
            plan.workload
                .command
                .iter()
                .any(|word| word == "--no-voting"),
            "{name}"
        );
        let search = plan.memory_search.expect("a search");
        assert!(
            search.min_duration() * 3 / 2 <= search.max_duration,
            "{name}: {:?} of {:?}",
            search.min_duration(),
            search.max_duration
        );
    }
}

fn plan(file: &Path, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_faultline"));
    command.args(["experiment", "plan"]).arg(file).args(more);
    command.output().expect("the program starts")
}

/// A folder with a ledger that may be cleared, a program, and a plan for them; `more` is put into the workload.
fn scene(more: &str, arm: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let ledger = folder.path().join("ledger");
    let mut init = Command::new(env!("CARGO_BIN_EXE_faultline"));
    assert!(
        init.args(["experiment", "init"])
            .arg(&ledger)
            .status()
            .expect("the program starts")
            .success()
    );
    // Any file will do as a recorder: nothing is run.
    let text = format!(
        "name = \"p\"\nfolder = \"state\"\n[begin]\nhow = \"download\"\n[workload]\ncluster = \"localnet\"\nledger = \"ledger\"\n{more}\n\
         [recorder]\nprogram = \"./plan.toml\"\n[[arm]]\nname = \"a\"\n{arm}\n[[arm]]\nname = \"b\"\n\
         [host]\nfree_disk = {{ at_least = \"1M\", otherwise = \"refuse\" }}\n"
    );
    let file = folder.path().join("plan.toml");
    fs::write(&file, text).expect("a plan");
    (folder, file)
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn a_valid_plan_prints_its_schedule_and_may_run_with_cgroups() {
    let (_folder, file) = scene("command = [\"sh\", \"-c\", \"exit\"]", "");
    let output = plan(&file, &[]);
    let text = said(&output);
    assert!(
        text.contains(
            "turn  run  arm  replicate\n1     1    a    1\n2     2    b    1\n3     3    b    2\n"
        ),
        "{text}"
    );
    assert!(
        text.contains(
            "cannot determine whether the identity has stake: the plan names no identity"
        ),
        "{text}"
    );
    // Whoever may not make groups is told so, and of nothing else.
    let refused: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("refused"))
        .collect();
    let code = output.status.code();
    match refused.as_slice() {
        [] => assert_eq!(code, Some(0), "{text}"),
        [one] => assert!(
            one.contains("no cgroup can be made") && code == Some(1),
            "{text}"
        ),
        more => panic!("{more:#?}"),
    }
}

#[test]
fn a_rule_that_can_never_pass_is_refused_before_any_run() {
    let (_folder, file) = scene("command = [\"sh\", \"-c\", \"exit\"]", "");
    let text = fs::read_to_string(&file).expect("the plan");
    fs::write(&file, text.replace("\"1M\"", "\"900000T\"")).expect("a plan");
    let output = plan(&file, &[]);
    let text = said(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.lines()
            .any(|line| line.starts_with("refused") && line.contains("host.free_disk wants ")),
        "{text}"
    );
}

#[test]
fn a_program_without_the_cache_option_is_refused_with_a_remedy() {
    let (_folder, file) = scene(
        "command = [\"sh\", \"-c\", \"exit\"]",
        "cache_entries = 1024",
    );
    let output = plan(&file, &[]);
    let text = said(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.contains("AGAVE_PROGRAM_CACHE_ENTRIES is not in "),
        "{text}"
    );
    assert!(text.contains("scripts/install-agave"), "{text}");
}

#[test]
fn a_plan_with_a_voting_validator_requires_the_i_vote_option() {
    let (_folder, file) = scene(
        "command = [\"sh\", \"-c\", \"exit\", \"--vote-account\", \"k\"]",
        "",
    );
    let text = said(&plan(&file, &[]));
    assert!(text.contains("workload sets a vote account"), "{text}");
    assert!(!said(&plan(&file, &["--i-vote"])).contains("sets a vote account"));
}

#[test]
fn an_invalid_plan_is_a_usage_error_that_reports_all_errors() {
    let (_folder, file) = scene("command = []\nlegder = \"x\"", "memory_max = \"5GB\"");
    let output = plan(&file, &["--json"]);
    let text = said(&output);
    assert_eq!(output.status.code(), Some(64), "{text}");
    assert!(output.stdout.is_empty());
    for mistake in [
        "plan.toml:8: workload.command: is empty",
        "plan.toml:9: workload.legder",
        "plan.toml:14: arm.memory_max",
    ] {
        assert!(text.contains(mistake), "{mistake}: {text}");
    }
}

#[test]
fn the_whole_plan_is_printed_as_one_json_object() {
    let (_folder, file) = scene(
        "command = [\"sh\", \"-c\", \"exit\"]",
        "memory_max = \"64M\"",
    );
    let output = plan(&file, &["--json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(json["turns"].as_array().map(Vec::len), Some(8));
    assert_eq!(json["arms"][0]["limits"]["memory_max"], 64 << 20);
    assert_eq!(
        json["estimate"]["shortest_seconds"],
        8 * 12 * 3600 + 7 * 300
    );
    assert_eq!(json["may_run"], output.status.success());
    assert!(
        json["disk"][0]["bytes"]
            .as_u64()
            .is_some_and(|bytes| bytes > 8 * 12 * (4 << 20))
    );
}
