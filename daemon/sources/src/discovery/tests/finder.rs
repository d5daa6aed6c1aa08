//! The whole finder with fake hosts.

use super::*;
use crate::{
    host::{HostSampler, SharedMeminfo},
    tick::{ProcessState, SampleContext, Sampler},
};
use faultline_testkit::eventually::{eventually, eventually_ok};
use std::thread::JoinHandle;

const DEADLINE: Duration = Duration::from_secs(60);

/// Stops the finder when dropped.
pub struct RunningFinder {
    pub target_handle: TargetHandle,
    stop: Stop,
    thread: Option<JoinHandle<()>>,
}

impl RunningFinder {
    pub fn start(finder: Finder) -> Self {
        let (target_handle, stop) = (finder.target_handle.clone(), Stop::default());
        let signal = stop.clone();
        let thread = std::thread::Builder::new()
            .spawn(move || finder.run(signal))
            .unwrap();
        Self {
            target_handle,
            stop,
            thread: Some(thread),
        }
    }

    #[track_caller]
    pub fn wait_for(&self, what: &str, is: impl Fn(&Target) -> bool) -> Arc<Target> {
        eventually_ok(DEADLINE, what, || {
            self.target_handle
                .current()
                .filter(|target| is(target))
                .ok_or_else(|| self.target_handle.report().problems)
        })
    }

    #[track_caller]
    pub fn wait_for_problem(&self, words: &str) {
        eventually_ok(DEADLINE, words, || {
            let problems = self.target_handle.report().problems;
            if problems.iter().any(|problem| problem.what.contains(words)) {
                Ok(())
            } else {
                Err(problems)
            }
        });
    }

    /// Waits until a search that began after this call has ended.
    #[track_caller]
    fn wait_for_searches(&self) {
        for search in ["a search that may have begun before", "another search"] {
            let last = self.target_handle.report().updated_at;
            eventually(DEADLINE, search, || {
                (self.target_handle.report().updated_at > last).then_some(())
            });
        }
    }

    pub fn ends(&self) -> [u64; 3] {
        self.target_handle.report().ends
    }

    pub fn restarts(&self) -> [u64; 3] {
        self.target_handle.report().restarts
    }
}

impl Drop for RunningFinder {
    fn drop(&mut self) {
        self.stop.set();
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(ended.is_none_or(|ended| ended.is_ok()) || std::thread::panicking());
    }
}

#[test]
fn a_reused_pid_is_a_new_process_followed_only_if_a_validator() {
    let host = host();
    FakeProcess::validator(77).write_to(&host);
    let running_finder = RunningFinder::start(finder(
        config::TargetSelector::Pid(77),
        HostRoot::below(host.root()),
    ));
    let first = running_finder.wait_for("the validator", |_| true);
    assert_eq!(first.process.start_ticks, 100);
    FakeProcess::new(77, "bash").start(200).write_to(&host);
    running_finder.wait_for_problem("belongs to another program (bash)");
    assert_eq!(
        (
            running_finder.target_handle.current(),
            running_finder.restarts()
        ),
        (None, [0, 0, 0])
    );
    running_finder.wait_for_problem("process 77 (agave-validator) exited (unknown)");
    FakeProcess::validator(77).start(300).write_to(&host);
    running_finder.wait_for("its successor", |target| target.process.start_ticks == 300);
    assert_eq!(running_finder.restarts(), [0, 0, 1]);
}

#[test]
fn a_zombie_is_gone_with_the_oom_kill_as_its_reason() {
    let host = host();
    FakeProcess::validator(77).write_to(&host);
    host.write("proc/vmstat", "oom_kill 4\n").unwrap();
    let running_finder = RunningFinder::start(finder(
        config::TargetSelector::Scan,
        HostRoot::below(host.root()),
    ));
    running_finder.wait_for("the validator", |_| true);
    host.write("proc/vmstat", "oom_kill 5\n").unwrap();
    FakeProcess::validator(77).state('Z').write_to(&host);
    running_finder.wait_for_problem("exited (oom_kill)");
    // An end counts at once. A restart counts when the successor is found.
    assert_eq!(
        (running_finder.ends(), running_finder.restarts()),
        ([0, 1, 0], [0, 0, 0])
    );
    host.remove("proc/77").unwrap();
    FakeProcess::validator(80).start(900).write_to(&host);
    running_finder.wait_for("its successor", |target| target.process.pid == 80);
    assert_eq!(running_finder.restarts(), [0, 1, 0]);
    let mut readings = Vec::new();
    running_finder.target_handle.add_readings(&mut readings);
    let labels: Vec<_> = readings
        .iter()
        .map(|reading| (reading.label_values[0].as_str(), reading.value.number()))
        .collect();
    let once = [
        ("exit", Some(0.0)),
        ("oom_kill", Some(1.0)),
        ("unknown", Some(0.0)),
    ];
    assert_eq!(labels, [once, once].concat());
}

