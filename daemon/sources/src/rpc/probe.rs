//! Sends a configured JSON-RPC request at intervals, as a client would, and measures the response
//! time.
//!
//! One request runs at a time, on its own connection. The probe starts after the process's JSON-RPC
//! has responded to the poller, so a validator's start is no failure.

use super::{
    Endpoint,
    client::{Client, Failure},
};
use crate::polling::PollTimer;
use faultline_agave::{Error, rpc};
use faultline_core::{clock::Clock, config, supervisor::Stop};
use faultline_kernel::ProcessId;
use faultline_metrics::{
    AddReadings, Histogram, Reading, TIME_BOUNDS, Value,
    metrics::validator::{PROBE_FAILURES, PROBE_TIME},
};
use serde_json::json;
use std::{sync::Arc, time::Duration};

/// After n failures in a row, 2^n - 1 polls are skipped, but at most this number.
const MAX_SKIPPED_POLLS: u32 = 15;
const FAILURE_KINDS: [&str; 7] = [
    "refused",
    "timeout",
    "http",
    "error",
    "malformed",
    "too_large",
    "connection",
];

#[derive(Debug)]
pub struct ProbeCounters {
    method: &'static str,
    response_times: Histogram,
    /// In the order of [`FAILURE_KINDS`].
    failures: [u64; FAILURE_KINDS.len()],
}

impl ProbeCounters {
    fn add(&mut self, result: &Result<(), Failure>, took: Duration) {
        match result {
            Ok(()) => self.response_times.observe(took.as_secs_f64()),
            Err(failure) => {
                let kind = failure_kind(failure);
                for (known, count) in FAILURE_KINDS.into_iter().zip(&mut self.failures) {
                    *count += u64::from(known == kind);
                }
            }
        }
    }

    pub fn add_readings(&self, out: &mut Vec<Reading>) {
        let times = Value::Histogram(Arc::new(self.response_times.clone()));
        out.push(Reading::new(&PROBE_TIME, [self.method.into()], times));
        for (kind, failures) in FAILURE_KINDS.into_iter().zip(self.failures) {
            out.integer(&PROBE_FAILURES, [self.method.into(), kind.into()], failures);
        }
    }
}

pub struct Probe {
    config: config::Probe,
    clock: Clock,
    endpoint: Endpoint,
}

impl Probe {
    pub fn new(config: &config::Probe, clock: Clock, endpoint: Endpoint) -> Self {
        let counters = ProbeCounters {
            method: config.method,
            response_times: Histogram::new(&TIME_BOUNDS),
            failures: [0; FAILURE_KINDS.len()],
        };
        *endpoint.handle.probe.lock() = Some(counters);
        Self {
            config: config.clone(),
            clock,
            endpoint,
        }
    }

    pub async fn run(self, stop: Stop) {
        let mut timer = PollTimer::new(self.clock, self.config.interval, stop);
        let mut current: Option<(ProcessId, Client)> = None;
        let (mut request_id, mut polls_to_skip, mut consecutive_failures) = (0, 0, 0_u32);
        while timer.next().await {
            let Some((process, url)) = self.endpoint.current() else {
                continue;
            };
            if current.as_ref().is_none_or(|(known, _)| *known != process) {
                (current, polls_to_skip, consecutive_failures) =
                    (Some((process, Client::new())), 0, 0);
            }
            if polls_to_skip > 0 {
                polls_to_skip -= 1;
                continue;
            }
            let Some((_, client)) = &current else {
                continue;
            };
            request_id += 1;
            let started = self.clock.now();
            let request_body = rpc::request_body(self.config.method, &json!([]), request_id);
            let Some(answer) = timer
                .wait_for(client.send(&url, request_body, self.config.timeout), || {})
                .await
            else {
                return;
            };
            let took = self.clock.now().since(started);
            // Ignores the result of a process that has ended meanwhile.
            if self
                .endpoint
                .current()
                .is_none_or(|(current_process, _)| current_process != process)
            {
                continue;
            }
            let result = answer.and_then(|body| {
                rpc::check_answer(self.config.method, request_id, &body)
                    .map_err(Failure::AnswerError)
            });
            consecutive_failures = result
                .as_ref()
                .map_or(consecutive_failures.saturating_add(1), |()| 0);
            polls_to_skip = 2_u32
                .saturating_pow(consecutive_failures)
                .saturating_sub(1)
                .min(MAX_SKIPPED_POLLS);
            if let Some(counters) = &mut *self.endpoint.handle.probe.lock() {
                counters.add(&result, took);
            }
        }
    }
}

fn failure_kind(failure: &Failure) -> &'static str {
    match failure {
        Failure::Refused => "refused",
        Failure::Timeout(_) => "timeout",
        Failure::Status(..) => "http",
        Failure::AnswerError(Error::Rpc { .. } | Error::NotOffered { .. }) => "error",
        Failure::AnswerError(_) | Failure::Encoded(_) => "malformed",
        Failure::TooLong(_) => "too_large",
        Failure::Transport(_) => "connection",
    }
}
