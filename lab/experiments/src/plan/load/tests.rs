use super::*;
use crate::plan::{Arm, Cluster};
use faultline_runner::isolation::CpuSet;
use proptest::prelude::*;
use std::collections::BTreeMap;

const SMALL: &str = r#"
name = "small"
folder = "state"
[workload]
command = ["./start.sh", "--ledger", "{ledger}"]
ledger = "/mnt/ledger"
[begin]
how = "as-is"
[[arm]]
name = "all"
"#;

fn read(text: &str) -> Result<Plan, Vec<String>> {
    parse(text, Path::new("/plans/plan.toml"))
        .map_err(|m| m.iter().map(ToString::to_string).collect())
}

fn mistakes(text: &str) -> Vec<String> {
    read(text).err().unwrap_or_default()
}

#[test]
fn a_missing_plan_is_an_error_that_names_the_shipped_ones() {
    let folder = tempfile::tempdir().unwrap();
    let errors = load(&folder.path().join("least-ram.toml")).unwrap_err();
    let text = errors.iter().map(ToString::to_string).join("\n");
    for expected in [
        "least-ram.toml",
        "is not there",
        "/usr/share/doc/faultline/examples/",
    ] {
        assert!(text.contains(expected), "{text}");
    }
}

/// The small plan, with one text replaced by another.
fn with(from: &str, to: &str) -> String {
    assert!(SMALL.contains(from), "{from}");
    SMALL.replace(from, to)
}

#[track_caller]
fn refused(text: &str, expected: &str) {
    let found = mistakes(text);
    assert!(
        found.iter().any(|mistake| mistake.contains(expected)),
        "{expected}\n{found:#?}"
    );
}

#[test]
fn a_small_plan_has_the_defaults() {
    let plan = read(SMALL).unwrap();
    assert_eq!(plan.folder, Path::new("/plans/state"));
    assert_eq!(
        plan.workload.command,
        ["/plans/start.sh", "--ledger", "{ledger}"]
    );
    assert_eq!(
        (
            plan.replicates,
            plan.order,
            plan.seed,
            plan.attempts_per_turn
        ),
        (4, Order::Abba, 1, 3)
    );
    assert_eq!(plan.stop.duration, Duration::from_secs(12 * 3600));
    assert_eq!(plan.stop.counted_from, CountedFrom::FirstTransaction);
    assert_eq!(
        plan.host.busy_cpus,
        Rule {
            bound: 2.0,
            severity: Severity::Warn
        }
    );
    assert_eq!(plan.lanes.len(), 1);
    assert_eq!(
        plan.arms,
        [Arm {
            name: "all".to_owned(),
            line: Some(10),
            ..Arm::default()
        }]
    );
    assert_eq!(plan.text, SMALL);
}

const EVERY_KEY: &str = include_str!("every_key.toml");

#[test]
fn every_key_is_read() {
    let plan = read(EVERY_KEY).unwrap();
    assert_eq!(plan.name, "ram-mainnet");
    assert_eq!(plan.workload.cluster, Some(Cluster::MainnetBeta));
    assert_eq!(plan.workload.entrypoints.len(), 5);
    assert_eq!(
        plan.workload.known_validators,
        ["7Np41oeYqPefeNQEHSv1UDhYrehxin3NStELsSKCT4K2"]
    );
    assert_eq!(
        plan.initial_state,
        InitialState::Restore {
            from: "/mnt/kept".into()
        }
    );
    assert_eq!(plan.stop.no_progress_for, None);
    assert_eq!(plan.stop.at_tip_within, Some(Duration::from_secs(6 * 3600)));
    assert_eq!(
        plan.host.free_disk,
        Rule {
            bound: 200 << 30,
            severity: Severity::Warn
        }
    );
    assert_eq!(
        plan.report,
        ReportRules {
            primary_metric: Some("cache-time".to_owned()),
            margin: Some(0.05)
        }
    );
    assert_eq!(plan.recorder.program, Some("/plans/bin/faultlined".into()));
    assert_eq!(plan.recorder.cpus, CpuSet::parse("1-3").ok());
    assert_eq!(
        plan.recorder.targets,
        Some("/etc/prometheus/targets/ram.json".into())
    );
    let slurm = &plan.slurm;
    assert_eq!(slurm.memory, Some(768 << 30));
    assert_eq!(
        (slurm.constraint.as_deref(), slurm.exclude.as_deref()),
        (Some("nvme"), Some("node7"))
    );
    assert_eq!(slurm.options, ["--partition=lab"]);
}

