//! A strict parser of exposition pages: it also refuses pages that lenient parsers accept.
//!
//! Both readers refuse: a series that occurs twice, TYPE, HELP or UNIT after a sample of the family or twice, families
//! whose lines are interleaved, unknown types, bad names, bad escapes, a label twice in one series, values that are not
//! numbers, negative counters, histograms without `+Inf`, with falling buckets or with a count that is not the `+Inf`
//! bucket, and a last line without its end. The OpenMetrics reader also wants `# EOF` at the end and nothing after it, no
//! empty lines and no free comments, the suffix that belongs to the type (`_total`, `_info`, ...), and a unit that is the
//! end of the name. Its `# EOF` may lack the end of the line.

mod check;
mod line;

use std::{collections::BTreeMap, time::Duration};

pub use line::Sample;

use crate::{Result, http};

/// Metadata of a family, which precedes its samples.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Family {
    /// `counter`, `gauge`, ...; `None` when no TYPE line was there.
    pub kind: Option<String>,
    /// The HELP text, unescaped; `None` when no HELP line was there.
    pub help: Option<String>,
    /// The UNIT; `None` when no UNIT line was there. Never in the classic format.
    pub unit: Option<String>,
}

/// A page that follows its format.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Page {
    /// All samples in order.
    pub samples: Vec<Sample>,
    /// Metadata by the name in the TYPE line: in OpenMetrics a counter's name has no `_total`.
    pub families: BTreeMap<String, Family>,
}

/// Reads Prometheus' classic text format (`text/plain; version=0.0.4`).
///
/// # Errors
/// [`crate::Error::Malformed`] with the rule and the line.
pub fn parse_text(text: &str) -> Result<Page> {
    check::read(text, check::Format::Classic)
}

/// Reads `application/openmetrics-text; version=1.0.0`.
///
/// # Errors
/// [`crate::Error::Malformed`] with the rule and the line.
pub fn parse_openmetrics(text: &str) -> Result<Page> {
    check::read(text, check::Format::OpenMetrics)
}

/// Scrapes `http://address/metrics` as classic text and reads it.
///
/// # Errors
/// As [`http::get`] and [`parse_text`]; [`crate::Error::Malformed`] when the status is not 200.
pub fn scrape(address: &str) -> Result<Page> {
    let request =
        http::Request::new("GET", "/metrics").header("Accept", "text/plain;version=0.0.4");
    let response = request.timeout(Duration::from_secs(10)).send(address)?;
    if response.status != 200 {
        return Err(crate::Error::malformed(
            "status of the scrape",
            &response.status.to_string(),
        ));
    }
    parse_text(&response.text())
}

impl Page {
    /// The value of the series with exactly these labels; `None` when the page has no such series.
    pub fn get(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let exact = |sample: &&Sample| sample.labels.len() == labels.len() && sample.has(labels);
        self.samples
            .iter()
            .filter(|sample| sample.name == name)
            .find(exact)
            .map(|sample| sample.value)
    }

    /// All series of that name that have at least these labels.
    pub fn matching(&self, name: &str, labels: &[(&str, &str)]) -> Vec<&Sample> {
        self.samples
            .iter()
            .filter(|sample| sample.name == name && sample.has(labels))
            .collect()
    }

    /// The sum over all series of that name; `None` when there is none, because absent is not zero.
    pub fn sum(&self, name: &str) -> Option<f64> {
        self.matching(name, &[])
            .into_iter()
            .map(|sample| sample.value)
            .reduce(|sum, value| sum + value)
    }

    pub fn kind(&self, family: &str) -> Option<&str> {
        self.families.get(family)?.kind.as_deref()
    }
}

#[cfg(test)]
mod tests;
