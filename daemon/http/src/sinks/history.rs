mod trends;

pub use trends::TREND_SPAN;

use faultline_core::publish::Sink;
use faultline_metrics::{
    Source, Tick,
    metrics::daemon::{LAST_PUSH, SOURCE_LAST_SUCCESS},
};
use faultline_status::{Figure, LATE_PUSH_SECONDS, LastMinute};
use parking_lot::Mutex;
use std::{collections::VecDeque, sync::Arc, time::Duration};
use trends::Trends;

/// Title on the page and quantity of each plot. Counters are shown as growth per second.
pub static PLOTS: [(&str, Figure); 9] = [
    ("RSS, anonymous", Figure::Anon),
    ("RSS, file", Figure::File),
    ("Major faults per second", Figure::MajorFaults),
    ("Minor faults per second", Figure::MinorFaults),
    ("Transactions per second", Figure::Transactions),
    ("Slots behind", Figure::SlotsBehind),
    ("Program cache hits per second", Figure::CacheHits),
    ("Program cache misses per second", Figure::CacheMisses),
    ("Program cache evictions per second", Figure::CacheEvictions),
];

/// Figures that `faultline top` plots in addition.
static MORE_FIGURES: [Figure; 4] = [
    Figure::BlockTransactions,
    Figure::CacheReloads,
    Figure::Cpu,
    Figure::ReadBytes,
];

const FIGURE_COUNT: usize = PLOTS.len() + MORE_FIGURES.len();

fn figures() -> impl Iterator<Item = Figure> {
    let plotted = PLOTS.iter().map(|(_, figure)| *figure);
    plotted.chain(MORE_FIGURES)
}

pub const HISTORY_SPAN: Duration = Duration::from_secs(60);

const ROW_SPACING: Duration = Duration::from_millis(500);

/// The time between two samples is taken by the wall clock and by the uptime. If the two differ by
/// more than this, the clock was set.
const CLOCK_TOLERANCE_SECONDS: f64 = 10.0;

#[derive(Debug, Clone, Copy)]
struct Point {
    uptime: Duration,
    value: f64,
    /// When the daemon received the source's sample or push, else the tick's time. In Unix seconds.
    received_unix: f64,
}

impl Point {
    /// `None` without a value, and for a counter whose source is down, because the tick repeats its
    /// last value.
    fn from_tick(tick: &Tick, figure: Figure) -> Option<Self> {
        let source = figure.source();
        let value = figure.of_readings(tick.readings_from(source))?;
        let batch = tick.batches.iter().find(|batch| batch.source == source)?;
        if figure.is_counter() && !batch.up {
            return None;
        }
        // A push covers the time since the previous push, not since the previous tick.
        let pushed_unix = match source {
            Source::Datapoints => tick.value_of(&LAST_PUSH, &[]),
            _ => None,
        };
        let last_success_unix =
            || tick.value_from(Source::Daemon, &SOURCE_LAST_SUCCESS, &[source.name()]);
        let received_unix = pushed_unix.or_else(last_success_unix);
        Some(Self {
            uptime: tick.at.uptime,
            value,
            received_unix: received_unix.unwrap_or(tick.at.unix_seconds()),
        })
    }

    /// Growth per second since `earlier`; `None` if the counter fell, or the wall clock was set
    /// meanwhile.
    fn growth_per_second(&self, earlier: &Self) -> Option<f64> {
        let (growth, seconds) = (
            self.value - earlier.value,
            self.received_unix - earlier.received_unix,
        );
        let clock_was_set = (self.uptime.saturating_sub(earlier.uptime).as_secs_f64() - seconds)
            .abs()
            > CLOCK_TOLERANCE_SECONDS;
        (growth >= 0.0 && seconds > 0.0 && !clock_was_set).then(|| growth / seconds)
    }
}

#[derive(Debug, Clone, Copy)]
struct Row {
    uptime: Duration,
    /// In the order of [`figures`].
    points: [Option<Point>; FIGURE_COUNT],
}

#[derive(Debug, Clone, Default)]
pub struct History {
    rows: Arc<Mutex<VecDeque<Row>>>,
    trends: Arc<Mutex<Arc<Trends>>>,
}

