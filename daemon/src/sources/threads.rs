//! Who is faulting: the threads by pool, every few ticks.
//!
//! Threads are read first, then the process, so that the process's faults are at least the sum of the threads'.

mod pools;

use crate::config;
use crate::tick::{Finding, Look, Poll};
use faultline_catalog::metrics::{daemon as d, pools as q, process as p};
use faultline_catalog::{Problem, Reading, Source, Stamp, Status, Text};
use faultline_kernel::{HostRoot, ProcessFiles, ProcessId, ReadError, Threads as Reader};
use pools::{Pools, Totals};
use std::time::Duration;

/// Descriptors for holding threads' files, beyond what the daemon needs for itself.
const MOST_DESCRIPTORS: usize = 4096;
/// What the daemon needs at least for its sockets and for the files of the process, the cgroup and the host.
const OWN_DESCRIPTORS: u64 = 128;

/// The threads of the followed process.
#[derive(Debug)]
pub struct Threads {
    config: config::Threads,
    /// Descriptors that may be held.
    descriptors: usize,
    followed: Option<Followed>,
    buffer: Vec<u8>,
}

#[derive(Debug)]
struct Followed {
    process: ProcessId,
    /// `None` after a reading failed: it is opened again, the sums stay.
    reader: Option<Reader>,
    /// When context switches were last read too.
    switches_at: Option<Stamp>,
    files: ProcessFiles,
    pools: Pools,
}

impl Followed {
    fn open(root: &HostRoot, process: ProcessId, descriptors: usize) -> Result<Self, ReadError> {
        let files = ProcessFiles::open(root, process.pid)?;
        let mut followed = Followed {
            process,
            reader: None,
            switches_at: None,
            files,
            pools: Pools::default(),
        };
        followed.reopen(root, descriptors)?;
        Ok(followed)
    }

    fn reopen(&mut self, root: &HostRoot, descriptors: usize) -> Result<&mut Reader, ReadError> {
        let reader = match self.reader.take() {
            Some(reader) => reader,
            None => Reader::open(root, self.process.pid, descriptors)?,
        };
        Ok(self.reader.insert(reader))
    }

    /// Reads all threads, with their context switches if `switches`, then the process.
    fn read(
        &mut self,
        look: &Look<'_>,
        descriptors: usize,
        switches: bool,
        buffer: &mut Vec<u8>,
    ) -> Result<(), ReadError> {
        self.reopen(look.root, descriptors)?;
        let Some(reader) = &mut self.reader else {
            return Ok(());
        };
        self.pools.add(reader.sample(switches)?);
        if switches {
            self.switches_at = Some(look.now);
        }
        let stat = self.files.stat(buffer)?;
        self.pools.settle(stat.minflt, stat.majflt);
        Ok(())
    }
}

impl Threads {
    /// Holds nothing yet. `descriptors` is how many the process may have open.
    pub fn new(config: config::Threads, descriptors: u64) -> Self {
        let descriptors = for_threads(descriptors);
        Threads {
            config,
            descriptors,
            followed: None,
            buffer: Vec::new(),
        }
    }

    fn read(
        &mut self,
        look: &Look<'_>,
        process: ProcessId,
        finding: &mut Finding,
    ) -> Result<(), ReadError> {
        if self
            .followed
            .as_ref()
            .is_none_or(|followed| followed.process != process)
        {
            self.followed = Some(Followed::open(look.root, process, self.descriptors)?);
        }
        let Some(followed) = &mut self.followed else {
            return Ok(());
        };
        let due = |at: Option<Stamp>| {
            at.is_none_or(|at| look.now.since(at) >= self.config.switches_interval)
        };
        let switches = due(followed.switches_at);
        let read = followed.read(look, self.descriptors, switches, &mut self.buffer);
        if read.is_err() {
            followed.reader = None;
        }
        finding.up = read.is_ok();
        read
    }
}

