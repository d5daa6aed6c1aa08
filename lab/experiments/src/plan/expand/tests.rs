use super::*;
use crate::plan::parse;

fn plan(command: &str, arm: &str) -> Plan {
    let text = format!(
        "name = \"p\"\nfolder = \"/state\"\n[begin]\nhow = \"as-is\"\n[workload]\ncommand = {command}\n\
         ledger = \"/mnt/l\"\nrpc_port = 8899\nentrypoints = [\"h:1\", \"h:2\"]\n\
         environment = {{ WHERE = \"{{ledger}}\", A = \"1\" }}\n[[arm]]\nname = \"one\"\n{arm}"
    );
    parse(&text, Path::new("/plans/p.toml")).unwrap()
}

fn expanded(command: &str, arm: &str) -> Expanded {
    let plan = plan(command, arm);
    expand(
        &plan,
        &plan.arms[0],
        &plan.lanes[0],
        Path::new("/state/runs/001"),
        2,
    )
    .unwrap()
}

#[test]
fn placeholders_are_replaced_by_their_values() {
    let found = expanded(
        r#"["v", "--ledger={ledger}", "{entrypoints}", "{arguments}", "--rpc-port", "{rpc_port}", "{run}-{arm}", "{run_folder}/log"]"#,
        "arguments = [\"--x\", \"{ledger}/y\"]",
    );
    let words = [
        "v",
        "--ledger=/mnt/l",
        "--entrypoint",
        "h:1",
        "--entrypoint",
        "h:2",
        "--x",
        "/mnt/l/y",
    ];
    assert_eq!(found.command[..8], words);
    assert_eq!(
        found.command[8..],
        ["--rpc-port", "8899", "2-one", "/state/runs/001/log"]
    );
}

#[test]
fn arguments_without_a_placeholder_are_appended() {
    assert_eq!(
        expanded(r#"["v", "a"]"#, "arguments = [\"--x\"]").command,
        ["v", "a", "--x"]
    );
}

#[test]
fn doubled_braces_are_literal_braces() {
    assert_eq!(
        expanded(r#"["v", "{{\"a\": {{\"b\": 1}}}} }"]"#, "").command[1],
        r#"{"a": {"b": 1}} }"#
    );
}

#[test]
fn scripts_get_placeholder_values_in_their_environment() {
    let found = expanded(
        r#"["v"]"#,
        "cache_entries = 1024\nenvironment = { A = \"2\" }",
    )
    .environment;
    let of = |name: &str| found.get(name).map(String::as_str);
    assert_eq!((of("WHERE"), of("A")), (Some("/mnt/l"), Some("2")));
    assert_eq!(of("FAULTLINE_LEDGER"), Some("/mnt/l"));
    assert_eq!(
        of("FAULTLINE_ENTRYPOINTS"),
        Some("--entrypoint h:1 --entrypoint h:2")
    );
    assert_eq!(of("FAULTLINE_ACCOUNTS"), None);
    assert_eq!(of("AGAVE_PROGRAM_CACHE_ENTRIES"), Some("1024"));
    assert_eq!(
        expanded(r#"["v"]"#, "")
            .environment
            .get("AGAVE_PROGRAM_CACHE_ENTRIES"),
        None
    );
}

#[test]
fn every_script_variable_is_known_as_set_by_the_runner() {
    let plan = plan(r#"["v"]"#, "cache_entries = 5");
    assert!(
        placeholder_values(&plan, &plan.arms[0], &plan.lanes[0], Path::new("/"), 1)
            .keys()
            .eq(VALUE_PLACEHOLDERS
                .iter()
                .collect::<std::collections::BTreeSet<_>>())
    );
    let expanded_plan = expanded(r#"["v"]"#, "").environment;
    assert!(
        expanded_plan
            .keys()
            .filter(|name| name.starts_with("FAULTLINE_"))
            .all(|name| is_placeholder_variable(name))
    );
    assert!(!is_placeholder_variable("FAULTLINE_LOG") && !is_placeholder_variable("LEDGER"));
}
