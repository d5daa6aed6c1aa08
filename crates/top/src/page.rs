//! A page of `/metrics`: Prometheus' text, taken as it comes. What is no sample is skipped, so that a page of a newer
//! daemon, or of something between it and us, still shows what is understood.

mod earns;
mod runs_out;

pub(crate) use earns::Earns;

use faultline_catalog::{Metric, Source, metrics};
use std::time::Duration;

/// Series that are kept of one page: a daemon has fewer than 2,000.
const MOST_SAMPLES: usize = 100_000;

/// One series with its value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sample {
    /// With its suffix, such as `_bucket`.
    name: String,
    /// Names and values, the values unescaped.
    labels: Vec<(String, String)>,
    value: f64,
}

/// What a daemon said at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Page {
    samples: Vec<Sample>,
    /// When it was handed out, by the daemon's clock, in seconds since 1970; `None` if the answer did not say.
    told: Option<f64>,
}

impl Page {
    /// Reads the classic text or OpenMetrics; of a page without a sample that is understood nothing is there.
    pub(crate) fn read(text: &str) -> Self {
        Page {
            samples: text.lines().filter_map(sample).take(MOST_SAMPLES).collect(),
            told: None,
        }
    }

    /// The same, handed out at that time by the daemon's clock.
    pub(crate) fn told_at(self, unix: Option<Duration>) -> Self {
        Page {
            told: unix.map(|unix| unix.as_secs_f64()),
            ..self
        }
    }

    /// How old its newest tick was when it was handed out, to the second; `None` if that is not known.
    pub(crate) fn age(&self) -> Option<Duration> {
        let age = self.told? - self.last_success(Source::Daemon)?;
        Duration::try_from_secs_f64(age).ok()
    }

    /// Whether it is the page of a faultlined.
    pub(crate) fn is_ours(&self) -> bool {
        self.get(&metrics::daemon::BUILD_INFO, &[]).is_some()
    }

    /// The value of the first series of `metric` that has these values of its own labels, in their order; fewer values
    /// leave the rest open. `None` if there is none, or if it is no finite number.
    pub(crate) fn get(&self, metric: &Metric, values: &[&str]) -> Option<f64> {
        self.with_suffix(metric, "", values)
    }

    /// The same of the series that a histogram writes: `_sum`, `_count`.
    pub(crate) fn with_suffix(
        &self,
        metric: &Metric,
        suffix: &str,
        values: &[&str],
    ) -> Option<f64> {
        self.all(metric, suffix)
            .find(|sample| fits(sample, metric, values))
            .map(|sample| sample.value)
            .filter(|value| value.is_finite())
    }

    /// A level that must be 1 to be true; `None` if it is absent.
    pub(crate) fn flag(&self, metric: &Metric, values: &[&str]) -> Option<bool> {
        self.get(metric, values).map(|value| value == 1.0)
    }

    /// The sum over all series of `metric` with these label values; `None` if there is none: absent is not zero.
    pub(crate) fn sum(&self, metric: &Metric, values: &[&str]) -> Option<f64> {
        let all = self
            .all(metric, "")
            .filter(|sample| fits(sample, metric, values))
            .map(|sample| sample.value);
        all.reduce(|sum, value| sum + value)
            .filter(|sum| sum.is_finite())
    }

    /// The value of a label of the first series of `metric`; `None` if it is absent or empty.
    pub(crate) fn label(&self, metric: &Metric, name: &str) -> Option<&str> {
        self.all(metric, "")
            .find_map(|sample| sample.label(name))
            .filter(|value| !value.is_empty())
    }

    /// Every series of `metric`, with the value of that label.
    pub(crate) fn by_label(
        &self,
        metric: &'static Metric,
        name: &str,
    ) -> impl Iterator<Item = (&str, f64)> {
        self.all(metric, "")
            .filter_map(move |sample| Some((sample.label(name)?, sample.value)))
    }

