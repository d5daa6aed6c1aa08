use faultline_metrics::{
    Metric, Reading, Source, Stamp, Tick,
    metrics::{process::START_TIME, validator::PHASE},
};

#[derive(Debug, Clone, Copy)]
pub struct Readings<'a> {
    pub tick: &'a Tick,
}

impl<'a> Readings<'a> {
    /// The value with exactly these label values.
    pub fn labeled_number(self, metric: &Metric, labels: &[&str]) -> Option<f64> {
        let number = self.tick.value_of(metric, labels);
        number.filter(|number| number.is_finite())
    }

    pub fn number(self, metric: &Metric) -> Option<f64> {
        self.labeled_number(metric, &[])
    }

    pub fn labeled_flag(self, metric: &Metric, labels: &[&str]) -> Option<bool> {
        Some(self.labeled_number(metric, labels)? == 1.0)
    }

    pub fn flag(self, metric: &Metric) -> Option<bool> {
        self.labeled_flag(metric, &[])
    }

    /// False while the followed process is not a validator: then no series has a phase.
    pub fn has_phases(self) -> bool {
        self.labeled_number(&PHASE, &["absent"]).is_some()
    }

    /// Seconds since the Unix time of `metric`. Uses the wall clock only up to the tick, so a later
    /// step of that clock does not matter.
    pub fn age(self, metric: &Metric, now: Stamp) -> Option<f64> {
        let age_at_tick = self.tick.at.unix_seconds() - self.number(metric)?;
        Some(age_at_tick + now.since(self.tick.at).as_secs_f64())
    }

    /// In seconds; `None` without a start or if it is after `now`.
    pub fn process_age(self, now: Stamp) -> Option<f64> {
        self.age(&START_TIME, now).filter(|age| *age >= 0.0)
    }

    pub fn series(self, metric: &'static Metric) -> impl Iterator<Item = &'a Reading> {
        let readings = self.tick.readings();
        readings.filter(move |reading| std::ptr::eq(reading.metric, metric))
    }

    pub fn by_label(self, metric: &'static Metric) -> impl Iterator<Item = (&'a str, f64)> {
        self.series(metric)
            .filter_map(|reading| Some((reading.first_label(), reading.value.number()?)))
    }

    pub fn active_label(self, metric: &'static Metric) -> Option<&'a str> {
        let (label, _) = self.by_label(metric).find(|(_, value)| *value == 1.0)?;
        Some(label)
    }

    /// A label of the metric's first series; `None` if it is empty.
    pub fn label(self, metric: &'static Metric, name: &str) -> Option<&'a str> {
        label(self.series(metric).next()?, name)
    }

    pub fn is_up(self, source: Source) -> bool {
        let mut batches = self.tick.batches.iter();
        batches.any(|batch| batch.source == source && batch.up)
    }
}

/// A label's value; `None` where it is empty, which stands for unknown.
pub fn label<'a>(reading: &'a Reading, name: &str) -> Option<&'a str> {
    let mut names = reading.metric.label_names.iter();
    let value = reading
        .label_values
        .get(names.position(|label| *label == name)?)?;
    Some(value.as_str()).filter(|value| !value.is_empty())
}
