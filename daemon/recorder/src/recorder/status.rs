//! The state of each recorder (rows, dropped entries, problem), and the count of marks by kind.

use super::RecorderHandle;
use faultline_metrics::{
    AddReadings, LabelText, Problem, ProblemKind, Reading, metrics::daemon as d,
};
use faultline_sources::{
    discovery::TargetHandle,
    tick::{SampleContext, Sampler, SourceOutput},
};
use parking_lot::Mutex;
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// How long a removed recording or dropped entries stay a problem: longer than a scrape interval.
pub const PROBLEM_SHOWN_FOR: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub struct RecorderStatus {
    /// The label value: `record` or `flight`.
    pub(super) name: &'static str,
    state: Mutex<RecorderState>,
}

#[derive(Debug, Default)]
struct RecorderState {
    rows: u64,
    dropped: u64,
    problem: Option<Problem>,
}

impl RecorderStatus {
    pub fn new(name: &'static str) -> Arc<Self> {
        Arc::new(Self {
            name,
            state: Mutex::default(),
        })
    }

    pub fn add_rows(&self, rows: u64) {
        self.state.lock().rows += rows;
    }

    pub fn count_dropped(&self, entries: u64) {
        self.state.lock().dropped += entries;
    }

    pub fn set_problem(&self, problem: Option<Problem>) {
        self.state.lock().problem = problem;
    }

    pub fn counts(&self) -> (u64, u64) {
        let state = self.state.lock();
        (state.rows, state.dropped)
    }

    pub fn problem(&self) -> Option<Problem> {
        self.state.lock().problem.clone()
    }
}

/// With this many kinds, new ones count as `other`: labels must not grow with time.
const MAX_MARK_KINDS: usize = 16;
/// Verdicts of a memory search of `faultline experiment`. They count separately, even beyond the maximum.
const SEARCH_KINDS: [&str; 4] = ["kept_up", "failed", "void", "reference"];
/// Label value for further kinds and for marks without a kind.
const OTHER_KIND: &str = "other";

/// Marks by kind. A mark is a named moment that `POST /mark` writes into a recording.
#[derive(Debug, Default)]
pub struct MarkCounts(Mutex<BTreeMap<Arc<str>, u64>>);

impl MarkCounts {
    pub fn add(&self, kind: Option<&str>) {
        let mut counts = self.0.lock();
        let is_separate = |kind: &&str| {
            SEARCH_KINDS.contains(kind)
                || counts.contains_key(*kind)
                || counts.len() < MAX_MARK_KINDS
        };
        let kind = kind.filter(is_separate).unwrap_or(OTHER_KIND);
        *counts.entry(kind.into()).or_default() += 1;
    }

    pub fn readings(&self) -> Vec<Reading> {
        let counts = self.0.lock();
        let reading = |(kind, count): (&Arc<str>, &u64)| {
            Reading::integer(&d::MARKS, [LabelText::Shared(Arc::clone(kind))], *count)
        };
        counts.iter().map(reading).collect()
    }
}

/// Reports the recorders' state. Stores each tick's target, which the recorders read.
pub struct RecorderSampler {
    pub handle: RecorderHandle,
    pub target_handle: TargetHandle,
    pub report_flight_recorder: Box<dyn Fn(&mut SourceOutput) + Send>,
    /// The queue's dropped entries at the last sample.
    pub reported_dropped: u64,
    /// Uptime until which past drops are a problem.
    pub show_drops_until: Duration,
}

impl RecorderSampler {
    /// A problem if the queue dropped entries recently. Its message has no count, because each new
    /// message is logged.
    fn drop_problem(&mut self, uptime: Duration) -> Option<Problem> {
        let dropped = self.handle.queue.dropped();
        if std::mem::replace(&mut self.reported_dropped, dropped) < dropped {
            self.show_drops_until = uptime + PROBLEM_SHOWN_FOR;
        }
        (uptime < self.show_drops_until).then(|| {
            Problem::broken("the recorder does not keep up and drops entries; faultline_recorder_dropped_total counts them")
        })
    }

