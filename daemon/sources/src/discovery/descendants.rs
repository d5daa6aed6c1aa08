//! For `--process-tree`: finds the validator below a wrapper such as `timeout` or `runuser`, or a
//! start script without `exec`.

use super::{
    Target,
    candidates::{Choice, choose, validator_candidates},
};
use faultline_agave::identify::Program;
use faultline_kernel::{
    HostRoot,
    parse::{
        pid_stat::{self, PidStat},
        pid_status::PidStatus,
    },
};
use faultline_metrics::{Problem, Stamp};
use itertools::Itertools;
use std::{collections::HashMap, time::Duration};

/// The value of `found_by`.
pub const DESCENDANT: &str = "descendant";

/// For this long after the target was found, each check inspects the descendants. Later checks skip
/// most inspections, because an inspection reads a file of every process.
const INITIAL_PERIOD: Duration = Duration::from_secs(60);
const LATER_INTERVAL: Duration = Duration::from_secs(10);

/// The excess of a descendant is its anonymous memory minus that of the followed process.
/// Descendants are reported if the sum of their excesses is at least the followed process's
/// anonymous memory plus this.
const MIN_EXCESS_BYTES: u64 = 32 << 20;

pub struct DescendantsTimer {
    started_at: Stamp,
    last_inspected_at: Option<Stamp>,
    pub is_memory_problem_reported: bool,
}

impl DescendantsTimer {
    pub fn new(started_at: Stamp) -> Self {
        Self {
            started_at,
            last_inspected_at: None,
            is_memory_problem_reported: false,
        }
    }

    /// Starts the next interval if it returns true.
    pub fn is_due(&mut self, now: Stamp) -> bool {
        let is_recent = |last| now.since(last) < LATER_INTERVAL;
        if now.since(self.started_at) >= INITIAL_PERIOD
            && self.last_inspected_at.is_some_and(is_recent)
        {
            return false;
        }
        self.last_inspected_at = Some(now);
        true
    }
}

pub struct Descendants {
    ancestor: PidStat,
    pub descendants: Vec<PidStat>,
}

impl Descendants {
    /// `None` if the process has ended or the processes cannot be listed.
    pub fn read(root: &HostRoot, pid: u32) -> Option<Self> {
        let mut buffer = Vec::new();
        // The first thread's `stat` has the same parent and memory. The process's own costs more,
        // because the kernel sums all threads for it.
        let mut stat = |pid: u32| {
            let file = root
                .open_proc_one_piece(&format!("{pid}/task/{pid}/stat"))
                .ok()?;
            file.parse(&mut buffer, pid_stat::parse).ok()
        };
        let ancestor = stat(pid)?;
        let mut children: HashMap<u32, Vec<PidStat>> = HashMap::new();
        for process in root.pids().ok()?.into_iter().filter_map(&mut stat) {
            children.entry(process.ppid).or_default().push(process);
        }
        let mut descendants = children.remove(&pid).unwrap_or_default();
        let mut next = 0;
        while let Some(parent) = descendants.get(next).map(|process| process.pid) {
            descendants.extend(children.remove(&parent).unwrap_or_default());
            next += 1;
        }
        Some(Self {
            ancestor,
            descendants,
        })
    }

    /// The only validator among the descendants. One with a validator's thread is preferred.
    pub fn validator(&self, root: &HostRoot) -> Option<Target> {
        let pids = self
            .descendants
            .iter()
            .filter(|process| Program::of_comm(&process.comm.to_str_lossy()).is_some())
            .map(|process| process.pid);
        let candidates = validator_candidates(root, pids, DESCENDANT, &mut Vec::new());
        let Choice::One(candidate) = choose(candidates) else {
            return None;
        };
        Some(candidate.target)
    }

    /// Counts only the excess of each descendant, because a forked child may share the rest.
    pub fn memory_problem(&self, root: &HostRoot) -> Option<Problem> {
        let anonymous_bytes = |pid: u32| {
            let status = root.read_proc(&format!("{pid}/status"), PidStatus::parse);
            status.ok()?.rss_anon
        };
        let own = anonymous_bytes(self.ancestor.pid)?;
        let excess = |pid| anonymous_bytes(pid).unwrap_or(0).saturating_sub(own);
        let excesses = self
            .descendants
            .iter()
            .map(|process| (excess(process.pid), process))
            .collect_vec();
        let total_excess = excesses
            .iter()
            .fold(0, |sum: u64, (bytes, _)| sum.saturating_add(*bytes));
        let (largest_excess, largest) = excesses.iter().max_by_key(|(bytes, _)| *bytes)?;
        if total_excess < own.saturating_add(MIN_EXCESS_BYTES) {
            return None;
        }
        let message = format!(
            "process {} ({}) is followed and has {} of anonymous memory; its descendants have {} more. Process {} ({}) has {} of \
             that: start it without a wrapper, or follow it with --pid {}",
            self.ancestor.pid,
            self.ancestor.comm,
            faultline_text::bytes(own),
            faultline_text::bytes(total_excess),
            largest.pid,
            largest.comm,
            faultline_text::bytes(*largest_excess),
            largest.pid
        );
        Some(Problem::absent_data(message))
    }
}
