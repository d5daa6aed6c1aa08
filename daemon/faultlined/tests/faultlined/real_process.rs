//! Real processes that are stopped, frozen or exiting, in real cgroups of the running kernel.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot prepare its scene fails"
)]

use crate::support::{compiled, fake_daemon::FakeDaemon, limited::LimitedCgroup, start};
use faultline_core::config::{Config, TargetSelector};
use faultline_metrics::{
    Tick,
    metrics::{cgroup as c, memory as m, process as p},
};
use faultline_testkit::{Result, eventually::eventually_ok, process::signal};
use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

const PATIENCE: Duration = Duration::from_secs(60);
/// Long enough that the cgroup is looked up again.
const LONG: Duration = Duration::from_secs(31);
const LIMIT: u64 = 256 << 20;
/// Memory that the program's second thread uses.
const USED: u64 = 32 << 20;

/// At SIGUSR1, the program starts a thread that uses memory and does not end. Then the main thread
/// exits.
const SOURCE: &str = r"
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static void *stay(void *unused) {
    memset(malloc(32 << 20), 1, 32 << 20);
    for (;;) pause();
    return unused;
}
int main(void) {
    sigset_t wanted;
    pthread_t thread;
    int number;
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGUSR1);
    sigprocmask(SIG_BLOCK, &wanted, 0);
    sigwait(&wanted, &number);
    pthread_create(&thread, 0, stay, 0);
    pthread_exit(0);
}
";

/// A daemon that follows this process.
fn following(pid: u32) -> FakeDaemon {
    let mut config = Config::default();
    config.target.selector = TargetSelector::Pid(pid);
    let mut daemon = FakeDaemon::real(&config);
    daemon.find();
    daemon
}

fn field(pid: u32, number: usize) -> String {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    text.rsplit_once(") ")
        .and_then(|(_, rest)| rest.split(' ').nth(number - 3))
        .unwrap_or_default()
        .to_owned()
}

fn cgroup(tick: &Tick) -> String {
    let info = tick
        .readings()
        .find(|reading| reading.metric.name == p::TARGET_INFO.name)
        .expect("a target");
    info.label_values[6].to_string()
}

#[test]
fn without_its_main_thread_a_process_is_followed_in_other_threads_cgroup() -> Result<()> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let Some(program) = compiled(folder.path(), "leaves", SOURCE) else {
        println!("SKIPPED: no C compiler (cc)");
        return Ok(());
    };
    let Some(own) = LimitedCgroup::new(LIMIT).filter(LimitedCgroup::is_version_1) else {
        println!("SKIPPED: no cgroup of version 1 with a limit of memory can be made here");
        return Ok(());
    };
    let running = start(program, &[], folder.path())?;
    let pid = running.pid();
    own.write("cgroup.procs", pid.into())
        .expect("a process can be moved");

    let mut daemon = following(pid);
    let before = daemon.tick();
    assert_eq!(cgroup(&before), own.path());
    assert!(before.value_of(&p::VIRTUAL, &[]) > Some(0.0));

    signal(pid, "USR1")?;
    eventually_ok(
        PATIENCE,
        "the main thread has exited, and another uses memory",
        || {
            let seen = (field(pid, 3), own.usage());
            if seen.0 == "Z" && seen.1 >= USED {
                Ok(())
            } else {
                Err(seen)
            }
        },
    );
    let tick = daemon.tick_after(LONG);
    assert_eq!(cgroup(&tick), own.path());
    let usage = tick.value_of(&c::USAGE, &[]).unwrap_or_default();
    assert!(
        usage >= USED as f64 && usage <= LIMIT as f64,
        "{usage} is not this cgroup's"
    );
    assert_eq!(tick.value_of(&m::EFFECTIVE_LIMIT, &[]), Some(LIMIT as f64));
    assert_eq!(tick.value_of(&p::STATE, &["zombie"]), Some(1.0));
    // The main thread has no memory any more. The file of a living thread has the memory of all
    // threads.
    assert_eq!(tick.value_of(&p::VIRTUAL, &[]), None);
    assert!(tick.value_of(&p::RESIDENT, &["anon"]) >= Some(USED as f64));
    assert!(tick.value_of(&p::OPEN_FDS, &[]) >= Some(1.0));
    drop(running);
    Ok(())
}

