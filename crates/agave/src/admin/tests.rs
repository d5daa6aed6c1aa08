use super::*;
use serde_json::Value;
use std::path::Path;

fn progress(result: &str) -> StartProgress {
    let body = format!("{{\"jsonrpc\":\"2.0\",\"result\":{result},\"id\":1}}\n");
    match Method::StartProgress.read(1, body.as_bytes()) {
        Ok(Answer::StartProgress(progress)) => progress,
        other => panic!("{other:?}"),
    }
}

#[test]
fn only_read_only_admin_methods_can_be_requested() {
    let forbidden = [
        "exit", "set", "add", "remove", "load", "unload", "reload", "repair",
    ];
    for name in Method::ALL.map(Method::name) {
        assert!(
            !forbidden.iter().any(|verb| name.starts_with(verb)),
            "{name}"
        );
    }
    assert_eq!(
        Method::ContactInfo.request(7),
        r#"{"id":7,"jsonrpc":"2.0","method":"contactInfo","params":[]}"#
    );
}

#[test]
fn states_without_data_are_strings() {
    for name in [
        "Initializing",
        "SearchingForRpcService",
        "CleaningBlockStore",
        "CleaningAccounts",
        "LoadingLedger",
        "StartingServices",
        "Halted",
        "Running",
    ] {
        let progress = progress(&format!("\"{name}\""));
        assert_eq!(progress.name(), name);
        assert!(!matches!(progress, StartProgress::Other(_)), "{name}");
    }
}

#[test]
fn states_with_data_are_objects() {
    for (name, data) in [
        (
            "DownloadingSnapshot",
            r#"{"slot":7,"rpc_addr":"1.2.3.4:8899"}"#,
        ),
        ("ProcessingLedger", r#"{"slot":7,"max_slot":9}"#),
        ("ProcessingLedger", "[[],2]"),
        (
            "WaitingForSupermajority",
            r#"{"slot":7,"gossip_stake_percent":80}"#,
        ),
    ] {
        let progress = progress(&format!(r#"{{"{name}":{data}}}"#));
        assert_eq!(progress.name(), name);
        assert!(!matches!(progress, StartProgress::Other(_)), "{name}");
    }
}

#[test]
fn an_unknown_admin_state_is_kept_by_name() {
    assert_eq!(
        progress(r#""Levitating""#),
        StartProgress::Other("Levitating".into())
    );
    assert_eq!(progress(r#"{"Levitating":{"cm":3}}"#).name(), "Levitating");
    assert_eq!(
        progress("\"Lev\\u202eitat\\u001b[31ming\"").name(),
        "Levitat31ming"
    );
}

#[test]
fn other_admin_responses_of_a_real_validator_are_parsed() {
    let address = br#"{"jsonrpc":"2.0","result":"127.0.0.1:19899","id":1}"#;
    assert_eq!(
        Method::RpcAddress.read(1, address),
        Ok(Answer::RpcAddress(Some(([127, 0, 0, 1], 19899).into())))
    );
    let none = br#"{"jsonrpc":"2.0","result":null,"id":1}"#;
    assert_eq!(
        Method::RpcAddress.read(1, none),
        Ok(Answer::RpcAddress(None))
    );
    let old = br#"{"jsonrpc":"2.0","error":{"code":-32601,"message":"Method not found"},"id":1}"#;
    assert_eq!(
        Method::StartProgress.read(1, old),
        Err(Error::NotOffered {
            method: "startProgress"
        })
    );
    let early =
        br#"{"jsonrpc":"2.0","error":{"code":-32602,"message":"Retry once validator start up is complete"},"id":1}"#;
    assert!(matches!(
        Method::ContactInfo.read(1, early),
        Err(Error::Rpc { code: -32602, .. })
    ));
}

#[test]
fn contact_info_ignores_the_addresses() {
    let body = br#"{"id":1,"result":{"id":"DMz6SsztgBqTVkGc6CTcs4EYSJPUTfqKKwEzHLC7P8sr","gossip":"1.2.3.4:8001","tvu":"x","last_updated_timestamp":1,"shred_version":11923}}"#;
    let info = ContactInfo {
        id: "DMz6SsztgBqTVkGc6CTcs4EYSJPUTfqKKwEzHLC7P8sr"
            .parse()
            .unwrap(),
    };
    assert_eq!(
        Method::ContactInfo.read(1, body),
        Ok(Answer::ContactInfo(info))
    );
}

#[test]
fn a_response_with_another_id_is_refused() {
    let method = "rpcAddress";
    assert_eq!(
        Method::RpcAddress.read(1, br#"{"id":2,"result":null}"#),
        Err(Error::MissingAnswer { method })
    );
    assert!(matches!(
        Method::RpcAddress.read(1, br#"{"id":1,"result":-5}"#),
        Err(Error::UnexpectedResult { .. })
    ));
}

#[test]
fn an_admission_status_gives_the_next_checks_failure_reason() {
    let read = |fields: &str, reason: &str| {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":1,"result":{{"vote_account":"7Np41oeYqPefeNQEHSv1UDhYrehxin3NStELsSKCT4K2","voting_enabled":true,"current_epoch":1064,{fields}"in_current_epoch_vat":true,"current_epoch_vote_account_stake":9,"current_epoch_vote_accounts":900,"next_epoch_vat_failure_reason":{reason}}}}}"#
        );
        Method::AdmissionStatus.read(1, body.as_bytes())
    };
    for (fields, reason, active, expected) in [
        ("", "null", None, None),
        (r#""vat_active":false,"#, "null", Some(false), None),
        ("", r#""NoBLSPubkey""#, None, Some(AdmissionFailure::Other)),
        (
            "",
            r#""VoteAccountNotFound""#,
            None,
            Some(AdmissionFailure::Other),
        ),
        (
            "",
            r#"{"InsufficientFundsInVoteAccount":[27074400,827074400]}"#,
            None,
            Some(AdmissionFailure::InsufficientLamports {
                balance: 27_074_400,
                needed: 827_074_400,
            }),
        ),
        (
            "",
            r#"{"Later":{"x":[]}}"#,
            None,
            Some(AdmissionFailure::Other),
        ),
        ("", r#""Later""#, None, Some(AdmissionFailure::Other)),
    ] {
        let Ok(Answer::AdmissionStatus(status)) = read(fields, reason) else {
            panic!("{reason}: {:?}", read(fields, reason));
        };
        assert_eq!(
            (status.vat_active, status.next_epoch_vat_failure_reason),
            (active, expected)
        );
        assert!(status.in_current_epoch_vat && status.voting_enabled);
    }
    assert!(matches!(read("", "}"), Err(Error::NotJsonRpc { .. })));
}

#[test]
fn admission_responses_generated_by_release_code_are_parsed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testkit/fixtures/alpenglow");
    let read = |file: &str| std::fs::read(folder.join(file)).unwrap();
    let expected: Value = serde_json::from_slice(&read("expected.json")).unwrap();
    let files = expected["admin"].as_object().unwrap();
    assert_eq!(files.len(), 5);
    for (file, expected) in files {
        let answer = Method::AdmissionStatus.read(1, &read(&format!("admin/{file}")));
        let Ok(Answer::AdmissionStatus(status)) = answer else {
            panic!("{file}: {answer:?}");
        };
        let passes_next = status.next_epoch_vat_failure_reason.is_none();
        assert_eq!(
            expected["this_epoch"], status.in_current_epoch_vat,
            "{file}"
        );
        assert_eq!(expected["next_epoch"], passes_next, "{file}");
    }
}
