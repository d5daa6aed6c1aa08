use super::{super::unit::UnitSearch, *};
use faultline_core::supervisor::sync_command;
use faultline_testkit::eventually::eventually;
use std::{fs, os::unix::fs::PermissionsExt};

#[test]
fn the_validator_behind_a_startup_shell_is_found_in_the_units_cgroup() {
    for folder in [
        "sys/fs/cgroup/system.slice/sol.service",
        "sys/fs/cgroup/solana.slice/solana-main.slice/sol.service",
        "sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/app.slice/sol.service",
        "sys/fs/cgroup/unified/system.slice/sol.service",
        "sys/fs/cgroup/systemd/system.slice/sol.service",
    ] {
        let host = host();
        FakeProcess::new(70, "start.sh")
            .line("/bin/bash /home/sol/start.sh")
            .write_to(&host);
        FakeProcess::validator(71).parent(70).write_to(&host);
        FakeProcess::validator(72)
            .line("agave-validator --ledger /l monitor")
            .write_to(&host);
        FakeProcess::validator(90).write_to(&host);
        host.write(&format!("{folder}/cgroup.procs"), "72\n70\n71\n0\n")
            .unwrap();
        for name in ["sol", "sol.service"] {
            let target = UnitSearch::new(name)
                .find(&SearchFixture::new(&host).context())
                .unwrap();
            assert_eq!(
                (target.process.pid, target.found_by),
                (71, "unit"),
                "{folder}"
            );
        }
    }
}

#[test]
fn processes_in_cgroups_that_the_unit_made_itself_belong_to_it() {
    let host = host();
    FakeProcess::validator(71).threads(&[]).write_to(&host);
    host.write("sys/fs/cgroup/system.slice/sol.service/cgroup.procs", "")
        .unwrap();
    host.write(
        "sys/fs/cgroup/system.slice/sol.service/payload/cgroup.procs",
        "71\n",
    )
    .unwrap();
    assert_eq!(
        pid_of(&UnitSearch::new("sol").find(&SearchFixture::new(&host).context())),
        Some(71)
    );
}

#[test]
fn a_unit_with_hidden_processes_is_not_reported_as_empty() {
    let host = FakeHost::empty().unwrap();
    FakeProcess::new(8, "faultlined").write_to(&host);
    host.write(
        "sys/fs/cgroup/system.slice/sol.service/cgroup.procs",
        "71\n",
    )
    .unwrap();
    let words = problem_text(&UnitSearch::new("sol").find(&SearchFixture::new(&host).context()));
    assert!(
        words.contains("process 71 cannot be seen") && words.contains("(hidepid)"),
        "{words}"
    );
}

#[test]
fn a_unit_without_a_validator_lists_its_processes() {
    let host = host();
    let fixture = SearchFixture::new(&host);
    let mut unit = UnitSearch::new("sol");
    assert!(problem_text(&unit.find(&fixture.context())).contains("sol.service has no cgroup"));
    FakeProcess::new(70, "start.sh").write_to(&host);
    host.write("sys/fs/cgroup/system.slice/sol.service/cgroup.procs", "")
        .unwrap();
    assert!(problem_text(&unit.find(&fixture.context())).contains("sol.service has no process"));
    host.write(
        "sys/fs/cgroup/system.slice/sol.service/cgroup.procs",
        "70\n",
    )
    .unwrap();
    assert!(problem_text(&unit.find(&fixture.context())).contains("(70 start.sh)"));
}

