use super::text::{ClockFormat, DisplayUnit, display_unit, duration, number};
use itertools::Itertools;

/// Maps values to shares of an axis.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    low: f64,
    high: f64,
    /// Logarithmic: both ends are positive.
    log: bool,
}

impl Scale {
    /// 0 at the low end, 1 at the high end.
    pub fn position(self, value: f64) -> Option<f64> {
        let [value, low, high] =
            [value, self.low, self.high].map(|value| if self.log { value.ln() } else { value });
        let position = (value - low) / (high - low);
        position.is_finite().then_some(position)
    }
}

/// `None` without a finite value.
pub fn range(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values
        .filter(|value| value.is_finite())
        .map(|value| (value, value))
        .reduce(|(low, high), (value, _)| (low.min(value), high.max(value)))
}

#[derive(Debug)]
pub struct Tick {
    /// Share of the axis, from 0 to 1.
    pub position: f64,
    pub label: String,
}

#[derive(Debug)]
pub struct Axis {
    pub scale: Scale,
    pub ticks: Vec<Tick>,
}

impl Axis {
    fn new(
        (low, high, log): (f64, f64, bool),
        values: impl IntoIterator<Item = f64>,
        label: impl Fn(f64) -> String,
    ) -> Self {
        let scale = Scale { low, high, log };
        let tick = |value| {
            let position = scale.position(value)?;
            let is_within = (-1e-9..=1.0 + 1e-9).contains(&position);
            is_within.then(|| Tick {
                position,
                label: label(value),
            })
        };
        Self {
            scale,
            ticks: values.into_iter().filter_map(tick).collect(),
        }
    }

    /// Both ends of a linear axis are ticks. There are about `max_ticks` ticks or fewer. A linear
    /// axis of positive values begins at 0 if the smallest value is below 70 % of the largest.
    pub fn of_values(
        values: impl Iterator<Item = f64>,
        unit: &str,
        log: bool,
        max_ticks: usize,
    ) -> Self {
        match range(values.filter(|value| !log || *value > 0.0)) {
            Some((low, high)) if log => logarithmic(low, high, unit, max_ticks),
            Some((low, high)) => linear(low, high, unit, max_ticks),
            None if log => logarithmic(1.0, 10.0, "", max_ticks),
            None => linear(0.0, 1.0, "", max_ticks),
        }
    }

    /// Ticks are at round times; also returns the time format.
    pub fn of_time(low: f64, high: f64, max_ticks: usize) -> (Self, &'static str) {
        let high = if high > low { high } else { low + 1.0 };
        let step = time_step((high - low) / max_ticks.max(1) as f64);
        let clock_format = match high.abs().max(low.abs()) {
            largest if largest < 3600.0 => ClockFormat::Minutes,
            _ if step < 60.0 => ClockFormat::Full,
            _ => ClockFormat::Hours,
        };
        let axis = Self::new((low, high, false), multiples(low, high, step), |value| {
            if step < 1.0 {
                number(value, 2)
            } else {
                duration(value, clock_format)
            }
        });
        (axis, if step < 1.0 { "s" } else { clock_format.name() })
    }

    /// Ends at `low` and `high`, whether these are ticks or not.
    pub fn between(low: f64, high: f64, max_ticks: usize) -> Self {
        let high = if high > low { high } else { low + 1.0 };
        stepped((low, high), "", max_ticks, |low, high, _| (low, high))
    }

    /// Values without space for a label get no tick; `preferred` values take precedence. `width_of`
    /// returns a label's width as a share of the axis.
    pub fn with_logarithmic_ticks(
        sizes: impl Iterator<Item = f64>,
        preferred: &[f64],
        label: impl Fn(f64) -> String,
        width_of: impl Fn(&str) -> f64,
    ) -> Self {
        let mut sizes = sizes
            .filter(|size| size.is_finite() && *size > 0.0)
            .sorted_by(f64::total_cmp)
            .dedup()
            .collect_vec();
        let low = sizes.first().copied().unwrap_or(1.0);
        let high = sizes.last().copied().filter(|high| *high > low);
        let high = high.unwrap_or(low * 2.0);
        sizes.sort_by_key(|size| !preferred.contains(size));
        let mut axis = Self::new((low, high, true), sizes, label);
        let mut taken = Vec::new();
        axis.ticks.retain(|tick| {
            let half = width_of(&tick.label) / 2.0;
            let (from, to) = (tick.position - half, tick.position + half);
            let fits = taken.iter().all(|(a, b)| from >= *b || to <= *a);
            taken.extend(fits.then_some((from, to)));
            fits
        });
        axis.ticks.sort_by(|a, b| a.position.total_cmp(&b.position));
        axis
    }
}