#[test]
fn every_key_of_an_arm_is_read_and_the_factors_are_crossed() {
    let plan = read(EVERY_KEY).unwrap();
    let arm = &plan.arms[0];
    assert_eq!(
        (arm.memory_max, arm.memory_high, arm.swap_max),
        (Some(512 << 30), Some(480 << 30), Some(0))
    );
    assert_eq!(
        (
            &*arm.io[0].device,
            arm.io[0].read_bytes,
            arm.io[0].write_operations
        ),
        (Path::new("/mnt/ledger"), Some(500 << 20), Some(1000))
    );
    assert_eq!(arm.binary, Some("/plans/new/agave-validator".into()));
    assert_eq!(arm.arguments, ["--limit-ledger-size"]);
    assert_eq!(
        arm.environment,
        BTreeMap::from([("RUST_LOG".to_owned(), "warn".to_owned())])
    );
    let names: Vec<&str> = plan.arms.iter().map(|arm| arm.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "512G",
            "128G cache-512",
            "128G cache-1024",
            "256G cache-512",
            "256G cache-1024"
        ]
    );
    assert_eq!(
        (plan.arms[4].memory_max, plan.arms[4].program_cache_entries),
        (Some(256 << 30), Some(1024))
    );
    assert_eq!(
        plan.arms[4].swap_max,
        Some(0),
        "what is over the limit does not hide in swap"
    );
    assert_eq!(
        plan.arms[0].limits(&plan.lanes[0]).cpus,
        CpuSet::parse("0-7").ok()
    );
    assert_eq!(
        plan.arms[1].limits(&plan.lanes[0]).cpus,
        CpuSet::parse("0-15").ok()
    );
}

#[test]
fn all_errors_are_reported_at_once_with_file_and_line() {
    let text = "name = \"Big Plan\"\nfolder = \"x\"\nreplicates = 0\n[workload]\ncomand = [\"a\"]\nledger = \"l\"\n\
                [begin]\nhow = \"wipe\"\n[[arm]]\nname = \"a\"\nmemory_max = \"512GB\"\n[stop]\nduration = 12\n";
    assert_eq!(
        mistakes(text),
        [
            "/plans/plan.toml:1: name: \"Big Plan\": a name has 1 to 40 lower-case letters, digits and dashes, as in \
             \"ram-mainnet\"",
            "/plans/plan.toml:3: replicates: a whole number from 1 to 1000 is wanted, not the number 0",
            "/plans/plan.toml:5: workload.comand: unknown key; did you mean command?",
            "/plans/plan.toml:8: begin.how: one of \"download\", \"restore\", \"as-is\" is wanted, not the string \
             \"wipe\"",
            "/plans/plan.toml:11: arm.memory_max: \"512GB\" could mean powers of 1000 or of 1024; write \"512G\" or \
             \"512GiB\" for powers of 1024",
            "/plans/plan.toml:13: stop.duration: a time with its unit, such as \"12h\", is wanted, not the number 12",
        ]
    );
}

#[test]
fn one_plan_error_gives_one_message() {
    for line in EVERY_KEY.lines().filter(|line| line.contains(" = ")) {
        let key = line.split(' ').next().unwrap();
        refused_once(
            &EVERY_KEY.replacen(line, &format!("{key} = [1979-05-27]"), 1),
            key,
        );
        refused_once(
            &EVERY_KEY.replacen(line, &format!("x{line}"), 1),
            &format!("did you mean {key}?"),
        );
    }
    for head in [
        "workload", "begin", "stop", "host", "recorder", "report", "slurm", "factors",
    ] {
        refused_once(
            &EVERY_KEY.replacen(&format!("[{head}]"), &format!("[{head}x]"), 1),
            &format!("did you mean {head}?"),
        );
    }
    refused_once(&with("[[arm]]", "[[arms]]"), "did you mean arm?");
    refused_once(&with("ledger = ", "leger = "), "did you mean ledger?");
    refused_once(
        &format!("{SMALL}io = [{{ device = \"/dev/sda\", read_bytes = \"5X\" }}]\n"),
        "arm.io.read_bytes: \"5X\"",
    );
    refused_once(
        &with(
            "folder = ",
            "force_order = 1\norder = \"sequential\"\nfolder = ",
        ),
        "force_order: true or false",
    );
    refused_once(
        &EVERY_KEY.replacen("margin = 5", "margin = 100", 1),
        "report.margin: a percentage above 0 and below 100 is wanted",
    );
    let twice = concurrent(&format!("twice = \"all\"\n{TWO_LANES}"));
    refused_once(
        &twice.replace("name = \"all\"", "name = \" all\""),
        "arm.name: \" all\"",
    );
}

