//! Checks the daemon's system calls with strace. The daemon never stops the followed process and
//! never writes to it. It never opens a file whose reading takes that process's `mmap_lock`.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot prepare its scene fails"
)]
#![expect(clippy::disallowed_methods, reason = "a test starts programs itself")]

use faultline_testkit::{Result, daemon::Daemon, eventually::eventually_ok};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

const PATIENCE: Duration = Duration::from_secs(90);
/// Reading these files takes the process's `mmap_lock`, or shows its memory.
const NEVER_OPENED: [&str; 8] = [
    "smaps",
    "smaps_rollup",
    "maps",
    "numa_maps",
    "mem",
    "pagemap",
    "clear_refs",
    "syscall",
];
/// These calls stop a process, inspect its memory, or signal it.
const NEVER_CALLED: [&str; 8] = [
    "ptrace",
    "process_vm_readv",
    "process_vm_writev",
    "process_madvise",
    "pidfd_getfd",
    "pidfd_send_signal",
    "kill",
    "tgkill",
];
const OPENS: [&str; 3] = ["open", "openat", "openat2"];
const WRITES: [&str; 4] = ["write", "writev", "pwrite64", "pwritev"];

/// Why a line of the trace breaks the rules; `None` if it does not.
fn offence(line: &str) -> Option<String> {
    // Example: "4711 openat(5</proc/1>, "stat", O_RDONLY) = 6</proc/1/stat>". A resumed call was
    // checked where it began.
    let (_, call) = line.split_once(' ')?;
    let (name, arguments) = call.trim_start().split_once('(')?;
    let refused = |why: &str| Some(format!("{why}: {line}"));
    let of_the_kernel =
        arguments.contains("</proc") || arguments.contains("</sys") || names_kernel_file(arguments);
    if NEVER_CALLED.contains(&name) {
        return refused("called");
    }
    if OPENS.contains(&name) {
        let path = quoted(arguments).unwrap_or_default();
        let last = path.rsplit('/').next().unwrap_or_default();
        // The C library reads this file to find the end of its own stack.
        if NEVER_OPENED.contains(&last) && path != "/proc/self/maps" {
            return refused("opened");
        }
        let to_write = ["O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC"]
            .iter()
            .any(|flag| arguments.contains(flag));
        return if of_the_kernel && to_write {
            refused("opened for writing")
        } else {
            None
        };
    }
    if name.starts_with("getdents")
        && arguments
            .split_once('>')
            .is_some_and(|(file, _)| file.ends_with("/fd"))
    {
        return refused("descriptors listed");
    }
    let file = arguments.split_once('>').map_or("", |(file, _)| file);
    let written = WRITES.contains(&name) && (file.contains("</proc") || file.contains("</sys"));
    if written { refused("written") } else { None }
}

fn names_kernel_file(arguments: &str) -> bool {
    quoted(arguments).is_some_and(|path| path.starts_with("/proc") || path.starts_with("/sys"))
}

fn quoted(arguments: &str) -> Option<&str> {
    arguments.split('"').nth(1)
}

/// True if strace works on this machine.
fn strace_works() -> bool {
    let traced = Command::new("strace")
        .args(["-D", "-o", "/dev/null", "true"])
        .stderr(Stdio::null())
        .status();
    let works = traced.is_ok_and(|status| status.success());
    if !works {
        eprintln!("skipped: strace (Debian package strace) is missing or may not trace here");
    }
    works
}

/// A program that runs the daemon under strace. strace is the child, so the daemon has the process
/// id of the program.
fn traced(folder: &Path, trace: &Path) -> std::io::Result<String> {
    let calls = [
        &NEVER_CALLED[..],
        &OPENS,
        &WRITES,
        &["getdents", "getdents64"],
    ]
    .concat();
    // A call that is unknown to this kernel or strace is left out.
    let calls: Vec<String> = calls.iter().map(|call| format!("?{call}")).collect();
    let script = format!(
        "#!/bin/sh\nexec strace -D -f -y -s 256 -o '{}' -e signal=none -e trace={} '{}' \"$@\"\n",
        trace.display(),
        calls.join(","),
        env!("CARGO_BIN_EXE_faultlined")
    );
    let program = folder.join("traced");
    fs::write(&program, script)?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    Ok(program.display().to_string())
}

