use crate::{
    journal::SearchLog,
    plan::MemorySearchRules,
    search::{HeadroomInterval, SearchAnswer, SearchEvent, SearchOutcome, Verdict},
};
use faultline_common::clock::from_nanoseconds;
use faultline_stats::staircase::{SearchConfig, Staircase};
use faultline_text::{bytes, counted, duration};
use serde::Serialize;
use std::time::Duration;

#[derive(Serialize)]
pub struct SearchStatus {
    pub dwells: DwellCounts,
    /// 90 % confidence interval, in bytes; `None` until a dwell failed.
    #[serde(rename = "bracket")]
    pub headroom_interval: Option<(u64, u64)>,
    /// In bytes; `None` without a limit.
    pub headroom: Option<u64>,
    /// Since the headroom last changed, or the limit was lifted.
    #[serde(rename = "seconds")]
    pub seconds_since_change: Option<u64>,
    /// Earlier searches of this run.
    #[serde(rename = "cut_off")]
    pub cut_off_searches: usize,
    pub answer: Option<SearchAnswer>,
}

#[derive(Default, Serialize)]
pub struct DwellCounts {
    /// Dwells without a limit.
    pub references: u32,
    pub kept_up: u32,
    pub failed: u32,
    /// Repeated, with or without a limit.
    pub void: u32,
}

impl SearchStatus {
    pub(super) fn of(
        search: &MemorySearchRules,
        search_log: &SearchLog,
        cut_off_searches: usize,
        now_if_running: Option<Duration>,
    ) -> Self {
        let mut dwells = DwellCounts::default();
        let config = SearchConfig {
            first_value: search.first_headroom as f64,
            max_width: search.max_interval_width,
            max_trials: usize::MAX,
        };
        let mut staircase = Staircase::new(config);
        let (mut current_headroom, mut changed_at) = (None, None);
        for (event, unix_ns) in &search_log.events {
            match event {
                SearchEvent::Limit { headroom, .. } => {
                    (current_headroom, changed_at) = (*headroom, Some(*unix_ns));
                }
                SearchEvent::Dwell(dwell) if dwell.verdict == Verdict::Void => dwells.void += 1,
                // Not tried: this end of the interval is not above the floor of the search.
                SearchEvent::Dwell(dwell) if dwell.confirms && dwell.evidence.seconds <= 0.0 => {
                    if let (Some(staircase), Some(end)) = (&mut staircase, dwell.headroom) {
                        staircase.raise_floor(end as f64);
                    }
                }
                SearchEvent::Dwell(dwell) => {
                    let Some(headroom) = dwell.headroom else {
                        dwells.references += 1;
                        continue;
                    };
                    let kept_up = dwell.verdict == Verdict::KeptUp;
                    dwells.kept_up += u32::from(kept_up);
                    dwells.failed += u32::from(!kept_up);
                    if let Some(staircase) = &mut staircase {
                        staircase.add_trial(headroom as f64, kept_up);
                    }
                }
            }
        }
        let staircase = staircase.filter(|_| dwells.failed > 0);
        let now_if_running = now_if_running.filter(|_| search_log.answer.is_none());
        Self {
            dwells,
            headroom_interval: staircase.map(|staircase| {
                let interval = staircase.interval();
                (interval.low as u64, interval.high as u64)
            }),
            headroom: current_headroom.filter(|_| now_if_running.is_some()),
            seconds_since_change: now_if_running
                .zip(changed_at)
                .map(|(now, since)| now.saturating_sub(from_nanoseconds(since)).as_secs()),
            cut_off_searches,
            answer: search_log.answer.clone(),
        }
    }

    pub(super) fn in_words(&self) -> String {
        let mut all = Vec::new();
        if let Some(answer) = &self.answer {
            all.push(outcome_text(&answer.outcome));
        } else if let Some(seconds) = self.seconds_since_change {
            let time = duration(Duration::from_secs(seconds));
            all.push(match self.headroom {
                Some(headroom) => format!("headroom {} for {time}", bytes(headroom)),
                None => format!("without a limit for {time}"),
            });
        }
        if let (Some((low, high)), None) = (self.headroom_interval, &self.answer) {
            let (low, high) = (bytes(low), bytes(high));
            all.push(format!(
                "the least headroom is between {low} and {high} so far"
            ));
        }
        let DwellCounts {
            references,
            kept_up,
            failed,
            void,
        } = self.dwells;
        all.push(format!(
            "{kept_up} kept up, {failed} failed, {void} void, {}",
            counted(references as f64, "reference")
        ));
        match self.cut_off_searches {
            0 => {}
            1 => all.push("the search before was cut off, and this one began anew".to_owned()),
            many => all.push(format!(
                "{many} searches before were cut off, and this one began anew"
            )),
        }
        all.join("; ")
    }
}

