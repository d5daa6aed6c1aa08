//! State from all answers so far: figures with their history, pools, and events.

mod events;
mod history;
mod pools;
mod slots;

pub use events::Event;
pub use history::History;
pub use pools::Order;

use crate::{fetch::Answer, rate::Meter};
use faultline_metrics::Source;
use faultline_stats::rate::Reading;
use faultline_status::{Figure, Pool, Status};
use pools::Pools;
use slots::SlotTimes;
use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

/// A source without a sample for this long, or three intervals if that is longer, has no rate.
const STALE_AFTER: Duration = Duration::from_secs(60);
const MAX_EVENTS: usize = 20;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moment {
    pub uptime: Duration,
    pub unix_ns: i64,
}

/// Why there is no new answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScrapeError {
    pub since: Moment,
    pub what: String,
}

#[derive(Debug, Clone, Default)]
pub struct State {
    interval: Duration,
    /// Of the newest answer; empty before the first one.
    pub status: Status,
    /// `None` before the first answer.
    pub received_at: Option<Moment>,
    /// Of the last request; `None` if it was answered.
    pub error: Option<ScrapeError>,
    histories: BTreeMap<Figure, History>,
    pools: Pools,
    pub slots: SlotTimes,
    pub events: VecDeque<Event>,
}

impl State {
    /// `interval` is the time between two answers.
    pub fn new(interval: Duration) -> Self {
        State {
            interval,
            ..State::default()
        }
    }

    pub fn take(&mut self, answer: Answer, at: Moment) {
        match answer {
            Ok(status) => self.take_status(*status, at),
            Err(what) => {
                let since = self.error.as_ref().map_or(at, |before| before.since);
                self.error = Some(ScrapeError { since, what });
                self.histories.values_mut().for_each(History::gap);
            }
        }
    }

    fn take_status(&mut self, status: Status, at: Moment) {
        let samples = Samples {
            status: &status,
            stale_after: STALE_AFTER.max(self.interval * 3).as_secs_f64(),
        };
        for figure in Figure::ALL {
            let history = self.histories.entry(*figure);
            let recorded = || History::recorded(*figure, &samples, self.interval);
            history.or_insert_with(recorded).take(*figure, &samples);
        }
        self.pools.take(&samples);
        self.slots.take(&samples);
        if self.received_at.is_some() {
            let failing_since = self.error.as_ref().map(|error| error.since);
            for what in events::changes(&self.status, &status, failing_since, at) {
                self.events.push_front(Event { at, what });
            }
            self.events.truncate(MAX_EVENTS);
        }
        self.error = None;
        self.received_at = Some(at);
        self.status = status;
    }

    /// A level, or a counter's rate per second.
    pub fn now(&self, figure: Figure) -> Option<f64> {
        self.history(figure).and_then(History::newest)
    }

    pub fn history(&self, figure: Figure) -> Option<&History> {
        self.histories.get(&figure)
    }

    pub fn pools(&self, order: Order) -> Vec<Pool> {
        self.pools.sorted(order)
    }
}

/// The samples of one answer, for the meters.
#[derive(Debug, Clone, Copy)]
pub struct Samples<'a> {
    status: &'a Status,
    /// Seconds without a sample after which there is no rate.
    stale_after: f64,
}

impl Samples<'_> {
    /// A total with the time of its source's sample. `None` without a sample, or if no validator
    /// is followed and the source is not the daemon. A source that is down repeats an old total,
    /// so the reading then has no total.
    fn reading(&self, source: Source, total: Option<f64>) -> Option<Reading> {
        if source != Source::Daemon && self.status.target.is_followed == Some(false) {
            return None;
        }
        let status = self.status.source(source)?;
        // Counters of the kernel live as long as the process, sums of the daemon as long as the daemon.
        let start = match source {
            Source::Process | Source::Threads => Figure::ProcessStart,
            _ => Figure::DaemonStart,
        };
        Some(Reading {
            at: status.values_from?,
            total: total.filter(|_| status.is_up),
            epoch: self.status.figure(start).unwrap_or_default().to_bits(),
        })
    }

    fn rate(&self, meter: &mut Meter, source: Source, total: Option<f64>) -> Option<f64> {
        meter.take(
            self.reading(source, total)?,
            self.status.time,
            self.stale_after,
        )
    }
}

#[cfg(test)]
mod tests;
