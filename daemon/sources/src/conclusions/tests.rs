use super::*;
use crate::tick::ProcessState;
use faultline_kernel::HostConstants;
use faultline_testkit::host::FakeHost;

fn at(seconds: u64) -> Stamp {
    Stamp {
        uptime: Duration::from_secs(seconds),
        unix: Duration::from_secs(1_700_000_000 + seconds),
    }
}

/// The identity after the validator was the only sender for ten minutes, and has reported none.
fn assumed_identity(program: Program, rpc_port: Option<u16>) -> Option<String> {
    let process = ProcessId {
        pid: 7,
        start_ticks: 70,
    };
    let mut target = crate::tests::target(process, rpc_port);
    target.validator.as_mut().unwrap().program = program;
    let (host, intake) = (FakeHost::empty().unwrap(), Intake::new(&Default::default()));
    let mut conclusions = Conclusions::new(
        Latest::default(),
        intake.clone(),
        rpc::Handle::default(),
        votes::Handle::default(),
        Latest::default(),
        None,
    );
    for second in (0..=600).step_by(10) {
        conclusions.sample(&SampleContext {
            now: at(second),
            target: Some(&target),
            root: &HostRoot::below(host.root()),
            host: &HostConstants {
                page_size: 4096,
                clock_ticks_per_second: 100,
                kernel_release: String::new(),
            },
            boot_time: &Ok(0),
            process_state: &ProcessState::default(),
        });
        let mut push = intake.begin_trusted(at(second));
        push.add_line(format!("x,host_id=A y={second}i {second}").as_bytes());
        intake.commit(push, at(second));
    }
    intake.facts().identity
}

#[test]
fn a_sender_is_assumed_to_be_the_validator_only_without_json_rpc() {
    let assumed = Some("A".to_owned());
    assert_eq!(assumed_identity(Program::AgaveValidator, None), assumed);
    assert_eq!(assumed_identity(Program::AgaveValidator, Some(9)), None);
    assert_eq!(
        assumed_identity(Program::TestValidator, None),
        None,
        "its JSON-RPC is open at the default port"
    );
}
