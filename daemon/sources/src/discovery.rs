//! Finds the validator, follows it, and notices its end and the reason.
//! A target is one program in one lifetime of a process (pid, start time). The finder searches for
//! a target, then checks whether the process has executed another program. If the program of a
//! validator runs a subcommand (`monitor`, `exit`), the process is no validator: only a search by
//! pid or name finds it. A search in doubt finds no target.

mod candidates;
mod descendants;
mod end;
mod ledger;
mod method;
mod poh;
mod process;
mod target_handle;
mod unit;

pub use candidates::{process_uid, validator_uid};
use descendants::{Descendants, DescendantsTimer};
use end::{EndWatch, OomKillWatch};
use faultline_agave::identify::{DEFAULT_HEALTH_DISTANCE, Validator};
use faultline_core::{
    clock::Clock,
    config,
    supervisor::{FsCalls, Stop},
};
use faultline_kernel::{HostRoot, ProcessId};
use faultline_metrics::{Problem, ProblemKind, Stamp};
use itertools::Itertools;
use method::Method;
pub use process::may_be_same_program;
use process::{InspectedProcess, NameAndExeReader};
pub(crate) use process::{live_stat, own_pid, problem, thread_named};
use std::{path::PathBuf, sync::Arc, time::Duration};
pub use target_handle::{EndReason, FoundCgroup, SearchReport, TargetHandle};

/// Interval of searches, and of checks while following without a pidfd.
const SEARCH_INTERVAL: Duration = Duration::from_secs(1);
/// Check interval with a pidfd, which reports the end. The check only has to notice an exec.
const CHECK_INTERVAL_WITH_PIDFD: Duration = Duration::from_secs(5);
/// A search that has lasted this long logs why it finds nothing.
const LOG_AFTER: Duration = Duration::from_secs(10);

/// An exec makes a new target of the same process.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    pub process: ProcessId,
    /// At most 15 bytes.
    pub comm: String,
    /// `None` without the right to read it. Ends in ` (deleted)` after the file was replaced on
    /// disk.
    pub exe: Option<PathBuf>,
    /// Its parsed arguments; `None` for a program that is not a known validator.
    pub validator: Option<Validator>,
    /// Absolute in the process's own file system. `None` without `validator`, and for Frankendancer,
    /// whose ledger is in a configuration file. `None` for a relative path if the working directory
    /// is unreadable.
    pub ledger: Option<PathBuf>,
    /// `pid`, `descendant` (of the process with the given pid), `unit`, `admin.rpc`, `ledger.lock`,
    /// `scan` or `process_name`.
    pub found_by: &'static str,
}

impl Target {
    /// Maximum distance at which the validator reports itself healthy.
    pub(crate) fn health_distance(&self) -> u64 {
        self.validator
            .as_ref()
            .map_or(DEFAULT_HEALTH_DISTANCE, |validator| {
                validator.health_distance
            })
    }

    /// True if `before` was a wrapper that was followed until this validator appeared below it.
    pub fn replaces_wrapper(&self, before: &Self) -> bool {
        self.found_by == descendants::DESCENDANT && before.validator.is_none()
    }
}

struct SearchContext<'a> {
    root: &'a HostRoot,
    clock: Clock,
    now: Stamp,
    previous_target: Option<&'a Target>,
    /// False if `procfs` belongs to another pid namespace: its pids are then invalid for system
    /// calls.
    shares_pid_namespace: bool,
    /// False if there will be no further search.
    will_retry: bool,
    stop: &'a Stop,
    fs_calls: &'a FsCalls,
}

type SearchResult = Result<Target, Vec<Problem>>;

pub struct Finder {
    root: HostRoot,
    clock: Clock,
    method: Method,
    pub target_handle: TargetHandle,
    shares_pid_namespace: bool,
    last_end: Option<(Arc<Target>, EndReason)>,
    /// Time of the first unsuccessful search since a process was followed.
    searching_since: Option<Stamp>,
    last_logged: String,
    fs_calls: FsCalls,
}

impl Finder {
    pub fn build(config: &config::Target, root: HostRoot, clock: Clock) -> Self {
        let shares_pid_namespace = own_pid(&root) == Some(std::process::id());
        let (method, looking_for) = Method::new(&config.selector);
        Self {
            root,
            clock,
            method,
            target_handle: TargetHandle::new(looking_for),
            shares_pid_namespace,
            last_end: None,
            searching_since: None,
            last_logged: String::new(),
            fs_calls: FsCalls::new("target-path"),
        }
    }

