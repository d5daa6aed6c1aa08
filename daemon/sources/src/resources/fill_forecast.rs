use std::{collections::VecDeque, time::Duration};

/// Six hours at a poll every 15 s: longer than a validator's full snapshot interval.
const MAX_POLLS: usize = 1_440;
const MIN_POLLS: usize = 20;
/// From the first to the last decrease: one large file gives no rate.
const MIN_FILLING_TIME: Duration = Duration::from_secs(10 * 60);
/// Six hours of polls cannot predict more.
const MAX_PREDICTION: Duration = Duration::from_secs(365 * 86_400);

/// (uptime, available bytes) of the last polls.
#[derive(Clone, Default)]
pub struct FillForecast(VecDeque<(Duration, u64)>);

impl FillForecast {
    /// If available bytes rise by more than a tenth of `size`, files were deleted: earlier polls
    /// are dropped.
    pub fn add(&mut self, uptime: Duration, avail: u64, size: u64) {
        if self
            .0
            .back()
            .is_some_and(|(_, before)| avail.saturating_sub(*before) > size / 10)
        {
            self.0.clear();
        }
        if self.0.len() >= MAX_POLLS {
            self.0.pop_front();
        }
        self.0.push_back((uptime, avail));
    }

    /// By least squares. `None` after too few polls, if the file system does not fill, and beyond a
    /// year.
    pub fn seconds_until_full(&self) -> Option<f64> {
        let (_, newest_avail) = self.0.back().filter(|_| self.0.len() >= MIN_POLLS)?;
        if self.filling_time()? < MIN_FILLING_TIME {
            return None;
        }
        let (first, first_avail) = self.0.front()?;
        let points = self.0.iter().map(|(at, avail)| {
            let seconds = at.saturating_sub(*first).as_secs_f64();
            (seconds, *avail as f64 - *first_avail as f64)
        });
        let count = self.0.len() as f64;
        let (sum_x, sum_y) = points
            .clone()
            .fold((0.0, 0.0), |(xs, ys), (x, y)| (xs + x, ys + y));
        let (mean_x, mean_y) = (sum_x / count, sum_y / count);
        let (products, squares) = points.fold((0.0, 0.0), |(products, squares), (x, y)| {
            (
                products + (x - mean_x) * (y - mean_y),
                squares + (x - mean_x).powi(2),
            )
        });
        let fill_rate = -products / squares;
        let seconds = *newest_avail as f64 / fill_rate;
        (fill_rate > 0.0 && seconds <= MAX_PREDICTION.as_secs_f64()).then_some(seconds)
    }

    /// Time from the poll before the first decrease to the poll after the last decrease.
    fn filling_time(&self) -> Option<Duration> {
        let mut decreases = self
            .0
            .iter()
            .zip(self.0.iter().skip(1))
            .filter(|((_, before), (_, after))| after < before);
        let ((begin, _), after_first) = decreases.next()?;
        let (end, _) = decreases
            .next_back()
            .map_or(after_first, |(_, after_last)| after_last);
        Some(end.saturating_sub(*begin))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GB: u64 = 1_000_000_000;

    fn after(avails: impl IntoIterator<Item = u64>) -> Option<f64> {
        let mut forecast = FillForecast::default();
        for (at, avail) in (0..).zip(avails) {
            forecast.add(Duration::from_secs(at * 15), avail, 2_000 * GB);
        }
        forecast.seconds_until_full()
    }

    #[test]
    fn a_steady_fill_rate_predicts_when_space_runs_out() {
        // 1 GB in 15 s, 900 GB left.
        let until = after((0..=100).map(|poll| (1_000 - poll) * GB)).unwrap();
        assert!((until - 900.0 * 15.0).abs() < 1.0, "{until}");
        assert_eq!(
            after([0; 30]),
            None,
            "it is full already, and a level says so"
        );
    }

    #[test]
    fn a_fill_rate_needs_enough_samples_and_a_filling_file_system() {
        assert_eq!(after((0..40).map(|poll| (1_000 - poll) * GB)), None);
        assert!(after((0..=40).map(|poll| (1_000 - poll) * GB)).is_some());
        assert_eq!(after([500 * GB; 100]), None);
        assert_eq!(
            after((0..100).map(|poll| (500 + poll) * GB)),
            None,
            "it empties"
        );
        assert_eq!(
            after((0..100).map(|poll| 500 * GB - poll)),
            None,
            "in a thousand years"
        );
    }

    #[test]
    fn one_large_written_file_gives_no_fill_rate() {
        for polls in [20, 40, 1_000] {
            let jump = (0..polls).map(|poll| if poll < 19 { 1_000 * GB } else { 50 * GB });
            assert_eq!(after(jump), None, "{polls} polls");
        }
        let minutes = (0..20_u64).map(|poll| 1_000 * GB - poll / 10);
        let mut forecast = FillForecast::default();
        for (second, avail) in (0..).zip(minutes) {
            forecast.add(Duration::from_secs(second), avail, 2_000 * GB);
        }
        assert_eq!(forecast.seconds_until_full(), None, "polled every second");
    }

    #[test]
    fn deleted_data_produces_no_negative_fill_rate_and_the_estimate_recovers() {
        let filling = |from: u64, polls: u64| (0..polls).map(move |poll| (from - poll) * GB);
        assert_eq!(
            after(filling(400, 100).chain(filling(1_000, 40))),
            None,
            "not known yet"
        );
        let until = after(filling(400, 100).chain(filling(1_000, 41))).unwrap();
        assert!((until - 960.0 * 15.0).abs() < 1.0, "{until}");
    }

    #[test]
    fn created_and_deleted_snapshots_are_not_growth() {
        // 100 GB are written in five minutes and deleted again, every two hours, for a day.
        let sawtooth = (0..5_760_u64).map(|poll| match poll % 480 {
            written @ 0..20 => (500 - written * 5) * GB,
            _ => 500 * GB,
        });
        let mut forecast = FillForecast::default();
        for (at, avail) in (0..).zip(sawtooth) {
            forecast.add(Duration::from_secs(at * 15), avail, 2_000 * GB);
            let until = forecast.seconds_until_full();
            let warned = at > 1_440 && until.is_some_and(|until| until < 86_400.0);
            assert!(!warned, "{until:?} at poll {at}");
        }
    }

    #[test]
    fn memory_is_bounded() {
        let mut forecast = FillForecast::default();
        (0..5_000_u64).for_each(|at| forecast.add(Duration::from_secs(at), 5, 10));
        assert_eq!(forecast.0.len(), MAX_POLLS);
    }
}
