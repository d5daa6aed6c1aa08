#![expect(
    clippy::disallowed_methods,
    reason = "a node that answers needs a thread"
)]

use super::*;
use crate::plan::{Cluster, parse};
use std::{
    fs,
    io::{Read, Write},
    net::TcpListener,
    path::Path,
};

const ONCE: RetryPolicy = RetryPolicy {
    max_tries: 1,
    ..RETRY_POLICY
};

/// A node that sends `answer` to one request. The thread returns the request.
fn node(answer: String) -> (String, std::thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut requests = Vec::new();
        let mut piece = [0; 4096];
        while !requests.ends_with(b"}") {
            let read = stream.read(&mut piece).unwrap();
            requests.extend_from_slice(&piece[..read]);
        }
        stream.write_all(answer.as_bytes()).unwrap();
        String::from_utf8(requests).unwrap()
    });
    (url, thread)
}

fn json(body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

fn plan(url: &str, identity: &Path) -> Plan {
    let text = format!(
        "name = \"p\"\nfolder = \"/state\"\n[begin]\nhow = \"as-is\"\n[workload]\ncommand = [\"v\"]\nledger = \"/mnt/l\"\n\
         identity = {identity:?}\ncluster_rpc = \"{url}\"\n[[arm]]\nname = \"a\"\n"
    );
    parse(&text, Path::new("/p.toml")).unwrap()
}

fn requests(answer: String) -> Stake {
    let folder = tempfile::tempdir().unwrap();
    let identity = folder.path().join("id.json");
    fs::write(&identity, format!("{:?}", [0_u8; 64])).unwrap();
    let (url, node) = node(answer);
    let stake = request_stakes(&plan(&url, &identity), ONCE)
        .remove("main")
        .unwrap();
    let question = node.join().unwrap();
    assert!(
        question.starts_with("POST / HTTP/1.1\r\n") && question.contains("getVoteAccounts"),
        "{question}"
    );
    assert!(!question.contains("[0"), "the key stays here");
    stake
}

#[test]
fn the_stake_of_all_vote_accounts_of_the_identity_is_added_up() {
    let account = |node: &str, stake: u64| {
        format!(
            "{{\"votePubkey\":\"v\",\"nodePubkey\":\"{node}\",\"activatedStake\":{stake},\"commission\":5}}"
        )
    };
    let ours = "1".repeat(32);
    let current = [account(&ours, 5), account("other", 100)].join(",");
    let body = |list: &str| {
        format!(
            "{{\"jsonrpc\":\"2.0\",\"result\":{{\"current\":[{list}],\"delinquent\":[{}]}},\"id\":0}}",
            account(&ours, 2)
        )
    };
    assert_eq!(requests(json(&body(&current))), Stake::Known(7));
    assert_eq!(
        requests(json(&body(&current).replace(&ours, "none"))),
        Stake::Known(0)
    );
    let activating = body(&account(&ours, 0)).replace(&account(&ours, 2), "");
    assert_eq!(requests(json(&activating)), Stake::NotYetActive);
}

#[test]
fn an_invalid_response_leaves_the_stake_unknown() {
    let errors = [
        json(
            "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32601,\"message\":\"Method not found\"},\"id\":0}",
        ),
        "HTTP/1.1 503 Service Unavailable\r\n\r\n".to_owned(),
        "garbage".to_owned(),
        String::new(),
        json(""),
        json("{\"jsonrpc\":\"2.0\",\"result\":{\"current\":[],\"delinquent\":[]},\"id\":0}"),
    ];
    for answer in errors {
        assert!(
            matches!(requests(answer.clone()), Stake::Unknown(_)),
            "{answer:?}"
        );
    }
}

#[test]
fn a_node_of_another_cluster_leaves_the_stake_unknown() {
    let answer = "{\"jsonrpc\":\"2.0\",\"result\":\"11111111111111111111111111111112\",\"id\":0}";
    let (url, node) = node(json(answer));
    let genesis = Cluster::MainnetBeta
        .public_cluster()
        .map(|public| public.genesis_hash);
    let why = vote_accounts(&url, genesis, ONCE).unwrap_err();
    assert!(why.contains("of another cluster"), "{why}");
    assert!(node.join().unwrap().contains("getGenesisHash"));
}

#[test]
fn a_missing_node_leaves_the_stake_unknown() {
    let free = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let identity = folder.path().join("id.json");
    fs::write(&identity, format!("{:?}", [0_u8; 64])).unwrap();
    let of = |url: &str, identity: &Path| match request_stakes(&plan(url, identity), ONCE)
        .remove("main")
    {
        Some(Stake::Unknown(why)) => why,
        other => panic!("{other:?}"),
    };
    for scheme in ["http", "https"] {
        let why = of(&format!("{scheme}://{free}/?api-key=SECRET"), &identity);
        assert!(
            why.contains(&format!("no connection to {free} (connection refused)")),
            "{why}"
        );
        assert!(!why.contains("SECRET"), "{why}");
    }
    assert!(of("http://127.0.0.1:1", Path::new("/none/id.json")).contains("/none/id.json"));
}

#[test]
fn a_plan_without_a_node_queries_its_clusters_public_node() {
    let mut plan = plan("http://127.0.0.1:1", Path::new("/id.json"));
    for cluster in [None, Some(Cluster::Devnet)] {
        plan.workload.cluster = cluster;
        assert_eq!(node_url(&plan.workload), Some("http://127.0.0.1:1"));
    }
    plan.workload.cluster_rpc = None;
    let of = |workload: &mut Workload, cluster| {
        workload.cluster = cluster;
        node_url(workload).map(str::to_owned)
    };
    assert_eq!(of(&mut plan.workload, None), None);
    assert_eq!(of(&mut plan.workload, Some(Cluster::Localnet)), None);
    for (cluster, name) in [
        (Cluster::MainnetBeta, "mainnet-beta"),
        (Cluster::Testnet, "testnet"),
        (Cluster::Devnet, "devnet"),
    ] {
        let url = format!("https://api.{name}.solana.com");
        assert_eq!(of(&mut plan.workload, Some(cluster)), Some(url));
    }
}

#[test]
fn the_public_key_of_a_keypair_is_read_without_revealing_the_secret() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("id.json");
    let mut key = vec![7_u8; 32];
    key.extend([0; 32]);
    fs::write(&file, serde_json::to_string(&key).unwrap()).unwrap();
    // The system program's address: 32 zero bytes.
    assert_eq!(public_key(&file).unwrap(), "1".repeat(32));
    for bad in ["[1,2,3]", "no", "[300]", "{}"] {
        fs::write(&file, bad).unwrap();
        assert!(
            public_key(&file)
                .unwrap_err()
                .ends_with("is no keypair as solana-keygen writes it")
        );
    }
    assert!(public_key(&folder.path().join("none")).is_err());
}