fn linear(low: f64, high: f64, unit: &str, max_ticks: usize) -> Axis {
    let ends = if low > 0.0 && (low < high * 0.7 || low >= high) {
        (0.0, high)
    } else if high > low {
        (low, high)
    } else if low < 0.0 {
        (low, 0.0)
    } else {
        (0.0, 1.0)
    };
    stepped(ends, unit, max_ticks, |low, high, step| {
        (
            (low / step).floor() * step,
            (high / step - 1e-9).ceil() * step,
        )
    })
}

/// `axis_ends` returns the ends of the axis for both ends of the values and the step.
fn stepped(
    (low, high): (f64, f64),
    unit: &str,
    max_ticks: usize,
    axis_ends: fn(f64, f64, f64) -> (f64, f64),
) -> Axis {
    let DisplayUnit { size, suffix } = display_unit(unit, high.abs().max(low.abs()));
    let step = round_step((high - low) / size / max_ticks.max(1) as f64) * size;
    let (low, high) = axis_ends(low, high, step);
    Axis::new((low, high, false), multiples(low, high, step), |value| {
        label_text(value / size, step / size, suffix)
    })
}

fn logarithmic(low: f64, high: f64, unit: &str, max_ticks: usize) -> Axis {
    let base: f64 = if unit.starts_with('B') { 2.0 } else { 10.0 };
    let first = (low.ln() / base.ln() + 1e-9).floor();
    let last = (high.ln() / base.ln() - 1e-9).ceil().max(first + 1.0);
    let stride = ((last - first) / max_ticks.max(1) as f64).ceil().max(1.0);
    let count = ((last - first) / stride).floor() as usize;
    let powers = (0..=count).map(|index| base.powf(first + index as f64 * stride));
    let label = |value| {
        // A computed power can be just below the unit.
        let DisplayUnit { size, suffix } = display_unit(unit, value * 1.000_001);
        let value = value / size;
        label_text(value, round_step(value), suffix)
    };
    Axis::new((base.powf(first), base.powf(last), true), powers, label)
}

fn label_text(value: f64, step: f64, suffix: &str) -> String {
    let decimals = if step > 0.0 {
        (-step.log10().floor()).max(0.0) as usize
    } else {
        0
    };
    let number = number(value, decimals);
    if suffix.is_empty() {
        number
    } else {
        format!("{number} {suffix}")
    }
}

fn multiples(low: f64, high: f64, step: f64) -> impl Iterator<Item = f64> {
    let first = (low / step - 1e-9).ceil();
    let count = ((high / step + 1e-9).floor() - first).clamp(-1.0, 199.0) + 1.0;
    (0..count as usize).map(move |index| (first + index as f64) * step)
}

/// 1, 2 or 5 times a power of ten, at least `min_step`.
fn round_step(min_step: f64) -> f64 {
    if !(min_step.is_finite() && min_step > 0.0) {
        return 1.0;
    }
    let power = 10_f64.powf(min_step.log10().floor());
    [1.0, 2.0, 5.0]
        .into_iter()
        .map(|times| times * power)
        .find(|step| *step >= min_step * 0.999_999)
        .unwrap_or(power * 10.0)
}

