//! Requests to nodes that answer, refuse or do not answer.

use faultline_client::rpc::{RetryPolicy, Rpc, RpcError};
use faultline_testkit::mock_node::{MockNode, Reply};
use serde_json::{Value, json};
use std::time::Duration;

const QUICK: RetryPolicy = RetryPolicy {
    max_tries: 3,
    first_wait: Duration::from_millis(1),
    answer_timeout: Duration::from_secs(120),
};

fn ask(replies: Vec<Reply>) -> (Result<Option<u64>, RpcError>, usize) {
    let node = MockNode::of_replies(replies).unwrap();
    let rpc = Rpc::new(&node.url(), None, QUICK).unwrap();
    let answer = rpc.call("getSlot", &json!([]));
    (answer, node.requests().len())
}

fn failed(answer: Result<Option<u64>, RpcError>) -> String {
    answer.unwrap_err().to_string()
}

#[test]
fn rate_limited_requests_are_retried_and_other_refusals_are_final() {
    let limited = Reply::status(429, &[("Retry-After", "0")], "slow down");
    assert_eq!(
        ask(vec![limited.clone(), Reply::result(json!(7))]),
        (Ok(Some(7)), 2)
    );
    let by_code = Reply::error(-32429, "too many requests");
    assert_eq!(
        ask(vec![
            by_code,
            Reply::status(503, &[], ""),
            Reply::result(json!(7))
        ]),
        (Ok(Some(7)), 3)
    );
    let (answer, requested) = ask(vec![limited.clone(), limited.clone(), limited]);
    assert!(failed(answer).contains("429") && requested == 3);
    let (answer, requested) = ask(vec![Reply::error(-32007, "Slot 5 was\u{1b} skipped")]);
    assert_eq!(requested, 1);
    assert_eq!(
        failed(answer),
        "the node answers -32007: Slot 5 was[U+001B] skipped"
    );
    assert_eq!(ask(vec![Reply::status(401, &[], "no")]).1, 1);
    assert_eq!(ask(vec![Reply::result(Value::Null)]), (Ok(None), 1));
}

#[test]
fn truncated_nested_mismatched_and_endless_responses_are_refused() {
    let half = Reply::Raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"jsonrpc\"".to_vec());
    let (answer, requested) = ask(vec![half.clone(), half.clone(), half]);
    assert!(failed(answer).contains("breaks off") && requested == 3);
    let deep = Reply::status(
        200,
        &[],
        &format!("{{\"id\":0,\"result\":{}", "[".repeat(100_000)),
    );
    assert!(failed(ask(vec![deep.clone(), deep.clone(), deep]).0).contains("not as expected"));
    let foreign = Reply::status(200, &[], r#"{"jsonrpc":"2.0","id":99,"result":7}"#);
    assert_eq!(
        failed(ask(vec![foreign]).0),
        "getSlot: the answer is to another request"
    );
    let (answer, requested) = ask(vec![Reply::Endless]);
    assert!(failed(answer).contains("more than 128 MiB") && requested == 1);
}

#[test]
fn requests_to_a_hanging_node_are_retried_then_abandoned() {
    let node =
        MockNode::of_replies(vec![Reply::Never, Reply::Never, Reply::result(json!(7))]).unwrap();
    let hasty = RetryPolicy {
        answer_timeout: Duration::from_millis(300),
        ..QUICK
    };
    let rpc = Rpc::new(&node.url(), None, hasty).unwrap();
    assert_eq!(rpc.call::<u64>("getSlot", &json!([])), Ok(Some(7)));
    assert_eq!(node.requests().len(), 3);
    let node = MockNode::of_replies(vec![Reply::Never; 3]).unwrap();
    let rpc = Rpc::new(&node.url(), None, hasty).unwrap();
    let output = rpc
        .call::<u64>("getSlot", &json!([]))
        .unwrap_err()
        .to_string();
    let host = node.url().replace("http://", "");
    assert_eq!(
        output,
        format!("getSlot at {host}: no answer within 300 ms (tried 3 times)")
    );
}

#[test]
fn a_long_retry_after_ends_the_fetch_without_a_retry() {
    let day = ("Date", "Wed, 25 Nov 2026 12:00:00 GMT");
    for (retry_after, wanted) in [
        ("100000000000000000000", "wants no request for "),
        ("Fri, 31 Dec 9999 23:59:59 GMT", "wants no request for "),
        (
            "Wed, 25 Nov 2026 12:10:00 GMT",
            "wants no request for 10 min",
        ),
    ] {
        let limited = Reply::status(429, &[day, ("Retry-After", retry_after)], "slow down");
        let (answer, requested) = ask(vec![limited]);
        let output = failed(answer);
        assert!(output.contains(wanted) && requested == 1, "{output}");
    }
    let over = Reply::status(503, &[day, ("Retry-After", day.1)], "");
    assert_eq!(ask(vec![over, Reply::result(json!(7))]), (Ok(Some(7)), 2));
}

#[test]
fn an_undecodable_response_is_reported_with_its_content_encoding() {
    let (answer, requested) = ask(vec![Reply::status(200, &[("Content-Encoding", "br")], "x")]);
    let output = failed(answer);
    assert!(
        output.contains("the answer is encoded with br, which was not requested") && requested == 1,
        "{output}"
    );
}
