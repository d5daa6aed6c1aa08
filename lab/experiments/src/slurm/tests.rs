use super::*;
use crate::plan::{Concurrent, InitialState, Severity};
use std::{fs, path::Path};

fn plan(more: &str) -> Plan {
    let text = format!(
        "name = \"s\"\nfolder = \"/f d\"\n[workload]\nkind = \"replay\"\ncommand = [\"v\"]\nledger = \"/l\"\n[begin]\nhow = \"as-is\"\n\
         [stop]\nduration = \"1h\"\ngrace = \"1m\"\n[host]\ncool_down = \"5m\"\npatience = \"10m\"\n{more}\n\
         [[arm]]\nname = \"a\"\nmemory_max = \"512G\"\n[[arm]]\nname = \"b\"\nmemory_max = \"384G\"\n"
    );
    crate::plan::parse(&text, Path::new("/it's.toml")).unwrap()
}

#[test]
fn the_script_reserves_the_largest_limit_and_the_longest_time_of_a_block() {
    let rules = "[slurm]\nconstraint = \"epyc|xeon\"\nexclude = \"n[1-2]\"\noptions = [\"--partition=lab\"]";
    let script = experiment_script(&plan(rules), true).unwrap();
    // Two runs of 71 min, two cool-downs of 5 min, 2 min.
    for line in [
        "#SBATCH --array=1-4",
        "#SBATCH --mem=525312M",
        "#SBATCH --time=154",
        "#SBATCH --output=\"/f d/blocks/%3a.out\"",
        "#SBATCH --constraint=\"epyc|xeon\"",
        "#SBATCH --exclude=\"n[1-2]\"",
        "#SBATCH --partition=lab",
        "# 1. faultline experiment prepare '/it'\\''s.toml'",
    ] {
        assert!(script.lines().any(|one| one == line), "{line}\n{script}");
    }
    let last = script.lines().last().unwrap();
    assert!(
        last.starts_with(&format!(
            "exec {} ",
            shell_quoted(&std::env::current_exe().unwrap())
        )) && last.ends_with(" experiment block '/f d' \"$SLURM_ARRAY_TASK_ID\" --i-vote"),
        "{last}"
    );
}

#[test]
fn the_report_has_the_options_of_the_plan_as_its_script_says_them() {
    let mut plan = plan("[slurm]\noptions = [\"--comment=\\\"two words\\\"\"]");
    let job_scripts = JobScripts {
        job_name: "s".to_owned(),
        output_folder: "/f 50%/blocks".into(),
    };
    let script = job_scripts
        .follow_up_script(&plan, "report.out", "x")
        .unwrap();
    for line in [
        "#SBATCH --comment=\"two words\"",
        "#SBATCH --output=\"/f 50%%/blocks/report.out\"",
    ] {
        assert!(script.lines().any(|one| one == line), "{line}\n{script}");
    }
    plan.folder = "/f \"x\"".into();
    let error = experiment_script(&plan, false).unwrap_err().to_string();
    assert!(error.contains("sbatch misreads"), "{error}");
}

#[test]
fn a_plan_that_copies_has_no_time_limit() {
    let mut plan = plan("");
    plan.initial_state = InitialState::Restore { from: "/s".into() };
    assert_eq!(time_limit_minutes(&plan, 2), 0);
}

#[test]
fn memory_below_the_limits_is_refused_and_unlimited_runs_take_a_node() {
    let error = experiment_script(&plan("[slurm]\nmemory = \"512G\""), false)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("512.0 GiB") && error.contains("at least 513.0 GiB"),
        "{error}"
    );
    assert_eq!(
        reserved_bytes(&plan("[slurm]\nmemory = \"600G\"")).unwrap(),
        600 << 30
    );
    let mut unlimited = plan("");
    unlimited.arms[0].memory_max = None;
    assert_eq!(reserved_bytes(&unlimited).unwrap(), 0);
}

#[test]
fn the_sum_of_huge_limits_does_not_overflow() {
    let mut plan = plan("");
    for arm in &mut plan.arms {
        arm.memory_max = Some(u64::MAX);
    }
    plan.concurrent = Some(Concurrent {
        repeated_arm: 0,
        shared_device_severity: Severity::Warn,
    });
    assert_eq!(reserved_bytes(&plan).unwrap(), u64::MAX);
}

#[test]
fn an_exit_code_is_also_found_in_a_range() {
    for codes in ["75", "1-9,75", "70-80", "75-76,99", "1-75"] {
        assert!(includes_tempfail(codes), "{codes}");
    }
    for codes in ["", "(null)", "175", "7,5", "1-9,18", "76-80", "70-74"] {
        assert!(!includes_tempfail(codes), "{codes}");
    }
}

#[test]
fn a_missing_program_is_an_error_that_names_print() {
    let error = call("faultline-no-such-program", &[])
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("not in PATH") && error.contains("--print"),
        "{error}"
    );
}

#[test]
fn a_program_that_hangs_is_ended_with_its_timeout_and_a_remedy() {
    let root = tempfile::tempdir().unwrap();
    let stub = root.path().join("squeue");
    let script = format!(
        "#!/bin/sh\necho $$ > {}/pid\nexec sleep 30\n",
        root.path().display()
    );
    fs::write(&stub, script).unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&stub, executable).unwrap();
    // Long enough for its first line on a busy host.
    let timeout = Duration::from_secs(3);
    let error = call_within(timeout, stub.to_str().unwrap(), &[]).unwrap_err();
    let error = error.to_string();
    assert!(
        error.contains("squeue did not answer within 3 s") && error.contains("scontrol ping"),
        "{error}"
    );
    let pid = fs::read_to_string(root.path().join("pid")).unwrap();
    assert!(!Path::new("/proc").join(pid.trim()).exists());
}

#[test]
fn stdout_and_stderr_of_a_program_are_separate() {
    let timeout = Duration::from_secs(10);
    let script = |text| call_within(timeout, "sh", &["-c", text]);
    assert_eq!(script("echo a; echo b >&2; echo c").unwrap(), "a\nc\n");
    let error = script("echo a; echo b >&2; exit 1").unwrap_err();
    assert_eq!(error.to_string(), "sh failed: b");
}