fn time_step(min_step: f64) -> f64 {
    const STEPS: [f64; 17] = [
        1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0,
        10_800.0, 21_600.0, 43_200.0,
    ];
    if min_step <= 0.5 {
        return round_step(min_step);
    }
    let day = 86_400.0;
    STEPS
        .into_iter()
        .find(|step| *step >= min_step)
        .unwrap_or_else(|| round_step(min_step / day).max(1.0) * day)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|tick| tick.label.as_str()).collect()
    }

    const GIB: f64 = 1_073_741_824.0;

    #[test]
    fn bytes_are_round_in_binary_units() {
        let axis = Axis::of_values([0.0, 93.0 * GIB].into_iter(), "B", false, 5);
        assert_eq!(
            labels(&axis),
            ["0 GiB", "20 GiB", "40 GiB", "60 GiB", "80 GiB", "100 GiB"]
        );
    }

    #[test]
    fn an_axis_of_values_far_from_zero_does_not_start_at_zero() {
        let axis = Axis::of_values([990.0, 1000.0].into_iter(), "", false, 5);
        assert_eq!(labels(&axis), ["990", "992", "994", "996", "998", "1,000"]);
    }

    #[test]
    fn a_logarithmic_axis_has_powers_and_no_zero() {
        let axis = Axis::of_values([0.0, 0.5, 2000.0].into_iter(), "", true, 6);
        assert_eq!(labels(&axis), ["0.1", "1", "10", "100", "1,000", "10,000"]);
        assert_eq!(axis.scale.position(0.0), None);
        let axis = Axis::of_values([GIB, 600.0 * GIB].into_iter(), "B", true, 6);
        assert_eq!(
            labels(&axis),
            ["1 GiB", "4 GiB", "16 GiB", "64 GiB", "256 GiB", "1 TiB"]
        );
    }

    #[test]
    fn a_time_axis_states_whether_it_is_hours_or_minutes() {
        let (axis, form) = Axis::of_time(-600.0, 43_200.0, 8);
        assert_eq!(
            labels(&axis),
            ["0:00", "2:00", "4:00", "6:00", "8:00", "10:00", "12:00"]
        );
        assert_eq!(form, "h:mm");
        let (axis, form) = Axis::of_time(0.0, 90.0, 6);
        assert_eq!(
            labels(&axis),
            ["0:00", "0:15", "0:30", "0:45", "1:00", "1:15", "1:30"]
        );
        assert_eq!(form, "m:ss");
        let (axis, form) = Axis::of_time(7200.0, 7260.0, 3);
        assert_eq!(labels(&axis), ["2:00:00", "2:00:30", "2:01:00"]);
        assert_eq!(form, "h:mm:ss");
        assert_eq!(Axis::of_time(0.0, 1.0, 4).1, "s");
    }

    #[test]
    fn axis_ticks_are_the_sizes_that_fit() {
        let whole = |size| number(size, 0);
        let sizes = [512.0, 256.0, 640.0, 1024.0, 512.0, 8192.0];
        let axis = Axis::with_logarithmic_ticks(sizes.into_iter(), &[], whole, |_| 0.01);
        assert_eq!(labels(&axis), ["256", "512", "640", "1,024", "8,192"]);
        assert_eq!(
            (axis.scale.position(256.0), axis.scale.position(8192.0)),
            (Some(0.0), Some(1.0))
        );
        let crowded =
            |first: &[f64]| Axis::with_logarithmic_ticks(sizes.into_iter(), first, whole, |_| 0.15);
        assert_eq!(labels(&crowded(&[])), ["256", "512", "1,024", "8,192"]);
        assert_eq!(labels(&crowded(&[640.0])), ["256", "640", "8,192"]);
        assert_eq!(
            labels(&Axis::with_logarithmic_ticks(
                [512.0].into_iter(),
                &[],
                whole,
                |_| 0.1
            )),
            ["512"]
        );
        assert!(
            labels(&Axis::with_logarithmic_ticks(
                [f64::NAN, -1.0].into_iter(),
                &[],
                whole,
                |_| 0.1
            ))
            .is_empty()
        );
    }

    #[test]
    fn empty_and_constant_series_have_an_axis() {
        assert!(labels(&Axis::of_values(std::iter::empty(), "B", true, 5)).len() > 1);
        assert!(labels(&Axis::of_values([7.0].into_iter(), "", false, 5)).len() > 1);
        assert!(labels(&Axis::of_values([-7.0].into_iter(), "", false, 5)).len() > 1);
        assert!(!labels(&Axis::of_time(5.0, 5.0, 5).0).is_empty());
    }

    proptest! {
        #[test]
        fn every_value_lies_within_the_axis_and_ticks_are_few_and_distinct(
            values in proptest::collection::vec(-1e13_f64..1e13, 1..20), log: bool, bytes: bool,
        ) {
            let axis = Axis::of_values(values.iter().copied(), if bytes { "B" } else { "" }, log, 6);
            for at in values.iter().filter_map(|value| axis.scale.position(*value)) {
                prop_assert!((-1e-6..=1.0 + 1e-6).contains(&at), "{at} {axis:?}");
            }
            prop_assert!(axis.ticks.len() <= 9, "{axis:?}");
            let mut labels = labels(&axis);
            labels.dedup();
            prop_assert_eq!(labels.len(), axis.ticks.len());
        }
    }
}
