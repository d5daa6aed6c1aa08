use super::PageSamples;
use crate::page::Page;
use crate::rate::Meter;
use faultline_catalog::{Source, metrics};
use std::collections::VecDeque;

const MOST_VALUES: usize = 600;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Figure {
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

impl Figure {
    pub(super) const ALL: [Figure; 18] = [
        Figure::Unreclaimable,
        Figure::Anon,
        Figure::Major,
        Figure::Minor,
        Figure::Refaults,
        Figure::StalledSome,
        Figure::StalledFull,
        Figure::Behind,
        Figure::Tps,
        Figure::TpsPushed,
        Figure::Misses,
        Figure::Reloads,
        Figure::Evictions,
        Figure::Loaded,
        Figure::Cpu,
        Figure::ReadBytes,
        Figure::WrittenBytes,
        Figure::DaemonCpu,
    ];

    pub(crate) fn source(self) -> Source {
        match self {
            Figure::Anon
            | Figure::Major
            | Figure::Minor
            | Figure::Cpu
            | Figure::ReadBytes
            | Figure::WrittenBytes => Source::Process,
            Figure::Unreclaimable
            | Figure::Refaults
            | Figure::StalledSome
            | Figure::StalledFull => Source::Cgroup,
            Figure::Behind => Source::Conclusions,
            Figure::Tps => Source::Rpc,
            Figure::TpsPushed
            | Figure::Misses
            | Figure::Reloads
            | Figure::Evictions
            | Figure::Loaded => Source::Datapoints,
            Figure::DaemonCpu => Source::Daemon,
        }
    }

    fn is_rate(self) -> bool {
        !matches!(
            self,
            Figure::Unreclaimable | Figure::Anon | Figure::Behind | Figure::Loaded
        )
    }

    fn read(self, page: &Page) -> Option<f64> {
        match self {
            Figure::Unreclaimable => page.get(&metrics::memory::UNRECLAIMABLE, &[]),
            Figure::Anon => page.get(&metrics::process::RESIDENT, &["anon"]),
            Figure::Major => page.get(&metrics::process::PAGE_FAULTS, &["major"]),
            Figure::Minor => page.get(&metrics::process::PAGE_FAULTS, &["minor"]),
            Figure::Refaults => page.get(&metrics::cgroup::REFAULTS, &["file"]),
            Figure::StalledSome => page.get(&metrics::cgroup::PRESSURE, &["memory", "some"]),
            Figure::StalledFull => page.get(&metrics::cgroup::PRESSURE, &["memory", "full"]),
            Figure::Behind => page.get(&metrics::validator::SLOTS_BEHIND, &[]),
            Figure::Tps => page.get(&metrics::validator::TRANSACTIONS, &[]),
            Figure::TpsPushed => page.sum(&metrics::validator::BLOCK_TRANSACTIONS, &[]),
            Figure::Misses => page.get(&metrics::validator::CACHE_MISSES, &[]),
            Figure::Reloads => page.get(&metrics::validator::CACHE_RELOADS, &[]),
            Figure::Evictions => page.get(&metrics::validator::CACHE_EVICTIONS, &[]),
            Figure::Loaded => page.get(&metrics::validator::CACHE_LOADED, &[]),
            Figure::Cpu => page.sum(&metrics::process::CPU, &[]),
            Figure::ReadBytes => page.get(&metrics::process::IO_BYTES, &["read"]),
            Figure::WrittenBytes => page.get(&metrics::process::IO_BYTES, &["write"]),
            Figure::DaemonCpu => page.get(&metrics::daemon::SELF_CPU, &[]),
        }
    }
}

/// One value for each request; `None` where there is none.
#[derive(Debug, Clone, Default)]
pub(crate) struct History {
    meter: Meter,
    values: VecDeque<Option<f64>>,
    newest: Option<f64>,
}

impl History {
    pub(super) fn take(&mut self, what: Figure, page_samples: &PageSamples<'_>) {
        let read = what.read(page_samples.page);
        self.newest = match (what.is_rate(), page_samples.reading(what.source(), read)) {
            (false, _) => read,
            (true, Some(reading)) => {
                self.meter
                    .take(reading, page_samples.now(), page_samples.longest)
            }
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
