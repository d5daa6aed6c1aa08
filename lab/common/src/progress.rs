//! Progress on standard error: on a terminal a bar with the remaining time, otherwise a line at
//! intervals.

use crate::{clock, output::say};
use faultline_text::{clean, count, duration};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::{io::IsTerminal, time::Duration};

/// Time between two lines, without a terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(30);
const REDRAW_HZ: u8 = 5;

pub struct Progress {
    unit: &'static str,
    total: u64,
    started_at: Duration,
    next_line_at: Duration,
    bar: Option<ProgressBar>,
}

impl Progress {
    pub fn new(total: u64, unit: &'static str) -> Self {
        let started_at = clock::uptime();
        let bar = std::io::stderr().is_terminal().then(|| bar(total, unit));
        Self {
            unit,
            total,
            started_at,
            next_line_at: started_at + LINE_INTERVAL,
            bar,
        }
    }

    pub fn show(&mut self, done: u64, suffix: &str) {
        match &self.bar {
            Some(bar) => {
                bar.set_message(clean(suffix));
                bar.set_position(done);
            }
            None => {
                let now = clock::uptime();
                if now >= self.next_line_at {
                    self.next_line_at = now + LINE_INTERVAL;
                    say(&line(
                        (done, self.total, self.unit),
                        now.saturating_sub(self.started_at),
                        suffix,
                    ));
                }
            }
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.iter().for_each(ProgressBar::finish_and_clear);
    }
}

fn bar(total: u64, unit: &str) -> ProgressBar {
    let bar =
        ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr_with_hz(REDRAW_HZ));
    // Only a wrong template is refused; the bar then keeps its default look.
    if let Ok(style) = ProgressStyle::with_template(&format!(
        "[{{bar:24}}] {{pos}}/{{len}} {unit}, {{eta}} left{{msg}}"
    )) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.tick();
    bar
}

fn line((done, total, unit): (u64, u64, &str), spent: Duration, suffix: &str) -> String {
    // Infinite or NaN without any work done.
    let left = spent.as_secs_f64() * total.saturating_sub(done) as f64 / done as f64;
    let left =
        Duration::try_from_secs_f64(left).map_or_else(|_| "unknown time".to_owned(), duration);
    format!(
        "{} of {} {unit}, {left} left{suffix}",
        count(done),
        count(total)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remaining_time_is_estimated_from_the_remaining_work() {
        let spent = Duration::from_secs(30);
        assert_eq!(
            line((1_000, 4_000, "slots"), spent, ", 64 MiB"),
            "1,000 of 4,000 slots, 1 min 30 s left, 64 MiB"
        );
        assert_eq!(line((4, 4, "sizes"), spent, ""), "4 of 4 sizes, 0 ms left");
        assert_eq!(
            line((0, 4_000, "slots"), spent, ""),
            "0 of 4,000 slots, unknown time left"
        );
        assert!(line((1, u64::MAX, "slots"), spent, "").ends_with("unknown time left"));
    }
}
