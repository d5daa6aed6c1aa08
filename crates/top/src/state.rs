mod events;
mod history;
mod pools;
mod slots;

pub(crate) use events::{Event, phase};
pub(crate) use history::{Figure, History};
pub(crate) use pools::{Order, Pool};

use crate::fetch::Answer;
use crate::page::Page;
use faultline_catalog::{Source, metrics};
use faultline_stats::rate::Reading;
use pools::Pools;
use slots::SlotTimes;
use std::collections::VecDeque;
use std::time::Duration;

/// A source without a sample for this long, or three intervals if that is longer, has no rate.
const STALE_AFTER: Duration = Duration::from_secs(60);
/// The daemon is stuck after this long without a new tick, or three intervals.
const STUCK_AFTER: Duration = Duration::from_secs(10);
const MOST_EVENTS: usize = 20;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Moment {
    pub(crate) uptime: Duration,
    pub(crate) unix_ns: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScrapeError {
    pub(crate) since: Moment,
    pub(crate) what: String,
}

#[derive(Debug, Clone)]
pub(crate) struct State {
    interval: Duration,
    page: Page,
    taken: Option<Moment>,
    error: Option<ScrapeError>,
    tick: Option<(f64, Moment)>,
    histories: Vec<History>,
    pools: Pools,
    slots: SlotTimes,
    events: VecDeque<Event>,
}

impl State {
    pub(crate) fn new(interval: Duration) -> Self {
        State {
            interval,
            page: Page::default(),
            taken: None,
            error: None,
            tick: None,
            histories: vec![History::default(); Figure::ALL.len()],
            pools: Pools::default(),
            slots: SlotTimes::default(),
            events: VecDeque::new(),
        }
    }

    pub(crate) fn take(&mut self, answer: Answer, at: Moment) {
        match answer {
            Ok(page) => self.page(page, at),
            Err(what) => {
                let since = self.error.as_ref().map_or(at, |before| before.since);
                self.error = Some(ScrapeError { since, what });
                self.histories.iter_mut().for_each(History::gap);
            }
        }
    }

    fn page(&mut self, page: Page, at: Moment) {
        let longest = STALE_AFTER.max(self.interval * 3).as_secs_f64();
        let page_samples = PageSamples {
            page: &page,
            longest,
        };
        for (history, what) in self.histories.iter_mut().zip(Figure::ALL) {
            history.take(what, &page_samples);
        }
        self.pools.take(&page_samples);
        self.slots.take(&page_samples);
        let before = self.taken.map(|_| &self.page);
        let silent = self.error.as_ref().map(|error| error.since);
        for what in events::between(before, &page, silent, at) {
            self.events.push_front(Event { at, what });
        }
        self.events.truncate(MOST_EVENTS);
        let tick = page.get(&metrics::daemon::TICKS, &[]);
        if tick != self.tick.map(|(number, _)| number) {
            self.tick = tick.map(|number| (number, at));
        }
        self.error = None;
        self.taken = Some(at);
        self.page = page;
    }

    pub(crate) fn newest(&self) -> &Page {
        &self.page
    }

    pub(crate) fn taken(&self) -> Option<Moment> {
        self.taken
    }

    pub(crate) fn error(&self) -> Option<&ScrapeError> {
        self.error.as_ref()
    }

    /// How long the daemon has answered with the same tick; `None` while it ticks. A single page
    /// shows it too, by the daemon's own clock.
    pub(crate) fn stuck_for(&self, now: Moment) -> Option<Duration> {
        let (_, since) = self.tick.filter(|_| self.error.is_none())?;
        let taken = self.taken?.uptime;
        let still = taken
            .saturating_sub(since.uptime)
            .max(self.page.age().unwrap_or_default());
        (still > STUCK_AFTER.max(self.interval * 3))
            .then(|| still + now.uptime.saturating_sub(taken))
    }

    pub(crate) fn now(&self, what: Figure) -> Option<f64> {
        self.history(what).and_then(History::newest)
    }

    pub(crate) fn history(&self, what: Figure) -> Option<&History> {
        self.histories.get(what as usize)
    }

    pub(crate) fn pools(&self, order: Order) -> Vec<Pool> {
        self.pools.sorted(order)
    }

    pub(crate) fn slots(&self) -> &SlotTimes {
        &self.slots
    }

    pub(crate) fn events(&self) -> impl Iterator<Item = &Event> {
        self.events.iter()
    }
}

#[derive(Debug, Clone, Copy)]
struct PageSamples<'a> {
    page: &'a Page,
    /// Seconds without a sample after which there is no rate.
    longest: f64,
}

impl PageSamples<'_> {
    /// A total with the time of its source's sample. `None` if there was no sample, or if it is
    /// about a validator and none is followed. The total of a source that is down is old, so it is
    /// left out.
    fn reading(&self, source: Source, total: Option<f64>) -> Option<Reading> {
        if source != Source::Daemon && self.page.flag(&metrics::process::UP, &[]) == Some(false) {
            return None;
        }
        let total = total.filter(|_| self.page.is_up(source) != Some(false));
        Some(Reading {
            at: self.sampled_at(source)?,
            total,
            epoch: self.epoch(source),
        })
    }

    /// The source's last success, in seconds since 1970. For datapoints: the last push.
    fn sampled_at(&self, source: Source) -> Option<f64> {
        let push = self
            .page
            .get(&metrics::daemon::LAST_PUSH, &[])
            .filter(|_| source == Source::Datapoints);
        push.or_else(|| self.page.last_success(source))
    }

    fn now(&self) -> f64 {
        self.page.last_success(Source::Daemon).unwrap_or_default()
    }

    /// Counters of the kernel live as long as the process, sums of the daemon as long as the
    /// daemon.
    fn epoch(&self, source: Source) -> u64 {
        let start = match source {
            Source::Process | Source::Threads => &metrics::process::START_TIME,
            _ => &metrics::daemon::SELF_START_TIME,
        };
        self.page.get(start, &[]).unwrap_or_default().to_bits()
    }
}

#[cfg(test)]
mod tests;
