//! The fields of responses that the daemon reads.

use super::super::*;
use faultline_agave::{
    Error,
    admin::{Answer as AdminAnswer, Method, StartProgress},
    rpc::{Answer, Call, Commitment, Health, RequestBatch},
};

const CALLS: [Call; 8] = [
    Call::EpochInfo,
    Call::Slot(Commitment::Processed),
    Call::Slot(Commitment::Confirmed),
    Call::Slot(Commitment::Finalized),
    Call::MaxShredInsertSlot,
    Call::Health,
    Call::Version,
    Call::Identity,
];

fn node_state_at(uptime: Duration) -> NodeState {
    let address = SocketAddr::from(([127, 0, 0, 1], 8899));
    node_state(
        &RecordedLines::embedded(None).unwrap(),
        address,
        Duration::from_millis(1_800_000_000_500),
        uptime,
    )
}

fn ask(after_running: u64) -> Vec<Answer> {
    let batch = RequestBatch::new(CALLS);
    let body = node_state_at(SERVICES_START + Duration::from_secs(after_running))
        .answer_http(batch.body().as_bytes());
    batch
        .read(body.as_bytes())
        .unwrap()
        .into_iter()
        .map(Result::unwrap)
        .collect()
}

#[test]
fn the_demo_answers_a_batch_in_the_format_the_daemon_parses() {
    let answers = ask(100);
    let Answer::EpochInfo(info) = answers[0] else {
        panic!("{answers:?}")
    };
    let slot = info.absolute_slot;
    assert!(info.transaction_count.unwrap() > FIRST_TRANSACTION_COUNT);
    assert_eq!(
        answers[1..4],
        [
            Answer::Slot(slot),
            Answer::Slot(slot - 2),
            Answer::Slot(slot - 2)
        ]
    );
    assert_eq!(
        answers[4..6],
        [Answer::MaxShredInsertSlot(slot), Answer::Health(Health::Ok)]
    );
    let Answer::Version(version) = &answers[6] else {
        panic!("{answers:?}")
    };
    assert_eq!(version.solana_core, CONSENSUS.agave_version());
    assert_eq!(answers[7], Answer::Identity(IDENTITY.parse().unwrap()));
}

#[test]
fn the_demo_is_unhealthy_while_catching_up() {
    let answers = ask(1);
    let (Answer::EpochInfo(info), Answer::MaxShredInsertSlot(tip)) = (&answers[0], &answers[4])
    else {
        panic!("{answers:?}")
    };
    let behind = tip - info.absolute_slot;
    assert!((400..450).contains(&behind), "{behind}");
    assert_eq!(
        answers[5],
        Answer::Health(Health::Unhealthy {
            slots_behind: Some(behind)
        })
    );
}

#[test]
fn the_demo_refuses_invalid_requests() {
    for (body, code) in [
        ("", -32700),
        ("{", -32700),
        ("7", -32601),
        (r#"{"method":"getBlock"}"#, -32601),
    ] {
        let answer: Value =
            serde_json::from_str(&node_state_at(Duration::ZERO).answer_http(body.as_bytes()))
                .unwrap();
        assert_eq!(answer["error"]["code"], code, "{body}");
    }
}

fn ask_admin(method: Method, uptime: Duration) -> Result<AdminAnswer, Error> {
    let request = serde_json::from_str(&method.request(5)).unwrap();
    let answer = node_state_at(uptime).answer_admin(&request);
    assert!(answer.ends_with('\n'));
    method.read(5, answer.as_bytes())
}

#[test]
fn the_demo_admin_socket_reports_the_startup() {
    let names: Vec<String> = (0..5)
        .map(|state| {
            match ask_admin(Method::StartProgress, Duration::from_secs(state * 2)).unwrap() {
                AdminAnswer::StartProgress(StartProgress::Other(name)) => {
                    panic!("{name} is no state")
                }
                AdminAnswer::StartProgress(progress) => progress.name().to_owned(),
                other => panic!("{other:?}"),
            }
        })
        .collect();
    let expected = [
        "SearchingForRpcService",
        "DownloadingSnapshot",
        "LoadingLedger",
        "ProcessingLedger",
        "Running",
    ];
    assert_eq!(names, expected);
}

#[test]
fn the_admin_socket_names_the_identity_once_services_run() {
    let early = ask_admin(Method::ContactInfo, Duration::ZERO);
    assert!(
        matches!(early, Err(Error::Rpc { code: -32602, .. })),
        "{early:?}"
    );
    let AdminAnswer::ContactInfo(info) = ask_admin(Method::ContactInfo, SERVICES_START).unwrap()
    else {
        panic!("not it")
    };
    assert_eq!(info.id, IDENTITY.parse().unwrap());
}
