//! Interrupts and softirqs by CPU, once a minute. On a large machine `/proc/interrupts` has
//! megabytes, so a thread reads it. Exports only totals by CPU and by kind: kinds by CPU would be
//! thousands of series.

use crate::{
    Registry,
    discovery::thread_named,
    polling::{PollResult, PollResultSampler},
    tick::{BuildContext, SampleContext, Sampler, SourceOutput},
};
use faultline_core::{clock::Schedule, publish::Latest};
use faultline_kernel::{
    HostRoot, ProcessId,
    parse::{
        interrupts::{self, CpuTable},
        pid_status,
    },
};
use faultline_metrics::{AddReadings, Problem, Reading, Source, Stamp, metrics::host as h};
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

const INTERVAL: Duration = Duration::from_secs(60);

/// The first read waits at most this long for the validator, to include the proof-of-history
/// thread.
const MAX_FIRST_READ_DELAY: Duration = Duration::from_secs(1);

/// The thread's name in all versions that have proof-of-history ticks.
const POH_THREAD: &str = "solPohTickProd";

struct InterruptsSampler {
    /// The thread takes the reader at its start. The subcommand `once` starts no thread, so
    /// `sample` reads the tables.
    reader: Arc<Mutex<Option<InterruptReader>>>,
    latest: Latest<PollResult>,
    result_sampler: PollResultSampler,
}

impl Sampler for InterruptsSampler {
    fn interval(&self) -> Option<Duration> {
        match *self.reader.lock() {
            Some(_) => Some(INTERVAL),
            None => self.result_sampler.interval(),
        }
    }

    fn sample(&mut self, context: &SampleContext<'_>) -> SourceOutput {
        if let Some(reader) = self.reader.lock().as_mut() {
            let result = reader.read(context.root, context.now, context.process());
            self.latest.set(Some(Arc::new(result)));
        }
        self.result_sampler.sample(context)
    }
}

#[derive(Default)]
struct InterruptReader {
    interrupts: CpuTotals,
    softirqs: CpuTotals,
    /// The process, and the path of its proof-of-history thread below `procfs`.
    poh_thread: Option<(ProcessId, String)>,
}

impl InterruptReader {
    fn read(&mut self, root: &HostRoot, at: Stamp, process: Option<ProcessId>) -> PollResult {
        let mut output = SourceOutput::default();
        if let Some(table) = read_table(root, "interrupts", &mut output) {
            self.interrupts.add(&table);
            for (cpu, devices, others) in self.interrupts.totals_by_cpu(&table) {
                for (from, count) in [("device", devices), ("local", others)] {
                    let labels = [cpu.to_string().into(), from.into()];
                    output.readings.integer(&h::INTERRUPTS, labels, count);
                }
            }
        }
        if let Some(table) = read_table(root, "softirqs", &mut output) {
            self.softirqs.add(&table);
            // Devices raise no softirqs: `others` has all of them.
            for (cpu, _, others) in self.softirqs.totals_by_cpu(&table) {
                let labels = [cpu.to_string().into()];
                output.readings.integer(&h::SOFTIRQS, labels, others);
            }
            for (kind, counter) in &self.softirqs.rows {
                let labels = [kind.to_ascii_lowercase().into()];
                output
                    .readings
                    .integer(&h::SOFTIRQS_BY_TYPE, labels, counter.total);
            }
        }
        let of_process = process.map(|process| {
            let reading = self
                .poh_cpu(root, process)
                .map(|cpu| Reading::flag(&h::POH_CPU, [cpu.to_string().into()], true));
            (process, reading.into_iter().collect())
        });
        output.up = output.problems.is_empty();
        PollResult {
            polled_at: at,
            output,
            process_readings: of_process,
        }
    }

    /// `None` if the proof-of-history thread may use several CPUs, or is not found.
    fn poh_cpu(&mut self, root: &HostRoot, process: ProcessId) -> Option<u32> {
        let known = self
            .poh_thread
            .take()
            .filter(|(owner, _)| *owner == process);
        let thread = match known {
            Some((_, thread)) => thread,
            None => thread_named(root, process.pid, &[POH_THREAD])?,
        };
        let status = format!("{thread}/status");
        let cpus = root.read_proc(&status, pid_status::allowed_cpus).ok()??;
        self.poh_thread = Some((process, thread));
        match cpus[..] {
            [cpu] => Some(cpu),
            _ => None,
        }
    }
}

fn read_table(root: &HostRoot, file: &str, output: &mut SourceOutput) -> Option<CpuTable> {
    let table = output.value_or_problem(root.read_proc(file, interrupts::parse))?;
    if table.is_none() {
        let message = format!("/proc/{file} is empty, as in a container that hides it");
        output.problems.push(Problem::absent_data(message));
    }
    table
}

