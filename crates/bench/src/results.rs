//! What a run measured: every request, as it was.

use crate::disk::Disk;
use crate::run::RunState;
use crate::verify::Verdict;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// Parts of a request's time, in their order; together they are its latency.
pub(crate) const PHASES: [&str; 6] = [
    "queued",
    "connect",
    "TLS",
    "first byte",
    "transfer",
    "decode",
];

/// The longest latency that a histogram distinguishes: an hour.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// One request that counts.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sample {
    /// Its place in the order.
    pub(crate) number: u64,
    /// Its round.
    pub(crate) round: u32,
    /// A place in [`Results::cells`].
    pub(crate) cell: usize,
    /// When it was to be sent: nanoseconds since the run began.
    pub(crate) at_ns: u64,
    /// Nanoseconds of each of [`PHASES`]; `None` if it failed.
    pub(crate) phases: Option<[u64; 6]>,
    /// Nanoseconds of CPU that decoding took.
    pub(crate) decode_cpu_ns: u64,
    /// Bytes sent, with headers.
    pub(crate) sent: u64,
    /// Bytes received, with headers.
    pub(crate) received: u64,
    /// Why it has no latency.
    pub(crate) failure: Option<String>,
    /// Times that the node refused it before this answer: for its rate, with an error of its own, or without a connection.
    pub(crate) refused: u32,
}

impl Sample {
    /// From the moment it was to be sent to its decoded answer; `None` if it failed.
    pub(crate) fn latency_ns(&self) -> Option<u64> {
        self.phases.map(|phases| phases.iter().sum())
    }
}

/// One of a run's requests, by what it is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CellHead {
    /// Name of its arm.
    pub(crate) arm: String,
    /// Name of its subject.
    pub(crate) subject: String,
    /// Decoded bytes of its subject, if known.
    pub(crate) size: Option<u64>,
}

/// What a request costs this tool itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OwnCost {
    /// CPU time, in nanoseconds.
    pub(crate) cpu_ns: u64,
    /// Median latency of an answer that takes its server next to nothing, in nanoseconds.
    pub(crate) median_ns: u64,
}

/// What is known of a run but its samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Header {
    /// The preset.
    pub(crate) preset: String,
    /// Version of this program.
    pub(crate) version: String,
    /// When it began.
    pub(crate) started_unix_ns: i64,
    /// Nodes, as they may be shown.
    pub(crate) nodes: Vec<String>,
    /// Sentences about the nodes.
    pub(crate) notes: Vec<String>,
    /// How it was asked, by name: what two runs must have in common to be compared.
    #[serde(default)]
    pub(crate) settings: BTreeMap<String, String>,
    /// What was added to the link of each cell; empty if nothing was to any.
    #[serde(default)]
    pub(crate) links: Vec<String>,
    /// Names of the arms; the first is the reference.
    pub(crate) arms: Vec<String>,
    /// Answers compared with the reference's, by arm.
    pub(crate) verdicts: Vec<Verdict>,
    /// Of the order.
    pub(crate) seed: u64,
    /// Rounds that were planned.
    pub(crate) rounds: u32,
    /// Rounds before them.
    pub(crate) warm_up: u32,
    /// Requests at the same time.
    pub(crate) workers: usize,
    /// Requests a second in an open loop; `None` in a closed loop.
    pub(crate) rate: Option<f64>,
    /// Requests that nodes refused, by kind, over the whole run: those that were sent again as well.
    #[serde(default)]
    pub(crate) refusals: BTreeMap<String, u64>,
    /// The first message of an error object that a node gave, by cell.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) messages: BTreeMap<usize, String>,
    /// Percent of an arm's requests that may fail; `None` if all may.
    #[serde(default)]
    pub(crate) max_failures: Option<f64>,
    /// The signal, or what else, ended it early.
    pub(crate) stopped_by: Option<String>,
    /// This tool's CPU time per request, in nanoseconds, over the whole run.
    pub(crate) own_cpu_ns: Option<u64>,
    /// Measured before the run, over loopback to a server of this tool.
    #[serde(default)]
    pub(crate) own_cost: Option<OwnCost>,
    /// Length of the measured part.
    pub(crate) length_ns: u64,
    /// Data folders that were looked at, by node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) disks: Vec<Disk>,
}

impl Header {
    /// Takes what a run has found until now; what ended it stays if nothing has.
    pub(crate) fn take_state(&mut self, state: RunState) {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.verdicts = state.verdicts;
        self.refusals = state.refusals;
        self.messages = state.messages;
        self.stopped_by = state.stopped_by.or(self.stopped_by.take());
        self.own_cpu_ns = state.own_cpu.map(ns);
        self.length_ns = ns(state.length);
    }
}

/// A run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Results {
    pub(crate) header: Header,
    pub(crate) cells: Vec<CellHead>,
    /// In the order of [`Sample::number`].
    pub(crate) samples: Vec<Sample>,
}