#[test]
fn a_moved_process_has_its_new_limit_next_tick_without_old_kills() -> Result<()> {
    /// Less memory than the process needs for the file that it reads.
    const SMALL: u64 = 32 << 20;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (Some(old), Some(new)) = (LimitedCgroup::new(LIMIT), LimitedCgroup::new(SMALL)) else {
        println!("SKIPPED: no cgroup with a limit of memory can be made here");
        return Ok(());
    };
    let procs = new.file("cgroup.procs").display().to_string();
    let script = "echo $$ >$0; head -c 300000000 /dev/zero | tail >/dev/null; exit 0";
    let victim = start("/bin/sh".into(), &["-c", script, &procs], folder.path())?;
    eventually_ok(PATIENCE, "a kill in the other cgroup", || {
        let seen = new.kills();
        if seen > Some(0) && fs::read_to_string(&procs).is_ok_and(|text| text.is_empty()) {
            Ok(())
        } else {
            Err(seen)
        }
    });
    drop(victim);
    let running = start("/bin/sleep".into(), &["600"], folder.path())?;
    let pid = running.pid();
    old.write("cgroup.procs", pid.into())
        .expect("a process can be moved");
    let mut daemon = following(pid);
    let before = daemon.tick();
    assert_eq!(
        before.value_of(&m::EFFECTIVE_LIMIT, &[]),
        Some(LIMIT as f64)
    );
    let kills = |tick: &Tick| tick.value_of(&c::EVENTS, &["oom_kill"]);
    assert_eq!(kills(&before), Some(0.0));

    new.write("cgroup.procs", pid.into())
        .expect("a process can be moved");
    let after = daemon.tick();
    assert_eq!(cgroup(&after), new.path());
    assert_eq!(after.value_of(&m::EFFECTIVE_LIMIT, &[]), Some(SMALL as f64));
    assert!(after.value_of(&c::USAGE, &[]) <= Some(SMALL as f64));
    assert_eq!(kills(&after), Some(0.0), "killed before it came");
    drop(running);
    Ok(())
}

/// A cgroup with a freezer that contains the process. When this is dropped, the process is thawed
/// and leaves the cgroup.
struct Freezer {
    folder: PathBuf,
    pid: u32,
    file: &'static str,
    words: [&'static str; 2],
}

impl Freezer {
    /// `None` if the machine has no such freezer or forbids its use.
    fn new(top: &str, file: &'static str, words: [&'static str; 2], pid: u32) -> Option<Self> {
        let folder = Path::new(top).join(format!("faultline-freezer-{pid}"));
        fs::metadata(Path::new(top).join("cgroup.procs")).ok()?;
        fs::create_dir(&folder).ok()?;
        let freezer = Self {
            folder,
            pid,
            file,
            words,
        };
        fs::write(freezer.folder.join("cgroup.procs"), pid.to_string()).ok()?;
        freezer.set(false).ok()?;
        Some(freezer)
    }

    fn set(&self, frozen: bool) -> std::io::Result<()> {
        fs::write(self.folder.join(self.file), self.words[usize::from(frozen)])
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        let thawed = self.set(false);
        let top = self.folder.with_file_name("cgroup.procs");
        let left = fs::write(top, self.pid.to_string()).and_then(|()| fs::remove_dir(&self.folder));
        if let Err(error) = thawed.and(left) {
            eprintln!("{}: {error}", self.folder.display());
        }
    }
}

#[test]
fn a_stopped_or_frozen_process_is_reported_as_such() -> Result<()> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let running = start("/bin/sleep".into(), &["600"], folder.path())?;
    let mut daemon = following(running.pid());
    let mut shows = |what: &str, state: &str, frozen: Option<f64>| {
        eventually_ok(PATIENCE, what, || {
            let tick = daemon.tick_after(LONG);
            let seen = (
                tick.value_of(&p::STATE, &[state]),
                tick.value_of(&c::FROZEN, &[]),
            );
            if seen.0 == Some(1.0) && (frozen.is_none() || seen.1 == frozen) {
                Ok(())
            } else {
                Err(seen)
            }
        });
    };
    signal(running.pid(), "STOP")?;
    shows("it is stopped", "stopped", None);
    signal(running.pid(), "CONT")?;
    shows("it goes on", "sleeping", None);
    let v2 = ["0", "1"];
    let places = [
        (
            "/sys/fs/cgroup/freezer",
            "freezer.state",
            ["THAWED", "FROZEN"],
            "disk_sleep",
        ),
        ("/sys/fs/cgroup/unified", "cgroup.freeze", v2, "sleeping"),
        ("/sys/fs/cgroup", "cgroup.freeze", v2, "sleeping"),
    ];
    for (top, file, words, state) in places {
        let Some(freezer) = Freezer::new(top, file, words, running.pid()) else {
            println!("SKIPPED: no cgroup with {file} can be made in {top}");
            continue;
        };
        shows("it is not frozen", "sleeping", Some(0.0));
        freezer.set(true).expect("a cgroup can be frozen");
        shows("it is frozen", state, Some(1.0));
        freezer.set(false).expect("a cgroup can be thawed");
        shows("it is not frozen any more", "sleeping", Some(0.0));
    }
    Ok(())
}
