//! State from all responses of the daemon so far: figures with history, thread pools, and events.

mod rate;

pub use rate::PoolOrder;

use crate::fetch::FetchResult;
use faultline_metrics::Source;
use faultline_stats::rate::Reading;
use faultline_status::{Figure, Status, ThreadPool};
use rate::{Meter, ThreadPools, TimePerSlot};
use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

/// A source without a sample for this long, or three intervals if that is longer, has no rate. For
/// pushes, which come every 10 s, half of this time.
const STALE_AFTER: Duration = Duration::from_secs(60);
const MAX_EVENTS: usize = 20;
pub const MAX_HISTORY: usize = 600;

#[derive(Clone, Copy, Default)]
pub struct Moment {
    pub uptime: Duration,
    pub unix_ns: i64,
}

/// Why there is no new response.
#[derive(Clone)]
pub struct FetchError {
    pub since: Moment,
    pub text: String,
}

#[derive(Clone)]
pub struct Event {
    pub time: Moment,
    pub text: String,
}

#[derive(Clone, Default)]
pub struct State {
    interval: Duration,
    /// The newest response; empty before the first one.
    pub status: Status,
    /// `None` before the first response.
    pub received_at: Option<Moment>,
    /// `None` if the daemon answered the last request.
    pub error: Option<FetchError>,
    histories: BTreeMap<Figure, History>,
    thread_pools: ThreadPools,
    pub cache_time: TimePerSlot,
    pub replay_time: TimePerSlot,
    pub events: VecDeque<Event>,
}

impl State {
    /// `interval` is the time between two responses.
    pub fn new(interval: Duration) -> Self {
        Self {
            interval,
            ..Self::default()
        }
    }

    pub fn add_result(&mut self, result: FetchResult, received_at: Moment) {
        match result {
            Ok(status) => self.add_status(*status, received_at),
            Err(text) => {
                let since = self
                    .error
                    .as_ref()
                    .map_or(received_at, |previous| previous.since);
                self.error = Some(FetchError { since, text });
                for history in self.histories.values_mut() {
                    history.push(None);
                }
            }
        }
    }

    fn add_status(&mut self, status: Status, received_at: Moment) {
        let response = Response {
            status: &status,
            stale_after: STALE_AFTER.max(self.interval * 3).as_secs_f64(),
        };
        for figure in Figure::ALL {
            self.histories
                .entry(*figure)
                .or_insert_with(|| History::from_last_minute(*figure, &response, self.interval))
                .add(*figure, &response);
        }
        self.thread_pools.add(&response);
        let slots = &status.slots;
        self.cache_time.add(&response, slots.cache.as_ref());
        self.replay_time.add(&response, slots.replay.as_ref());
        if self.received_at.is_some() {
            let failing_since = self.error.as_ref().map(|error| error.since);
            for text in changes(&self.status, &status, failing_since, received_at) {
                self.events.push_front(Event {
                    time: received_at,
                    text,
                });
            }
            self.events.truncate(MAX_EVENTS);
        }
        self.error = None;
        self.received_at = Some(received_at);
        self.status = status;
    }

    /// A gauge's value, or a counter's rate per second.
    pub fn value(&self, figure: Figure) -> Option<f64> {
        self.history(figure)?.newest
    }

    pub fn history(&self, figure: Figure) -> Option<&History> {
        self.histories.get(&figure)
    }

    pub fn thread_pools(&self, order: PoolOrder) -> Vec<ThreadPool> {
        self.thread_pools.sorted(order)
    }
}

/// A figure's values, one for each request; `None` where nothing was reported.
#[derive(Clone, Default)]
pub struct History {
    meter: Meter,
    values: VecDeque<Option<f64>>,
    /// From the newest response; a failed request does not change it.
    newest: Option<f64>,
}

impl History {
    /// Filled from the daemon's last minute, as if there had been a response every `interval`.
    fn from_last_minute(figure: Figure, response: &Response<'_>, interval: Duration) -> Self {
        let minute = &response.status.last_minute;
        let values = minute.values.get(&figure);
        let value_before = |seconds| {
            let row = minute.ages.partition_point(|age| *age >= seconds);
            values?.get(row.checked_sub(1)?).copied()
        };
        let mut values: VecDeque<Option<f64>> = (1..MAX_HISTORY as u32)
            .map(|i| (interval * i).as_secs_f64())
            .map_while(value_before)
            .collect();
        values.make_contiguous().reverse();
        let (last, rate) = response
            .reading(figure.source(), response.status.figure(figure))
            .zip(value_before(0.0).flatten())
            .unzip();
        Self {
            meter: Meter { last, rate },
            values,
            newest: None,
        }
    }

