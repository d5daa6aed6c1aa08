//! Checks a whole page: the family of each line, and the samples of each family.

use std::collections::{BTreeMap, HashSet};

use super::{
    Family, Page,
    line::{self, Broken, Dialect, Sample},
};
use crate::{Error, Result};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Classic,
    OpenMetrics,
}

const CLASSIC_KINDS: &[&str] = &["counter", "gauge", "histogram", "summary", "untyped"];
const OPENMETRICS_KINDS: &[&str] = &[
    "counter",
    "gauge",
    "histogram",
    "gaugehistogram",
    "summary",
    "info",
    "stateset",
    "unknown",
];

impl Format {
    fn dialect(self) -> Dialect {
        match self {
            Self::Classic => Dialect::Classic,
            Self::OpenMetrics => Dialect::OpenMetrics,
        }
    }

    fn kinds(self) -> &'static [&'static str] {
        match self {
            Self::Classic => CLASSIC_KINDS,
            Self::OpenMetrics => OPENMETRICS_KINDS,
        }
    }

    /// Allowed suffixes of the family's name in names of samples.
    fn suffixes(self, kind: Option<&str>) -> &'static [&'static str] {
        match (self, kind) {
            (Self::Classic, Some("histogram")) => &["_bucket", "_sum", "_count"],
            (Self::Classic, Some("summary")) => &["", "_sum", "_count"],
            (Self::OpenMetrics, Some("counter")) => &["_total", "_created"],
            (Self::OpenMetrics, Some("histogram")) => &["_bucket", "_sum", "_count", "_created"],
            (Self::OpenMetrics, Some("gaugehistogram")) => &["_bucket", "_gsum", "_gcount"],
            (Self::OpenMetrics, Some("summary")) => &["", "_sum", "_count", "_created"],
            (Self::OpenMetrics, Some("info")) => &["_info"],
            _ => &[""],
        }
    }
}

/// Reads a page; the first broken rule ends it.
pub fn read(text: &str, format: Format) -> Result<Page> {
    let mut reader = Reader {
        format,
        page: Page::default(),
        current: None,
        started_families: HashSet::new(),
        seen: HashSet::new(),
    };
    let body = reader
        .without_end(text)
        .map_err(|rule| Error::malformed(rule, tail(text)))?;
    for line in body.lines() {
        reader
            .line(line)
            .map_err(|rule| Error::malformed(rule, line))?;
    }
    for (name, family) in &reader.page.families {
        if family.kind.as_deref() == Some("histogram") {
            check_histogram(name, &reader.page.samples)
                .map_err(|rule| Error::malformed(rule, name))?;
        }
    }
    Ok(reader.page)
}

fn tail(text: &str) -> &str {
    text.lines().next_back().unwrap_or_default()
}

struct Reader {
    format: Format,
    page: Page,
    /// The family of the last line, and whether a sample of it was there.
    current: Option<(String, bool)>,
    /// Families that have started: none may start again.
    started_families: HashSet<String>,
    seen: HashSet<(String, Vec<(String, String)>)>,
}