/// The latencies of one cell in numbers, in milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Summary {
    /// Answers that were good.
    pub(crate) successes: u64,
    /// Failures by kind.
    pub(crate) failures: BTreeMap<String, u64>,
    /// Refusals after which it was sent again.
    pub(crate) refused: u64,
    /// Of good answers; `None` without any.
    pub(crate) latency: Option<Latency>,
    /// Mean of each phase in milliseconds, by [`PHASES`].
    pub(crate) phases: Option<[f64; 6]>,
    /// Mean CPU time of decoding, in milliseconds.
    pub(crate) decode_cpu: Option<f64>,
    /// Mean bytes received for a good answer, with headers.
    pub(crate) received: Option<f64>,
}

/// Latencies in milliseconds. Percentiles are those of an HDR histogram with three digits.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Latency {
    pub(crate) mean: f64,
    pub(crate) sd: Option<f64>,
    pub(crate) min: f64,
    pub(crate) max: f64,
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    pub(crate) p95: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
}

/// Nanoseconds as milliseconds.
pub(crate) fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

impl Results {
    /// Place of the cell of that arm and subject.
    pub(crate) fn cell(&self, arm: &str, subject: &str) -> Option<usize> {
        self.cells
            .iter()
            .position(|cell| cell.arm == arm && cell.subject == subject)
    }

    /// Subjects with their sizes, in the order of the plan.
    pub(crate) fn subjects(&self) -> Vec<(&str, Option<u64>)> {
        let mut subjects: Vec<(&str, Option<u64>)> = Vec::new();
        for cell in &self.cells {
            if !subjects.iter().any(|(name, _)| *name == cell.subject) {
                subjects.push((&cell.subject, cell.size));
            }
        }
        subjects
    }

    /// What was added to the link, in the order of the plan; only `None` if nothing was.
    pub(crate) fn links(&self) -> Vec<Option<&str>> {
        let mut links: Vec<Option<&str>> = Vec::new();
        for link in self.header.links.iter().map(|link| Some(link.as_str())) {
            if !links.contains(&link) {
                links.push(link);
            }
        }
        if links.is_empty() { vec![None] } else { links }
    }

    /// Subjects with their sizes over one of the links.
    pub(crate) fn subjects_over(&self, link: Option<&str>) -> Vec<(&str, Option<u64>)> {
        self.subjects()
            .into_iter()
            .filter(|(subject, _)| self.link(subject) == link)
            .collect()
    }

    fn link(&self, subject: &str) -> Option<&str> {
        let cell = self.cells.iter().position(|cell| cell.subject == subject)?;
        self.header.links.get(cell).map(String::as_str)
    }

    /// An account by its size, which says more than its address; with it where another has the same size.
    pub(crate) fn label(&self, subject: &str, size: Option<u64>) -> String {
        let Some(size) = size else {
            return subject.to_owned();
        };
        let link = self.link(subject);
        let same = self
            .subjects_over(link)
            .iter()
            .filter(|(_, other)| *other == Some(size))
            .count();
        let address = if same > 1 {
            format!(" {subject:.8}")
        } else {
            String::new()
        };
        let over = link.map_or_else(String::new, |link| format!(" over {link}"));
        format!("{} bytes{address}{over}", faultline_text::count(size))
    }

    /// Samples of one cell.
    pub(crate) fn of(&self, cell: usize) -> impl Iterator<Item = &Sample> {
        self.samples
            .iter()
            .filter(move |sample| sample.cell == cell)
    }

    /// Latencies of one cell in milliseconds, by round; `None` where the request failed or was not sent.
    pub(crate) fn by_round(&self, cell: usize) -> Vec<Option<f64>> {
        let rounds = self
            .samples
            .iter()
            .map(|sample| sample.round + 1)
            .max()
            .unwrap_or(0);
        let mut latencies = vec![None; rounds as usize];
        for sample in self.of(cell) {
            if let Some(index) = latencies.get_mut(sample.round as usize) {
                *index = sample.latency_ns().map(ms);
            }
        }
        latencies
    }

    /// One cell's latencies as an HDR histogram in nanoseconds. `None` if there is no memory for one.
    pub(crate) fn histogram(&self, cell: usize) -> Option<Histogram<u64>> {
        let mut histogram = Histogram::new_with_bounds(1, LONGEST_NS, 3).ok()?;
        self.of(cell)
            .filter_map(Sample::latency_ns)
            .for_each(|latency| histogram.saturating_record(latency));
        Some(histogram)
    }

    /// One cell in numbers.
    pub(crate) fn summary(&self, cell: usize) -> Summary {
        let mut failures = BTreeMap::new();
        for failure in self.of(cell).filter_map(|sample| sample.failure.clone()) {
            *failures.entry(failure).or_insert(0) += 1;
        }
        let good: Vec<&Sample> = self
            .of(cell)
            .filter(|sample| sample.phases.is_some())
            .collect();
        let mean = |of: &dyn Fn(&Sample) -> u64| {
            let sum: f64 = good.iter().map(|sample| of(sample) as f64).sum();
            (!good.is_empty()).then(|| sum / good.len() as f64)
        };
        let phase = |index: usize| {
            mean(&|sample| sample.phases.map_or(0, |phases| phases[index])).map(|ns| ns / 1e6)
        };
        Summary {
            successes: good.len() as u64,
            failures,
            refused: self.of(cell).map(|sample| u64::from(sample.refused)).sum(),
            latency: self.latency(cell),
            phases: phase(0).map(|_| [0, 1, 2, 3, 4, 5].map(|index| phase(index).unwrap_or(0.0))),
            decode_cpu: mean(&|sample| sample.decode_cpu_ns).map(|ns| ns / 1e6),
            received: mean(&|sample| sample.received),
        }
    }