/// Interrupt counts since the first sample.
#[derive(Default)]
struct CpuTotals {
    /// For each CPU: interrupts of devices, and all others.
    cpus: BTreeMap<u32, [WrappingCounter; 2]>,
    /// By row: the sum over the CPUs.
    rows: BTreeMap<String, WrappingCounter>,
}

#[derive(Clone, Copy)]
struct WrappingCounter {
    last: u32,
    total: u64,
}

/// If a count falls from at least this value to below 2^31, it has wrapped. Any other fall is a
/// reset.
const MIN_BEFORE_WRAP: u32 = u32::MAX - (1 << 28);

impl WrappingCounter {
    fn starting_at(count: u32) -> Self {
        Self {
            last: count,
            total: 0,
        }
    }

    fn advance(&mut self, count: u32, is_continuous: bool) {
        if is_continuous && let Some(growth) = self.growth(count) {
            self.total += u64::from(growth);
        }
        self.last = count;
    }

    /// Counts across a wrap; `None` after a reset.
    fn growth(&self, count: u32) -> Option<u32> {
        let is_continuous = count >= self.last || self.last >= MIN_BEFORE_WRAP && count < 1 << 31;
        is_continuous.then(|| count.wrapping_sub(self.last))
    }
}

impl CpuTotals {
    /// The counts of a CPU are sums over the rows. If a row vanishes or is reset, they fall without
    /// a wrap. The growth up to such a sample is not counted: the next interval starts with it.
    fn add(&mut self, table: &CpuTable) {
        let rows: HashMap<&str, u32> = table
            .rows
            .iter()
            .map(|row| (row.name.as_str(), row.sum))
            .collect();
        let is_continuous = self.rows.iter().all(|(name, row)| {
            let count = rows.get(name.as_str());
            count.is_some_and(|count| row.growth(*count).is_some())
        });
        self.rows.retain(|name, _| rows.contains_key(name.as_str()));
        for (name, count) in rows {
            self.rows
                .entry(name.to_owned())
                .or_insert(WrappingCounter::starting_at(count))
                .advance(count, is_continuous);
        }
        let sums = table.devices.iter().zip(&table.others);
        for (cpu, (&devices, &others)) in table.cpus.iter().zip(sums) {
            let counters = self
                .cpus
                .entry(*cpu)
                .or_insert([devices, others].map(WrappingCounter::starting_at));
            counters[0].advance(devices, is_continuous);
            counters[1].advance(others, is_continuous);
        }
    }

    /// A CPU without any count was never online.
    fn totals_by_cpu(&self, table: &CpuTable) -> Vec<(u32, u64, u64)> {
        let totals = |cpu: &u32| {
            let [devices, others] = self.cpus.get(cpu)?;
            let was_online = devices.last > 0 || others.last > 0;
            was_online.then_some((*cpu, devices.total, others.total))
        };
        table.cpus.iter().filter_map(totals).collect()
    }
}

