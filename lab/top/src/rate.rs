use faultline_stats::rate::{Reading, rates};

/// Computes a rate by the time of the source's sample, not of the page. A source sampled every
/// five seconds has one rate for five pages, and not a fivefold one after four zeros.
#[derive(Debug, Clone, Default)]
pub struct Meter {
    last: Option<Reading>,
    rate: Option<f64>,
}

impl Meter {
    /// Starts with the rate that somebody else computed up to this reading.
    pub fn of(reading: Reading, rate: f64) -> Self {
        Meter {
            last: Some(reading),
            rate: Some(rate),
        }
    }

    /// The rate per second at this reading; the previous one until the source samples again. `None`
    /// for the first reading of an epoch, after a fall, without a total, and if the source has no
    /// sample in the `stale_after` seconds before `now`.
    pub fn take(&mut self, reading: Reading, now: f64, stale_after: f64) -> Option<f64> {
        if reading.total.is_none() {
            self.rate = None;
            return None;
        }
        match self.last {
            Some(last) if last.at == reading.at && last.epoch == reading.epoch => {}
            _ => {
                let steps: Vec<Reading> = self.last.into_iter().chain([reading]).collect();
                self.rate = rates(&steps, stale_after)
                    .per_second
                    .last()
                    .copied()
                    .flatten()
                    .filter(|_| steps.len() > 1);
                self.last = Some(reading);
            }
        }
        if now - reading.at > stale_after {
            self.rate = None;
        }
        self.rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(readings: &[(f64, Option<f64>, u64)]) -> Vec<Option<f64>> {
        let mut meter = Meter::default();
        readings
            .iter()
            .map(|(at, total, epoch)| {
                meter.take(
                    Reading {
                        at: *at,
                        total: *total,
                        epoch: *epoch,
                    },
                    *at,
                    60.0,
                )
            })
            .collect()
    }

    #[test]
    fn a_source_without_a_new_sample_keeps_its_rate() {
        let got = taken(&[
            (0.0, Some(0.0), 1),
            (5.0, Some(50.0), 1),
            (5.0, Some(50.0), 1),
            (10.0, Some(50.0), 1),
        ]);
        assert_eq!(got, [None, Some(10.0), Some(10.0), Some(0.0)]);
    }

    #[test]
    fn restart_decrease_gap_or_missing_total_give_no_rate() {
        assert_eq!(
            taken(&[
                (0.0, Some(9.0), 1),
                (1.0, Some(10.0), 2),
                (2.0, Some(12.0), 2)
            ]),
            [None, None, Some(2.0)]
        );
        assert_eq!(
            taken(&[
                (0.0, Some(9.0), 1),
                (1.0, Some(8.0), 1),
                (2.0, Some(9.0), 1)
            ]),
            [None, None, Some(1.0)]
        );
        assert_eq!(
            taken(&[
                (0.0, Some(9.0), 1),
                (61.0, Some(10.0), 1),
                (62.0, Some(11.0), 1)
            ]),
            [None, None, Some(1.0)]
        );
        assert_eq!(
            taken(&[(0.0, Some(8.0), 1), (1.0, None, 1), (2.0, Some(12.0), 1)]),
            [None, None, Some(2.0)]
        );
        assert_eq!(
            taken(&[(5.0, Some(8.0), 1), (4.0, Some(9.0), 1)]),
            [None, None]
        );
    }

    #[test]
    fn a_source_that_fell_silent_has_no_rate() {
        let mut meter = Meter::default();
        let reading = |at, total| Reading {
            at,
            total: Some(total),
            epoch: 1,
        };
        meter.take(reading(0.0, 0.0), 0.0, 60.0);
        assert_eq!(meter.take(reading(10.0, 100.0), 10.0, 60.0), Some(10.0));
        assert_eq!(meter.take(reading(10.0, 100.0), 69.0, 60.0), Some(10.0));
        assert_eq!(meter.take(reading(10.0, 100.0), 71.0, 60.0), None);
    }
}
