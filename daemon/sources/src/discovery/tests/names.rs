use super::{
    super::method::{NameSearch, PidSearch},
    *,
};
use std::fs;

#[test]
fn a_long_name_is_compared_beyond_the_truncated_comm() {
    let host = host();
    FakeProcess::new(70, "solana-bench-tp")
        .line("/opt/solana-bench-tps --url x")
        .write_to(&host);
    FakeProcess::new(71, "solana-bench-tp")
        .line("solana-bench-tpu")
        .write_to(&host);
    let fixture = SearchFixture::new(&host);
    let found = NameSearch::new("solana-bench-tps").find(&fixture.context());
    assert_eq!(pid_of(&found), Some(70));
    assert_eq!(found.unwrap().validator, None);
    assert_eq!(
        problem_text(&NameSearch::new("solana-bench").find(&fixture.context())),
        "absent: no process is called solana-bench"
    );
}

#[test]
fn the_daemon_is_excluded_by_its_pid_in_the_namespace_of_procfs() {
    let pid = std::process::id();
    let found = |own_pid: u32| {
        let host = host();
        FakeProcess::new(pid, "redis").write_to(&host);
        std::os::unix::fs::symlink(own_pid.to_string(), host.path("proc/self")).unwrap();
        pid_of(&NameSearch::new("redis").find(&SearchFixture::new(&host).context()))
    };
    assert_eq!([pid, pid + 1].map(found), [None, Some(pid)]);
}

#[test]
fn the_parent_is_chosen_over_its_worker_processes() {
    let host = host();
    FakeProcess::new(71, "redis").parent(70).write_to(&host);
    FakeProcess::new(70, "redis").write_to(&host);
    FakeProcess::new(72, "redis").parent(71).write_to(&host);
    let fixture = SearchFixture::new(&host);
    assert_eq!(
        pid_of(&NameSearch::new("redis").find(&fixture.context())),
        Some(70)
    );
    FakeProcess::new(80, "redis").write_to(&host);
    let words = problem_text(&NameSearch::new("redis").find(&fixture.context()));
    assert!(
        words.contains("70 redis, 71 redis, 72 redis, 80 redis;"),
        "{words}"
    );
}

#[test]
fn a_configured_pid_accepts_any_program_first_then_only_the_same() {
    let host = host();
    FakeProcess::new(70, "redis").write_to(&host);
    let (fixture, mut by_pid) = (SearchFixture::new(&host), PidSearch::new(70, false));
    let before = by_pid.find(&fixture.context()).unwrap();
    assert_eq!(before.validator, None);
    let context = SearchContext {
        previous_target: Some(&before),
        ..fixture.context()
    };
    FakeProcess::new(70, "cron").start(200).write_to(&host);
    assert_eq!(
        problem_text(&by_pid.find(&context)),
        "gone: the pid 70 now belongs to another program (cron)"
    );
    FakeProcess::new(70, "redis").start(300).write_to(&host);
    assert_eq!(by_pid.find(&context).unwrap().process.start_ticks, 300);
    host.remove("proc/70").unwrap();
    assert_eq!(
        problem_text(&by_pid.find(&context)),
        "gone: there is no process 70"
    );
}

#[test]
fn a_configured_pid_that_appears_late_must_be_a_validator() {
    let host = host();
    let (fixture, mut by_pid) = (SearchFixture::new(&host), PidSearch::new(70, false));
    assert_eq!(pid_of(&by_pid.find(&fixture.context())), None);
    FakeProcess::new(70, "cron").write_to(&host);
    assert_eq!(pid_of(&by_pid.find(&fixture.context())), None);
    FakeProcess::validator(70).write_to(&host);
    assert_eq!(pid_of(&by_pid.find(&fixture.context())), Some(70));
}

#[test]
fn an_ended_configured_process_is_not_reported_as_missing() {
    let host = host();
    FakeProcess::new(70, "redis").state('Z').write_to(&host);
    let (fixture, mut by_pid) = (SearchFixture::new(&host), PidSearch::new(70, false));
    assert_eq!(
        problem_text(&by_pid.find(&fixture.context())),
        "gone: process 70 has ended; it is a zombie until its parent waits for it"
    );
}

#[test]
fn a_configured_process_possibly_hidden_by_procfs_is_not_reported_missing() {
    let host = FakeHost::empty().unwrap();
    FakeProcess::new(8, "faultlined").write_to(&host);
    let (fixture, mut by_pid) = (SearchFixture::new(&host), PidSearch::new(70, false));
    let found = problem_text(&by_pid.find(&fixture.context()));
    assert!(
        found.starts_with(
            "forbidden: process 70 cannot be seen: processes of other users are hidden (hidepid)"
        ),
        "{found}"
    );
    if FakeHost::permissions_apply().unwrap() {
        let host = self::host();
        FakeProcess::new(70, "redis").write_to(&host);
        host.forbid("proc/70/stat").unwrap();
        let fixture = SearchFixture::new(&host);
        let found = problem_text(&by_pid.find(&fixture.context()));
        assert!(found.contains("(hidepid)"), "{found}");
    }
}

#[test]
fn a_long_name_is_found_after_its_program_file_was_replaced() {
    let host = host();
    let exe = |pid: u32, path: &str| {
        FakeProcess::new(pid, "validator-with-")
            .line("title: serving")
            .write_to(&host);
        let link = host.path(&format!("proc/{pid}/exe"));
        let _ = fs::remove_file(&link);
        std::os::unix::fs::symlink(path, link).unwrap();
    };
    let fixture = SearchFixture::new(&host);
    let find = |name: &str| NameSearch::new(name).find(&fixture.context());
    exe(70, "/opt/validator-with-long-name (deleted)");
    exe(71, "/opt/validator-with-other-name");
    assert_eq!(pid_of(&find("validator-with-long-name")), Some(70));
    assert_eq!(
        pid_of(&find("validator-with-long-name (deleted)")),
        Some(70),
        "a name may end like the mark"
    );
    assert_eq!(pid_of(&find("validator-with-long")), None);
}

#[test]
fn a_pid_is_the_same_program_after_its_file_was_replaced() {
    let host = host();
    let exe = |path: &str, start: u64| {
        FakeProcess::new(70, "redis").start(start).write_to(&host);
        let link = host.path("proc/70/exe");
        let _ = fs::remove_file(&link);
        std::os::unix::fs::symlink(path, link).unwrap();
    };
    exe("/opt/redis (deleted)", 100);
    let (fixture, mut by_pid) = (SearchFixture::new(&host), PidSearch::new(70, false));
    let before = by_pid.find(&fixture.context()).unwrap();
    let context = SearchContext {
        previous_target: Some(&before),
        ..fixture.context()
    };
    exe("/opt/redis", 200);
    assert_eq!(by_pid.find(&context).unwrap().process.start_ticks, 200);
    exe("/opt/other", 300);
    assert_eq!(pid_of(&by_pid.find(&context)), None);
}