#[test]
fn one_error_in_factors_gives_one_message() {
    for (factors, expected) in [
        (
            "memory_max = [\"1550MM\"]",
            "factors.memory_max: \"1550MM\" has no known unit",
        ),
        ("memory_mx = [\"1550M\"]", "did you mean memory_max?"),
        ("environment = {}", "environment is empty"),
        (
            "environment = { a = { X = 5 } }",
            "factors.environment.a: a string is wanted",
        ),
        ("", "factors: is empty"),
    ] {
        let without_arms = SMALL.split("[[arm]]").next().unwrap();
        refused_once(&format!("{without_arms}[factors]\n{factors}\n"), expected);
    }
}

#[track_caller]
fn refused_once(text: &str, expected: &str) {
    let found = mistakes(text);
    assert!(
        found.len() == 1 && found[0].contains(expected),
        "{expected:?} alone is wanted: {found:#?}"
    );
}

#[test]
fn missing_plan_keys_are_named() {
    let found = mistakes("");
    for missing in [
        "name is missing",
        "folder is missing",
        "[workload]",
        "[begin]",
        "no [[arm]]",
    ] {
        assert!(
            found.iter().any(|mistake| mistake.contains(missing)),
            "{missing}: {found:?}"
        );
    }
    refused(
        &with("ledger = \"/mnt/ledger\"", ""),
        "workload.ledger is missing",
    );
}

#[test]
fn toml_syntax_errors_are_reported_once_per_line() {
    let found = mistakes("name = = 3\nreplicates 3\nfolder = \"x\" y\n");
    assert_eq!(found.len(), 3, "{found:#?}");
    for (line, (expected_line, text)) in
        (1..).zip(
            found
                .iter()
                .zip(["name = = 3", "replicates 3", "folder = \"x\" y"]),
        )
    {
        assert!(
            expected_line.starts_with(&format!("/plans/plan.toml:{line}: "))
                && expected_line.ends_with(&format!("`{text}`")),
            "{expected_line}"
        );
    }
    // If an array has no end, the parser reports an error in the text after it.
    let found = mistakes(&with("{ledger}\"]", "{ledger}\""));
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(
        found[0].contains("plan.toml:6: ") && found[0].contains("may not be closed"),
        "{found:#?}"
    );
}

#[test]
fn required_plan_values_must_not_be_empty() {
    refused(
        &with("\"small\"", "\"\""),
        "plan.toml:2: name: is empty, and is needed",
    );
    refused(
        &with("\"state\"", "\"\""),
        "folder: is empty, and is needed",
    );
    refused(
        &with(
            "ledger = \"/mnt/ledger\"",
            "ledger = \"/mnt/ledger\"\nuser = \"\"",
        ),
        "leave the key out instead",
    );
}

#[test]
fn forward_backward_order_defaults_to_an_even_number_of_replicates() {
    let times = |more: &str| {
        read(&with(
            "folder = \"state\"",
            &format!("folder = \"state\"\n{more}"),
        ))
        .unwrap()
        .replicates
    };
    assert_eq!(
        (
            times(""),
            times("order = \"abba\""),
            times("replicates = 3")
        ),
        (4, 4, 3)
    );
    assert_eq!(
        (
            times("order = \"latin-square\""),
            times("order = \"random\"")
        ),
        (3, 3)
    );
    assert_eq!(read(&concurrent(TWO_LANES)).unwrap().replicates, 3);
}