    fn latency(&self, cell: usize) -> Option<Latency> {
        let latencies: Vec<Option<f64>> = self
            .of(cell)
            .map(|sample| sample.latency_ns().map(ms))
            .collect();
        let of_all = faultline_stats::summary::summary(&latencies);
        let histogram = self.histogram(cell)?;
        let (min, max) = (of_all.min?, of_all.max?);
        // A bucket's end is above what is in it.
        let at = |p| ms(histogram.value_at_quantile(p)).clamp(min, max);
        Some(Latency {
            mean: of_all.mean?,
            sd: of_all.sd,
            min,
            max,
            p50: at(0.5),
            p90: at(0.9),
            p95: at(0.95),
            p99: at(0.99),
            p999: at(0.999),
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An arm's name, its subject's size, and its latency in nanoseconds in each round.
    pub(crate) type Pretended<'a> = (&'a str, u64, &'a dyn Fn(u64) -> u64);

    fn header(rounds: u32, arms: Vec<String>) -> Header {
        Header {
            preset: "encoding".to_owned(),
            version: "0".to_owned(),
            started_unix_ns: 0,
            nodes: vec!["http://node".to_owned()],
            notes: Vec::new(),
            settings: BTreeMap::new(),
            links: Vec::new(),
            verdicts: vec![
                Verdict {
                    equal: 1,
                    ..Verdict::default()
                };
                arms.len()
            ],
            arms,
            seed: 1,
            rounds,
            warm_up: 0,
            workers: 1,
            rate: None,
            refusals: BTreeMap::new(),
            messages: BTreeMap::new(),
            max_failures: None,
            stopped_by: None,
            own_cpu_ns: None,
            own_cost: None,
            length_ns: 1_000_000_000,
            disks: Vec::new(),
        }
    }

    /// A run whose latencies are given.
    pub(crate) fn results(rounds: u32, cells: &[Pretended<'_>]) -> Results {
        let mut arms: Vec<String> = Vec::new();
        for (arm, ..) in cells {
            if !arms.iter().any(|known| known == arm) {
                arms.push((*arm).to_owned());
            }
        }
        let header = header(rounds, arms);
        let heads = cells
            .iter()
            .map(|(arm, size, _)| CellHead {
                arm: (*arm).to_owned(),
                subject: format!("account of {size}"),
                size: Some(*size),
            })
            .collect();
        let sample = |round: u32, cell: usize| Sample {
            number: u64::from(round) * cells.len() as u64 + cell as u64,
            round,
            cell,
            at_ns: u64::from(round) * 1000,
            phases: Some([0, 0, 0, cells[cell].2(u64::from(round)), 0, 0]),
            decode_cpu_ns: 10,
            sent: 100,
            received: 200,
            failure: None,
            refused: 0,
        };
        let samples = (0..rounds).flat_map(|round| (0..cells.len()).map(move |cell| (round, cell)));
        Results {
            header,
            cells: heads,
            samples: samples.map(|(round, cell)| sample(round, cell)).collect(),
        }
    }

    #[test]
    fn failures_are_counted_and_never_averaged_in() {
        let mut results = results(10, &[("a", 1, &|round| (round + 1) * 1_000_000)]);
        for (round, why) in [(3, "timeout"), (7, "timeout"), (9, "HTTP 500")] {
            let sample = &mut results.samples[round];
            (sample.phases, sample.failure) = (None, Some(why.to_owned()));
        }
        let summary = results.summary(0);
        assert_eq!(
            (
                summary.successes,
                summary.failures["timeout"],
                summary.failures["HTTP 500"]
            ),
            (7, 2, 1)
        );
        let latency = summary.latency.unwrap();
        assert!((latency.mean - (1 + 2 + 3 + 5 + 6 + 7 + 9) as f64 / 7.0).abs() < 1e-9);
        assert_eq!((latency.min, latency.max), (1.0, 9.0));
        assert_eq!(results.by_round(0)[3], None);
    }

    #[test]
    fn no_percentile_is_above_the_longest_latency() {
        let latency = results(3, &[("a", 1, &|_| 123_456_789)])
            .summary(0)
            .latency
            .unwrap();
        assert_eq!((latency.p50, latency.p999), (latency.min, latency.max));
    }

    #[test]
    fn percentiles_are_within_a_thousandth() {
        let results = results(1000, &[("a", 1, &|round| (round + 1) * 1_000_000)]);
        let latency = results.summary(0).latency.unwrap();
        for (found, is) in [
            (latency.p50, 500.0),
            (latency.p95, 950.0),
            (latency.p99, 990.0),
            (latency.p999, 999.0),
        ] {
            assert!((found / is - 1.0).abs() < 0.001, "{found} {is}");
        }
    }
}
