use super::{super::method::Scan, *};

#[test]
fn the_only_validator_is_found_with_its_parsed_arguments() {
    let host = host();
    FakeProcess::validator(77)
        .line("agave-validator --ledger /mnt//l/. --rpc-port 8899")
        .write_to(&host);
    FakeProcess::new(78, "bash")
        .line("bash agave-validator")
        .write_to(&host);
    let fixture = SearchFixture::new(&host);
    let target = Scan::default().find(&fixture.context()).unwrap();
    assert_eq!(
        target.process,
        ProcessId {
            pid: 77,
            start_ticks: 100
        }
    );
    assert_eq!(
        (target.comm.as_str(), target.found_by),
        ("agave-validator", "scan")
    );
    assert_eq!(target.ledger, Some("/mnt/l".into()));
    assert_eq!(target.validator.unwrap().rpc_port, Some(8899));
    assert_eq!(target.exe, None);
}

#[test]
fn a_relative_ledger_begins_at_the_working_directory_of_the_process() {
    let host = host();
    FakeProcess::validator(77)
        .line("agave-validator")
        .write_to(&host);
    let fixture = SearchFixture::new(&host);
    assert_eq!(
        Scan::default().find(&fixture.context()).unwrap().ledger,
        None
    );
    std::os::unix::fs::symlink("/home/sol", host.path("proc/77/cwd")).unwrap();
    assert_eq!(
        Scan::default().find(&fixture.context()).unwrap().ledger,
        Some("/home/sol/ledger".into())
    );
}

#[test]
fn other_tasks_of_the_same_program_and_zombies_are_refused() {
    let host = host();
    FakeProcess::validator(77)
        .line("agave-validator --ledger /l monitor")
        .write_to(&host);
    FakeProcess::validator(78)
        .line("agave-validator --ledger /l exit --force")
        .write_to(&host);
    FakeProcess::validator(79).state('Z').write_to(&host);
    let found = Scan::default().find(&SearchFixture::new(&host).context());
    assert_eq!(
        problem_text(&found),
        "absent: no process looks like a validator"
    );
}

#[test]
fn a_validator_whose_main_thread_has_ended_is_found_while_others_run() {
    let host = host();
    FakeProcess::validator(77)
        .state('Z')
        .thread_count(3)
        .write_to(&host);
    let found = Scan::default().find(&SearchFixture::new(&host).context());
    assert_eq!(pid_of(&found), Some(77));
}

#[test]
fn two_running_validators_are_ambiguous_and_reported_with_their_ledgers() {
    let host = host();
    FakeProcess::validator(77).write_to(&host);
    FakeProcess::validator(1200)
        .line("agave-validator --ledger /mnt/second")
        .write_to(&host);
    let found = Scan::default().find(&SearchFixture::new(&host).context());
    let words = problem_text(&found);
    assert!(
        words.contains("77 agave-validator (ledger /l), 1200 agave-validator (ledger /mnt/second)"),
        "{words}"
    );
    assert!(
        words.contains("target.ledger") && words.contains("--unit"),
        "{words}"
    );
}

#[test]
fn a_running_validator_is_preferred_to_a_process_without_validator_threads() {
    let host = host();
    FakeProcess::validator(77)
        .threads(&["solReplayStage"])
        .write_to(&host);
    FakeProcess::validator(78)
        .threads(&["agave-validator"])
        .write_to(&host);
    let found = Scan::default().find(&SearchFixture::new(&host).context());
    assert_eq!(pid_of(&found), Some(77));
}

#[test]
fn a_sole_candidate_without_threads_is_accepted_after_a_delay() {
    let host = host();
    FakeProcess::validator(77).threads(&[]).write_to(&host);
    let (fixture, mut scan) = (SearchFixture::new(&host), Scan::default());
    assert!(problem_text(&scan.find(&fixture.at(10))).contains("none of its threads yet"));
    assert_eq!(pid_of(&scan.find(&fixture.at(12))), None);
    // Another process replaces it: the wait starts again.
    FakeProcess::validator(77)
        .threads(&[])
        .start(200)
        .write_to(&host);
    assert_eq!(pid_of(&scan.find(&fixture.at(14))), None);
    assert_eq!(pid_of(&scan.find(&fixture.at(17))), Some(77));
}