#[test]
fn ports_of_one_lane_differ() {
    let ports = |ports: &str| {
        with(
            "ledger = \"/mnt/ledger\"",
            &format!("ledger = \"/mnt/ledger\"\n{ports}"),
        )
    };
    let range = "port_range = \"8002-8040\"";
    refused(
        &ports(&format!("rpc_port = 8003\n{range}")),
        "workload: rpc_port (and the one above it) and port_range both",
    );
    refused(
        &ports(&format!("rpc_port = 8001\n{range}")),
        "both have port 8002",
    );
    refused(
        &ports("rpc_port = 8001\ngossip_port = 8001"),
        "rpc_port (and the one above it) and gossip_port both have port 8001",
    );
    refused(
        &ports(&format!("gossip_port = 8040\n{range}")),
        "both have port 8040",
    );
    assert!(
        read(&ports(&format!(
            "rpc_port = 8899\ngossip_port = 8001\n{range}"
        )))
        .is_ok()
    );
}

#[test]
fn plans_must_not_override_the_runners_script_variables() {
    let environment = |name: &str| {
        with(
            "[begin]",
            &format!("environment = {{ {name} = \"z\" }}\n[begin]"),
        )
    };
    for name in [
        "FAULTLINE_LEDGER",
        "FAULTLINE_RUN_FOLDER",
        "FAULTLINE_ENTRYPOINTS",
        "FAULTLINE_ACCOUNTS",
    ] {
        refused(
            &environment(name),
            &format!("workload: {name} is set by the runner"),
        );
    }
    refused(
        &format!("{SMALL}environment = {{ FAULTLINE_ARM = \"z\" }}\n"),
        "arm \"all\": FAULTLINE_ARM is set",
    );
    assert!(read(&environment("FAULTLINE_TRUTH")).is_ok());
}

#[test]
fn sequential_arm_order_requires_force() {
    refused(
        &with(
            "folder = \"state\"",
            "folder = \"state\"\norder = \"sequential\"",
        ),
        "force_order = true",
    );
    let forced = with(
        "folder = \"state\"",
        "folder = \"state\"\norder = \"sequential\"\nforce_order = true",
    );
    assert_eq!(read(&forced).unwrap().order, Order::Sequential);
}

#[test]
fn duplicate_plan_list_entries_are_refused_with_both_positions() {
    let workload = |line: &str| {
        with(
            "ledger = \"/mnt/ledger\"",
            &format!("ledger = \"/mnt/ledger\"\n{line}"),
        )
    };
    refused(
        &workload("entrypoints = [\"a:8001\", \"b:8001\", \"a:8001\"]"),
        "workload.entrypoints: item 3, the string \"a:8001\", is the same as item 1",
    );
    let key = "7Np41oeYqPefeNQEHSv1UDhYrehxin3NStELsSKCT4K2";
    refused(
        &workload(&format!("known_validators = [{key:?}, {key:?}]")),
        "workload.known_validators: item 2, the string",
    );
    let io = "[[arm.io]]\ndevice = \"/dev/sda\"\nread_bytes = \"1M\"\n";
    refused(
        &format!("{SMALL}{io}{}", io.replace("/dev/", "/dev/./")),
        "arm \"all\": device /dev/sda is given twice, in lines 12 and 15",
    );
    let factors = |levels: &str| with("[[arm]]\nname = \"all\"", &format!("[factors]\n{levels}"));
    refused(
        &factors("memory_max = [\"1G\", \"2G\", \"1024M\"]"),
        "factors.memory_max: item 3, the string \"1024M\", is the same as item 1, the string \"1G\"",
    );
    refused(
        &factors("cpus = [\"0-1\", \"0,1\"]"),
        "factors.cpus: item 2",
    );
}

#[test]
fn arm_names_must_be_distinct_and_valid() {
    refused(
        &format!("{SMALL}[[arm]]\nname = \"all\"\n"),
        "arm \"all\" is given twice, in lines",
    );
    refused(
        &format!("{SMALL}memory_max = \"1G\"\nmemory_high = \"2G\"\n"),
        "memory_high is above memory_max",
    );
    refused(&format!("{SMALL}memory_max = \"512K\"\n"), "less than 1M");
    refused(
        &format!("{SMALL}environment = {{ AGAVE_PROGRAM_CACHE_ENTRIES = \"5\" }}\n"),
        "set cache_entries instead",
    );
    refused(
        &format!("{SMALL}environment = {{ SOLANA_METRICS_CONFIG = \"host=x\" }}\n"),
        "is set by the runner",
    );
    refused(
        &format!("{SMALL}io = [{{ device = \"/dev/sda\" }}]\n"),
        "limits nothing",
    );
    let levels = (0..101)
        .map(|level| format!("\"{}M\"", level + 2))
        .collect::<Vec<_>>()
        .join(",");
    refused(
        &format!("{SMALL}[factors]\nmemory_max = [{levels}]\n"),
        "more than 100 combinations",
    );
}