impl History {
    /// The points of each of [`PLOTS`] as (seconds before the newest row, value). There is no point
    /// where the value is missing or a counter fell.
    pub fn plot_series(&self) -> Vec<Vec<(f64, f64)>> {
        let LastMinute { ages, values } = self.last_minute();
        let series = PLOTS.iter().map(|(_, figure)| {
            let points = ages.iter().zip(values.get(figure).into_iter().flatten());
            let points = points.filter_map(|(age, value)| Some((*age, (*value)?)));
            points.collect()
        });
        series.collect()
    }

    pub fn last_minute(&self) -> LastMinute {
        let rows = self.rows.lock().clone();
        let newest = rows.back().map_or(Duration::ZERO, |row| row.uptime);
        let ages = rows
            .iter()
            .map(|row| newest.saturating_sub(row.uptime).as_secs_f64());
        let values = figures().enumerate().map(|(i, figure)| {
            let points = rows.iter().map(|row| row.points.get(i).copied().flatten());
            (figure, figure_values(points, figure))
        });
        LastMinute {
            ages: ages.collect(),
            values: values.collect(),
        }
    }

    /// Locks only to copy a pointer, because a tick waits for the lock.
    pub fn trends(&self) -> Arc<Trends> {
        Arc::clone(&self.trends.lock())
    }
}

fn figure_values(points: impl Iterator<Item = Option<Point>>, figure: Figure) -> Vec<Option<f64>> {
    if !figure.is_counter() {
        return points.map(|point| Some(point?.value)).collect();
    }
    let (mut values, mut previous, mut growth) = (Vec::new(), None::<Point>, None);
    for point in points {
        match (previous, point) {
            // The tick repeats the last sample of the source, so the growth stays the same.
            (Some(earlier), Some(later)) if later.received_unix == earlier.received_unix => {
                if figure.source() == Source::Datapoints
                    && later.uptime.saturating_sub(earlier.uptime).as_secs_f64() > LATE_PUSH_SECONDS
                {
                    growth = None;
                }
            }
            (Some(earlier), Some(later)) => {
                (previous, growth) = (Some(later), later.growth_per_second(&earlier))
            }
            (_, point) => (previous, growth) = (point, None),
        }
        values.push(point.and(growth));
    }
    values
}

