//! One body being parsed, or one stretch of the log: lines in, sums out.

use super::{AllowList, Intake, points};
use faultline_agave::line::{Point, host_id_of, name_of};
use faultline_agave::log::LogLine;
use faultline_agave::points::{Kind, Known};
use faultline_catalog::Stamp;
use std::sync::Arc;

/// One body being parsed, or one stretch of the log. Holds no lock between lines.
#[derive(Debug)]
pub struct Push {
    intake: Intake,
    allow: Arc<AllowList>,
    now: Stamp,
    host: String,
    lines: u64,
    pub(super) unknown_bad: u64,
    /// Ours: `metrics` point seen, cache points seen.
    pub(super) agent: Option<(i64, u64)>,
    pub(super) cache_points: u64,
    pub(super) ours: bool,
    pub(super) newest_log_time: Option<i64>,
    /// Ignored lines of the current host, added in one go.
    ignored: u64,
}

impl Push {
    pub(super) fn new(intake: Intake, allow: Arc<AllowList>, now: Stamp) -> Self {
        Push {
            intake,
            allow,
            now,
            host: String::new(),
            lines: 0,
            unknown_bad: 0,
            agent: None,
            cache_points: 0,
            ours: false,
            newest_log_time: None,
            ignored: 0,
        }
    }

    /// One complete line of line protocol, without its newline.
    pub fn line(&mut self, line: &[u8]) {
        self.lines += 1;
        let Some(name) = name_of(line) else {
            self.unknown_bad += 1;
            return;
        };
        let wanted = Kind::of_name(name).is_some() || self.allow.wants(name);
        // Agave always writes host_id first. A line without it is some other tool's.
        let host = host_id_of(line).unwrap_or_default();
        if host != self.host.as_bytes() {
            self.flush_ignored();
            self.host = String::from_utf8_lossy(host).into_owned();
        }
        if !wanted {
            self.ignored += 1;
            return;
        }
        match Point::parse(line) {
            Ok(point) => self.add(line, &point, true),
            Err(_) => self.unknown_bad += 1,
        }
    }

    /// One line of the validator's log. Lines that print no datapoint are none of ours.
    pub fn log_line(&mut self, line: &str) {
        let parsed = LogLine::parse(line);
        self.newest_log_time = self.newest_log_time.max(parsed.time_ns);
        match parsed.point() {
            Some(Ok(point)) => {
                self.lines += 1;
                self.add(line.as_bytes(), &point, false);
            }
            Some(Err(_)) => self.bad_line(),
            None => {}
        }
    }

    /// A line that never came whole: too long, or cut.
    pub fn bad_line(&mut self) {
        self.lines += 1;
        self.unknown_bad += 1;
    }

    /// Lines so far.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    fn add(&mut self, line: &[u8], point: &Point<'_>, pushed: bool) {
        let host = pushed.then_some(self.host.as_str());
        let mut state = self.intake.lock();
        let added = state.add(&self.allow, host, line, point, self.now);
        self.ours |= added.ours;
        let Some(known) = added.known else { return };
        let recorder = self.intake.recorder.get();
        let recorded = recorder.and_then(|to| Some((to, points::of(&known, added.time, self.now.unix)?)));
        if !added.ours {
            if let Some((_, point)) = recorded {
                state.keep(&self.host, point, self.now);
            }
            return;
        }
        state.follow_up(&known, added.time);
        drop(state);
        if let Some((recorder, point)) = recorded {
            recorder.add(point);
        }
        match known {
            Known::Agent(agent) => self.agent = Some((added.time, agent.secs_since_last_write.unwrap_or(10))),
            Known::ProgramCache(_) => self.cache_points += 1,
            _ => {}
        }
    }

    /// Adds the ignored lines of the current sender.
    pub(super) fn flush_ignored(&mut self) {
        if self.ignored > 0 {
            let count = std::mem::take(&mut self.ignored);
            self.ours |= self.intake.lock().ignore(&self.host, count, self.now);
        }
    }
}