#[test]
fn a_startup_script_named_like_the_validator_is_not_followed() {
    let host = host();
    let fixture = SearchFixture::new(&host);
    let mut unit = UnitSearch::new("sol");
    let script = FakeProcess::new(70, "agave-validator");
    host.write(
        "sys/fs/cgroup/system.slice/sol.service/cgroup.procs",
        "70\n71\n",
    )
    .unwrap();
    for line in [
        "/bin/bash /home/sol/agave-validator.sh",
        "/bin/sh -e ./agave-validator --ledger /l",
    ] {
        script.clone().line(line).write_to(&host);
        let found = unit.find(&fixture.context());
        assert!(
            problem_text(&found).contains("has no validator among its processes (70 "),
            "{}",
            problem_text(&found)
        );
        assert!(
            problem_text(&found).contains("agave-validator"),
            "{}",
            problem_text(&found)
        );
    }
    FakeProcess::validator(71)
        .threads(&[])
        .parent(70)
        .write_to(&host);
    assert_eq!(pid_of(&unit.find(&fixture.context())), Some(71));
}

#[test]
fn a_log_named_like_the_validator_does_not_make_it_a_script() {
    let host = host();
    FakeProcess::validator(71)
        .line("/opt/agave-validator -o /var/log/agave-validator.log")
        .write_to(&host);
    host.write(
        "sys/fs/cgroup/system.slice/sol.service/cgroup.procs",
        "71\n",
    )
    .unwrap();
    assert_eq!(
        pid_of(&UnitSearch::new("sol").find(&SearchFixture::new(&host).context())),
        Some(71)
    );
}

#[test]
fn a_unit_name_that_is_a_path_is_not_found() {
    let host = host();
    FakeProcess::validator(71).write_to(&host);
    host.write("sys/fs/cgroup/a.service/cgroup.procs", "71\n")
        .unwrap();
    host.write("sys/fs/cgroup/system.slice/b.service/cgroup.procs", "")
        .unwrap();
    let found = UnitSearch::new("../a.service").find(&SearchFixture::new(&host).context());
    assert!(
        problem_text(&found).contains("has no cgroup"),
        "{}",
        problem_text(&found)
    );
}

/// A `systemctl` with this output.
fn systemctl(host: &FakeHost, output: &str) -> std::ffi::OsString {
    host.write("systemctl", format!("#!/bin/sh\nprintf '{output}'\n"))
        .unwrap();
    let path = host.path("systemctl");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    // While another test starts a program, its child may have the script open for writing.
    eventually(Duration::from_secs(60), "the script runs", || {
        sync_command(&path).output().ok()
    });
    path.into()
}

#[test]
fn systemd_resolves_a_unit_alias_and_the_main_process() {
    let host = host();
    FakeProcess::validator(71).write_to(&host);
    FakeProcess::validator(72).write_to(&host);
    host.write(
        "sys/fs/cgroup/system.slice/validator.service/cgroup.procs",
        "71\n72\n",
    )
    .unwrap();
    let fixture = SearchFixture::new(&host);
    let mut unit = UnitSearch::new("sol");
    unit.systemctl = systemctl(
        &host,
        "MainPID=72\\nControlGroup=/system.slice/validator.service\\n",
    );
    assert_eq!(
        pid_of(&unit.find(&fixture.context())),
        None,
        "numbers of another pid namespace are not asked for"
    );
    let context = SearchContext {
        shares_pid_namespace: true,
        ..fixture.context()
    };
    assert_eq!(pid_of(&unit.find(&context)), Some(72));
    let mut unit = UnitSearch::new("validator");
    unit.systemctl = systemctl(
        &host,
        "MainPID=70\\nControlGroup=/system.slice/validator.service\\n",
    );
    let words = problem_text(&unit.find(&context));
    assert!(
        words.contains("71 agave-validator (ledger /l), 72 agave-validator (ledger /l)"),
        "{words}"
    );
}

#[test]
fn discovery_works_without_systemctl() {
    let host = host();
    let fixture = SearchFixture::new(&host);
    let mut unit = UnitSearch::new("sol");
    unit.systemctl = host.path("nothing").into();
    let found = unit.find(&SearchContext {
        shares_pid_namespace: true,
        ..fixture.context()
    });
    assert!(
        problem_text(&found).contains("sol.service has no cgroup"),
        "{}",
        problem_text(&found)
    );
}