    /// A counter becomes a rate.
    fn add(&mut self, figure: Figure, response: &Response<'_>) {
        let value = response.status.figure(figure);
        self.newest = if figure.is_counter() {
            response.rate(&mut self.meter, figure.source(), value)
        } else {
            value
        };
        self.push(self.newest);
    }

    /// `None` without a response, or if the response has no value.
    fn push(&mut self, value: Option<f64>) {
        self.values.push_back(value);
        if self.values.len() > MAX_HISTORY {
            self.values.pop_front();
        }
    }

    pub fn last(&self, max_values: usize) -> Vec<Option<f64>> {
        self.values
            .iter()
            .skip(self.values.len().saturating_sub(max_values))
            .copied()
            .collect()
    }
}

/// A status, and the maximum age of its samples.
#[derive(Clone, Copy)]
pub struct Response<'a> {
    status: &'a Status,
    /// Seconds without a sample after which there is no rate.
    stale_after: f64,
}

impl Response<'_> {
    /// A total with the time of its source's sample. `None` without a sample, or if no validator is
    /// followed and the source is not the daemon. If the source is down, its total is an old one
    /// and is left out.
    fn reading(&self, source: Source, total: Option<f64>) -> Option<Reading> {
        if source != Source::Daemon && self.status.target.is_followed == Some(false) {
            return None;
        }
        let source_status = self.status.source(source)?;
        // Counters of the kernel belong to the process or its cgroup, sums to the daemon.
        let start = match source {
            Source::Process | Source::Threads | Source::Cgroup => Figure::ProcessStart,
            _ => Figure::DaemonStart,
        };
        Some(Reading {
            at: source_status.newest_values_at?,
            total: total.filter(|_| source_status.is_up),
            incarnation: self.status.figure(start).unwrap_or_default().to_bits(),
        })
    }

    fn rate(&self, meter: &mut Meter, source: Source, total: Option<f64>) -> Option<f64> {
        let reading = self.reading(source, total)?;
        let age = self.status.time - reading.at;
        let rate = meter.add(reading, self.status.time, self.stale_after);
        rate.filter(|_| source != Source::Datapoints || age <= self.stale_after / 2.0)
    }
}

/// Events from differences to the previous response, the most important one last.
fn changes(
    before: &Status,
    status: &Status,
    failing_since: Option<Moment>,
    received_at: Moment,
) -> Vec<String> {
    let mut events = Vec::new();
    if let Some(since) = failing_since {
        let failing = received_at.uptime.saturating_sub(since.uptime);
        events.push(format!(
            "faultlined is back after {}",
            faultline_text::duration(Duration::from_secs(failing.as_secs()))
        ));
    }
    let values = |figure| before.figure(figure).zip(status.figure(figure));
    let differs = |figure| values(figure).is_some_and(|(old, new)| old != new);
    // A step of the daemon's clock moves start times, but not what it counts.
    let may_be_new = failing_since.is_some() || status.tick <= before.tick;
    if may_be_new && differs(Figure::DaemonStart) {
        events.push("faultlined was started anew".to_owned());
    }
    match (&before.target.phase, &status.target.phase) {
        (old, Some(new)) if old.as_ref() != Some(new) => {
            events.push(format!("phase: {}", new.replace('_', " ")))
        }
        (Some(_), None) => events.push("phase: not known".to_owned()),
        _ => {}
    }
    match (before.target.is_followed, status.target.is_followed) {
        (Some(true), Some(false)) => events.push("the validator is gone".to_owned()),
        (Some(false), Some(true)) => events.push("a validator is followed".to_owned()),
        _ if differs(Figure::ProcessStart)
            && (may_be_new || before.target.restarts != status.target.restarts) =>
        {
            events.push("the validator was started anew".to_owned())
        }
        _ => {}
    }
    for (reason, restarts) in &status.target.restarts {
        let old = before.target.restarts.get(reason);
        if old.is_some_and(|old| restarts > old) {
            events.push(format!(
                "restart of the validator: {}",
                reason.replace('_', " ")
            ));
        }
    }
    if values(Figure::OomKills).is_some_and(|(old, new)| new > old) {
        events.push("OOM kill in the validator's cgroup".to_owned());
    }
    events
}

#[cfg(test)]
mod tests;
