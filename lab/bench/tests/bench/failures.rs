//! Requests that fail: the output and the exit code.

use crate::{
    bench,
    mock_node::{Answer, start},
};
use serde_json::json;
use std::{
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::Duration,
};

const ACCOUNT: &str = "Po57HwPXoG22SajaQCBn7Zg8hPp15pUTMcTwcr4GhDu";

#[test]
fn failed_responses_fail_a_verified_run() {
    let requested = AtomicU64::new(0);
    let node = start(move |_, params| {
        let encoding = params[1]["encoding"].as_str().unwrap();
        // Every eighth answer is not base64.
        let data = match requested.fetch_add(1, Ordering::SeqCst) % 8 {
            7 => "#",
            _ => "AAEC",
        };
        let data = match encoding {
            "base64" => data,
            _ => "KLUv/QBYGQAAAAEC",
        };
        Ok(json!({"context": {"slot": 9}, "value": {"data": [data, encoding]}}))
    });
    let run = |more: &[&str]| {
        let words = ["encoding", &node, "--accounts", ACCOUNT, "--rounds", "30"];
        bench(&[&words, more].concat()).unwrap()
    };
    let (output, code) = run(&[]);
    let line = "FAILED: more requests failed than --max-failures 0 % allows: base64 ";
    assert!(code == 1 && output.contains(line), "{output}");
    assert_eq!(output.matches("--max-failures").count(), 1, "{output}");
    let (output, code) = run(&["--max-failures", "60"]);
    assert!(code == 0 && !output.contains("--max-failures"), "{output}");
}

#[test]
fn an_unconnected_node_is_named_with_its_error() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let refused = bench(&["encoding", &format!("http://{closed}")])
        .unwrap_err()
        .to_string();
    let expected =
        format!("http://{closed} gives no account: no connection to {closed} (connection refused)");
    assert_eq!(refused, expected);
}

#[test]
fn a_refused_method_is_shown_with_the_nodes_message() {
    let node = start(|method, _| match method {
        "getSlot" => Ok(json!(7)),
        _ => Err((-32602, "invalid length 1, expected a tuple of 2 elements")),
    });
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("plan.toml");
    let text = format!(
        "rounds = 5\nwarm_up = 0\n[[arm]]\nname = 'node'\nurl = '{node}'\n\
         [[request]]\nmethod = 'getSlot'\nanswer = 'any'\n[[request]]\nmethod = 'getBlock'\nanswer = 'any'\n"
    );
    std::fs::write(&plan, text).unwrap();
    let (output, code) = bench(&["run", &plan.display().to_string()]).unwrap();
    let line = "node FAILED: no good answer about getBlock (5 JSON-RPC -32602; \
                the node says \"invalid length 1, expected a tuple of 2 elements\")";
    assert!(code == 1 && output.contains(line), "{output}");
    assert_eq!(output.matches("invalid length").count(), 1, "{output}");
}

#[test]
fn a_message_that_repeats_the_address_is_stored_without_its_keys() {
    let node = start(|method, _| match method {
        "getSlot" => Ok(json!(7)),
        _ => Err((-32000, "exceeded for /SECpath12/?api-key=SECquery34")),
    });
    let folder = tempfile::tempdir().unwrap();
    let [plan, results] = ["plan.toml", "results.flb"].map(|name| folder.path().join(name));
    let text = format!(
        "rounds = 5\nwarm_up = 0\n[[arm]]\nname = 'node'\nurl = '{node}/SECpath12/?api-key=SECquery34'\n\
         [[request]]\nmethod = 'getSlot'\nanswer = 'any'\n[[request]]\nmethod = 'getBlock'\nanswer = 'any'\n"
    );
    std::fs::write(&plan, text).unwrap();
    let [plan, results] = [plan, results].map(|path| path.display().to_string());
    let (output, _) = bench(&["run", &plan, "--out", &results]).unwrap();
    let line = "the node says \"exceeded for /***/?api-key=***\"";
    assert!(output.contains(line) && !output.contains("SEC"), "{output}");
    let stored = String::from_utf8_lossy(&std::fs::read(&results).unwrap()).into_owned();
    assert!(
        stored.contains("exceeded") && !stored.contains("SEC"),
        "{stored}"
    );
}

#[test]
fn transport_sends_nothing_to_a_node_whose_chain_is_not_known() {
    const NO_METHOD: Answer = Err((-32601, "Method not found"));
    let error = |answer: fn(&str) -> Answer| {
        let node = start(move |method, _| answer(method));
        let words = ["transport", &node, "--timeout", "500ms"];
        bench(&words).unwrap_err().to_string()
    };
    let without_text = error(|method| match method {
        "getGenesisHash" => Ok(json!(["5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d"])),
        _ => NO_METHOD,
    });
    assert_eq!(
        without_text,
        "the node answers getGenesisHash without a text"
    );
    let public = error(|method| match method {
        "getGenesisHash" => Ok(json!("5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d")),
        _ => NO_METHOD,
    });
    assert!(public.starts_with("this is a public cluster"), "{public}");
    let slow = error(|method| match method {
        "eth_chainId" => Ok(json!("0x539")),
        "eth_accounts" => {
            thread::sleep(Duration::from_secs(5));
            Ok(json!([]))
        }
        _ => NO_METHOD,
    });
    assert!(slow.starts_with("eth_accounts failed: "), "{slow}");
}
