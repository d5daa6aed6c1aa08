//! A page of `/metrics` in Prometheus' text format. Lines that are no samples are skipped, so that
//! a page of a newer daemon, or of a proxy, still shows what is understood.

mod resource_usage;
mod vote_status;

pub(crate) use vote_status::VoteStatus;

use faultline_catalog::{Metric, Source, metrics};
use std::time::Duration;

/// Series of one page; a daemon has fewer than 2,000.
const MOST_SAMPLES: usize = 100_000;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sample {
    /// With its suffix, such as `_bucket`.
    name: String,
    labels: Vec<(String, String)>,
    value: f64,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Page {
    samples: Vec<Sample>,
    /// When it was served, by the daemon's clock, in seconds since 1970; `None` if unknown.
    served_at: Option<f64>,
}

impl Page {
    /// Reads the classic text or OpenMetrics. The page is empty if no sample is understood.
    pub(crate) fn read(text: &str) -> Self {
        Page {
            samples: text.lines().filter_map(sample).take(MOST_SAMPLES).collect(),
            served_at: None,
        }
    }

    pub(crate) fn with_served_at(self, unix: Option<Duration>) -> Self {
        Page {
            served_at: unix.map(|unix| unix.as_secs_f64()),
            ..self
        }
    }

    /// Age of its newest tick when it was served, to the second; `None` if unknown.
    pub(crate) fn age(&self) -> Option<Duration> {
        let age = self.served_at? - self.last_success(Source::Daemon)?;
        Duration::try_from_secs_f64(age).ok()
    }

    pub(crate) fn is_ours(&self) -> bool {
        self.get(&metrics::daemon::BUILD_INFO, &[]).is_some()
    }

    /// Value of the first series of `metric` with these label values, in the metric's order; fewer
    /// values leave the rest open. `None` if there is none, or if it is not finite.
    pub(crate) fn get(&self, metric: &Metric, values: &[&str]) -> Option<f64> {
        self.with_suffix(metric, "", values)
    }

    /// [`Page::get`] of a histogram's series: `_sum`, `_count`.
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

    /// Whether the value is 1; `None` if it is absent.
    pub(crate) fn flag(&self, metric: &Metric, values: &[&str]) -> Option<bool> {
        self.get(metric, values).map(|value| value == 1.0)
    }

    /// Sum over all series of `metric` with these label values; `None` if there is none: absent is
    /// not zero.
    pub(crate) fn sum(&self, metric: &Metric, values: &[&str]) -> Option<f64> {
        let all = self
            .all(metric, "")
            .filter(|sample| fits(sample, metric, values))
            .map(|sample| sample.value);
        all.reduce(|sum, value| sum + value)
            .filter(|sum| sum.is_finite())
    }

    /// A label of the first series of `metric`; `None` if it is absent or empty.
    pub(crate) fn label(&self, metric: &Metric, name: &str) -> Option<&str> {
        self.all(metric, "")
            .find_map(|sample| sample.label(name))
            .filter(|value| !value.is_empty())
    }

    pub(crate) fn by_label(
        &self,
        metric: &'static Metric,
        name: &str,
    ) -> impl Iterator<Item = (&str, f64)> {
        self.all(metric, "")
            .filter_map(move |sample| Some((sample.label(name)?, sample.value)))
    }

    /// Every series with that label: its value, and the value of the metric's other label, if it
    /// has one.
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

    /// (upper bound, cumulative count), in the order of the page; the last bound is infinite.
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

    /// In seconds since 1970.
    pub(crate) fn last_success(&self, source: Source) -> Option<f64> {
        self.get(&metrics::daemon::SOURCE_LAST_SUCCESS, &[source.name()])
    }

    /// Sources of rates that are up, each with the time of its newest sample.
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
