//! Plans such as users write, with and without mistakes.

use super::{
    all_requests_tables, all_requests_text, comparisons, parser::parse, with_requests_merged,
};
use crate::{
    answer::{Encoding, Expected},
    plan::{Order, Plan},
    protocol::Protocol,
    results::tests::results,
};
use std::{collections::BTreeMap, path::Path};

fn plan(text: &str) -> Plan {
    match parse(text, Path::new("/nowhere/plan.toml")) {
        Ok((plan, _)) => plan,
        Err(mistakes) => panic!("{mistakes:#?}"),
    }
}

fn mistakes(text: &str) -> Vec<String> {
    let told = parse(text, Path::new("plan.toml"))
        .err()
        .unwrap_or_default();
    told.iter().map(ToString::to_string).collect()
}

const MIX: &str = r#"
rounds = 4000
warm_up = 0
seed = 3
[[arm]]
name = "a"
url = "http://one:1"
[[arm]]
name = "b"
url = "ws://two:2"
transport = "websocket"
encoding = "base58"
method = "other"
[[value]]
name = "slot"
from = 5
to = 9
[[value]]
name = "key"
list = ["x", 7, "say \"y\""]
[[request]]
method = "getBlock"
params = '[{slot}, {"key": "{key}", "encoding": "{encoding}"}]'
weight = 3
[[request]]
name = "head"
method = "getSlot"
answer = "any"
[[request]]
method = "getAccountInfo"
params = '["{key}", {"encoding": "base64+zstd"}]'
answer = "account"
"#;

