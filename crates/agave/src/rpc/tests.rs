mod single;

use super::*;
use serde_json::{Value, json};

const ALL: [Call; 6] = [
    Call::EpochInfo,
    Call::Slot(Commitment::Processed),
    Call::Health,
    Call::Version,
    Call::Identity,
    Call::MaxShredInsertSlot,
];

fn one(call: Call, body: &str) -> Result<Answer, Error> {
    let mut answers = RequestBatch::new([call]).read(body.as_bytes())?;
    assert_eq!(answers.len(), 1);
    answers.remove(0)
}

#[test]
fn a_batch_is_one_array_with_ids_from_one() {
    let batch = RequestBatch::new([Call::Slot(Commitment::Confirmed), Call::Health]);
    let expected = json!([
        {"jsonrpc": "2.0", "id": 1, "method": "getSlot", "params": [{"commitment": "confirmed"}]},
        {"jsonrpc": "2.0", "id": 2, "method": "getHealth", "params": []},
    ]);
    assert_eq!(
        serde_json::from_str::<Value>(batch.body()).unwrap(),
        expected
    );
}

#[test]
fn responses_of_a_real_validator_are_parsed() {
    let answers = RequestBatch::new(ALL)
        .read(include_bytes!("../../tests/fixtures/batch.json"))
        .unwrap();
    let answers: Vec<Answer> = answers.into_iter().map(Result::unwrap).collect();
    let Answer::EpochInfo(epoch) = answers[0] else {
        panic!("{answers:?}")
    };
    assert_eq!(
        (
            epoch.absolute_slot,
            epoch.block_height,
            epoch.transaction_count
        ),
        (14, 14, Some(13))
    );
    assert_eq!(
        answers[1..3],
        [Answer::Slot(14), Answer::Health(Health::Ok)]
    );
    assert_eq!(
        answers[3],
        Answer::Version(NodeVersion {
            solana_core: "2.1.14".into(),
            feature_set: Some(3_271_415_109)
        })
    );
    assert_eq!(
        answers[4],
        Answer::Identity(
            "DMz6SsztgBqTVkGc6CTcs4EYSJPUTfqKKwEzHLC7P8sr"
                .parse()
                .unwrap()
        )
    );
    assert_eq!(answers[5], Answer::MaxShredInsertSlot(0));
}

#[test]
fn responses_are_matched_by_id_in_any_order() {
    let batch = RequestBatch::new([
        Call::Slot(Commitment::Processed),
        Call::Slot(Commitment::Finalized),
        Call::Health,
    ]);
    let answers = batch
        .read(br#"[{"id":9,"result":1},{"id":2,"result":20},{"id":1,"result":10}]"#)
        .unwrap();
    assert_eq!(
        answers,
        [
            Ok(Answer::Slot(10)),
            Ok(Answer::Slot(20)),
            Err(Error::MissingAnswer {
                method: "getHealth"
            })
        ]
    );
}

#[test]
fn the_first_of_several_responses_with_one_id_counts() {
    let batch = RequestBatch::new([Call::Slot(Commitment::Processed); 2]);
    let answers = batch
        .read(br#"[{"id":1,"result":10},{"id":2,"result":20},{"id":2,"result":21}]"#)
        .unwrap();
    assert_eq!(answers, [Ok(Answer::Slot(10)), Ok(Answer::Slot(20))]);
}

#[test]
fn being_behind_is_a_valid_health_response() {
    let body = |data: &str| {
        format!(
            r#"[{{"id":1,"error":{{"code":-32005,"message":"Node is behind","data":{data}}}}}]"#
        )
    };
    for (data, slots_behind) in [
        (r#"{"numSlotsBehind":42}"#, Some(42)),
        (r#"{"numSlotsBehind":null}"#, None),
        ("null", None),
    ] {
        assert_eq!(
            one(Call::Health, &body(data)),
            Ok(Answer::Health(Health::Unhealthy { slots_behind })),
            "{data}"
        );
    }
}

#[test]
fn an_unsupported_method_is_distinguished_from_other_errors() {
    let body = |code: i64| {
        format!(r#"[{{"jsonrpc":"2.0","error":{{"code":{code},"message":"m"}},"id":1}}]"#)
    };
    let missing = one(Call::MaxShredInsertSlot, &body(-32601)).unwrap_err();
    assert_eq!(
        missing,
        Error::NotOffered {
            method: "getMaxShredInsertSlot"
        }
    );
    for call in [Call::Health, Call::EpochInfo] {
        assert!(matches!(
            one(call, &body(-32603)),
            Err(Error::Rpc { code: -32603, .. })
        ));
    }
}

#[test]
fn response_errors_describe_the_json_not_rust_types() {
    for body in [
        "<html>",
        "",
        "3",
        "{\"error\": {\"message\": \"x\"}}",
        "[{\"id\": 1, \"error\": 3}]",
        "{}",
        "nonsense",
    ] {
        let error = RequestBatch::new(ALL)
            .read(body.as_bytes())
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("not a JSON-RPC answer (") && !error.contains("variant"),
            "{body}: {error}"
        );
        assert!(!error.contains("enum"), "{body}: {error}");
    }
}

#[test]
fn a_non_json_rpc_body_is_an_error() {
    for body in [
        "",
        "<html>502</html>",
        "[{]",
        "7",
        r#"{"id":null,"result":1}"#,
    ] {
        assert!(
            matches!(
                RequestBatch::new(ALL).read(body.as_bytes()),
                Err(Error::NotJsonRpc { .. })
            ),
            "{body}"
        );
    }
    assert!(matches!(
        one(Call::Health, r#"[{"id":1}]"#),
        Err(Error::NotJsonRpc { .. })
    ));
}

#[test]
fn a_rejected_batch_is_an_rpc_error() {
    let refusal = r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"},"id":null}"#;
    for body in [refusal.to_owned(), format!("[{refusal}]")] {
        let error = RequestBatch::new(ALL).read(body.as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), "RPC error -32700: Parse error", "{body}");
    }
}

#[test]
fn a_result_of_unexpected_shape_names_its_method() {
    for call in ALL {
        let error = one(call, r#"[{"id":1,"result":{"x":[]}}]"#).unwrap_err();
        assert!(
            matches!(error, Error::UnexpectedResult { method, .. } if method == call.method()),
            "{error}"
        );
    }
}

#[test]
fn an_invalid_identity_or_version_does_not_become_a_label() {
    let body = |key: &str, text: &str| json!([{ "id": 1, "result": { key: text } }]).to_string();
    let key = "DMz6SsztgBqTVkGc6CTcs4EYSJPUTfqKKwEzHLC7P8sr";
    assert_eq!(
        one(Call::Identity, &body("identity", key)),
        Ok(Answer::Identity(key.parse().unwrap()))
    );
    for bad in [
        "",
        "me",
        "DMz6SsztgBqTVkGc6CTcs4EYSJPUTfqKKwEzHLC7P8s0",
        "\u{1b}[2J",
        &"1".repeat(50_000),
    ] {
        let error = one(Call::Identity, &body("identity", bad)).unwrap_err();
        assert!(
            matches!(
                error,
                Error::UnexpectedResult {
                    method: "getIdentity",
                    ..
                }
            ) && error.to_string().len() < 300,
            "{error}"
        );
    }
    for bad in ["", "2.1\u{202e}14", "2.1\n14", &"1".repeat(129)] {
        assert!(matches!(
            one(Call::Version, &body("solana-core", bad)),
            Err(Error::UnexpectedResult {
                method: "getVersion",
                ..
            })
        ));
    }
}
