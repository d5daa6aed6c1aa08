use super::Looks;
use crate::page::Page;
use crate::rate::Meter;
use faultline_catalog::{Source, metrics};
use std::collections::VecDeque;

const MOST_VALUES: usize = 600;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    /// Bytes.
    Unreclaimable,
    /// Bytes.
    Anon,
    /// Per second.
    Major,
    /// Per second.
    Minor,
    /// Pages of the page cache read again, per second.
    Refaults,
    /// Seconds per second.
    StalledSome,
    /// Seconds per second.
    StalledFull,
    /// Slots.
    Behind,
    /// Transactions per second, from JSON-RPC.
    Tps,
    /// Transactions per second in frozen banks, from pushes.
    TpsPushed,
    /// Per second.
    Misses,
    /// Per second.
    Reloads,
    /// Per second.
    Evictions,
    /// Entries.
    Loaded,
    /// Seconds per second, of the validator.
    Cpu,
    /// Bytes per second, from block devices.
    ReadBytes,
    /// Bytes per second, to block devices.
    WrittenBytes,
    /// Seconds per second.
    DaemonCpu,
}

impl What {
    pub(super) const ALL: [What; 18] = [
        What::Unreclaimable,
        What::Anon,
        What::Major,
        What::Minor,
        What::Refaults,
        What::StalledSome,
        What::StalledFull,
        What::Behind,
        What::Tps,
        What::TpsPushed,
        What::Misses,
        What::Reloads,
        What::Evictions,
        What::Loaded,
        What::Cpu,
        What::ReadBytes,
        What::WrittenBytes,
        What::DaemonCpu,
    ];

    pub(crate) fn source(self) -> Source {
        match self {
            What::Anon
            | What::Major
            | What::Minor
            | What::Cpu
            | What::ReadBytes
            | What::WrittenBytes => Source::Process,
            What::Unreclaimable | What::Refaults | What::StalledSome | What::StalledFull => {
                Source::Cgroup
            }
            What::Behind => Source::Conclusions,
            What::Tps => Source::Rpc,
            What::TpsPushed | What::Misses | What::Reloads | What::Evictions | What::Loaded => {
                Source::Datapoints
            }
            What::DaemonCpu => Source::Daemon,
        }
    }

    fn is_rate(self) -> bool {
        !matches!(
            self,
            What::Unreclaimable | What::Anon | What::Behind | What::Loaded
        )
    }

    fn read(self, page: &Page) -> Option<f64> {
        match self {
            What::Unreclaimable => page.get(&metrics::memory::UNRECLAIMABLE, &[]),
            What::Anon => page.get(&metrics::process::RESIDENT, &["anon"]),
            What::Major => page.get(&metrics::process::PAGE_FAULTS, &["major"]),
            What::Minor => page.get(&metrics::process::PAGE_FAULTS, &["minor"]),
            What::Refaults => page.get(&metrics::cgroup::REFAULTS, &["file"]),
            What::StalledSome => page.get(&metrics::cgroup::PRESSURE, &["memory", "some"]),
            What::StalledFull => page.get(&metrics::cgroup::PRESSURE, &["memory", "full"]),
            What::Behind => page.get(&metrics::validator::SLOTS_BEHIND, &[]),
            What::Tps => page.get(&metrics::validator::TRANSACTIONS, &[]),
            What::TpsPushed => page.sum(&metrics::validator::BLOCK_TRANSACTIONS, &[]),
            What::Misses => page.get(&metrics::validator::CACHE_MISSES, &[]),
            What::Reloads => page.get(&metrics::validator::CACHE_RELOADS, &[]),
            What::Evictions => page.get(&metrics::validator::CACHE_EVICTIONS, &[]),
            What::Loaded => page.get(&metrics::validator::CACHE_LOADED, &[]),
            What::Cpu => page.sum(&metrics::process::CPU, &[]),
            What::ReadBytes => page.get(&metrics::process::IO_BYTES, &["read"]),
            What::WrittenBytes => page.get(&metrics::process::IO_BYTES, &["write"]),
            What::DaemonCpu => page.get(&metrics::daemon::SELF_CPU, &[]),
        }
    }
}

/// One value for each request; `None` where there is none.
#[derive(Debug, Clone, Default)]
pub(crate) struct Course {
    meter: Meter,
    values: VecDeque<Option<f64>>,
    newest: Option<f64>,
}

impl Course {
    pub(super) fn take(&mut self, what: What, looks: &Looks<'_>) {
        let read = what.read(looks.page);
        self.newest = match (what.is_rate(), looks.reading(what.source(), read)) {
            (false, _) => read,
            (true, Some(reading)) => self.meter.take(reading, looks.now(), looks.longest),
            (true, None) => None,
        };
        self.push(self.newest);
    }

    /// No page came: the newest value stays.
    pub(super) fn gap(&mut self) {
        self.push(None);
    }

    fn push(&mut self, value: Option<f64>) {
        self.values.push_back(value);
        if self.values.len() > MOST_VALUES {
            self.values.pop_front();
        }
    }

    pub(super) fn newest(&self) -> Option<f64> {
        self.newest
    }

    pub(crate) fn last(&self, most: usize) -> Vec<Option<f64>> {
        self.values
            .iter()
            .skip(self.values.len().saturating_sub(most))
            .copied()
            .collect()
    }
}