#[test]
fn requests_are_drawn_by_weight_with_equal_values_across_arms() {
    let plan = plan(MIX);
    assert_eq!(
        (
            plan.cases.len(),
            plan.weights.as_slice(),
            plan.request_count()
        ),
        (6, &[3, 1, 1][..], 8000)
    );
    assert_eq!(
        (plan.connections[1].protocol, plan.connections[0].protocol),
        (Protocol::WebSocket, Protocol::Http)
    );
    assert_eq!(plan.cases[0].expected, Expected::SameExcept(&[]));
    assert_eq!(plan.cases[2].expected, Expected::Unverified);
    assert_eq!(plan.cases[4].expected, Expected::Account(Encoding::Zstd));
    assert_eq!(plan.cases[5].expected, Expected::Account(Encoding::Base58));
    let mut requested: BTreeMap<usize, u32> = BTreeMap::new();
    let scheduled: Vec<_> = Order::new(&plan).collect();
    for round in scheduled.chunks(2) {
        let [a, b] = [0, 1].map(|index| &plan.cases[round[index].case_index]);
        assert!(
            a.request_index == b.request_index
                && a.arm_index != b.arm_index
                && round[0].measured_round == round[1].measured_round
        );
        *requested.entry(a.request_index).or_default() += 1;
        let [a, b] = [0, 1].map(|index| {
            let body = plan.body(&plan.cases[round[index].case_index], round[index].number);
            let json: serde_json::Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(json["id"], round[index].number);
            let mut params = json["params"].clone();
            params
                .get_mut(1)
                .and_then(serde_json::Value::as_object_mut)
                .map(|options| options.remove("encoding"));
            params
        });
        assert_eq!(a, b);
    }
    assert!(
        (2250..2550).contains(&requested[&0]) && requested[&1] > 700 && requested[&2] > 700,
        "{requested:?}"
    );
    let first = plan.first_requests();
    assert_eq!(first.lines().count(), 6);
    assert!(
        first.contains("SEND ws://two:2 ") && first.contains("POST http://one:1 "),
        "{first}"
    );
    assert!(first.contains(r#""method":"other""#), "{first}");
}

#[test]
fn the_encoding_of_an_account_is_known_next_to_an_unquoted_placeholder() {
    let account = r#"{"encoding": "base64+zstd"}"#;
    let with_slot = r#"{"encoding": "base64+zstd", "minContextSlot": {slot}}"#;
    let plan = plan(&MIX.replace(account, with_slot));
    assert_eq!(plan.cases[4].expected, Expected::Account(Encoding::Zstd));
}

#[test]
fn a_drawn_encoding_is_refused_if_accounts_are_checked() {
    let told = |list: &str| {
        let account = r#"{"encoding": "{enc}"}"#;
        let value = format!("[[value]]\nname = \"enc\"\nlist = {list}\n[[request]]");
        let text = MIX.replace(r#"{"encoding": "base64+zstd"}"#, account);
        mistakes(&text.replacen("[[request]]", &value, 1)).join("\n")
    };
    assert_eq!(told(r#"["base64+zstd"]"#), "");
    let several = told(r#"["base64", "base64+zstd"]"#);
    assert!(
        several.contains(
            "request.params: answer = \"account\" needs one encoding, but {enc} changes it"
        ),
        "{several}"
    );
}

#[test]
fn without_weights_each_round_contains_every_request() {
    let plan = plan(
        &MIX.replace("weight = 3\n", "")
            .replace("rounds = 4000", "rounds = 10\nrate = 50"),
    );
    assert_eq!(
        (plan.request_count(), plan.workers, plan.rate),
        (60, 64, Some(50.0))
    );
    let mut seen = std::collections::BTreeSet::new();
    for round in 0..200 {
        let body = plan.body(&plan.cases[0], round * 6);
        seen.insert(
            String::from_utf8(body.to_vec())
                .unwrap()
                .split_once("params")
                .unwrap()
                .1
                .to_owned(),
        );
    }
    assert_eq!(seen.len(), 15, "five slots and three keys: {seen:?}");
}

#[test]
fn values_of_a_file_are_its_lines() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("keys.txt"), "one\n\n  two \n").unwrap();
    let of = |file: &str| {
        let text = MIX.replace(
            r#"list = ["x", 7, "say \"y\""]"#,
            &format!("file = {file:?}"),
        );
        parse(&text, &folder.path().join("plan.toml"))
    };
    let (plan, _) = of("keys.txt").unwrap();
    assert_eq!(plan.placeholders[1].texts_to_check(), ["one", "two"]);
    assert!(
        plan.placeholders[1]
            .description()
            .starts_with("2 texts of digest ")
    );
    let told = of("none.txt").unwrap_err();
    assert!(
        told.len() == 1 && told[0].line == Some(20) && told[0].what.contains("none.txt"),
        "{told:?}"
    );
}

#[test]
fn all_plan_errors_are_reported_at_once_with_their_lines() {
    let text = r#"rounds = 0
workers = "many"
colour = 1
[[arm]]
name = "a"
url = "ws://one"
[[arm]]
name = "a"
url = "http://two/?key=secret key"
transport = "carrier"
[[value]]
name = "Slot"
from = 9
to = 2
[[value]]
name = "v"
[[request]]
params = "7"
weight = 0
"#;
    let told = mistakes(text);
    let wanted = [
        "plan.toml:1: rounds: a whole number from 1",
        "plan.toml:2: workers:",
        "plan.toml:3: colour: unknown key",
        "plan.toml:6: arm.url: the address of the node must begin with http:// or https://",
        "plan.toml:8: arm \"a\" is given twice, in lines 5 and 8",
        "plan.toml:10: arm.transport: one of \"http\", \"http-new\", \"http2\", \"websocket\"",
        "plan.toml:12: value.name: \"Slot\"",
        "plan.toml:12: value: from = 9 is above to = 2",
        "plan.toml:16: value: one of these is wanted",
        "request.method is missing",
        "plan.toml:19: request.weight:",
    ];
    for wanted in wanted {
        assert!(
            told.iter().any(|line| line.contains(wanted)),
            "{wanted} is not in {told:#?}"
        );
    }
    assert!(
        !told.iter().any(|line| line.contains("secret")),
        "{told:#?}"
    );
    let none = mistakes("");
    assert!(
        none.len() == 2
            && none[0].contains("[[arm]] is missing")
            && none[1].contains("[[request]]"),
        "{none:?}"
    );
}

#[test]
fn duplicate_bench_plan_entries_are_refused_with_both_positions() {
    let arms = "[[arm]]\nname = \"a\"\nurl = \"http://a\"\n";
    let request = "[[request]]\nmethod = \"getSlot\"\n";
    let list = "[[value]]\nname = \"v\"\nlist = [1, 2, 1]\n";
    assert_eq!(
        mistakes(&format!("{arms}{list}{request}{list}{request}")),
        [
            "plan.toml:6: value.list: item 3, the number 1, is the same as item 1, the number 1: keep one",
            "plan.toml:10: value \"v\" is given twice, in lines 5 and 10: remove or change one",
            "plan.toml:11: value.list: item 3, the number 1, is the same as item 1, the number 1: keep one",
            "plan.toml:13: request \"getSlot\" (named by its method unless it has a name) is given twice, in lines 8 and 13: remove or change one",
        ]
    );
}

#[test]
fn an_invalid_toml_line_is_reported_by_number_without_its_text() {
    for url in [
        "\"https://node.example/?key=secret",
        "https://node.example/?key=secret",
        "'http://a/secret' 'secret'",
    ] {
        let told = mistakes(&format!("rounds = 5\n[[arm]]\nurl = {url}\nname = 'a'\n"));
        assert!(
            told.iter().any(|line| line.starts_with("plan.toml:3: ")),
            "{told:#?}"
        );
        assert!(
            !told
                .iter()
                .any(|line| line.contains("secret") || line.contains("node.example")),
            "{told:#?}"
        );
    }
}

#[test]
fn parameters_that_are_invalid_json_for_some_value_are_refused() {
    let told = |params: &str| {
        let text = MIX.replace(
            r#"'["{key}", {"encoding": "base64+zstd"}]'"#,
            &format!("'{params}'"),
        );
        mistakes(&text).join("\n")
    };
    assert_eq!(told(r#"["{key}"]"#), "");
    assert!(
        told("[{key}]").contains("`[x]` is no JSON"),
        "{}",
        told("[{key}]")
    );
    assert!(told("{key}").contains("is no JSON"));
    assert!(told("[{kez}]").contains("{kez} stands for nothing; known: {slot}, {key}"));
    assert!(told("7").contains("neither an array nor an object"));
    assert!(told(r#"["{slot}""#).contains("is no JSON"));
}

#[test]
fn an_arms_requests_are_pooled_and_arms_compared_per_request() {
    // The 300 rounds alternate between a fast request and a slow one. Arm b takes 1 ms longer for both.
    let noise = |round: u64, case: u64| (round * 7919 + case * 104_729) % 100_000;
    let made = |base: u64, case: u64| move |round: u64| base + noise(round, case);
    let (a, b) = (
        [made(2_000_000, 0), made(20_000_000, 1)],
        [made(3_000_000, 2), made(21_000_000, 3)],
    );
    let mut results = results(
        300,
        &[
            ("a", 1, &a[0]),
            ("a", 2, &a[1]),
            ("b", 1, &b[0]),
            ("b", 2, &b[1]),
        ],
    );
    results
        .samples
        .retain(|sample| sample.round as usize % 2 == sample.case_index % 2);
    results
        .cases
        .iter_mut()
        .for_each(|case| case.answer_bytes = None);
    let all = with_requests_merged(&results).unwrap();
    assert_eq!((all.cases.len(), all.samples.len()), (2, 600));
    let compared = &comparisons(&all)[0];
    assert_eq!(compared.rounds, 300);
    assert!(
        (compared.mean.value - 1.0).abs() < 0.1 && compared.mean.low > 0.8,
        "{compared:?}"
    );
    let mean = all.summary(0).latency.unwrap().mean;
    assert!((mean - 11.05).abs() < 0.1, "{mean}");
    assert!(
        all_requests_text(&results).contains("all requests"),
        "{}",
        all_requests_text(&results)
    );
    results
        .cases
        .iter_mut()
        .for_each(|case| case.request_label = "one".to_owned());
    assert_eq!(all_requests_text(&results), "");
}

#[test]
fn a_round_of_several_requests_counts_once() {
    let noise = |round: u64| 2_000_000 + round * 7919 % 100_000;
    let arms = [("a", 1), ("a", 2), ("b", 1), ("b", 2)];
    let cases = arms.map(|(arm, request)| (arm, request, &noise as &dyn Fn(u64) -> u64));
    let results = results(300, &cases);
    let tables = all_requests_tables(&results);
    let table = format!("{:?}", tables[1].rows);
    assert!(
        table.contains("300.0") && !table.contains("600.0"),
        "{table}"
    );
}

#[test]
fn a_scheme_of_another_transport_is_refused_with_the_transport_to_set() {
    let told = |url: &str, transport: &str| {
        let arm = format!("[[arm]]\nname = \"a\"\nurl = {url:?}\n{transport}\n");
        mistakes(&(arm + "[[request]]\nmethod = \"getSlot\"\n")).join("\n")
    };
    let websocket = "transport = \"websocket\"";
    for (url, transport, scheme) in [
        ("ws://node", "", "http://"),
        ("wss://node", "transport = \"http2\"", "http://"),
        ("http://node", websocket, "ws://"),
    ] {
        let told = told(url, transport);
        assert!(
            told.contains(&format!("must begin with {scheme}")) && told.contains(websocket),
            "{told}"
        );
    }
    assert_eq!(told("ws://node", websocket), "");
}

#[test]
fn a_value_that_is_neither_text_nor_whole_number_is_refused() {
    for (item, found) in [("1.5", "the number 1.5"), ("true", "true")] {
        let told = mistakes(&MIX.replace("\"x\", 7", item)).join("\n");
        let wanted =
            format!("value.list: a string or a whole number from 0 on is wanted, not {found}");
        assert!(told.contains(&wanted), "{told}");
    }
}