pub fn register(registry: &mut Registry, context: &BuildContext<'_>) {
    if !context.config.host.enabled {
        return;
    }
    let latest = Latest::default();
    let reader = Arc::new(Mutex::new(Some(InterruptReader::default())));
    registry.add_sampler(
        Source::Interrupts,
        InterruptsSampler {
            reader: Arc::clone(&reader),
            latest: latest.clone(),
            result_sampler: PollResultSampler::new(INTERVAL, latest.clone()),
        },
    );
    let (root, clock) = (context.root.clone(), context.clock);
    let target_handle = context.target_handle.clone();
    registry.on_start(move |workers| {
        let mut reader = reader.lock().take().unwrap_or_default();
        workers.thread("interrupts", move |stop| {
            target_handle.wait_for_first_search(MAX_FIRST_READ_DELAY);
            let mut schedule = Schedule::every(INTERVAL);
            while !stop.is_set() {
                let process = target_handle.current().map(|target| target.process);
                latest.set(Some(Arc::new(reader.read(&root, clock.now(), process))));
                let now = clock.now().uptime;
                schedule.advance_to(now);
                stop.sleep(schedule.next_due().saturating_sub(now));
            }
        })
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{discovery::Finder, tick::ProcessState};
    use faultline_core::{clock::Clock, config::Config, supervisor::WorkerGroup};
    use faultline_testkit::host::FakeHost;
    use rustix::fs::{CWD, Mode, mkfifoat};
    use std::sync::mpsc::channel;

    /// Of each CPU by devices and others.
    fn totals(samples: &[&str]) -> Vec<(u32, u64, u64)> {
        let mut totals = CpuTotals::default();
        let mut last = CpuTable::default();
        for text in samples {
            last = interrupts::parse(text.as_bytes()).unwrap().unwrap();
            totals.add(&last);
        }
        totals.totals_by_cpu(&last)
    }

    #[test]
    fn totals_begin_at_the_first_sample_and_count_new_lines_whole() {
        let first = "CPU0 CPU1\n1: 100 200 x\nLOC: 7 8\n";
        assert_eq!(totals(&[first]), [(0, 0, 0), (1, 0, 0)]);
        let second = "CPU0 CPU1\n1: 101 202 x\n2: 5 0 y\nLOC: 17 8\n";
        assert_eq!(totals(&[first, second]), [(0, 6, 10), (1, 2, 0)]);
    }

    #[test]
    fn a_counter_that_wraps_goes_on() {
        let samples = ["CPU0\n1: 4294967290 x\n", "CPU0\n1: 4 x\n"];
        assert_eq!(totals(&samples), [(0, 10, 0)]);
    }

    #[test]
    fn a_line_that_is_removed_or_counts_anew_is_no_rate() {
        let both = "CPU0\n1: 100 x\n2: 900 y\n";
        let (one, later) = ("CPU0\n1: 107 x\n", "CPU0\n1: 110 x\n");
        assert_eq!(totals(&[both, one]), [(0, 0, 0)]);
        assert_eq!(totals(&[both, one, later]), [(0, 3, 0)]);
        let anew = "CPU0\n1: 1900 x\n2: 3 y\n";
        assert_eq!(totals(&[both, anew]), [(0, 0, 0)]);
        let busy = ["CPU0\n1: 3000000000 x\n", "CPU0\n1: 5 x\n"];
        assert_eq!(totals(&busy), [(0, 0, 0)]);
    }

    #[test]
    fn a_cpu_that_was_offline_goes_on() {
        let (all, one) = ("CPU0 CPU1\n1: 10 20 x\n", "CPU0\n1: 11 x\n");
        let again = "CPU0 CPU1\n1: 12 23 x\n";
        assert_eq!(totals(&[all, one]), [(0, 0, 0)]);
        assert_eq!(totals(&[all, one, again]), [(0, 1, 0), (1, 3, 0)]);
    }

    #[test]
    fn the_poh_thread_is_found_by_its_name() {
        let folder = tempfile::tempdir().unwrap();
        for (thread, name) in [("7", "agave-validator\n"), ("9", "solPohTickProd\n")] {
            let task = folder.path().join("7/task").join(thread);
            std::fs::create_dir_all(&task).unwrap();
            std::fs::write(task.join("comm"), name).unwrap();
        }
        let root = HostRoot {
            procfs: folder.path().to_owned(),
            ..HostRoot::default()
        };
        let found = |pid| thread_named(&root, pid, &[POH_THREAD]);
        assert_eq!(found(7).as_deref(), Some("7/task/9"));
        assert_eq!(found(8), None);
    }

    #[test]
    fn after_an_exec_the_new_poh_thread_is_found() {
        let host = FakeHost::empty().unwrap();
        let add = |thread| {
            let folder = format!("proc/7/task/{thread}");
            host.write(&format!("{folder}/comm"), "solPohTickProd\n")
                .unwrap();
            let status = format!("Cpus_allowed_list:\t{thread}\n");
            host.write(&format!("{folder}/status"), status).unwrap();
        };
        let (root, process) = (HostRoot::below(host.root()), ProcessId::default());
        let process = ProcessId { pid: 7, ..process };
        let mut reader = InterruptReader::default();
        add(9);
        assert_eq!(reader.poh_cpu(&root, process), Some(9));
        host.remove("proc/7/task/9").unwrap();
        add(10);
        assert_eq!(reader.poh_cpu(&root, process), None);
        assert_eq!(reader.poh_cpu(&root, process), Some(10));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_read_that_hangs_delays_no_sample() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("interrupts");
        mkfifoat(CWD, &fifo, Mode::RUSR | Mode::WUSR).unwrap();
        let root = HostRoot {
            procfs: folder.path().to_owned(),
            ..HostRoot::default()
        };
        let (config, clock) = (Config::default(), Clock::start());
        let finder = Finder::build(&config.target, root.clone(), clock);
        let mut registry = Registry::default();
        let context = BuildContext {
            config: &config,
            clock,
            root: &root,
            target_handle: &finder.target_handle,
        };
        register(&mut registry, &context);
        let mut sampler = registry.samplers.remove(0).1;
        let mut workers = WorkerGroup::new("test", &tokio::runtime::Handle::current());
        registry.start(&mut workers).unwrap();
        let (send, sampled) = channel();
        let sample = move |_| {
            let host = crate::tests::host_constants();
            let output = sampler.sample(&SampleContext {
                now: clock.now(),
                target: None,
                root: &root,
                host: &host,
                boot_time: &Ok(0),
                process_state: &ProcessState::default(),
            });
            send.send((output.up, output.readings.len())).unwrap();
        };
        workers.thread("tick", sample).unwrap();
        let sampled = sampled.recv_timeout(Duration::from_secs(20));
        assert_eq!(sampled, Ok((false, 0)), "nothing is known yet");
        // Its reader goes on to an empty file.
        drop(std::fs::File::create(&fifo).unwrap());
        assert!(workers.end(Duration::from_secs(20)).await.is_empty());
    }
}
