//! The recording, and longer times made from it. Its minutes are repeated so that counters
//! continue.

use crate::{
    changes::{Change, Stream},
    faults::Fault,
};
use flate2::read::GzDecoder;
use std::{
    collections::BTreeMap,
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

pub const HOUR: i64 = 3_600_000;

/// Gauges that continue like counters. Leader slots count within an epoch, and a day is the middle
/// of an epoch of mainnet, which takes about two days. Paid amounts do not return to the balance.
const GO_ON: [&str; 3] = [
    "agave_leader_slots",
    "agave_cluster_leader_slots",
    "agave_balance_sol",
];
/// Times at which something began. They have one value all day, moved with the day.
const BEGAN: [&str; 2] = [
    "agave_process_start_time_seconds",
    "process_start_time_seconds",
];
/// This machine allows fewer mappings than 2.1 needs, and the alert about it is right. So the
/// recording gets the value that INSTALL requires.
const SET: (&str, f64) = ("agave_host_max_maps", 1_000_000.0);

/// The recording is older than the metrics of memory levels. Its limit was that of the validator's
/// own cgroup.
const LEVELS: [(&str, &str); 2] = [
    (
        "agave_memory_effective_limit_bytes",
        "agave_memory_level_limit_bytes",
    ),
    (
        "agave_memory_unreclaimable_bytes",
        "agave_memory_level_unreclaimable_bytes",
    ),
];

/// Numbers of scrapes of 15 s: 6 minutes that are repeated before and after a migration, and 22
/// minutes from its begin until every alert is stable.
const REPEATED: usize = 24;
const BETWEEN: usize = 88;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Moved {
    /// The series continues from its last value.
    GoesOn,
    /// A time, moved by as much as its sample.
    WithItsSample,
    /// A time, moved by as much as the first sample.
    WithTheDay,
    /// The same values in each repetition.
    Again,
}

fn how(name: &str) -> Moved {
    let counts = ["_total", "_count", "_sum", "_bucket"]
        .iter()
        .any(|end| name.ends_with(end));
    match name {
        _ if counts || GO_ON.contains(&name) => Moved::GoesOn,
        _ if BEGAN.contains(&name) => Moved::WithTheDay,
        _ if name.ends_with("_timestamp_seconds") => Moved::WithItsSample,
        _ => Moved::Again,
    }
}

/// One recorded series.
#[derive(Debug)]
struct Series {
    labels: String,
    /// Milliseconds since 1970, and the value.
    samples: Vec<(i64, f64)>,
}

impl Series {
    /// The newest value up to a time. If all are later, the first one.
    fn at(&self, time: i64) -> f64 {
        let after = self.samples.partition_point(|one| one.0 <= time);
        let sample = self.samples.get(after.saturating_sub(1));
        sample.map_or(0.0, |one| one.1)
    }
}

/// The sum that a continuing series has reached in the previous parts.
#[derive(Default)]
struct Counted {
    more: f64,
    last: Option<f64>,
}

impl Counted {
    fn begin(&mut self, first: f64) {
        self.more += self.last.map_or(0.0, |last| last - first);
    }

    fn end(&mut self, last: f64) {
        self.last = Some(last);
    }
}

/// The recorded series by name.
#[derive(Debug)]
pub struct Recording {
    families: BTreeMap<String, Vec<Series>>,
    /// Begin and end of each part, which are scrapes. There is one part that is repeated all day,
    /// or one for each half of the day and one between them.
    parts: Vec<[i64; 2]>,
}

/// The position of a part in a day.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Play {
    part: [i64; 2],
    /// Milliseconds from the recorded time to the time in the day.
    by: i64,
}

/// A node whose series are written.
pub struct Node<'a> {
    pub instance: &'a str,
    pub from: i64,
    pub to: i64,
    /// Faults with their begins.
    pub faults: Vec<(i64, &'a Fault)>,
    /// The change, with its moments.
    pub change: Option<(Change, Vec<i64>)>,
}

impl Recording {
    pub fn file(name: &str) -> PathBuf {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded_day");
        folder.join(format!("{name}.openmetrics.gz"))
    }