impl Reader {
    fn without_end<'a>(&self, text: &'a str) -> std::result::Result<&'a str, Broken> {
        match self.format {
            Format::Classic if text.is_empty() || text.ends_with('\n') => Ok(text),
            Format::Classic => Err("the last line has no end"),
            Format::OpenMetrics => {
                let body = text
                    .strip_suffix("# EOF\n")
                    .or_else(|| text.strip_suffix("# EOF"));
                let body = body.ok_or("no # EOF at the end")?;
                if body.is_empty() || body.ends_with('\n') {
                    Ok(body)
                } else {
                    Err("# EOF is not a line of its own")
                }
            }
        }
    }

    fn line(&mut self, line: &str) -> std::result::Result<(), Broken> {
        let Some(comment) = line.strip_prefix('#') else {
            return match (line.trim().is_empty(), self.format) {
                (false, _) => self.sample(line),
                (true, Format::Classic) => Ok(()),
                (true, Format::OpenMetrics) => Err("an empty line"),
            };
        };
        let mut words = comment.strip_prefix(' ').unwrap_or(comment).splitn(3, ' ');
        match (words.next(), words.next(), words.next()) {
            (Some(what @ ("HELP" | "TYPE")), Some(name), rest) => {
                self.metadata(what, name, rest.unwrap_or_default())
            }
            (Some("UNIT"), Some(name), Some(unit)) if self.format == Format::OpenMetrics => {
                self.metadata("UNIT", name, unit)
            }
            (Some("EOF"), ..) if self.format == Format::OpenMetrics => Err("lines after # EOF"),
            _ if self.format == Format::OpenMetrics => {
                Err("a comment that is neither HELP, TYPE nor UNIT")
            }
            _ => Ok(()),
        }
    }

    fn metadata(&mut self, what: &str, name: &str, text: &str) -> std::result::Result<(), Broken> {
        if !line::is_name(name, true) {
            return Err("not a metric name");
        }
        self.enter(name)?;
        if matches!(&self.current, Some((_, true))) {
            return Err("TYPE, HELP or UNIT after a sample of the family");
        }
        let help = line::help(text, self.format.dialect())?;
        let family = self.page.families.entry(name.to_owned()).or_default();
        let (slot, value) = match what {
            "TYPE" if !self.format.kinds().contains(&text) => return Err("not a type"),
            "TYPE" => (&mut family.kind, text.to_owned()),
            "UNIT" if !text.is_empty() && !name.ends_with(&format!("_{text}")) => {
                return Err("the name does not end in its unit");
            }
            "UNIT" => (&mut family.unit, text.to_owned()),
            _ => (&mut family.help, help),
        };
        if slot.replace(value).is_some() {
            return Err("TYPE, HELP or UNIT twice");
        }
        Ok(())
    }

    /// Makes `name` the current family, unless it is.
    fn enter(&mut self, name: &str) -> std::result::Result<(), Broken> {
        if self
            .current
            .as_ref()
            .is_some_and(|(current, _)| current == name)
        {
            return Ok(());
        }
        if !self.started_families.insert(name.to_owned()) {
            return Err("lines of a family are not together");
        }
        self.current = Some((name.to_owned(), false));
        Ok(())
    }

    fn sample(&mut self, text: &str) -> std::result::Result<(), Broken> {
        let (sample, exemplar) = line::sample(text, self.format.dialect())?;
        let family = self.family_of(&sample.name)?;
        self.enter(&family)?;
        if let Some((_, sampled)) = &mut self.current {
            *sampled = true;
        }
        let kind = self
            .page
            .families
            .get(&family)
            .and_then(|family| family.kind.as_deref());
        let counts = kind == Some("counter")
            || sample.name.ends_with("_bucket")
            || sample.name.ends_with("_count");
        if kind.is_some()
            && counts
            && (sample.value.is_nan() || sample.value < 0.0)
            && kind != Some("gauge")
        {
            return Err("a count that is negative or not a number");
        }
        if exemplar && !(sample.name.ends_with("_bucket") || sample.name.ends_with("_total")) {
            return Err("an exemplar on something else than a bucket or a total");
        }
        let key = (
            sample.name.clone(),
            sample.labels.clone().into_iter().collect(),
        );
        if !self.seen.insert(key) {
            return Err("a series twice");
        }
        self.page.samples.push(sample);
        Ok(())
    }

    fn family_of(&self, name: &str) -> std::result::Result<String, Broken> {
        let fits = |family: &str, described: &Family| {
            let suffixes = self.format.suffixes(described.kind.as_deref());
            name.strip_prefix(family)
                .is_some_and(|suffix| suffixes.contains(&suffix))
        };
        let suffixes = [
            "", "_total", "_created", "_bucket", "_sum", "_count", "_gsum", "_gcount", "_info",
        ];
        let candidates = suffixes
            .iter()
            .filter_map(|suffix| name.strip_suffix(suffix));
        let described = candidates.filter_map(|family| self.page.families.get_key_value(family));
        match described
            .into_iter()
            .find(|(family, described)| fits(family, described))
        {
            Some((family, _)) => Ok(family.clone()),
            None if self.page.families.contains_key(name) => {
                Err("a sample whose name does not fit its family's type")
            }
            None if self.format == Format::OpenMetrics && self.has_suffix_of_other_type(name) => {
                Err("a sample whose name does not fit its family's type")
            }
            None => Ok(name.to_owned()),
        }
    }

    /// Whether `name` is that of the current family with a suffix of another type.
    fn has_suffix_of_other_type(&self, name: &str) -> bool {
        let Some((current, _)) = &self.current else {
            return false;
        };
        name.strip_prefix(current.as_str()).is_some_and(|suffix| {
            ["_total", "_bucket", "_sum", "_count", "_info", "_created"].contains(&suffix)
        })
    }
}

type SeriesLabels = Vec<(String, String)>;

/// Buckets of each series: bounds rise, counts do not fall, the last bound is `+Inf` and its count is `_count`.
fn check_histogram(name: &str, samples: &[Sample]) -> std::result::Result<(), Broken> {
    let (bucket, count) = (format!("{name}_bucket"), format!("{name}_count"));
    let mut buckets: BTreeMap<SeriesLabels, Vec<(f64, f64)>> = BTreeMap::new();
    let mut counts: BTreeMap<SeriesLabels, f64> = BTreeMap::new();
    for sample in samples {
        let mut labels = sample.labels.clone();
        if sample.name == bucket {
            let bound = labels.remove("le").ok_or("a bucket without le")?;
            let bound = bound.parse().map_err(|_| "le is not a number")?;
            buckets
                .entry(labels.into_iter().collect())
                .or_default()
                .push((bound, sample.value));
        } else if sample.name == count {
            counts.insert(labels.into_iter().collect(), sample.value);
        }
    }
    for (labels, series) in &buckets {
        let rising = series
            .windows(2)
            .all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1);
        let last = series
            .last()
            .filter(|(bound, _)| *bound == f64::INFINITY)
            .ok_or("a histogram without +Inf")?;
        if !rising {
            return Err("bounds or counts of a histogram do not rise");
        }
        if counts.get(labels).is_some_and(|count| *count != last.1) {
            return Err("the count of a histogram is not its +Inf bucket");
        }
    }
    Ok(())
}