    /// Does not wait until a candidate has the threads of a running validator.
    pub fn find_once(&mut self) -> Option<Arc<Target>> {
        let found = self.search(false, &Stop::default())?;
        Some(self.publish(found))
    }

    pub fn run(mut self, stop: Stop) {
        while !stop.is_set() {
            let was_followed = match self.search(true, &stop) {
                Some(target) => self.follow(target, &stop),
                None => {
                    self.end_abandoned_wrapper();
                    false
                }
            };
            // After a followed target the next search is immediate: a successor may exist already.
            if !was_followed {
                stop.sleep(SEARCH_INTERVAL);
            }
        }
    }

    fn search(&mut self, will_retry: bool, stop: &Stop) -> Option<Target> {
        let now = self.clock.now();
        let context = SearchContext {
            root: &self.root,
            clock: self.clock,
            now,
            previous_target: self.last_end.as_ref().map(|(target, _)| &**target),
            shares_pid_namespace: self.shares_pid_namespace,
            will_retry,
            stop,
            fs_calls: &self.fs_calls,
        };
        let mut problems = Vec::new();
        let found = self
            .method
            .find(&context)
            .map_err(|reasons| problems = reasons)
            .ok();
        if found.is_none() {
            if let Some((target, reason)) = &self.last_end {
                let (pid, comm, reason) = (target.process.pid, &target.comm, reason.name());
                let message =
                    format!("process {pid} ({comm}) exited ({reason}); waiting for a new one");
                problems.insert(0, Problem::new(ProblemKind::Gone, message));
            }
            if let Some(why) = self.log_message(&problems, now) {
                tracing::warn!(why, "no target found");
            }
        }
        let report = &mut self.target_handle.state().report;
        report.problems = problems;
        report.updated_at = Some(now);
        self.target_handle.notify_searched();
        found
    }

    /// Returns when the process ends or executes a program that does not match, a validator appears
    /// below it, or `stop` is set. False if the process ended before it could be followed.
    fn follow(&mut self, found: Target, stop: &Stop) -> bool {
        let id = found.process;
        let Some(watch) = EndWatch::begin(&self.root, id, self.shares_pid_namespace) else {
            let message = format!("process {} ended before it could be followed", id.pid);
            self.target_handle.state().report.problems =
                vec![Problem::new(ProblemKind::Gone, message)];
            return false;
        };
        let mut oom_kill_watch = OomKillWatch::begin(&self.root, id);
        let mut name_and_exe = NameAndExeReader::new(&self.root, id);
        let mut current = self.publish(found);
        let mut checked_at = self.clock.now();
        let mut descendants_timer = DescendantsTimer::new(checked_at);
        let end = loop {
            let interval = match watch.pidfd {
                Some(_) if current.validator.is_some() => CHECK_INTERVAL_WITH_PIDFD,
                _ => SEARCH_INTERVAL,
            };
            let until_check = interval.saturating_sub(self.clock.now().since(checked_at));
            let ended = watch.wait(&self.root, id, stop, until_check);
            let now = self.clock.now();
            if stop.is_set() {
                return true;
            }
            if let Some(reason) = ended {
                break reason;
            }
            if now.since(checked_at) < interval {
                continue;
            }
            checked_at = now;
            let oom_counts = self.target_handle.state().oom_kills.clone();
            oom_kill_watch.update(&oom_counts, now);
            let Some(target) = self.check_exec(&current, &mut name_and_exe, now) else {
                // The process runs, so an OOM kill is not its end.
                self.end(current, EndReason::Unknown);
                return true;
            };
            if !Arc::ptr_eq(&target, &current) {
                current = target;
                descendants_timer = DescendantsTimer::new(now);
            }
            if self.check_descendants(&current, &mut descendants_timer) {
                // The wrapper stays the current target until the next search replaces it.
                return true;
            }
        };
        let now = self.clock.now();
        // The last tick may be older than the kill.
        let mut oom_counts = self.target_handle.state().oom_kills.clone();
        oom_counts.host = end::host_oom_kills(&self.root);
        oom_kill_watch.update(&oom_counts, now);
        let is_oom_kill = oom_kill_watch.has_recent_kill(now);
        self.end(current, if is_oom_kill { EndReason::OomKill } else { end });
        true
    }