    /// Every series of a metric with that label, its value, and the value of its other label of its own, if it has one.
    pub(crate) fn pairs(
        &self,
        metric: &'static Metric,
        name: &str,
    ) -> impl Iterator<Item = (&str, Option<&str>, f64)> {
        let other = metric.labels.iter().find(|own| **own != name);
        self.all(metric, "").filter_map(move |sample| {
            Some((
                sample.label(name)?,
                other.and_then(|other| sample.label(other)),
                sample.value,
            ))
        })
    }

    /// Cumulative counts by upper bound of a histogram, in the order of the page; the last bound is infinite.
    pub(crate) fn buckets(&self, metric: &Metric, values: &[&str]) -> Vec<(f64, f64)> {
        self.all(metric, "_bucket")
            .filter(|sample| fits(sample, metric, values))
            .filter_map(|sample| Some((sample.label("le")?.parse().ok()?, sample.value)))
            .collect()
    }

    /// Whether a source did its main job; `None` if it is switched off.
    pub(crate) fn is_up(&self, source: Source) -> Option<bool> {
        self.flag(&metrics::daemon::SOURCE_UP, &[source.name()])
    }

    /// When a source last did its main job, in seconds since 1970.
    pub(crate) fn last_success(&self, source: Source) -> Option<f64> {
        self.get(&metrics::daemon::SOURCE_LAST_SUCCESS, &[source.name()])
    }

    /// The sources of rates that are up, each with the time of its newest sample.
    pub(crate) fn sample_times(&self) -> Vec<(Source, f64)> {
        let sources = [
            Source::Process,
            Source::Threads,
            Source::Cgroup,
            Source::Rpc,
            Source::Datapoints,
        ];
        let up = sources
            .into_iter()
            .filter(|source| self.is_up(*source) == Some(true));
        up.filter_map(|source| Some((source, self.last_success(source)?)))
            .collect()
    }

    fn all(&self, metric: &Metric, suffix: &str) -> impl Iterator<Item = &Sample> {
        let name = metric.name;
        self.samples
            .iter()
            .filter(move |sample| sample.name.strip_prefix(name) == Some(suffix))
    }
}

impl Sample {
    fn label(&self, name: &str) -> Option<&str> {
        self.labels
            .iter()
            .find(|(own, _)| own == name)
            .map(|(_, value)| value.as_str())
    }
}

fn fits(sample: &Sample, metric: &Metric, values: &[&str]) -> bool {
    metric
        .labels
        .iter()
        .zip(values)
        .all(|(name, value)| sample.label(name) == Some(value))
}

/// `name{label="value",...} number [time] [# exemplar]`; `None` of a comment and of anything else.
fn sample(line: &str) -> Option<Sample> {
    let line = line.trim_start();
    let end = line
        .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':'))
        .filter(|end| *end > 0)?;
    let (name, rest) = line.split_at(end);
    let (labels, rest) = match rest.trim_start().strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (Vec::new(), rest),
    };
    let value = rest.split_whitespace().next()?.parse().ok()?;
    Some(Sample {
        name: name.to_owned(),
        labels,
        value,
    })
}

type Labels = Vec<(String, String)>;

/// What is between the braces, and what follows the closing one.
fn labels(mut rest: &str) -> Option<(Labels, &str)> {
    let mut labels = Vec::new();
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        if let Some(rest) = rest.strip_prefix('}') {
            return Some((labels, rest));
        }
        let (name, behind) = rest.split_once('=')?;
        let (value, behind) = quoted(behind.trim_start().strip_prefix('"')?)?;
        labels.push((name.trim_end().to_owned(), value));
        rest = behind;
    }
}

/// A value up to its closing quote, unescaped, and what follows.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((value, text.get(at + 1..)?)),
            '\\' => match letters.next()?.1 {
                'n' => value.push('\n'),
                escaped => value.push(escaped),
            },
            _ => value.push(letter),
        }
    }
    None
}

#[cfg(test)]
mod tests;
