use super::{AllowList, Intake, Origin, PushEnd, PushTimes, Slots, State};
use crate::validator::tally::{InputValues, is_builtin};
use faultline_agave::{
    line::{Point, host_id_of, name_of},
    log::LogLine,
    points::KnownPoint,
};
use faultline_metrics::Stamp;
use std::{sync::Arc, time::Duration};

/// Interval at which the validator's user is read: a validator may drop its privileges.
const USER_READ_INTERVAL: Duration = Duration::from_secs(1);

pub type UserLookup = Box<dyn Fn() -> Option<u32> + Send + Sync>;

/// A body being parsed, or a section of the log. Holds no lock between lines.
pub struct Push {
    intake: Intake,
    allow_list: Arc<AllowList>,
    now: Stamp,
    host_id: String,
    user: Option<u32>,
    pub(super) bad_lines: u64,
    /// From the `metrics` point of the followed validator, the last point of a push.
    pub(super) end: Option<PushEnd>,
    has_cache_points: bool,
    pub(super) is_from_followed: bool,
    pub(super) slots: Slots,
    /// Unix nanoseconds, by the validator's clock.
    pub(super) newest_log_time: Option<i64>,
    ignored_lines: u64,
    input_values: InputValues,
}

impl Push {
    pub(super) fn new(intake: Intake, user: Option<u32>, is_proven: bool, now: Stamp) -> Self {
        let slots = Slots {
            is_proven,
            ..Slots::default()
        };
        Self {
            allow_list: intake.allow_list(),
            intake,
            now,
            host_id: String::new(),
            user,
            bad_lines: 0,
            end: None,
            has_cache_points: false,
            is_from_followed: false,
            slots,
            newest_log_time: None,
            ignored_lines: 0,
            input_values: InputValues::default(),
        }
    }

    pub fn add_line(&mut self, line: &[u8]) {
        let Some(name) = name_of(line) else {
            self.bad_lines += 1;
            return;
        };
        let is_used = is_builtin(name) || self.allow_list.allowed_fields(name).is_some();
        // Agave always writes host_id first. A line without it comes from another tool.
        let host_id = host_id_of(line, name).unwrap_or_default();
        if host_id != self.host_id.as_bytes() {
            self.flush_ignored();
            self.host_id = String::from_utf8_lossy(host_id).into_owned();
        }
        if !is_used {
            self.ignored_lines += 1;
            return;
        }
        match Point::parse(line) {
            Ok(point) => self.add(line, &point, true),
            Err(_) => self.bad_lines += 1,
        }
    }

    /// Adds a line of the log. Ignores lines without a datapoint.
    pub fn add_log_line(&mut self, line: &str) {
        let parsed = LogLine::parse(line);
        self.newest_log_time = self.newest_log_time.max(parsed.time_ns);
        match parsed.point() {
            Some(Ok(point)) => self.add(line.as_bytes(), &point, false),
            Some(Err(_)) => self.count_bad_line(),
            None => {
                if let Some(step) = parsed.migration() {
                    self.intake.lock().total.reports.migration.add_logged(step);
                }
            }
        }
    }

    pub fn count_bad_line(&mut self) {
        self.bad_lines += 1;
    }

    fn add(&mut self, line: &[u8], point: &Point<'_>, is_pushed: bool) {
        let origin = Origin {
            host_id: is_pushed.then_some(self.host_id.as_str()),
            user: self.user,
            now: self.now,
        };
        let mut state = self.intake.lock();
        let values = &mut self.input_values;
        let added = state.add(&self.allow_list, origin, line, point, values);
        let Some(added) = added else { return };
        self.is_from_followed |= added.is_from_followed;
        let Some(known) = added.known else { return };
        if let KnownPoint::SetIdentity(set) = &known {
            state.senders.announce_change(&self.host_id, set);
        }
        let recorder = self.intake.recorder.get();
        let recorded = recorder.and_then(|to| {
            let point = faultline_recording::Point::new(&known, added.unix_ns, self.now.unix)?;
            Some((to, Box::new(point)))
        });
        self.has_cache_points |= matches!(known, KnownPoint::ProgramCache(_));
        let end = self.end_at(&known, added.unix_ns);
        if !added.is_from_followed {
            let Some(sums) = state.pending_sums(origin) else {
                return;
            };
            if let Some((_, slots)) = &mut sums.slots {
                slots.is_proven = self.slots.is_proven;
            }
            sums.coverage.add_point(&known, added.unix_ns);
            sums.reports.add(&known, self.now);
            if let Some(end) = end {
                sums.coverage.add_push(end);
            }
            if let Some((_, point)) = recorded {
                sums.points.add(point);
            }
            return;
        }
        self.slots.raise(&known);
        state.total.coverage.add_point(&known, added.unix_ns);
        state.total.reports.add(&known, self.now);
        drop(state);
        if let Some((recorder, point)) = recorded {
            recorder.add(point);
        }
        self.end = end.or(self.end);
    }

    /// The end of the push, if this is its last point.
    fn end_at(&self, known: &KnownPoint, created: i64) -> Option<PushEnd> {
        let KnownPoint::AgentStats(agent) = known else {
            return None;
        };
        Some(PushEnd {
            times: PushTimes::new(created, self.now),
            seconds_since_previous: agent.secs_since_last_write.unwrap_or(10),
            unfiltered: self.has_cache_points,
        })
    }

    pub(super) fn flush_ignored(&mut self) {
        if self.ignored_lines > 0 {
            let count = std::mem::take(&mut self.ignored_lines);
            let origin = Origin {
                host_id: Some(&self.host_id),
                user: self.user,
                now: self.now,
            };
            self.is_from_followed |= self.intake.lock().count_ignored(origin, count);
        }
    }
}

impl Intake {
    /// Only the first call counts.
    pub fn set_user_lookup(&self, find: impl Fn() -> Option<u32> + Send + Sync + 'static) {
        let _ = self.user_lookup.set(Box::new(find));
    }

    pub fn find_user(&self) -> Option<u32> {
        self.user_lookup.get().and_then(|find| find())
    }

    /// True if pushes of `user` are accepted. Until a validator is found, all of them are pending.
    pub fn admits_user(&self, user: u32, now: Stamp) -> bool {
        let read_at = self.lock().validator_user_read_at;
        if read_at.is_none_or(|at| now.since(at) >= USER_READ_INTERVAL) {
            let user = self.find_user();
            let mut state = self.lock();
            state.validator_user_read_at = Some(now);
            state.set_validator_user(user);
        }
        let expected = self.lock().senders.validator_user;
        let Some(expected) = expected.filter(|expected| *expected != user) else {
            return true;
        };
        self.record_refusal(
            format!("sent by user {user}, but the validator runs as user {expected}"),
            now,
        );
        false
    }

    pub fn record_refusal(&self, reason: String, now: Stamp) {
        self.lock().last_refusal = Some((reason, now));
    }
}

impl State {
    pub fn set_validator_user(&mut self, user: Option<u32>) {
        if let Some(user) = user {
            self.total.line_counts.foreign += self.senders.set_validator_user(user).foreign_lines;
        }
    }
}

#[cfg(test)]
mod tests;
