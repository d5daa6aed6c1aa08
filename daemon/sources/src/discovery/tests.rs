//! The search with fake hosts. [`live`] has real processes.

mod finder;
mod kills;
mod ledger;
mod live;
mod names;
mod scan;
mod unit;

use super::*;
use faultline_core::supervisor::FsCalls;
use faultline_testkit::host::FakeHost;

/// A host with its first process.
fn host() -> FakeHost {
    let host = FakeHost::empty().unwrap();
    FakeProcess::new(1, "systemd")
        .line("/sbin/init")
        .write_to(&host);
    host
}

/// A process whose files can be written to a [`FakeHost`].
#[derive(Clone)]
struct FakeProcess<'a> {
    pid: u32,
    comm: &'a str,
    line: &'a str,
    state: char,
    parent: u32,
    start: u64,
    thread_count: u32,
    threads: &'a [&'a str],
}

impl<'a> FakeProcess<'a> {
    fn new(pid: u32, comm: &'a str) -> Self {
        FakeProcess {
            pid,
            comm,
            line: comm,
            state: 'S',
            parent: 1,
            start: 100,
            thread_count: 1,
            threads: &[],
        }
    }

    /// A validator with a thread that only validators have.
    fn validator(pid: u32) -> Self {
        FakeProcess::new(pid, "agave-validator")
            .line("agave-validator --ledger /l")
            .threads(&["tokio-rt", "solAdminRpc"])
    }

    fn line(self, line: &'a str) -> Self {
        FakeProcess { line, ..self }
    }

    fn state(self, state: char) -> Self {
        FakeProcess { state, ..self }
    }

    fn parent(self, parent: u32) -> Self {
        FakeProcess { parent, ..self }
    }

    fn start(self, start: u64) -> Self {
        FakeProcess { start, ..self }
    }

    /// Includes the main thread.
    fn thread_count(self, thread_count: u32) -> Self {
        FakeProcess {
            thread_count,
            ..self
        }
    }

    fn threads(self, threads: &'a [&'a str]) -> Self {
        FakeProcess { threads, ..self }
    }

    fn write_to(self, host: &FakeHost) {
        let FakeProcess {
            pid,
            comm,
            state,
            parent,
            start,
            thread_count,
            ..
        } = self;
        let middle = "0 ".repeat(15);
        let rest = "0 ".repeat(30);
        let stat =
            format!("{pid} ({comm}) {state} {parent} {middle}{thread_count} 0 {start} {rest}\n");
        host.write(
            &format!("proc/{pid}/cmdline"),
            self.line.replace(' ', "\0") + "\0",
        )
        .unwrap();
        host.write(&format!("proc/{pid}/comm"), format!("{comm}\n"))
            .unwrap();
        for (index, name) in self.threads.iter().enumerate() {
            host.write(
                &format!("proc/{pid}/task/{index}/comm"),
                format!("{name}\n"),
            )
            .unwrap();
        }
        host.write(&format!("proc/{pid}/stat"), stat).unwrap();
    }
}

/// The context of one search.
struct SearchFixture {
    root: HostRoot,
    clock: Clock,
    stop: Stop,
    fs_calls: FsCalls,
}

impl SearchFixture {
    fn new(host: &FakeHost) -> Self {
        Self {
            root: HostRoot::below(host.root()),
            clock: Clock::start(),
            stop: Stop::default(),
            fs_calls: FsCalls::new("test"),
        }
    }

    /// The context of the first of several searches.
    fn context(&self) -> SearchContext<'_> {
        let (root, stop, now) = (&self.root, &self.stop, self.clock.now());
        SearchContext {
            root,
            clock: self.clock,
            now,
            previous_target: None,
            shares_pid_namespace: false,
            will_retry: true,
            stop,
            fs_calls: &self.fs_calls,
        }
    }

    fn at(&self, seconds: u64) -> SearchContext<'_> {
        let uptime = Duration::from_secs(seconds);
        SearchContext {
            now: Stamp {
                uptime,
                unix: uptime,
            },
            ..self.context()
        }
    }
}

fn pid_of(found: &SearchResult) -> Option<u32> {
    found.as_ref().ok().map(|target| target.process.pid)
}

/// The problems, one per line.
fn problem_text(found: &SearchResult) -> String {
    let problems = found.as_ref().err().map(Vec::as_slice).unwrap_or_default();
    problems
        .iter()
        .map(Problem::to_string)
        .collect::<Vec<_>>()
        .join("\n")
}

fn finder(selector: config::TargetSelector, root: HostRoot) -> Finder {
    Finder::build(
        &config::Target {
            selector,
            ..Default::default()
        },
        root,
        Clock::start(),
    )
}
