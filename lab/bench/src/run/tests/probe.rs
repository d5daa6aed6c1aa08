use super::{
    plan,
    server::{Reply, Server, http},
    *,
};
use crate::answer::Expected;
use std::{
    sync::{Arc, Barrier},
    time::Duration,
};

fn plan_for(server: &Server, arms: usize) -> Plan {
    let known = plan(server, 1, 1, None);
    let name = |arm: usize| format!("node {arm}");
    let case = |(arm_index, request_index)| Case {
        arm_index,
        request_index,
        connection_index: arm_index,
        expected: Expected::Json,
        ..known.cases[0].clone()
    };
    let request_labels = || ["a", "b"].map(|name| name.to_owned());
    Plan {
        arms: (0..arms).map(name).collect(),
        connections: (0..arms).map(|_| known.connections[0].clone()).collect(),
        request_labels: request_labels().into(),
        cases: (0..2)
            .flat_map(|request| (0..arms).map(move |arm| (arm, request)))
            .map(case)
            .collect(),
        ..known.as_ref().clone()
    }
}

#[test]
fn all_nodes_are_queried_at_the_same_moment() {
    // The server answers only after it has all three requests. The header `Connection: close` prevents another request on the same
    // connection.
    let (meet, answer) = (
        Arc::new(Barrier::new(3)),
        r#"{"jsonrpc":"2.0","result":7,"id":ID}"#,
    );
    let server = Server::start(move |_, id| {
        meet.wait();
        Reply::Raw(http(
            "200 OK",
            "Connection: close\r\n",
            &answer.replace("ID", &id.to_string()),
        ))
    });
    let plan = plan_for(&server, 3);
    let engine = Engine::new(&plan, None).unwrap();
    assert_eq!(
        engine.probe_json(&plan).unwrap(),
        vec![serde_json::Value::from(7); 6]
    );
}

#[test]
fn a_rate_limited_first_request_is_retried() {
    let server = Server::start(|number, _| match number {
        0 => Reply::Raw(http("429 Too Many Requests", "Retry-After: 0\r\n", "")),
        _ => Reply::After(Duration::ZERO),
    });
    let plan = plan_for(&server, 1);
    let begun = clock::uptime();
    Engine::new(&plan, None).unwrap().probe_json(&plan).unwrap();
    assert!(
        clock::uptime() - begun >= Duration::from_millis(500),
        "not at once, whatever the node says"
    );
}

#[test]
fn an_hour_long_retry_after_ends_requests_to_the_node() {
    let server = Server::start(|_, _| {
        Reply::Raw(http(
            "429 Too Many Requests",
            "Retry-After: 3600\r\nConnection: close\r\n",
            "",
        ))
    });
    let plan = plan_for(&server, 1);
    let refused = Engine::new(&plan, None)
        .unwrap()
        .probe_json(&plan)
        .unwrap_err()
        .to_string();
    assert!(refused.contains("no requests for 1 h"), "{refused}");
}
