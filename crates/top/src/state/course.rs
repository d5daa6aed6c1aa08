//! One figure over time.

use super::Looks;
use crate::page::Page;
use crate::rate::Meter;
use faultline_catalog::{Source, metrics};
use std::collections::VecDeque;

/// Values that are kept: more than the widest terminal has columns for.
const MOST_VALUES: usize = 600;

/// The figures that have a past.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    /// Bytes.
    Unreclaimable,
    /// Bytes.
    Anon,
    /// A second.
    Major,
    /// A second.
    Minor,
    /// Pages of the page cache read again, a second.
    Refaults,
    /// Seconds a second.
    StalledSome,
    /// Seconds a second.
    StalledFull,
    /// Slots.
    Behind,
    /// Transactions a second, as JSON-RPC counts them.
    Tps,
    /// The same in frozen banks, as pushes tell them.
    TpsPushed,
    /// A second.
    Misses,
    /// A second.
    Reloads,
    /// A second.
    Evictions,
    /// Entries.
    Loaded,
    /// Seconds a second, of the validator.
    Cpu,
    /// Bytes a second, from block devices.
    ReadBytes,
    /// Bytes a second, to block devices.
    WrittenBytes,
    /// Seconds a second.
    DaemonCpu,
}

impl What {
    /// All, in their own order.
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

    /// Who tells it.
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

/// One figure's values, one for each question; `None` where nothing was told.
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

    /// No page came: what the last one told stays the newest.
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

    /// The newest `most` values, the oldest first.
    pub(crate) fn last(&self, most: usize) -> Vec<Option<f64>> {
        self.values
            .iter()
            .skip(self.values.len().saturating_sub(most))
            .copied()
            .collect()
    }
}