fn least_headroom(interval: &HeadroomInterval) -> String {
    let [low, high] = [interval.low, interval.high].map(bytes);
    format!("the least headroom is {low} to {high}")
}

fn outcome_text(outcome: &SearchOutcome) -> String {
    match outcome {
        SearchOutcome::Found(interval) => least_headroom(interval),
        SearchOutcome::Unconfirmed(interval) => {
            format!("out of time: {}, not confirmed", least_headroom(interval))
        }
        SearchOutcome::Noisy => "noisy: the dwells gave no reliable interval".to_owned(),
        SearchOutcome::FirstHeadroomTooSmall => {
            "the first headroom was too small: raise search.from".to_owned()
        }
        SearchOutcome::NeverFailed { lowest } => {
            format!("never failed: {} of headroom was enough", bytes(*lowest))
        }
        SearchOutcome::OutOfTime => {
            "out of time: raise search.most, or shorten search.dwell".to_owned()
        }
        SearchOutcome::Inconclusive { why } => format!("inconclusive: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::{DwellEvidence, DwellResult};

    const GIB: u64 = 1 << 30;

    fn search() -> MemorySearchRules {
        let second = Duration::from_secs(1);
        MemorySearchRules {
            first_headroom: 24 * GIB,
            settle_time: second,
            dwell: second,
            max_interval_width: 0.1,
            max_duration: second,
            growth_horizon: second,
        }
    }

    fn dwell(headroom: Option<u64>, verdict: Verdict) -> SearchEvent {
        SearchEvent::Dwell(DwellResult {
            headroom,
            confirms: false,
            verdict,
            evidence: Box::new(DwellEvidence::default()),
        })
    }

    #[test]
    fn an_untried_end_of_the_interval_is_not_counted_and_begins_the_interval() {
        let mut events = vec![
            dwell(Some(24 * GIB), Verdict::KeptUp),
            dwell(Some(20 * GIB), Verdict::Failed),
        ];
        let status = |events: &[SearchEvent]| {
            let search_log = SearchLog {
                events: events.iter().map(|event| (event.clone(), 1)).collect(),
                answer: None,
            };
            let status = SearchStatus::of(&search(), &search_log, 0, None);
            let DwellCounts {
                kept_up, failed, ..
            } = status.dwells;
            let (low, high) = status.headroom_interval.unwrap();
            assert!(low < high, "{low} {high}");
            (kept_up, failed, low)
        };
        let (kept_up, failed, low) = status(&events);
        assert!(low < 22 * GIB, "{low}");
        events.push(SearchEvent::Dwell(DwellResult {
            headroom: Some(22 * GIB),
            confirms: true,
            verdict: Verdict::Failed,
            evidence: Box::default(),
        }));
        assert_eq!(status(&events), (kept_up, failed, 22 * GIB));
    }

    #[test]
    fn a_running_search_reports_its_bracket_headroom_and_verdicts() {
        let limit = |headroom| SearchEvent::Limit {
            headroom,
            why: "to try".to_owned(),
        };
        let lines = [
            dwell(None, Verdict::KeptUp),
            limit(Some(24 * GIB)),
            dwell(Some(24 * GIB), Verdict::Void),
            dwell(Some(24 * GIB), Verdict::KeptUp),
            limit(Some(20 * GIB)),
        ];
        let mut search_log = SearchLog {
            events: lines
                .into_iter()
                .map(|line| (line, 1_000_000_000))
                .collect(),
            answer: None,
        };
        let now_if_running = Some(Duration::from_secs(121));
        let status = SearchStatus::of(&search(), &search_log, 1, now_if_running);
        let expected = "headroom 20.0 GiB for 2 min; 1 kept up, 0 failed, 1 void, 1 reference; the search before was cut \
                        off, and this one began anew";
        assert_eq!(status.in_words(), expected);
        search_log
            .events
            .push((dwell(Some(20 * GIB), Verdict::Failed), 2_000_000_000));
        let status = SearchStatus::of(&search(), &search_log, 0, now_if_running);
        let (low, high) = status.headroom_interval.unwrap();
        assert!(low < 22 * GIB && high > 20 * GIB, "{low} {high}");
        assert!(
            status
                .in_words()
                .contains("; the least headroom is between "),
            "{}",
            status.in_words()
        );
        assert_eq!(
            SearchStatus::of(&search(), &search_log, 0, None).seconds_since_change,
            None,
            "nobody works on it"
        );
    }
}
