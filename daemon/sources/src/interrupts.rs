//! Interrupts and softirqs by CPU, once a minute: on a large machine `/proc/interrupts` has
//! megabytes. Of each CPU only the totals are exported, because kinds by CPU would be thousands of
//! series.

use super::Registry;
use crate::tick::{BuildContext, Poll, SampleContext, SourceOutput};
use faultline_kernel::parse::interrupts::{self, CpuTable};
use faultline_kernel::parse::pid_allowed;
use faultline_metrics::metrics::host as h;
use faultline_metrics::{Metric, ReadingList, Source};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

const INTERVAL: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
struct Interrupts {
    interrupts: Totals,
    softirqs: Totals,
}

impl Poll for Interrupts {
    fn source(&self) -> Source {
        Source::Interrupts
    }

    fn every(&self) -> Option<Duration> {
        Some(INTERVAL)
    }

    fn sample(&mut self, context: &SampleContext<'_>) -> SourceOutput {
        let mut output = SourceOutput::default();
        let read = |file| context.root.read_proc(file, interrupts::parse);
        if let Some(table) = output.take(read("interrupts")) {
            self.interrupts.add(&table);
            self.interrupts.by_cpu(&h::INTERRUPTS, &table, &mut output);
            if let Some(cpu) = poh_cpu(context, &table.cpus) {
                let labels = [cpu.to_string().into()];
                output.readings.flag(&h::POH_CPU, labels, true);
            }
        }
        if let Some(table) = output.take(read("softirqs")) {
            self.softirqs.add(&table);
            self.softirqs.by_cpu(&h::SOFTIRQS, &table, &mut output);
            for (kind, counter) in &self.softirqs.rows {
                let labels = [kind.to_ascii_lowercase().into()];
                output
                    .readings
                    .counter(&h::SOFTIRQS_BY_TYPE, labels, counter.total);
            }
        }
        output.up = output.problems.is_empty();
        output
    }
}

/// Agave's index counts only the CPUs that it may use.
fn poh_cpu(context: &SampleContext<'_>, online: &[u32]) -> Option<u32> {
    let target = context.target?;
    let index = target.validator.as_ref()?.poh_cpu?;
    let status = format!("{}/status", target.process.pid);
    let allowed = context.root.read_proc(&status, pid_allowed::cpus).ok()??;
    online
        .iter()
        .filter(|cpu| allowed.contains(cpu))
        .nth(index)
        .copied()
}

/// Counts since the first sample.
#[derive(Debug, Default)]
struct Totals {
    cpus: BTreeMap<u32, Counter>,
    rows: BTreeMap<String, Counter>,
}

#[derive(Debug)]
struct Counter {
    last: u32,
    total: u64,
}

impl Counter {
    fn starting_at(now: u32) -> Self {
        Counter {
            last: now,
            total: 0,
        }
    }

    fn advance(&mut self, now: u32, continues: bool) {
        if continues && let Some(growth) = self.growth(now) {
            self.total += u64::from(growth);
        }
        self.last = now;
    }

    /// The kernel's counters wrap. `None` if it went back.
    fn growth(&self, now: u32) -> Option<u32> {
        let growth = now.wrapping_sub(self.last);
        (growth <= i32::MAX.unsigned_abs()).then_some(growth)
    }
}

impl Totals {
    /// A removed line takes its counts out of the sums. Such a sample is only the start of the next
    /// interval.
    fn add(&mut self, table: &CpuTable) {
        let rows: HashMap<&str, u32> = table
            .rows
            .iter()
            .map(|row| (row.name.as_str(), row.sum()))
            .collect();
        let continues = self.rows.iter().all(|(name, row)| {
            let now = rows.get(name.as_str());
            now.is_some_and(|now| row.growth(*now).is_some())
        });
        self.rows.retain(|name, _| rows.contains_key(name.as_str()));
        for (name, now) in rows {
            let row = self.rows.entry(name.to_owned());
            row.or_insert(Counter::starting_at(now))
                .advance(now, continues);
        }
        for (cpu, now) in table.cpus.iter().zip(table.sums()) {
            let cpu = self.cpus.entry(*cpu);
            cpu.or_insert(Counter::starting_at(now))
                .advance(now, continues);
        }
    }

    /// The CPUs of the table. One without any count was never online.
    fn by_cpu(&self, metric: &'static Metric, table: &CpuTable, output: &mut SourceOutput) {
        for cpu in &table.cpus {
            if let Some(counter) = self.cpus.get(cpu).filter(|counter| counter.last > 0) {
                let labels = [cpu.to_string().into()];
                output.readings.counter(metric, labels, counter.total);
            }
        }
    }
}

pub(super) fn register(registry: &mut Registry, context: &BuildContext<'_>) {
    if context.config.host.enabled {
        registry.sampler(Interrupts::default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(samples: &[&str]) -> Vec<(u32, u64)> {
        let mut totals = Totals::default();
        for text in samples {
            totals.add(&interrupts::parse(text.as_bytes()).unwrap());
        }
        let cpus = totals.cpus.iter();
        cpus.map(|(cpu, counter)| (*cpu, counter.total)).collect()
    }

    #[test]
    fn totals_begin_at_the_first_sample_and_count_new_lines_whole() {
        let first = "CPU0 CPU1\n1: 100 200 x\n";
        assert_eq!(totals(&[first]), [(0, 0), (1, 0)]);
        let second = "CPU0 CPU1\n1: 101 202 x\n2: 5 0 y\n";
        assert_eq!(totals(&[first, second]), [(0, 6), (1, 2)]);
    }

    #[test]
    fn a_counter_that_wraps_goes_on() {
        let samples = ["CPU0\n1: 4294967290 x\n", "CPU0\n1: 4 x\n"];
        assert_eq!(totals(&samples), [(0, 10)]);
    }

    #[test]
    fn a_line_that_is_removed_or_counts_anew_is_no_rate() {
        let both = "CPU0\n1: 100 x\n2: 900 y\n";
        let (one, later) = ("CPU0\n1: 107 x\n", "CPU0\n1: 110 x\n");
        assert_eq!(totals(&[both, one]), [(0, 0)]);
        assert_eq!(totals(&[both, one, later]), [(0, 3)]);
        let anew = "CPU0\n1: 1900 x\n2: 3 y\n";
        assert_eq!(totals(&[both, anew]), [(0, 0)]);
    }

    #[test]
    fn a_cpu_that_was_offline_goes_on() {
        let (all, one) = ("CPU0 CPU1\n1: 10 20 x\n", "CPU0\n1: 11 x\n");
        let again = "CPU0 CPU1\n1: 12 23 x\n";
        assert_eq!(totals(&[all, one]), [(0, 0), (1, 0)]);
        assert_eq!(totals(&[all, one, again]), [(0, 1), (1, 3)]);
    }
}
