//! The samples that a central server has of a host, each counted once.

use crate::{LOGIN, TIMEOUT};
use faultline_testkit::http::Request;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// An instant query.
pub fn query(centre: &str, expression: &str) -> Result<Value, String> {
    let encoded: String = expression.bytes().map(|b| format!("%{b:02X}")).collect();
    let response = Request::new("GET", &format!("/api/v1/query?query={encoded}"))
        .header("Authorization", LOGIN)
        .timeout(TIMEOUT)
        .send(centre)
        .map_err(|error| error.to_string())?;
    let mut answer: Value = serde_json::from_slice(&response.body).map_err(|_| response.text())?;
    if answer["status"] == "success" {
        Ok(answer["data"]["result"].take())
    } else {
        Err(format!("{centre} {expression}: {answer}"))
    }
}

/// The value of a query with one result.
pub fn number(centre: &str, expression: &str) -> Result<f64, String> {
    let result = query(centre, expression)?;
    let value = result[0]["value"][1].as_str();
    value
        .and_then(|value| value.parse().ok())
        .ok_or_else(|| format!("{centre} {expression}: {result}"))
}

#[derive(Default)]
pub struct Samples {
    /// Times of the samples in milliseconds, by series.
    pub series: BTreeMap<String, BTreeSet<i64>>,
    /// Numbers of samples of successful scrapes of the daemon, as the agent counted them, by time.
    pub scrapes: BTreeMap<i64, usize>,
    /// Samples that are stored twice, because the response to a request was lost.
    pub repeated: usize,
}

impl Samples {
    /// Reads the samples of this host's daemon in `from..=to`.
    pub fn read(centre: &str, host: usize, (from, to): (i64, i64)) -> Self {
        let selector = format!("{{host='host-{host:03}',job='faultline'}}[2h]");
        let result = query(centre, &selector).expect("samples");
        let mut samples = Self::default();
        let (mut up, mut counts) = (BTreeSet::new(), BTreeMap::new());
        for series in result.as_array().into_iter().flatten() {
            let name = series["metric"]["__name__"].as_str().unwrap_or_default();
            let values: Vec<(i64, f64)> = series["values"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|pair| Some((milliseconds(&pair[0])?, value(&pair[1])?)))
                .filter(|(at, _)| (from..=to).contains(at))
                .collect();
            let times: BTreeSet<i64> = values.iter().map(|(at, _)| *at).collect();
            samples.repeated += values.len() - times.len();
            match name {
                "up" => up.extend(values.iter().filter(|(_, up)| *up > 0.0).map(|(at, _)| *at)),
                "scrape_samples_scraped" => counts.extend(values.iter().copied()),
                _ => {}
            }
            samples.series.insert(series["metric"].to_string(), times);
        }
        let count = |at: i64| Some((at, *counts.get(&at)? as usize));
        samples.scrapes = up.into_iter().filter_map(count).collect();
        samples
    }

    /// Number of samples from the daemon's page. The agent's own samples about the scrape do not
    /// count.
    pub fn of_pages(&self) -> usize {
        let added = |series: &str| {
            series.contains("\"__name__\":\"up\"") || series.contains("\"__name__\":\"scrape_")
        };
        let series = self.series.iter().filter(|(series, _)| !added(series));
        series.map(|(_, times)| times.len()).sum()
    }

    /// Times of the samples that `other` has and this server lacks.
    pub fn missing(&self, other: &Self) -> Vec<i64> {
        let none = BTreeSet::new();
        let missing = other
            .series
            .iter()
            .flat_map(|(series, times)| times.difference(self.series.get(series).unwrap_or(&none)));
        missing.copied().collect()
    }
}

fn milliseconds(time: &Value) -> Option<i64> {
    time.as_f64()
        .map(|seconds| (seconds * 1000.0).round() as i64)
}

/// `None` for the marker of a series that ended.
fn value(text: &Value) -> Option<f64> {
    text.as_str()?
        .parse()
        .ok()
        .filter(|value: &f64| !value.is_nan())
}