/// Until the process ends, only the tick reads the host's count.
#[test]
fn a_host_oom_kill_seen_by_a_tick_is_the_exit_reason() {
    let host = host();
    FakeProcess::validator(77).write_to(&host);
    host.write("proc/vmstat", "oom_kill 4\n").unwrap();
    let root = HostRoot::below(host.root());
    let running_finder = RunningFinder::start(finder(config::TargetSelector::Scan, root.clone()));
    running_finder.wait_for("the validator", |_| true);
    let mut source = HostSampler::new(
        &root,
        SharedMeminfo::default(),
        running_finder.target_handle.clone(),
    );
    host.write("proc/vmstat", "oom_kill 5\n").unwrap();
    let units = crate::tests::host_constants();
    let (now, process_state) = (Stamp::default(), ProcessState::default());
    source.sample(&SampleContext {
        now,
        target: None,
        root: &root,
        host: &units,
        boot_time: &Ok(0),
        process_state: &process_state,
    });
    host.write("proc/vmstat", "oom_kill 4\n").unwrap();
    running_finder.wait_for_searches();
    FakeProcess::validator(77).state('Z').write_to(&host);
    running_finder.wait_for_problem("exited (oom_kill)");
}

/// The kernel frees a process's program and arguments first; its memory may take seconds.
#[test]
fn a_process_being_torn_down_is_followed_and_keeps_its_exit_reason() {
    let host = host();
    FakeProcess::validator(77).write_to(&host);
    let exe = host.root().join("proc/77/exe");
    std::os::unix::fs::symlink("/opt/agave-validator", &exe).unwrap();
    host.write("proc/vmstat", "oom_kill 4\n").unwrap();
    let running_finder = RunningFinder::start(finder(
        config::TargetSelector::Scan,
        HostRoot::below(host.root()),
    ));
    let before = running_finder.wait_for("the validator", |target| target.exe.is_some());
    host.write("proc/vmstat", "oom_kill 5\n").unwrap();
    std::fs::remove_file(&exe).unwrap();
    host.write("proc/77/cmdline", "").unwrap();
    running_finder.wait_for_searches();
    assert_eq!(running_finder.target_handle.current(), Some(before));
    FakeProcess::validator(77).state('Z').write_to(&host);
    running_finder.wait_for_problem("exited (oom_kill)");
}

/// Without a pidfd only `stat` shows the end, and its state is that of the main thread.
#[test]
fn a_process_is_followed_until_its_last_thread_exits() {
    let host = host();
    FakeProcess::validator(77).write_to(&host);
    let running_finder = RunningFinder::start(finder(
        config::TargetSelector::Scan,
        HostRoot::below(host.root()),
    ));
    let before = running_finder.wait_for("the validator", |_| true);
    FakeProcess::validator(77)
        .state('Z')
        .thread_count(3)
        .write_to(&host);
    running_finder.wait_for_searches();
    assert_eq!(running_finder.target_handle.current(), Some(before));
    FakeProcess::validator(77).state('Z').write_to(&host);
    running_finder.wait_for_problem("exited (unknown)");
}

/// Both can end between the inspection that finds the validator and the next search.
#[test]
fn a_wrapper_ending_with_its_validator_is_no_longer_followed() {
    let host = host();
    let wrapper = FakeProcess::new(50, "runuser").line("runuser -u sol -- agave-validator");
    wrapper.write_to(&host);
    let root = HostRoot::below(host.root());
    let mut finder = finder(config::TargetSelector::ProcessTree(50), root);
    let wrapper = finder.find_once().unwrap();
    assert_eq!((wrapper.process.pid, &wrapper.validator), (50, &None));
    host.remove("proc/50").unwrap();
    let running_finder = RunningFinder::start(finder);
    running_finder.wait_for_problem("process 50 (runuser) exited (unknown)");
    assert_eq!(running_finder.target_handle.current(), None);
    assert_eq!(*running_finder.target_handle.watch_process().borrow(), None);
    assert_eq!(
        (running_finder.ends(), running_finder.restarts()),
        ([0, 0, 1], [0, 0, 0])
    );
}