#[test]
fn a_one_time_search_accepts_a_candidate_immediately() {
    let host = host();
    FakeProcess::validator(77).threads(&[]).write_to(&host);
    let mut finder = finder(config::TargetSelector::Scan, HostRoot::below(host.root()));
    assert_eq!(finder.find_once().unwrap().process.pid, 77);
    assert_eq!(
        finder.target_handle.clone().current().unwrap().process.pid,
        77
    );
}

#[test]
fn a_validator_on_another_ledger_is_no_successor() {
    let host = host();
    FakeProcess::validator(77).write_to(&host);
    let fixture = SearchFixture::new(&host);
    let before = Scan::default().find(&fixture.context()).unwrap();
    host.remove("proc/77").unwrap();
    FakeProcess::validator(90)
        .line("agave-validator --ledger /other")
        .write_to(&host);
    let context = SearchContext {
        previous_target: Some(&before),
        ..fixture.context()
    };
    let found = Scan::default().find(&context);
    assert!(
        problem_text(&found).contains("process 90 is another validator"),
        "{}",
        problem_text(&found)
    );
    FakeProcess::validator(91).write_to(&host);
    assert_eq!(pid_of(&Scan::default().find(&context)), Some(91));
}

pub fn run_by(host: &FakeHost, pid: u32, user: u32) {
    host.write(
        &format!("proc/{pid}/status"),
        format!("Name:\tx\nUid:\t{user}\t{user}\t{user}\t{user}\n").as_bytes(),
    )
    .unwrap();
}

#[test]
fn a_process_of_another_user_is_no_successor() {
    let host = host();
    FakeProcess::validator(77).write_to(&host);
    run_by(&host, 77, 1000);
    let (fixture, mut scan) = (SearchFixture::new(&host), Scan::default());
    let before = scan.find(&fixture.context()).unwrap();
    host.remove("proc/77").unwrap();
    FakeProcess::validator(90).write_to(&host);
    run_by(&host, 90, 1001);
    let context = SearchContext {
        previous_target: Some(&before),
        ..fixture.context()
    };
    let found = scan.find(&context);
    assert!(
        problem_text(&found).contains("process 90")
            && problem_text(&found).contains("does not run as user "),
        "{}",
        problem_text(&found)
    );
    // Nor does it make the search ambiguous.
    FakeProcess::validator(91).write_to(&host);
    run_by(&host, 91, 1000);
    assert_eq!(pid_of(&scan.find(&context)), Some(91));
}

#[test]
fn another_users_process_naming_the_ledger_does_not_cause_ambiguity() {
    let host = host();
    let ledger = tempfile::tempdir().unwrap();
    let line = format!("agave-validator --ledger {}", ledger.path().display());
    let owner = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(ledger.path()).unwrap());
    for (pid, user) in [(77, owner), (78, owner + 1)] {
        FakeProcess::validator(pid).line(&line).write_to(&host);
        run_by(&host, pid, user);
    }
    assert_eq!(
        pid_of(&Scan::default().find(&SearchFixture::new(&host).context())),
        Some(77)
    );
    run_by(&host, 78, owner);
    let words = problem_text(&Scan::default().find(&SearchFixture::new(&host).context()));
    assert!(
        words.contains("77 agave") && words.contains("78 agave"),
        "both may be meant: {words}"
    );
}

#[test]
fn hidden_processes_are_reported_as_hidden() {
    let host = FakeHost::empty().unwrap();
    let found = Scan::default().find(&SearchFixture::new(&host).context());
    assert_eq!(
        problem_text(&found),
        "absent: no process looks like a validator"
    );
    FakeProcess::new(500, "faultlined").write_to(&host);
    let found = Scan::default().find(&SearchFixture::new(&host).context());
    assert!(
        problem_text(&found).starts_with("forbidden: processes of other users are hidden"),
        "{}",
        problem_text(&found)
    );
}

#[test]
fn a_missing_procfs_is_reported_without_a_panic() {
    let host = host();
    host.remove("proc").unwrap();
    let found = Scan::default().find(&SearchFixture::new(&host).context());
    assert!(
        problem_text(&found).starts_with("absent: "),
        "{}",
        problem_text(&found)
    );
}