#[test]
fn an_option_is_matched_only_as_a_separate_word() {
    for text in [
        "--x",
        "a --x=1",
        "[\"--x\", \"k\"]",
        "(--x)",
        "'--x'",
        "é--x",
    ] {
        assert!(has_option(text, "--x"), "{text}");
    }
    for text in ["--x-y", "--xy", "--no--x", "---x", "x", ""] {
        assert!(!has_option(text, "--x"), "{text}");
    }
}

#[test]
fn an_identity_attached_to_the_short_option_is_found() {
    let mut plan = plan("http://127.0.0.1:1", Path::new("/id.json"));
    for (word, is_checked) in [
        ("-i/id.json", true),
        ("-i{identity}", true),
        ("-i/other.json", false),
        ("-iother.json", false),
    ] {
        plan.workload.command = vec!["v".to_owned(), word.to_owned()];
        let texts = plan.workload.unexpanded_texts();
        assert_eq!(names_other_identity(&plan, &texts), !is_checked, "{word}");
        assert_eq!(
            is_identity_passed(&plan, &plan.lanes[0]),
            is_checked,
            "{word}"
        );
    }
    for word in ["-iu", "-ic", "-i0", "-isystem"] {
        plan.workload.command = vec!["sudo".to_owned(), word.to_owned(), "sol".to_owned()];
        let texts = plan.workload.unexpanded_texts();
        assert!(!names_other_identity(&plan, &texts), "{word}");
    }
}