#[test]
fn another_program_execed_in_the_validators_process_is_not_followed() {
    let host = host();
    FakeProcess::validator(77).write_to(&host);
    let running_finder = RunningFinder::start(finder(
        config::TargetSelector::Scan,
        HostRoot::below(host.root()),
    ));
    running_finder.wait_for("the validator", |_| true);
    FakeProcess::new(77, "sleep").write_to(&host);
    eventually(DEADLINE, "the end", || {
        running_finder
            .target_handle
            .current()
            .is_none()
            .then_some(())
    });
    running_finder.wait_for_problem("no process looks like a validator");
}

#[test]
fn an_oom_kill_of_another_process_does_not_end_a_process_that_execs() {
    let host = host();
    FakeProcess::validator(77).write_to(&host);
    host.write("proc/vmstat", "oom_kill 4\n").unwrap();
    let running_finder = RunningFinder::start(finder(
        config::TargetSelector::Scan,
        HostRoot::below(host.root()),
    ));
    running_finder.wait_for("the validator", |_| true);
    host.write("proc/vmstat", "oom_kill 5\n").unwrap();
    FakeProcess::new(77, "sleep").write_to(&host);
    running_finder.wait_for_problem("process 77 (agave-validator) exited");
    assert_eq!(running_finder.ends(), [0, 0, 1]);
}

/// The kernel sets the name before an exec ends (process-exporter's issues 29 and 229).
#[test]
fn arguments_that_appear_after_the_name_make_a_validator() {
    let host = host();
    let validator = FakeProcess::validator(77);
    validator.clone().write_to(&host);
    host.write("proc/77/cmdline", "").unwrap();
    let running_finder = RunningFinder::start(finder(
        config::TargetSelector::Pid(77),
        HostRoot::below(host.root()),
    ));
    let before = running_finder.wait_for("the name", |target| target.comm == "agave-validator");
    assert_eq!(before.validator, None);
    validator.write_to(&host);
    let after = running_finder.wait_for("the arguments", |target| target.validator.is_some());
    assert_eq!(after.process, before.process);
    assert_eq!(
        (running_finder.ends(), running_finder.restarts()),
        ([0; 3], [0; 3])
    );
}

#[test]
fn the_discovery_report_states_the_searched_process_and_the_reason() {
    let host = host();
    let mut finder = finder(
        config::TargetSelector::Unit("sol".to_owned()),
        HostRoot::below(host.root()),
    );
    let target_handle = finder.target_handle.clone();
    let before = target_handle.report();
    assert_eq!(
        (before.looking_for.as_str(), before.updated_at),
        ("the validator of the unit sol", None)
    );
    assert_eq!(
        EndReason::ALL.map(|reason| (reason.name(), before.restarts[reason as usize])),
        [("exit", 0), ("oom_kill", 0), ("unknown", 0)]
    );
    assert_eq!(finder.find_once(), None);
    let after = target_handle.report();
    assert!(after.updated_at.is_some());
    assert_eq!(after.problems.len(), 1);
    assert_eq!(after.problems[0].kind, ProblemKind::Absent);
}

#[test]
fn a_process_search_is_logged_after_ten_seconds_and_on_reason_changes() {
    let host = host();
    let mut finder = finder(
        config::TargetSelector::Pid(77),
        HostRoot::below(host.root()),
    );
    let mut is_logged = |seconds: u64, words: &str| {
        let uptime = Duration::from_secs(seconds);
        let now = Stamp {
            uptime,
            unix: uptime,
        };
        let problems = [Problem::new(ProblemKind::Absent, words.to_owned())];
        finder.log_message(&problems, now).is_some()
    };
    let reported = [
        is_logged(100, "one"),
        is_logged(109, "one"),
        is_logged(110, "one"),
        is_logged(111, "one"),
        is_logged(112, "two"),
    ];
    assert_eq!(reported, [false, false, true, false, true]);
}