    /// Returns a new target after an exec, else `current`. `None` if the new program does not match
    /// the search.
    fn check_exec(
        &mut self,
        current: &Arc<Target>,
        name_and_exe: &mut NameAndExeReader,
        now: Stamp,
    ) -> Option<Arc<Target>> {
        // A missing `exe` proves no exec: an exiting process has none, and a large process exits
        // for seconds.
        let has_same_exe = |exe: Option<PathBuf>| exe.is_none() || exe == current.exe;
        let is_unchanged = name_and_exe
            .read(&self.root)
            .is_none_or(|(comm, exe)| comm.to_str_lossy() == current.comm && has_same_exe(exe));
        let is_due = name_and_exe.is_full_inspection_due && current.validator.is_none();
        let inspected = if is_unchanged && !is_due {
            None
        } else {
            process::inspect(&self.root, current.process.pid, current.found_by).ok()
        };
        self.target_handle.state().report.updated_at = Some(now);
        let has_no_arguments = |process: &InspectedProcess| process.argv0.is_none();
        let is_argv_unread = inspected.as_ref().is_none_or(has_no_arguments);
        name_and_exe.is_full_inspection_due = !is_unchanged || (is_due && is_argv_unread);
        let inspected = inspected.map(|inspected| inspected.target);
        match inspected.filter(|target| !is_unchanged || target.validator.is_some()) {
            // `EndWatch` reports the end if another process has this pid.
            Some(target) if target.process == current.process && target != **current => {
                let matches = self.method.still_matches(current, &target);
                matches.then(|| self.publish(target))
            }
            _ => Some(Arc::clone(current)),
        }
    }

    /// True if the followed process is no validator but has one as descendant. Otherwise reports,
    /// once for each target, if the descendants have most of the memory.
    fn check_descendants(
        &self,
        current: &Target,
        descendants_timer: &mut DescendantsTimer,
    ) -> bool {
        let now = self.clock.now();
        if current.validator.is_some()
            || !self.method.follows_descendants()
            || !descendants_timer.is_due(now)
        {
            return false;
        }
        let Some(descendants) = Descendants::read(&self.root, current.process.pid) else {
            return false;
        };
        if descendants.validator(&self.root).is_some() {
            return true;
        }
        if !descendants_timer.is_memory_problem_reported
            && let Some(problem) = descendants.memory_problem(&self.root)
        {
            descendants_timer.is_memory_problem_reported = true;
            self.target_handle.state().report.problems.push(problem);
        }
        false
    }

    /// Counts a restart if the target replaced another process.
    fn publish(&mut self, found: Target) -> Arc<Target> {
        let target = Arc::new(found);
        let (pid, comm, by) = (target.process.pid, &target.comm, target.found_by);
        let ledger = target.ledger.as_deref().map(faultline_text::path);
        tracing::info!(pid, comm, by, ledger, "following");
        if let Some(warning) = poh::cpu_warning(&target, self.shares_pid_namespace) {
            tracing::warn!(pid, "{warning}");
        }
        self.last_logged.clear();
        self.searching_since = None;
        let mut state = self.target_handle.state();
        if let Some((before, reason)) = self.last_end.take()
            && before.process != target.process
        {
            state.report.restarts[reason as usize] += 1;
        }
        state.report.problems = self.method.target_problems(&target);
        state.current = Some(Arc::clone(&target));
        state.process.send_replace(Some(target.process));
        self.target_handle.notify_searched();
        target
    }

    fn end(&mut self, target: Arc<Target>, reason: EndReason) {
        tracing::warn!(
            pid = target.process.pid,
            comm = target.comm,
            reason = reason.name(),
            "target exited"
        );
        {
            let mut state = self.target_handle.state();
            state.current = None;
            state.report.last_end = Some((target.process, reason));
            state.process.send_replace(None);
            state.report.ends[reason as usize] += 1;
        }
        self.last_end = Some((target, reason));
    }

    /// The search has not found the validator that had appeared below the wrapper.
    fn end_abandoned_wrapper(&mut self) {
        if let Some(wrapper) = self.target_handle.current() {
            self.end(wrapper, EndReason::Unknown);
        }
    }

    /// Returns a new reason to log, once the search has lasted [`LOG_AFTER`]: the daemon may have
    /// started shortly before the validator.
    fn log_message(&mut self, problems: &[Problem], now: Stamp) -> Option<String> {
        let started = *self.searching_since.get_or_insert(now);
        let message = problems.iter().join("; ");
        if message.is_empty() || message == self.last_logged || now.since(started) < LOG_AFTER {
            return None;
        }
        self.last_logged.clone_from(&message);
        Some(message)
    }
}

#[cfg(test)]
mod tests;
