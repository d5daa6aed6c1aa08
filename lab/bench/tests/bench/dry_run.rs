//! What `--dry-run` prints when the requests depend on the nodes.

use crate::bench;

fn dry_run(words: &[&str]) -> String {
    let (output, code) = bench(&[words, &["--dry-run"]].concat()).unwrap();
    assert_eq!(code, 0, "{output}");
    output
}

#[test]
fn slots_that_nodes_decide_are_placeholders() {
    let nodes = ["nodes", "http://one", "http://two"];
    let output = dry_run(&nodes);
    assert!(
        output.contains(r#""getBlockTime","params":[{random}]}"#),
        "{output}"
    );
    let output = dry_run(&[nodes.as_slice(), &["--slots", "7:7"]].concat());
    assert!(
        output.contains(r#""getBlockTime","params":[7]}"#),
        "{output}"
    );
    assert!(!output.contains("{random}"), "{output}");
    let output = dry_run(&[nodes.as_slice(), &["--methods", "getSlot"]].concat());
    assert!(!output.contains("{random}"), "no slot is chosen: {output}");
    let output = dry_run(&[nodes.as_slice(), &["--chain", "evm"]].concat());
    assert!(
        output.contains(r#""eth_getBlockByNumber","params":["{hex}",true]"#),
        "{output}"
    );
}

#[test]
fn tasks_of_transports_are_not_shown_as_requests() {
    let output = dry_run(&["transport", "http://node"]);
    assert!(output.contains("\nwebsocket: single write\n"), "{output}");
}

#[test]
fn accounts_are_shown_as_in_the_first_request() {
    let addresses: Vec<String> = (100..201).map(|number| format!("A{number}")).collect();
    let mut words = vec![
        "compression",
        "http://node",
        "--kind",
        "accounts",
        "--accounts",
    ];
    let list = addresses.join(",");
    words.push(&list);
    let output = dry_run(&words);
    assert!(
        output.contains("A199") && !output.contains("A200"),
        "{output}"
    );
}
