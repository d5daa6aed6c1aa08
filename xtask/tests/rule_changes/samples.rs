//! The notation of promtool for the samples of a series.

use std::time::Duration;

/// The result of one scrape of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sample {
    Missing,
    Stale,
    Value(f64),
}

/// The samples of a series, one per `interval`.
#[derive(Debug, Clone, PartialEq)]
pub struct Samples {
    pub interval: Duration,
    pub steps: Vec<Sample>,
}

impl Samples {
    pub fn parse(text: &str, interval: Duration) -> Self {
        let steps = text.split_whitespace().flat_map(expand).collect();
        Self { interval, steps }
    }

    /// The same series, scraped at another interval: a scrape sees the latest step.
    pub fn at(&self, interval: Duration) -> Self {
        let length = self.interval.as_millis() * self.steps.len() as u128;
        let steps = (0..)
            .map(|step| step * interval.as_millis())
            .take_while(|time| *time < length)
            .map(|time| self.steps[(time / self.interval.as_millis()) as usize])
            .collect();
        Self { interval, steps }
    }

    /// Two series: one ends at `change`, the other begins there.
    pub fn split(&self, change: Duration) -> [Self; 2] {
        let first = change.as_millis().div_ceil(self.interval.as_millis()) as usize;
        let first = first.min(self.steps.len());
        let (before, after) = self.steps.split_at(first);
        let ended = [before, &[Sample::Stale]].concat();
        let goes_on = [&vec![Sample::Missing; first], after].concat();
        [ended, goes_on].map(|steps| Self {
            interval: self.interval,
            steps,
        })
    }

    /// The series in promtool's notation. Changing values are listed one by one, not as `a+bxn`.
    pub fn text(&self) -> String {
        let runs = self.steps.chunk_by(|one, next| one == next);
        let words = runs.map(|run| match run[0] {
            Sample::Missing => format!("_x{}", run.len()),
            Sample::Stale => vec!["stale"; run.len()].join(" "),
            Sample::Value(value) if value.is_finite() => format!("{value}x{}", run.len() - 1),
            Sample::Value(value) => vec![value.to_string(); run.len()].join(" "),
        });
        words.collect::<Vec<_>>().join(" ")
    }
}

/// Parses `1`, `_`, `stale`, `1x5`, `_x5`, `1+2x5` and `1-2x5`.
fn expand(word: &str) -> Vec<Sample> {
    let number = |text: &str| text.parse::<f64>().expect(word);
    let (value, times) = match word.rsplit_once('x') {
        Some((value, times)) => (value, times.parse::<usize>().expect(word)),
        None if word == "_" => return vec![Sample::Missing],
        None => (word, 0),
    };
    match value {
        "_" => return vec![Sample::Missing; times],
        "stale" => return vec![Sample::Stale; times + 1],
        _ => {}
    }
    let is_exponent = |at: usize| value[..at].ends_with(['e', 'E']);
    let sign = value
        .char_indices()
        .skip(1)
        .find(|(at, c)| matches!(c, '+' | '-') && !is_exponent(*at));
    let (first, step) = match sign {
        Some((at, _)) => (number(&value[..at]), number(&value[at..])),
        None => (number(value), 0.0),
    };
    (0..=times)
        .map(|index| Sample::Value(first + step * index as f64))
        .collect()
}

#[test]
fn promtool_series_notation_is_parsed_like_promtool() {
    use Sample::{Missing, Stale, Value};
    let minute = Duration::from_secs(60);
    let samples = Samples::parse("1 _ _x2 stale 2x1 5-2x2 -1e+3", minute);
    let wanted = [
        Value(1.0),
        Missing,
        Missing,
        Missing,
        Stale,
        Value(2.0),
        Value(2.0),
        Value(5.0),
        Value(3.0),
        Value(1.0),
        Value(-1e3),
    ];
    assert_eq!(samples.steps, wanted);
    assert_eq!(Samples::parse(&samples.text(), minute), samples);
    let slow = samples.at(Duration::from_secs(150));
    assert_eq!(slow.text(), "1x0 _x1 2x0 5x0 -1000x0");
    let [ended, goes_on] = samples.split(minute * 6);
    assert_eq!(ended.text(), "1x0 _x3 stale 2x0 stale");
    assert_eq!(goes_on.text(), "_x6 2x0 5x0 3x0 1x0 -1000x0");
}