/// How many of the process's descriptors may hold threads' files: half of what the daemon does not need at least, since
/// connections come and go. With none, threads are opened, read and closed.
fn for_threads(all: u64) -> usize {
    usize::try_from(all.saturating_sub(OWN_DESCRIPTORS) / 2)
        .unwrap_or(usize::MAX)
        .min(MOST_DESCRIPTORS)
}

impl Poll for Threads {
    fn source(&self) -> Source {
        Source::Threads
    }

    fn every(&self) -> Option<Duration> {
        Some(self.config.interval)
    }

    fn look(&mut self, look: &Look<'_>) -> Finding {
        let mut finding = Finding::default();
        let Some(target) = look.target else {
            self.followed = None;
            return finding;
        };
        if let Err(error) = self.read(look, target.process, &mut finding) {
            finding.problem(&error);
            return finding;
        }
        if let Some(followed) = &self.followed {
            let delayacct = finding.take(look.root.task_delayacct());
            readings(
                &followed.pools,
                look.host.clock_ticks_per_second as f64,
                delayacct == Some(true),
                &mut finding,
            );
        }
        finding
    }
}

#[expect(clippy::too_many_lines, reason = "to be split by meaning")]
fn readings(pools: &Pools, hertz: f64, delayacct: bool, finding: &mut Finding) {
    let mut all = Totals::default();
    for (name, threads, totals) in pools.each() {
        all.add(totals);
        let pool = || Text::Shared(name.clone());
        let mut push = |reading| finding.readings.push(reading);
        push(Reading::counter(
            &q::PAGE_FAULTS,
            [pool(), "major".into()],
            totals.majflt,
        ));
        push(Reading::counter(
            &q::PAGE_FAULTS,
            [pool(), "minor".into()],
            totals.minflt,
        ));
        push(Reading::whole(&q::THREADS, [pool()], threads));
        push(Reading::real(
            &q::CPU,
            [pool(), "user".into()],
            totals.utime_ticks as f64 / hertz,
        ));
        push(Reading::real(
            &q::CPU,
            [pool(), "system".into()],
            totals.stime_ticks as f64 / hertz,
        ));
        if let Some(delay) = totals.run_queue {
            push(Reading::real(&q::RUN_QUEUE, [pool()], delay.as_secs_f64()));
        }
    }
    if all.run_queue.is_none() {
        finding.problems.push(Problem::new(
            Status::Absent,
            "run-queue delay: this kernel has no schedstat",
        ));
    }
    let (majflt, minflt) = pools.exited();
    finding.whole(&q::PAGE_FAULTS, ["exited", "major"], Some(majflt));
    finding.whole(&q::PAGE_FAULTS, ["exited", "minor"], Some(minflt));
    finding.whole(&d::POOLS_FOLDED, [], Some(pools.folded()));
    finding.whole(&p::CONTEXT_SWITCHES, ["voluntary"], all.voluntary_switches);
    finding.whole(
        &p::CONTEXT_SWITCHES,
        ["involuntary"],
        all.involuntary_switches,
    );
    if !delayacct {
        let what =
            "block I/O delay: kernel.task_delayacct is 0; set it to 1 before the validator starts";
        finding.problems.push(Problem::new(Status::Absent, what));
    } else if all.blkio_ticks == 0 {
        let what = "block I/O delay: no thread has any, as when kernel.task_delayacct was 0 when the validator started";
        finding.problems.push(Problem::new(Status::Absent, what));
    } else {
        finding.readings.push(Reading::real(
            &p::BLOCK_IO_DELAY,
            [],
            all.blkio_ticks as f64 / hertz,
        ));
        for (name, _, totals) in pools.each() {
            let seconds = totals.blkio_ticks as f64 / hertz;
            finding.readings.push(Reading::real(
                &q::BLOCK_IO_DELAY,
                [Text::Shared(name.clone())],
                seconds,
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Below `ulimit -n 64` held threads once left no descriptor for reading the others.
    #[test]
    fn a_small_limit_of_descriptors_is_left_to_the_rest_of_the_daemon() {
        assert_eq!(
            [64, 128, 1024, u64::MAX].map(for_threads),
            [0, 0, 448, MOST_DESCRIPTORS]
        );
    }
}
