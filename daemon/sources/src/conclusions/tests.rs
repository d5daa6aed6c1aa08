use super::*;
use crate::tick::ProcessState;
use faultline_kernel::HostRoot;
use faultline_testkit::host::FakeHost;

fn at(seconds: u64) -> Stamp {
    Stamp {
        uptime: Duration::from_secs(seconds),
        unix: Duration::from_secs(1_700_000_000 + seconds),
    }
}

/// A process of a validator that may report its identity at `rpc_port`.
fn target(pid: u32, rpc_port: Option<u16>) -> Target {
    let start_ticks = 70;
    crate::tests::target(ProcessId { pid, start_ticks }, rpc_port)
}

fn conclusions(intake: &Intake) -> Conclusions {
    Conclusions::new(
        Latest::default(),
        intake.clone(),
        rpc::Handle::default(),
        votes::Handle::default(),
        Latest::default(),
        None,
    )
}

fn sample(conclusions: &mut Conclusions, target: &Target, now: Stamp) {
    let host = FakeHost::empty().unwrap();
    conclusions.sample(&SampleContext {
        now,
        target: Some(target),
        root: &HostRoot::below(host.root()),
        host: &crate::tests::host_constants(),
        boot_time: &Ok(0),
        process_state: &ProcessState::default(),
    });
}

/// The identity after the validator was the only sender for ten minutes, and has reported none.
fn assumed_identity(program: Program, rpc_port: Option<u16>) -> Option<String> {
    let mut target = target(7, rpc_port);
    target.validator.as_mut().unwrap().program = program;
    let intake = Intake::new(&Default::default());
    let mut conclusions = conclusions(&intake);
    for second in (0..=600).step_by(10) {
        sample(&mut conclusions, &target, at(second));
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

#[test]
fn without_pushes_and_log_an_identity_ends_with_its_process() {
    let intake = Intake::new(&Default::default());
    let mut conclusions = conclusions(&intake);
    sample(&mut conclusions, &target(7, Some(9)), at(0));
    intake.set_reported_identity("A", at(0));
    sample(&mut conclusions, &target(7, Some(9)), at(1));
    assert_eq!(intake.facts().identity.as_deref(), Some("A"));
    sample(&mut conclusions, &target(8, Some(9)), at(2));
    assert_eq!(intake.facts().identity, None);
}