    fn store_target(&self, context: &SampleContext<'_>) {
        let mut current = self.handle.current.lock();
        if current.target.as_deref() == context.target {
            return;
        }
        let before = current.target.take().map(|target| target.process);
        let last_end = self.target_handle.report().last_end;
        current.end_reason = last_end
            .filter(|(process, _)| Some(*process) == before)
            .map(|(_, reason)| reason);
        current.target = context.target.map(|target| Arc::new(target.clone()));
    }
}

impl Sampler for RecorderSampler {
    fn sample(&mut self, context: &SampleContext<'_>) -> SourceOutput {
        self.store_target(context);
        // Problems last over many ticks, but count only once.
        let statuses = self.handle.statuses.iter();
        let problems: Vec<_> = statuses.filter_map(|status| status.problem()).collect();
        let mut output = SourceOutput {
            // A recording that was removed or replaced is written again, or has another problem.
            up: problems
                .iter()
                .all(|problem| problem.kind == ProblemKind::Gone),
            problems,
            repeats_problems: true,
            ..SourceOutput::default()
        };
        output
            .problems
            .extend(self.drop_problem(context.now.uptime));
        (self.report_flight_recorder)(&mut output);
        output.readings.extend(self.handle.mark_counts.readings());
        let queue_dropped = self.handle.queue.dropped();
        for status in &self.handle.statuses {
            let (rows, dropped) = status.counts();
            output
                .readings
                .integer(&d::RECORDER_ROWS, [status.name.into()], rows);
            output.readings.integer(
                &d::RECORDER_DROPPED,
                [status.name.into()],
                dropped + queue_dropped,
            );
        }
        output
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::Recorder;
    use faultline_core::{clock::Clock, config::Target};
    use faultline_kernel::{HostConstants, HostRoot};
    use faultline_metrics::Stamp;
    use faultline_sources::{discovery::Finder, tick::ProcessState};
    use serde_json::json;

    #[test]
    fn a_recreated_recording_stays_listed_and_the_source_is_up() {
        let status = RecorderStatus::new("record");
        let (clock, root) = (Clock::start(), HostRoot::default());
        let (handle, _recorder) = Recorder::new(clock, vec![Arc::clone(&status)], |_| json!({}));
        let finder = Finder::build(&Target::default(), root.clone(), clock);
        let mut sampler = handle.sampler(finder.target_handle, |_| ());
        let host = HostConstants {
            page_size: 4096,
            clock_ticks_per_second: 100,
            kernel_release: String::new(),
        };
        for (kind, is_up) in [(ProblemKind::Gone, true), (ProblemKind::Broken, false)] {
            status.set_problem(Some(Problem::new(kind, "")));
            let output = sampler.sample(&SampleContext {
                now: Stamp::default(),
                target: None,
                root: &root,
                host: &host,
                boot_time: &Ok(0),
                process_state: &ProcessState::default(),
            });
            assert_eq!((output.up, output.problems.len()), (is_up, 1));
        }
    }

    #[test]
    fn marks_count_by_kind_and_kinds_beyond_the_first_count_as_others() {
        let mark_counts = MarkCounts::default();
        assert_eq!(mark_counts.readings(), []);
        mark_counts.add(Some("failed"));
        mark_counts.add(None);
        mark_counts.add(Some("failed"));
        let expected =
            |kind: &'static str, count| Reading::integer(&d::MARKS, [kind.into()], count);
        assert_eq!(
            mark_counts.readings(),
            [expected("failed", 2), expected("other", 1)]
        );
        let more: Vec<String> = (0..20)
            .map(|number| format!("kind_{}", "a".repeat(number + 1)))
            .collect();
        more.iter().for_each(|kind| mark_counts.add(Some(kind)));
        assert_eq!(mark_counts.readings().len(), MAX_MARK_KINDS);
        mark_counts.add(Some("failed"));
        assert!(mark_counts.readings().contains(&expected("failed", 3)));
        assert!(
            mark_counts
                .readings()
                .contains(&expected("other", 1 + 20 - (MAX_MARK_KINDS as u64 - 2)))
        );
        mark_counts.add(Some("void"));
        assert!(
            mark_counts.readings().contains(&expected("void", 1)),
            "kinds of a search always count separately"
        );
    }
}
