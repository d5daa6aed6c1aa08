use super::super::*;

#[test]
fn a_result_missing_a_required_field_differs_from_an_invalid_response() {
    #[derive(Debug, serde::Deserialize)]
    struct Needs {
        #[expect(dead_code, reason = "only its absence matters")]
        slot: u64,
    }
    let read = |body: &str| {
        let error = read_result::<Needs>("getSlot", 3, body.as_bytes()).unwrap_err();
        error.to_string()
    };
    let lacks = read(r#"{"jsonrpc":"2.0","id":3,"result":{"other":1}}"#);
    assert!(
        lacks.starts_with("unexpected result of getSlot (missing field `slot`")
            && lacks.ends_with("`{\\\"other\\\":1}`"),
        "{lacks}"
    );
    assert!(read("<html>").starts_with("not a JSON-RPC answer"));
    assert!(read(r#"{"id":3,"error":{"code":5,"message":"m"}}"#).starts_with("RPC error 5"));
}

#[test]
fn any_result_counts_as_success_except_errors_and_mismatched_ids() {
    let request: Value = serde_json::from_str(&request_body("getSlot", &json!([]), 3)).unwrap();
    assert_eq!(
        request,
        json!({"jsonrpc": "2.0", "id": 3, "method": "getSlot", "params": []})
    );
    let read = |body: &str| check_answer("getSlot", 3, body.as_bytes());
    assert_eq!(read(r#"{"jsonrpc":"2.0","result":5,"id":3}"#), Ok(()));
    assert_eq!(read(r#"{"jsonrpc":"2.0","result":null,"id":3}"#), Ok(()));
    assert_eq!(
        read(r#"{"result":5,"id":4}"#),
        Err(Error::MissingAnswer { method: "getSlot" })
    );
    for id in ["", r#","id":3"#, r#","id":null"#] {
        let refused = format!(r#"{{"error":{{"code":-32005,"message":"behind"}}{id}}}"#);
        let code = read(&refused).map_err(|error| match error {
            Error::Rpc { code, .. } => Some(code),
            _ => None,
        });
        assert_eq!(code, Err(Some(-32005)), "{refused}");
    }
    assert_eq!(
        read(r#"{"result":5,"id":null}"#),
        Err(Error::MissingAnswer { method: "getSlot" })
    );
    assert!(matches!(
        read(r#"{"error":{"code":-32601},"id":3}"#),
        Err(Error::NotOffered { .. })
    ));
    assert!(matches!(read("<html>"), Err(Error::NotJsonRpc { .. })));
    assert!(matches!(read(r#"{"id":3}"#), Err(Error::NotJsonRpc { .. })));
}