    pub fn read(name: &str) -> Self {
        let mut text = String::new();
        let file = std::fs::File::open(Self::file(name)).expect("the recording");
        GzDecoder::new(file)
            .read_to_string(&mut text)
            .expect("a compressed text");
        let mut series: BTreeMap<(&str, &str), Vec<(i64, f64)>> = BTreeMap::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (rest, time) = line.rsplit_once(' ').expect("a time");
            let (key, value) = rest.rsplit_once(' ').expect("a value");
            let (name, labels) = key.split_once('{').expect("labels");
            let time = (time.parse::<f64>().expect("a time") * 1e3).round() as i64;
            let labels = labels.trim_end_matches('}');
            series
                .entry((name, labels))
                .or_default()
                .push((time, value.parse().expect("a value")));
        }
        let parts = parts(&series);
        let mut families: BTreeMap<String, Vec<Series>> = BTreeMap::new();
        for ((name, labels), samples) in series {
            families.entry(name.to_owned()).or_default().push(Series {
                labels: labels.to_owned(),
                samples,
            });
        }
        for (name, level) in LEVELS {
            if families.contains_key(level) {
                continue;
            }
            let of_level = families[name].iter().map(|series| Series {
                labels: format!("{},level=\"0\"", series.labels),
                samples: series.samples.clone(),
            });
            let of_level = of_level.collect();
            families.insert(level.to_owned(), of_level);
        }
        Self { families, parts }
    }

    /// The parts that make a day.
    fn plays(&self, [from, to]: [i64; 2]) -> Vec<Play> {
        let (first, last) = (self.parts[0], self.parts[self.parts.len() - 1]);
        let half = from + (to - from) / 2;
        let mut plays = Vec::new();
        let mut at = from;
        while at < to {
            let is_first_half = at + (first[1] - first[0]) <= half;
            let part = match (self.parts.as_slice(), plays.last()) {
                ([first, ..], _) if is_first_half => *first,
                ([_, between, _], Some(Play { part, .. })) if *part == first => *between,
                _ => last,
            };
            plays.push(Play {
                part,
                by: at - part[0],
            });
            at += part[1] - part[0];
        }
        plays
    }

    /// The last value of the only series with this name.
    pub fn last(&self, name: &str) -> f64 {
        let family = &self.families[name];
        family
            .first()
            .and_then(|series| series.samples.last())
            .expect("a sample")
            .1
    }

    /// Writes the series with these names of all nodes, as OpenMetrics.
    pub fn write(
        &self,
        names: &dyn Fn(&str) -> bool,
        nodes: &[Node],
        out: &mut impl Write,
    ) -> io::Result<()> {
        let named: Vec<String> = self
            .families
            .keys()
            .filter(|name| names(name))
            .cloned()
            .collect();
        for name in &named {
            for node in nodes {
                for series in &self.families[name] {
                    self.write_series((name, &named), series, node, out)?;
                }
            }
        }
        out.write_all(b"# EOF\n")
    }

    fn write_series(
        &self,
        (name, names): (&str, &[String]),
        series: &Series,
        node: &Node,
        out: &mut impl Write,
    ) -> io::Result<()> {
        let instance = format!("instance=\"{}\"", node.instance);
        let labels = series.labels.replace("instance=\"recorded\"", &instance);
        let concerned: Vec<_> = node
            .faults
            .iter()
            .filter_map(|(at, fault)| Some((*at, *fault, fault.of(name, &labels)?)))
            .collect();
        let mut changed = node
            .change
            .as_ref()
            .map(|(change, moments)| Stream::new((*change, moments), names, (name, &labels)));
        let size = self.last("agave_filesystem_size_bytes");
        let plays = self.plays([node.from, node.to]);
        let mut counted = Counted::default();
        for Play { part, by } in plays.iter().copied() {
            counted.begin(series.at(part[0]));
            let [begin, end] = part;
            let samples = series.samples.iter();
            for (time, value) in samples.filter(|(time, _)| (begin..end).contains(time)) {
                let at = time + by;
                let value = match how(name) {
                    _ if name == SET.0 => SET.1,
                    Moved::GoesOn => value + counted.more,
                    Moved::WithItsSample => value + by as f64 / 1e3,
                    Moved::WithTheDay => value + plays[0].by as f64 / 1e3,
                    Moved::Again => *value,
                };
                let changed_value =
                    concerned
                        .iter()
                        .try_fold(value, |value, (begin, fault, change)| {
                            if at < *begin {
                                Some(value)
                            } else {
                                change.change(
                                    value,
                                    (at - begin) as f64 / 1e3,
                                    fault.seconds(),
                                    size,
                                )
                            }
                        });
                let Some(value) = changed_value.filter(|_| at < node.to) else {
                    continue;
                };
                let is_faulty = concerned
                    .iter()
                    .any(|(begin, fault, _)| fault.lasts(at - begin));
                let samples = match &mut changed {
                    Some(changed) => changed.samples(at, value, is_faulty),
                    None => vec![(labels.clone(), value)],
                };
                for (labels, value) in samples {
                    let (seconds, rest) = (at / 1000, at % 1000);
                    writeln!(out, "{name}{{{labels}}} {value} {seconds}.{rest:03}")?;
                }
            }
            counted.end(series.at(part[1]));
        }
        Ok(())
    }
}

/// The parts of the recording. A migration begins two scrapes before the scrape that shows it.
fn parts(series: &BTreeMap<(&str, &str), Vec<(i64, f64)>>) -> Vec<[i64; 2]> {
    let of = |wanted: &str, label: &str| {
        let found = series
            .iter()
            .find(|((name, labels), _)| *name == wanted && labels.contains(label));
        found.map(|(_, samples)| &samples[..])
    };
    let scrapes = of("up", "").expect("scrapes");
    let migrating = of("agave_consensus", "protocol=\"migrating\"");
    let migrates = migrating.and_then(|all| all.iter().find(|(_, value)| *value == 1.0));
    let Some((seen, _)) = migrates else {
        return vec![[scrapes[0].0, scrapes[scrapes.len() - 1].0]];
    };
    let begin = scrapes.partition_point(|(time, _)| time < seen) - 2;
    let at = |scrape: usize| scrapes[scrape].0;
    let end = begin + BETWEEN;
    vec![
        [at(begin - REPEATED), at(begin)],
        [at(begin), at(end)],
        [at(end), at(end + REPEATED)],
    ]
}

#[test]
fn in_the_repeated_day_counters_continue_and_gauges_repeat() {
    use Moved::{Again, GoesOn, WithItsSample, WithTheDay};
    for (name, wanted) in [
        ("agave_udp_drops_total", GoesOn),
        ("agave_leader_slots", GoesOn),
        ("agave_process_start_time_seconds", WithTheDay),
        (
            "faultline_source_last_success_timestamp_seconds",
            WithItsSample,
        ),
        ("agave_next_leader_slot_seconds", Again),
    ] {
        assert_eq!(how(name), wanted, "{name}");
    }
}
