//! Measures the response time of one client request.
//!
//! Only one runs at a time, on its own connection. It waits until the process's JSON-RPC has
//! responded to the poller, so that a validator's start is no failure. After failures it backs off.

use super::client::{Client, Failure};
use super::endpoint::Endpoint;
use crate::asking::PollTimer;
use faultline_agave::{Error, rpc};
use faultline_core::clock::Clock;
use faultline_core::config;
use faultline_core::supervisor::Stop;
use faultline_kernel::ProcessId;
use faultline_metrics::metrics::validator::{PROBE_FAILURES, PROBE_TIME};
use faultline_metrics::{Histogram, Reading, ReadingList, TIME_BOUNDS, Value};
use serde_json::json;
use std::sync::Arc;

const MOST_LEFT_OUT: u32 = 15;
const KINDS: [&str; 7] = [
    "refused",
    "timeout",
    "http",
    "error",
    "malformed",
    "too_large",
    "connection",
];

#[derive(Debug, Clone)]
pub(super) struct Counted {
    method: &'static str,
    time: Histogram,
    /// By [`KINDS`].
    failures: [u64; KINDS.len()],
}

impl Counted {
    pub(super) fn readings(&self, out: &mut Vec<Reading>) {
        let time = Value::Histogram(Arc::new(self.time.clone()));
        out.push(Reading::new(&PROBE_TIME, [self.method.into()], time));
        for (kind, failures) in KINDS.into_iter().zip(self.failures) {
            out.counter(&PROBE_FAILURES, [self.method.into(), kind.into()], failures);
        }
    }
}

pub struct Probe {
    config: config::Probe,
    clock: Clock,
    endpoint: Endpoint,
}

impl Probe {
    pub fn new(config: &config::Probe, clock: Clock, endpoint: Endpoint) -> Probe {
        let counted = Counted {
            method: config.method,
            time: Histogram::new(&TIME_BOUNDS),
            failures: [0; KINDS.len()],
        };
        endpoint
            .handle
            .count_probe(|standing| *standing = Some(counted));
        Probe {
            config: config.clone(),
            clock,
            endpoint,
        }
    }

    pub async fn run(self, stop: Stop) {
        let mut timer = PollTimer::new(self.clock, self.config.interval, stop);
        let mut current: Option<(ProcessId, Client)> = None;
        let (mut id, mut left_out, mut failed) = (0, 0, 0_u32);
        while timer.next().await {
            let Some((process, url)) = self.endpoint.current() else {
                continue;
            };
            if current.as_ref().is_none_or(|(known, _)| *known != process) {
                (current, left_out, failed) = (Some((process, Client::new())), 0, 0);
            }
            if left_out > 0 {
                left_out -= 1;
                continue;
            }
            let Some((_, client)) = &current else {
                continue;
            };
            id += 1;
            let began = self.clock.now();
            let question = rpc::question(self.config.method, &json!([]), id);
            let Some(answer) = timer
                .during(client.send(&url, question, self.config.timeout), || {})
                .await
            else {
                return;
            };
            let took = self.clock.now().since(began);
            // Ignores the result of a process that has ended meanwhile.
            if self
                .endpoint
                .current()
                .is_none_or(|(now, _)| now != process)
            {
                continue;
            }
            let answered = answer.and_then(|body| {
                rpc::answered(self.config.method, id, &body).map_err(Failure::Answer)
            });
            failed = answered.as_ref().map_or(failed.saturating_add(1), |()| 0);
            left_out = 2_u32
                .saturating_pow(failed)
                .saturating_sub(1)
                .min(MOST_LEFT_OUT);
            self.endpoint.handle.count_probe(|counted| {
                let Some(counted) = counted else { return };
                match answered.as_ref().map_err(kind) {
                    Ok(()) => counted.time.observe(took.as_secs_f64()),
                    Err(kind) => {
                        let index = KINDS.iter().position(|known| *known == kind);
                        index
                            .and_then(|index| counted.failures.get_mut(index))
                            .into_iter()
                            .for_each(|count| *count += 1);
                    }
                }
            });
        }
    }
}

fn kind(failure: &Failure) -> &'static str {
    match failure {
        Failure::Refused => "refused",
        Failure::Late(_) => "timeout",
        Failure::Status(..) => "http",
        Failure::Answer(Error::Rpc { .. } | Error::NotOffered { .. }) => "error",
        Failure::Answer(_) | Failure::Encoded(_) => "malformed",
        Failure::TooLong(_) => "too_large",
        Failure::Transport(_) => "connection",
    }
}