/// The relevant system calls of a daemon that finds its target by these options and follows it for
/// two dozen ticks.
fn trace_of(way: &[&str], seen: &str) -> Result<Vec<String>> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let trace = folder.path().join("trace");
    let program = traced(folder.path(), &trace).expect("a script");
    let config = folder.path().join("c.toml");
    let every_reading = "[sampling]\ninterval = \"100ms\"\n[threads]\ninterval = \"100ms\"\nswitches_interval = \"300ms\"\n";
    fs::write(&config, every_reading).expect("a file");
    let config = config.display().to_string();
    let daemon = Daemon::start(
        &program,
        &[way, &["--config", &config]].concat(),
        folder.path(),
    )?;
    eventually_ok(PATIENCE, "two dozen ticks", || {
        let page = daemon.page().map_err(|error| error.to_string())?;
        let ticks = page.lines().find_map(|line| {
            line.strip_prefix("faultline_ticks_total ")?
                .parse::<f64>()
                .ok()
        });
        if ticks >= Some(24.0) && page.contains(seen) {
            Ok(())
        } else {
            Err(format!("{ticks:?} ticks"))
        }
    });
    let first = format!("{} ", daemon.pid());
    assert_eq!(daemon.stop()?, Some(0));
    let ended = || {
        let text = fs::read_to_string(&trace).unwrap_or_default();
        let ended = text
            .lines()
            .any(|line| line.starts_with(&first) && line.contains("+++ exited"));
        if ended {
            Ok(text)
        } else {
            Err(text.lines().last().unwrap_or_default().to_owned())
        }
    };
    let text = eventually_ok(PATIENCE, "strace sees the end", ended);
    Ok(text.lines().map(str::to_owned).collect())
}

fn audit(way: &[&str], seen: &str, reads: &str) -> Result<()> {
    if !strace_works() {
        return Ok(());
    }
    let trace = trace_of(way, seen)?;
    assert!(
        trace.iter().any(|line| line.contains(reads)),
        "the trace does not show {reads}: {} lines",
        trace.len()
    );
    let offences: Vec<String> = trace.iter().filter_map(|line| offence(line)).collect();
    assert!(offences.is_empty(), "{offences:#?}");
    Ok(())
}

#[test]
fn the_followed_process_is_only_read_and_its_maps_never() -> Result<()> {
    let own = std::process::id().to_string();
    // Context switches come from the threads' status files, which are read least often.
    audit(
        &["--pid", &own],
        "agave_process_context_switches_total",
        &format!("/proc/{own}/task"),
    )
}

#[test]
fn a_validator_search_reads_only_allowed_files_of_other_processes() -> Result<()> {
    audit(&[], "faultline_ticks_total", "/proc/1/")
}

#[test]
fn the_process_locking_a_ledger_is_found_without_listing_descriptors() -> Result<()> {
    let ledger = tempfile::tempdir().expect("a temporary folder");
    fs::write(ledger.path().join("ledger.lock"), "").expect("a file");
    let ledger = ledger.path().display().to_string();
    audit(
        &["--ledger", &ledger],
        "faultline_ticks_total",
        "/proc/locks",
    )
}

#[test]
fn the_syscall_audit_detects_violations() {
    for bad in [
        "7 openat(AT_FDCWD</>, \"/proc/12/smaps_rollup\", O_RDONLY|O_CLOEXEC) = 3</proc/12/smaps_rollup>",
        "7 openat(15</proc/12>, \"maps\", O_RDONLY) = -1 EACCES (Permission denied)",
        "7 openat(AT_FDCWD</>, \"/proc/12/mem\", O_RDONLY <unfinished ...>",
        "7 openat(AT_FDCWD</>, \"/proc/12/oom_score_adj\", O_RDWR) = 3</proc/12/oom_score_adj>",
        "7 openat(15</sys/fs/cgroup/x>, \"memory.max\", O_WRONLY|O_CLOEXEC) = 3</sys/fs/cgroup/x/memory.max>",
        "7 ptrace(PTRACE_SEIZE, 12, NULL, 0) = 0",
        "7 process_vm_readv(12, [], 1, [], 1, 0) = 0",
        "7 kill(12, SIGTERM) = 0",
        "7 getdents64(5</proc/12/fd>, 0x55 /* 9 entries */, 32768) = 216",
        "7 write(5</proc/12/oom_score_adj>, \"0\", 1) = 1",
    ] {
        assert!(offence(bad).is_some(), "{bad}");
    }
    for good in [
        "7 openat(AT_FDCWD</>, \"/proc/self/maps\", O_RDONLY|O_CLOEXEC) = 3</proc/7/maps>",
        "7 openat(15</proc/12>, \"status\", O_RDONLY|O_LARGEFILE|O_CLOEXEC) = 5</proc/12/status>",
        "7 getdents64(5</proc/12/task>, 0x55 /* 9 entries */, 32768) = 216",
        "7 write(2</tmp/log>, \"INFO /proc/12/mem\\n\", 19) = 19",
        "7 <... openat resumed>) = 5</proc/12/status>",
        "7 +++ exited with 0 +++",
    ] {
        assert_eq!(offence(good), None, "{good}");
    }
}