#[test]
fn named_factor_levels_are_crossed_in_file_order() {
    let text = format!(
        "{SMALL}[factors]\nbinary = {{ new = \"new/agave-validator\", old = \"old/agave-validator\" }}\n\
         arguments = {{ plain = [], big = [\"--limit\", \"5\"] }}\n"
    );
    let plan = read(&text).unwrap();
    let names: Vec<&str> = plan
        .arms
        .iter()
        .skip(1)
        .map(|arm| arm.name.as_str())
        .collect();
    assert_eq!(names, ["new plain", "new big", "old plain", "old big"]);
    assert_eq!(
        plan.arms[4].binary,
        Some("/plans/old/agave-validator".into())
    );
    assert_eq!(plan.arms[4].arguments, ["--limit", "5"]);
}

#[test]
fn plan_folders_must_not_overlap_and_keys_not_be_in_cleared_ones() {
    refused(
        &with("folder = \"state\"", "folder = \"/mnt/ledger/state\""),
        "are one inside the other",
    );
    refused(
        &with("folder = \"state\"", "folder = \"/mnt/x/../ledger/.\""),
        "are the same folder",
    );
    refused(&with("\"/mnt/ledger\"", "\"/\""), "ledger is /");
    let key = with(
        "ledger = \"/mnt/ledger\"",
        "ledger = \"/mnt/ledger\"\nidentity = \"/mnt/ledger/id.json\"",
    );
    assert!(read(&key).is_ok(), "\"as-is\" clears nothing");
    let cleared = |text: &str| text.replace("\"as-is\"", "\"download\"");
    refused(
        &cleared(&key),
        "identity /mnt/ledger/id.json is inside /mnt/ledger",
    );
    let recorder = "[recorder]\nconfig = \"/mnt/ledger/f.toml\"\n";
    refused(
        &(cleared(SMALL) + recorder),
        "recorder.config /mnt/ledger/f.toml is inside /mnt/ledger",
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plan.toml");
    let text = cleared(SMALL).replace("\"state\"", "\"/state\"");
    let text = text.replace("/mnt/ledger", folder.path().to_str().unwrap());
    std::fs::write(&file, &text).unwrap();
    let errors = load(&file).unwrap_err();
    assert!(
        errors[0].to_string().contains("the plan is inside"),
        "{errors:?}"
    );
    // The copy in the experiment's folder is still readable.
    assert!(parse(&text, &file).is_ok());
    let with_both = with(
        "ledger = \"/mnt/ledger\"",
        "ledger = \"/mnt/ledger\"\naccounts = \"/mnt/ledger-accounts\"",
    );
    assert!(read(&with_both).is_ok());
}

fn concurrent(lanes: &str) -> String {
    let text = with("ledger = \"/mnt/ledger\"\n", "");
    format!("{text}memory_max = \"1G\"\n[concurrent]\n{lanes}")
}

const TWO_LANES: &str = r#"
[[lane]]
name = "a"
ledger = "/mnt/a/ledger"
rpc_port = 8899
gossip_port = 8001
port_range = "8002-8040"
cpus = "0-3"
[[lane]]
name = "b"
ledger = "/mnt/b/ledger"
rpc_port = 8999
gossip_port = 8101
port_range = "8102-8140"
cpus = "4-7"
"#;

#[test]
fn lanes_of_a_concurrent_plan_share_nothing() {
    let plan = read(&concurrent(TWO_LANES)).unwrap();
    assert_eq!(
        (plan.lanes.len(), plan.concurrent),
        (
            2,
            Some(Concurrent {
                repeated_arm: 0,
                shared_device_severity: Severity::Refuse
            })
        )
    );
    let shared = |from: &str, to: &str, expected: &str| {
        refused(&concurrent(&TWO_LANES.replace(from, to)), expected)
    };
    shared(
        "/mnt/b/ledger",
        "/mnt/a/ledger/b",
        "are one inside the other",
    );
    shared("8999", "8900", "have ports in common");
    shared("8101", "8020", "have ports in common");
    shared("8102-8140", "8040-8080", "have ports in common");
    shared("4-7", "3-7", "both have CPU 3");
    shared(
        "name = \"b\"",
        "name = \"a\"",
        "lane \"a\" is given twice, in lines",
    );
    shared(
        "8101",
        "8110",
        "lane \"b\": gossip_port and port_range both have port 8110",
    );
    let one = TWO_LANES
        .split("[[lane]]\nname = \"b\"")
        .next()
        .unwrap_or_default();
    refused(
        &concurrent(one),
        "there are 1 lanes; a concurrent plan needs one",
    );
    refused(
        &concurrent(&format!("twice = \"none\"\n{TWO_LANES}")),
        "\"none\" is no arm",
    );
    refused(
        &format!("order = \"random\"\n{}", concurrent(TWO_LANES)),
        "order: means nothing",
    );
    refused(
        &format!("{SMALL}{TWO_LANES}"),
        "set folders, ports and CPUs in [[lane]]",
    );
}

#[test]
fn a_replay_uses_the_existing_ledger_and_counts_from_its_start() {
    let replay = with("[workload]", "[workload]\nkind = \"replay\"");
    let plan = read(&replay).unwrap();
    assert_eq!(
        (plan.stop.counted_from, plan.stop.no_progress_for),
        (CountedFrom::Start, None)
    );
    let line =
        |text: &str, key: &str| 1 + text.lines().position(|line| line.starts_with(key)).unwrap();
    let text = replay.replace("as-is", "download");
    let expected_line = format!(
        "plan.toml:{}: begin.how: a replay needs an existing ledger",
        line(&text, "how")
    );
    refused(&text, &expected_line);
    let text = format!("{replay}[stop]\ncounted_from = \"first-transaction\"\n");
    let expected_line = format!(
        "plan.toml:{}: stop.counted_from: the duration of a replay counts from its start",
        line(&text, "counted")
    );
    refused(&text, &expected_line);
}

#[test]
fn the_targets_file_must_be_json_outside_cleared_folders() {
    let plan = SMALL.replace("as-is", "download");
    let with = |file: &str| format!("{plan}[recorder]\ntargets = \"{file}\"\n");
    assert_eq!(
        read(&with("../sd/x.yml")).unwrap().recorder.targets,
        Some("/sd/x.yml".into())
    );
    refused(
        &with("/x/targets"),
        "only from files that end in .json, .yml or .yaml",
    );
    refused(
        &with("/mnt/ledger/x.json"),
        "recorder.targets /mnt/ledger/x.json is inside /mnt/ledger, which is cleared",
    );
}

#[test]
fn a_run_that_would_never_end_is_refused() {
    refused(
        &format!("{SMALL}[stop]\nfirst_transaction_within = \"never\"\n"),
        "would never end",
    );
}

#[test]
fn placeholders_are_checked_when_the_plan_is_read() {
    refused(
        &with("{ledger}\"]", "{legder}\"]"),
        "plan.toml:5: workload.command: {legder} stands for nothing",
    );
    refused(
        &with("{ledger}\"]", "{accounts}\"]"),
        "{accounts} is used, but accounts is not given",
    );
    refused(
        &with("{ledger}\"]", "x={entrypoints}\"]"),
        "becomes several words",
    );
    refused(
        &format!("{SMALL}arguments = [\"{{x}}\"]\n"),
        "arguments of arm \"all\": {x} stands for nothing",
    );
}

#[test]
fn an_unparsable_plan_is_one_error() {
    let folder = tempfile::tempdir().unwrap();
    for file in [folder.path().to_owned(), folder.path().join("none.toml")] {
        assert_eq!(load(&file).unwrap_err().len(), 1);
    }
}

proptest! {
    #[test]
    fn any_text_parses_as_a_plan_or_reports_errors(text in "\\PC{0,300}") {
        let _ = read(&text);
    }

    #[test]
    fn a_plan_with_shuffled_lines_parses_or_reports_errors(
        lines in prop::collection::vec(prop::sample::select(include_str!("every_key.toml").lines().collect::<Vec<_>>()), 0..60),
        cut in 0_usize..2000,
    ) {
        let text: String = lines.join("\n").chars().take(cut).collect();
        match read(&text) {
            Ok(plan) => prop_assert!(!plan.arms.is_empty() && plan.lanes.len() == 1),
            Err(mistakes) => prop_assert!(!mistakes.is_empty()),
        }
    }
}

/// The small plan with a search instead of its arm.
fn searching(keys: &str) -> String {
    with(
        "[[arm]]\nname = \"all\"\n",
        &format!("[search]\nwhat = \"memory\"\n{keys}"),
    )
}

#[test]
fn a_search_plan_has_defaults_and_one_empty_arm() {
    let plan = read(&searching("from = \"24G\"\n")).unwrap();
    let search = plan.memory_search.expect("a search");
    assert_eq!(
        (search.first_headroom, search.settle_time, search.dwell),
        (24 << 30, 2 * MINUTE, 8 * MINUTE)
    );
    assert_eq!(
        (
            search.max_interval_width,
            search.max_duration,
            search.growth_horizon
        ),
        (0.1, 8 * HOUR, 24 * HOUR)
    );
    assert_eq!(
        plan.arms,
        [Arm {
            name: "search".to_owned(),
            line: Some(9),
            ..Arm::default()
        }]
    );
    assert_eq!((plan.replicates, plan.stop.duration), (1, 8 * HOUR));
    let keys = "from = \"400M\"\nsettle = \"20s\"\ndwell = \"1m\"\nwidth = 7.5\nmost = \"2h\"\nhorizon = \"12h\"\n";
    let plan =
        read(&searching(keys).replace("folder = \"state\"", "folder = \"state\"\nreplicates = 3"))
            .unwrap();
    assert_eq!(
        (
            plan.replicates,
            plan.memory_search
                .map(|search| (search.max_interval_width, search.max_duration))
        ),
        (3, Some((0.075, 2 * HOUR)))
    );
}

#[test]
fn all_search_errors_are_reported_at_once() {
    let keys = "from = \"24\"\nsettle = \"1ms\"\ndwell = \"8\"\nwidth = 2\nmost = \"10s\"\nhorizon = 5\nmore = 1\n";
    let found = mistakes(&searching(keys).replace("\"memory\"", "\"disk\""));
    for key in [
        "what", "from", "settle", "dwell", "width", "most", "horizon", "more",
    ] {
        assert!(
            found
                .iter()
                .any(|mistake| mistake.contains(&format!("search.{key}"))),
            "{key}: {found:#?}"
        );
    }
    refused(&searching(""), "search.from");
    refused(
        &searching("from = \"24G\"\nwidth = 100\n"),
        "search.width: a width from 3 to 50 percent is wanted",
    );
    refused(
        &searching("from = \"24G\"\nmost = \"30m\"\n"),
        "ten times settle and dwell take",
    );
}

#[test]
fn a_search_plan_excludes_arms_factors_and_comparison_keys() {
    let search = searching("from = \"24G\"\n");
    refused(
        &format!("{search}[[arm]]\nname = \"all\"\n"),
        "[[arm]]: means nothing with [search]",
    );
    refused(
        &format!("{search}[factors]\nmemory_max = [\"1G\"]\n"),
        "factors: means nothing with [search]",
    );
    refused(
        &format!("{search}[concurrent]\n"),
        "concurrent: means nothing with [search]",
    );
    refused(
        &search.replace("[begin]", "[stop]\nduration = \"1h\"\n[begin]"),
        "set search.most instead",
    );
    refused(
        &search.replace("[workload]", "order = \"random\"\n[workload]"),
        "order: means nothing with [search]",
    );
    refused(
        &search.replace(
            "ledger = \"/mnt/ledger\"",
            "ledger = \"/mnt/ledger\"\nkind = \"replay\"",
        ),
        "a replay has no tip",
    );
}

#[test]
fn options_of_slurm_are_options_and_none_of_the_experiments_own() {
    let words = |rules: &str| {
        let text = format!(
            "name = \"s\"\nfolder = \"/f\"\n[workload]\ncommand = [\"v\"]\nledger = \"/l\"\n[begin]\nhow = \"as-is\"\n\
             [slurm]\n{rules}\n[[arm]]\nname = \"a\"\n"
        );
        let mistakes = parse(&text, Path::new("/plan.toml")).unwrap_err();
        mistakes
            .iter()
            .map(|one| one.to_string())
            .collect::<String>()
    };
    for (rules, expected) in [
        ("options = [\"--mem=1G\"]", "the experiment sets itself"),
        ("options = [\"-p lab\"]", "is not an option"),
        ("constraint = 'a\"b'", "has a quote"),
        ("memory = 5", "slurm.memory"),
    ] {
        let words = words(rules);
        assert!(words.contains(expected), "{rules}: {words}");
    }
}
