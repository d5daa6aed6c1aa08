use super::{Intake, NO_ID, SenderState, State};
use faultline_metrics::{
    AddReadings, Problem, ProblemKind, Reading, Stamp,
    metrics::{daemon as d, validator as v},
};
use itertools::Itertools;
use std::time::Duration;

/// Gauges are exported only this long after a push. Pushes come every 10 s.
const MAX_PUSH_AGE: Duration = Duration::from_secs(60);

/// This many consecutive pushes without program cache points, while slots advance, mean that
/// `RUST_LOG` filters them.
const FILTERED_AFTER: u32 = 2;

/// A JSON-RPC response proves for this long that the validator runs.
const MAX_RPC_RESPONSE_AGE: Duration = Duration::from_secs(5);

const NO_PUSH_YET: &str = "no datapoints for a minute although the validator answers JSON-RPC: its SOLANA_METRICS_CONFIG does not lead here, or its RUST_LOG filters them all: set RUST_LOG=solana=info,agave=info,solana_metrics=warn, or leave RUST_LOG unset";
const NO_LOGGED_DATAPOINTS: &str = "no datapoints in the log for a minute although the validator answers JSON-RPC: [log] names another log, or the validator's RUST_LOG filters them: set RUST_LOG=solana=info,agave=info, or leave RUST_LOG unset";
const PUSHES_STOPPED: &str = "no datapoints for a minute although the validator answers JSON-RPC and pushed before: look for errors of solana_metrics in its log; a proxy between it and faultlined may refuse the pushes";

impl Intake {
    pub fn add_readings(&self, now: Stamp, out: &mut Vec<Reading>) {
        let state = self.lock();
        let with_gauges = !state.is_validator_gone && state.has_recent_push(now);
        state.total.tally.add_readings(with_gauges, out);
        state.total.allow_list_series.add_readings(with_gauges, out);
        out.integer(&v::ZERO_TPS, [], state.total.coverage.zero_seconds);
        out.integer(&v::TPS_UNKNOWN, [], state.total.coverage.unknown_seconds);
        out.integer(&d::PUSHES_MISSED, [], state.total.coverage.pushes_missed);
        out.integer(&d::POINTS_LOST, [], state.total.reports.points_lost);
        out.flag(
            &d::PUSHES_FILTERED,
            [],
            state.pushes_without_cache_points >= FILTERED_AFTER,
        );
        let lines = state.total.line_counts;
        for (result, count) in [
            ("used", lines.used),
            ("ignored", lines.ignored),
            ("bad", lines.bad),
            ("foreign", lines.foreign),
            ("duplicate", lines.duplicate),
            ("implausible", lines.implausible_slot),
        ] {
            out.integer(&d::INGEST_LINES, [result.into()], count);
        }
        out.integer(&d::INGEST_LINES_PENDING, [], state.senders.pending_lines());
        out.integer(
            &d::ASSUMED_IDENTITY_CHANGES,
            [],
            state.assumed_identity_changes,
        );
        out.real(&d::LAST_PUSH, [], state.last_push.map(Stamp::unix_seconds));
    }

    pub fn problems(&self, now: Stamp) -> Vec<Problem> {
        let state = self.lock();
        let mut problems = Vec::new();
        let recent_ids =
            |sender_state| join_ids(state.senders.ids_in_state(sender_state, now, MAX_PUSH_AGE));
        let foreign = recent_ids(SenderState::Foreign);
        if !foreign.is_empty() {
            problems.push(Problem::broken(format!(
                "not the followed validator, not counted: {foreign}"
            )));
        }
        let pending = recent_ids(SenderState::Pending);
        if !pending.is_empty() && state.senders.identity().is_none() {
            let text =
                format!("waiting for the validator's identity; points are kept apart: {pending}");
            problems.push(Problem::absent_data(text));
        }
        if let Some(identity) = state.senders.assumed_identity() {
            let text = format!(
                "the validator does not report its identity; the only sender of pushes is assumed to be the validator: {identity}. Set target.identity to be sure"
            );
            problems.push(Problem::absent_data(text));
        }
        if state.pushes_without_cache_points >= FILTERED_AFTER {
            let text = "pushes carry no program cache points although slots advance: the validator's RUST_LOG filters them; set RUST_LOG=solana=info,agave=info,solana_metrics=warn for it";
            problems.push(Problem::absent_data(text));
        }
        if let Some((reason, at)) = &state.last_refusal
            && now.since(*at) < MAX_PUSH_AGE
        {
            let text = format!(
                "pushes are refused: {reason}. If a relay sends them, add its user to ingest.allow_users; or set db, user and password_file in [ingest]"
            );
            problems.push(Problem::new(ProblemKind::Forbidden, text));
        }
        if state.is_silent(now) {
            problems.push(Problem::absent_data(if state.reads_log {
                NO_LOGGED_DATAPOINTS
            } else if state.last_push.is_some() {
                PUSHES_STOPPED
            } else {
                NO_PUSH_YET
            }));
        }
        problems
    }

    pub fn has_recent_push(&self, now: Stamp) -> bool {
        self.lock().has_recent_push(now)
    }
}

impl State {
    fn has_recent_push(&self, now: Stamp) -> bool {
        self.last_push
            .is_some_and(|at| now.since(at) < MAX_PUSH_AGE)
    }

    /// True if a validator has run for long enough to push, but has not pushed.
    fn is_silent(&self, now: Stamp) -> bool {
        let runs = self
            .rpc_first_and_last_response
            .is_some_and(|(first, last)| {
                now.since(first) >= MAX_PUSH_AGE && now.since(last) < MAX_RPC_RESPONSE_AGE
            });
        runs && !self.has_recent_push(now)
    }
}

fn join_ids<'s>(ids: impl Iterator<Item = &'s str>) -> String {
    const MAX_IDS: usize = 3;
    let shown = |id| match id {
        NO_ID => "one without a host_id",
        id => id,
    };
    // The order of arrival may change between pushes.
    let mut ids = ids.map(shown).sorted_unstable();
    let first = ids.by_ref().take(MAX_IDS).join(", ");
    match ids.len() {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}