impl Sink for History {
    fn receive(&mut self, tick: &Arc<Tick>) {
        Arc::make_mut(&mut self.trends.lock()).add(tick);
        let mut rows = self.rows.lock();
        if rows
            .back()
            .is_some_and(|newest| tick.at.uptime.saturating_sub(newest.uptime) < ROW_SPACING)
        {
            return;
        }
        let mut points = [None; FIGURE_COUNT];
        for (point, figure) in points.iter_mut().zip(figures()) {
            *point = Point::from_tick(tick, figure);
        }
        rows.push_back(Row {
            uptime: tick.at.uptime,
            points,
        });
        while rows
            .front()
            .is_some_and(|oldest| tick.at.uptime.saturating_sub(oldest.uptime) > HISTORY_SPAN)
        {
            rows.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use faultline_metrics::{Batch, Reading, Stamp, metrics};

    fn stamp(second: u64) -> Stamp {
        Stamp {
            uptime: Duration::from_secs(second),
            unix: Duration::from_secs(1_700_000_000 + second),
        }
    }

    fn tick(second: u64, major: Option<u64>) -> Arc<Tick> {
        let at = stamp(second);
        let readings = major
            .map(|n| Reading::integer(&metrics::process::PAGE_FAULTS, ["major".into()], n))
            .into_iter()
            .collect();
        let batch = Batch {
            readings,
            up: true,
            ..Batch::empty(Source::Process, at)
        };
        Arc::new(Tick {
            number: second,
            at,
            batches: vec![Arc::new(batch)],
        })
    }

    #[test]
    fn a_restart_or_a_gap_gives_no_rate() {
        let mut history = History::default();
        for (second, value) in [
            (1, Some(10)),
            (2, Some(14)),
            (3, None),
            (4, Some(20)),
            (5, Some(3)),
            (6, Some(5)),
        ] {
            history.receive(&tick(second, value));
        }
        let major = history.plot_series().remove(2);
        assert_eq!(major, vec![(4.0, 4.0), (0.0, 2.0)]);
    }

    /// A tick with JSON-RPC up or down, the time of its last sample, and a total of that sample.
    fn answered(second: u64, up: bool, received: f64, transactions: u64) -> Arc<Tick> {
        let at = stamp(second);
        let readings = vec![Reading::integer(
            &metrics::validator::TRANSACTIONS,
            [],
            transactions,
        )];
        let rpc = Batch {
            readings,
            up,
            ..Batch::empty(Source::Rpc, at)
        };
        let success = Reading::real(
            &SOURCE_LAST_SUCCESS,
            [Source::Rpc.name().into()],
            1_700_000_000.0 + received,
        );
        let own = Batch {
            readings: vec![success],
            ..Batch::empty(Source::Daemon, at)
        };
        Arc::new(Tick {
            number: second,
            at,
            batches: vec![Arc::new(rpc), Arc::new(own)],
        })
    }

    /// (seconds before the newest tick, transactions per second).
    fn tps(ticks: impl IntoIterator<Item = Arc<Tick>>) -> Vec<(f64, f64)> {
        let mut history = History::default();
        ticks.into_iter().for_each(|tick| history.receive(&tick));
        history
            .plot_series()
            .remove(4)
            .into_iter()
            .map(|(age, tps)| (age, tps.round()))
            .collect()
    }

    #[test]
    fn a_repeated_response_does_not_create_a_zero_rate() {
        // The total grows by 10 a second. Tick 3 repeats the response of tick 2.
        let received = [
            (1, 1.0, 100),
            (2, 1.9, 109),
            (3, 1.9, 109),
            (4, 3.9, 129),
            (5, 4.9, 139),
        ];
        let rates =
            tps(received.map(|(second, received, total)| answered(second, true, received, total)));
        assert_eq!(
            rates,
            vec![(3.0, 10.0), (2.0, 10.0), (1.0, 10.0), (0.0, 10.0)]
        );
    }

    #[test]
    fn a_source_that_is_down_has_no_rate() {
        let ticks = (1..6).map(|second| {
            answered(
                second,
                second < 4,
                f64::min(second as f64, 3.0),
                10 * second.min(3),
            )
        });
        assert_eq!(tps(ticks), vec![(3.0, 10.0), (2.0, 10.0)]);
    }

    #[test]
    fn a_clock_step_produces_no_rate() {
        let received = [
            (1, 1.0, 10),
            (2, 2.0, 20),
            (3, 3_603.0, 30),
            (4, 3_604.0, 40),
        ];
        let rates =
            tps(received.map(|(second, received, total)| answered(second, true, received, total)));
        assert_eq!(rates, vec![(2.0, 10.0), (0.0, 10.0)]);
    }

    /// (seconds before `last`, misses per second) of a tick each second. `pushed` is the second of the
    /// last push at a tick; until then there were five misses a second.
    fn misses_per_second(last: u64, pushed: impl Fn(u64) -> u64) -> Vec<(f64, f64)> {
        let mut history = History::default();
        for second in 1..=last {
            let (at, pushed) = (stamp(second), pushed(second));
            let readings = vec![
                Reading::integer(&metrics::validator::CACHE_MISSES, [], 5 * pushed),
                Reading::real(&LAST_PUSH, [], 1_700_000_000.0 + pushed as f64),
            ];
            let batch = Batch {
                readings,
                up: true,
                ..Batch::empty(Source::Datapoints, at)
            };
            history.receive(&Arc::new(Tick {
                number: second,
                at,
                batches: vec![Arc::new(batch)],
            }));
        }
        let mut plots = PLOTS.iter().zip(history.plot_series());
        let (_, misses) = plots
            .find(|((title, _), _)| title.contains("misses"))
            .unwrap();
        misses
    }

    #[test]
    fn pushed_increments_are_spread_over_the_time_since_the_previous_push() {
        let expected: Vec<(f64, f64)> = (0..=15).rev().map(|age| (f64::from(age), 5.0)).collect();
        assert_eq!(misses_per_second(25, |second| second / 10 * 10), expected);
    }

    #[test]
    fn rates_of_pushes_end_30_s_after_the_last_push() {
        // No push for 40 s, then one with the growth of this time.
        let last_push = |second| match second {
            20..60 => 20,
            _ => second / 10 * 10,
        };
        let seconds = (10..=50).chain(60..=65);
        let expected: Vec<(f64, f64)> = seconds
            .map(|second| (f64::from(65 - second), 5.0))
            .collect();
        assert_eq!(misses_per_second(65, last_push), expected);
    }

    #[test]
    fn history_keeps_only_the_last_minute() {
        let mut history = History::default();
        for second in 0..200 {
            history.receive(&tick(second, Some(second)));
        }
        assert_eq!(history.plot_series().remove(2).len(), 60);
    }
}
