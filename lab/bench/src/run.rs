//! Sends the requests of a plan.
//!
//! One thread does everything, so that latency includes no switch between threads. In a closed
//! loop, each worker sends its next request after the last answer, and repeats refused requests
//! ([`Failure::is_refusal`]). In an open loop, latency counts from the scheduled time, so that it
//! includes waiting for a free worker.

mod control;
mod exchange;
#[cfg(test)]
mod tests;

use crate::{
    answer::Decoder,
    failure::Failure,
    plan::{Case, Order, Plan, ScheduledRequest},
    results::{RunState, Sample, Timing, ns},
    stream,
    verify::AnswerVerifier,
};
use anyhow::{Context, Result, anyhow};
use control::{END_CHECK_INTERVAL, LastAttempt, RetryPolicy, RunControl};
use exchange::Connections;
use faultline_common::{clock, progress::Progress, signals::Signals};
use futures_util::future::{Either, join_all, select};
use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    mem,
    path::Path,
    pin::pin,
    rc::Rc,
    time::Duration,
};
use tokio::{
    runtime::{Builder, Runtime},
    sync::Mutex,
    task::{JoinSet, LocalSet},
    time::timeout,
};
use tokio_rustls::TlsConnector;

pub struct MeasuredRun {
    pub samples: Vec<Sample>,
    pub state: RunState,
}

/// Called about once a second and at the end, with the samples since the last call.
pub type SampleSink<'a> = dyn Fn(&[Sample], &RunState) + 'a;

const FLUSH_INTERVAL: Duration = Duration::from_secs(1);

/// While an engine exists, a signal ends what it measures instead of the process.
pub struct Engine {
    runtime: Runtime,
    pub tls: Option<TlsConnector>,
    signals: RefCell<Signals>,
}

impl Engine {
    pub fn new(plan: &Plan, ca_file: Option<&Path>) -> Result<Self> {
        let tls = plan
            .connections
            .iter()
            .any(|connection| connection.endpoint.uses_tls)
            .then(|| stream::tls_connector(ca_file))
            .transpose()?;
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .context("asynchronous sockets")?;
        Ok(Self {
            runtime,
            tls,
            signals: RefCell::new(Signals::listen().context("signals")?),
        })
    }

    /// The first signal ends the run after the pending requests. A second signal ends it at once.
    pub fn run(&self, plan: &Rc<Plan>, sink: &SampleSink<'_>) -> Result<MeasuredRun> {
        let shared = Rc::new(Shared::new(plan.clone(), self.tls.clone()));
        let decoders = (0..plan.workers)
            .map(|_| Decoder::new())
            .collect::<Result<Vec<_>, _>>()?;
        let cpu = clock::thread_cpu();
        let mut measured = self.run_with_progress(&shared, "requests", sink, async {
            // The first worker starts with open connections, as a busy client has them.
            let mut connections = Connections::new(plan, self.tls.clone());
            let mut opened = BTreeSet::new();
            for case in plan
                .cases
                .iter()
                .filter(|case| opened.insert(case.connection_index))
            {
                connections.open(plan, case).await;
            }
            shared.idle.borrow_mut().push(connections);
            let mut workers = JoinSet::new();
            for decoder in decoders {
                workers.spawn_local(worker(shared.clone(), decoder));
            }
            join_workers(&mut workers).await
        })?;
        // Open loops and shaped links busy-wait, which takes CPU time, too.
        if plan.rate.is_none()
            && measured.samples.iter().any(|sample| sample.result.is_ok())
            && plan
                .connections
                .iter()
                .all(|connection| connection.link_shape.has_no_effect())
        {
            measured.state.tool_cpu_per_request = clock::thread_cpu()
                .saturating_sub(cpu)
                .checked_div(u32::try_from(shared.recording.borrow().completed)?);
        }
        measured
            .samples
            .sort_unstable_by_key(|sample| sample.number);
        Ok(measured)
    }

    fn run_with_progress(
        &self,
        shared: &Shared,
        unit: &'static str,
        sink: &SampleSink<'_>,
        work: impl Future<Output = Result<()>>,
    ) -> Result<MeasuredRun> {
        let mut progress = Progress::new(shared.plan.request_count(), unit);
        let mut next_flush = clock::uptime() + FLUSH_INTERVAL;
        let report_progress = || {
            let suffix = shared.control.refusals_suffix();
            progress.show(shared.recording.borrow().completed, &suffix);
            if clock::uptime() >= next_flush {
                shared.flush(sink);
                next_flush = clock::uptime() + FLUSH_INTERVAL;
            }
        };
        self.with_signals(&shared.control, report_progress, work)?;
        Ok(MeasuredRun {
            state: shared.flush(sink),
            samples: mem::take(&mut shared.recording.borrow_mut().samples),
        })
    }

    pub fn take_end_signal(&self) -> Option<&'static str> {
        wait_for_end_signal(&mut self.signals.borrow_mut(), Duration::ZERO)
    }

    /// Runs `work` before any measurement. The tasks that `work` spawned end with this call.
    pub fn run_preparation<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let control = RunControl::default();
        let work = async {
            // `work` does not check `control`, so the first signal drops it.
            match select(pin!(work), pin!(control.wait_until(Duration::MAX))).await {
                Either::Left((done, _)) => done.map(Some),
                Either::Right(_) => Ok(None),
            }
        };
        self.with_signals(&control, || (), work)?
            .flatten()
            .with_context(|| control.ended_early_message())
    }

    /// Sends each request to all arms at the same time. Returns the decoded bytes by case.
    pub fn probe(&self, plan: &Plan) -> Result<Vec<Result<Vec<u8>, Failure>>> {
        let control = &RunControl::default();
        let work = async {
            let connections = |_| Connections::new(plan, self.tls.clone());
            let mut by_arm = Vec::from_iter(plan.arms.iter().map(connections));
            let mut answers = BTreeMap::new();
            for request_index in 0..plan.request_labels.len() {
                let by_arm = by_arm.iter_mut().enumerate();
                let sends = by_arm.filter_map(|(arm_index, connections)| {
                    let is_sent_now = |case: &Case| {
                        (case.arm_index, case.request_index) == (arm_index, request_index)
                    };
                    let case_index = plan.cases.iter().position(is_sent_now)?;
                    Some(async move {
                        let case = &plan.cases[case_index];
                        let request_id = case_index as u64;
                        let mut decoder = Decoder::new()?;
                        connections.open(plan, case).await;
                        let send = async |counted_from| {
                            connections
                                .exchange(plan, case, request_id, &mut decoder, counted_from)
                                .await
                        };
                        let node_index = plan.node_index(case);
                        let attempt = control
                            .send_with_retries(
                                node_index,
                                clock::uptime(),
                                RetryPolicy::RateLimits,
                                send,
                            )
                            .await;
                        anyhow::Ok(attempt.map(|attempt| {
                            let bytes = attempt.answer.map(|_| decoder.bytes().to_vec());
                            (case_index, bytes)
                        }))
                    })
                });
                for answered in join_all(sends).await {
                    answers.extend(answered?);
                }
            }
            Ok(answers.into_values().collect())
        };
        self.with_signals(control, || (), work)?
            .filter(|_| control.ended_by().is_none())
            .with_context(|| control.ended_early_message())
    }

    pub fn probe_json(&self, plan: &Plan) -> Result<Vec<serde_json::Value>> {
        let mut values = Vec::new();
        for (answer, case) in self.probe(plan)?.into_iter().zip(&plan.cases) {
            let bytes = answer.map_err(|failure| {
                let (arm, call) = (plan.arm_name(case), &case.call);
                anyhow!("{arm} gives no good answer to {call}: {failure}")
            })?;
            values.push(serde_json::from_slice(&bytes)?);
        }
        Ok(values)
    }

    pub fn run_sequentially(
        &self,
        plan: &Rc<Plan>,
        sink: &SampleSink<'_>,
        mut perform: impl AsyncFnMut(&Case) -> Result<Timing, Failure>,
    ) -> Result<MeasuredRun> {
        let shared = Shared::new(plan.clone(), None);
        self.run_with_progress(&shared, "tasks", sink, async {
            while let Some((scheduled, counted_from)) = shared.next_request().await {
                let case = &plan.cases[scheduled.case_index];
                let send = async |_| perform(case).await;
                let node_index = plan.node_index(case);
                let attempt = shared.control.send_with_retries(
                    node_index,
                    counted_from,
                    RetryPolicy::All,
                    send,
                );
                let Some(attempt) = attempt.await else {
                    break;
                };
                // The time of the sample is that of the first attempt.
                let attempt = LastAttempt {
                    counted_from,
                    ..attempt
                };
                shared.record_answer(&scheduled, attempt, None);
            }
            Ok(())
        })
    }

    /// The first signal ends `control`, which `work` checks. After a second signal, returns `None`
    /// without waiting for `work`.
    fn with_signals<T>(
        &self,
        control: &RunControl,
        mut report_progress: impl FnMut(),
        work: impl Future<Output = Result<T>>,
    ) -> Result<Option<T>> {
        LocalSet::new().block_on(&self.runtime, async {
            let mut work = pin!(work);
            loop {
                if let Ok(done) = timeout(END_CHECK_INTERVAL, work.as_mut()).await {
                    return done.map(Some);
                }
                if let Some(signal) = self.take_end_signal() {
                    if control.ended_by().is_some() {
                        return Ok(None);
                    }
                    control.end(signal.to_owned());
                }
                report_progress();
            }
        })
    }
}

/// The signal's name, if one comes within `timeout`.
pub fn wait_for_end_signal(signals: &mut Signals, timeout: Duration) -> Option<&'static str> {
    let signal = signals
        .wait(None, timeout)
        .unwrap_or_default()
        .into_iter()
        .find(|signal| signal.is_end_request())?;
    // `stop_signal_name` names all of them except SIGHUP.
    Some(signal.stop_signal_name().unwrap_or("SIGHUP"))
}

async fn join_workers(workers: &mut JoinSet<()>) -> Result<()> {
    while let Some(ended) = workers.join_next().await {
        ended.context("a worker failed, so that requests are missing")?;
    }
    Ok(())
}

struct Shared {
    plan: Rc<Plan>,
    tls: Option<TlsConnector>,
    order: Mutex<Order>,
    /// A worker takes the last one, so that a light load uses few connections.
    idle: RefCell<Vec<Connections>>,
    control: RunControl,
    recording: RefCell<Recording>,
}

struct Recording {
    /// When the first request of an open loop was due.
    schedule_start: Option<Duration>,
    /// When the first measured request was sent or, in an open loop, due.
    started_at: Option<Duration>,
    samples: Vec<Sample>,
    /// Samples that the sink has received.
    flushed: usize,
    completed: u64,
    verifier: AnswerVerifier,
    first_error_by_case: BTreeMap<usize, String>,
}

impl Shared {
    fn new(plan: Rc<Plan>, tls: Option<TlsConnector>) -> Self {
        let capacity = usize::try_from(plan.request_count())
            .unwrap_or(0)
            .min(1 << 20);
        Self {
            order: Mutex::new(Order::new(&plan)),
            recording: RefCell::new(Recording {
                schedule_start: None,
                started_at: None,
                samples: Vec::with_capacity(capacity),
                flushed: 0,
                completed: 0,
                verifier: AnswerVerifier::new(&plan),
                first_error_by_case: BTreeMap::new(),
            }),
            plan,
            tls,
            idle: RefCell::default(),
            control: RunControl::default(),
        }
    }

    fn flush(&self, sink: &SampleSink<'_>) -> RunState {
        let mut recording = self.recording.borrow_mut();
        let state = RunState {
            answer_comparisons: recording.verifier.answer_comparisons.clone(),
            refusals: self.control.refusals.borrow().clone(),
            first_error_by_case: recording.first_error_by_case.clone(),
            stopped_by: self.control.ended_by(),
            tool_cpu_per_request: None,
            length: recording.started_at.map_or(Duration::ZERO, |started_at| {
                clock::uptime().saturating_sub(started_at)
            }),
        };
        sink(&recording.samples[recording.flushed..], &state);
        recording.flushed = recording.samples.len();
        state
    }

    /// Waits until the next request is due. Also returns the time from which its latency counts.
    /// `None` at the end of the run. A waiting worker locks `order`, so that only one busy-waits.
    async fn next_request(&self) -> Option<(ScheduledRequest, Duration)> {
        let mut order = self.order.lock().await;
        let scheduled = order.next()?;
        let due = self.plan.rate.map(|rate| {
            let mut recording = self.recording.borrow_mut();
            let start = recording.schedule_start.get_or_insert_with(clock::uptime);
            *start + Duration::from_secs_f64(scheduled.number as f64 / rate)
        });
        let send_at = due.unwrap_or_else(|| self.control.refusal_pause_end.get());
        if !self.control.wait_until(send_at).await {
            return None;
        }
        let counted_from = due.unwrap_or_else(clock::uptime);
        if scheduled.measured_round.is_some() {
            let mut recording = self.recording.borrow_mut();
            recording.started_at.get_or_insert(counted_from);
        }
        Some((scheduled, counted_from))
    }

    /// `comparable_answer`: slot and bytes, if answers are compared.
    fn record_answer(
        &self,
        scheduled: &ScheduledRequest,
        attempt: LastAttempt<Timing>,
        comparable_answer: Option<(Option<u64>, &[u8])>,
    ) {
        let mut recording = self.recording.borrow_mut();
        let round_with_warm_up = self.plan.round_of(scheduled.number);
        let case = &self.plan.cases[scheduled.case_index];
        recording.verifier.record_answer(
            (case.arm_index, case.request_index),
            round_with_warm_up,
            comparable_answer,
        );
        recording.completed += 1;
        if let Err(Failure::Rpc(_, message)) = &attempt.answer
            && !message.is_empty()
        {
            let first_error_by_case = &mut recording.first_error_by_case;
            first_error_by_case
                .entry(scheduled.case_index)
                .or_insert_with(|| message.to_owned());
        }
        if let Some(round) = scheduled.measured_round {
            let started_at = recording.started_at.unwrap_or(attempt.counted_from);
            recording.samples.push(Sample {
                number: scheduled.number,
                round,
                case_index: scheduled.case_index,
                at_ns: ns(attempt.counted_from.saturating_sub(started_at)),
                result: attempt.answer.map_err(|failure| failure.kind()),
                retries: attempt.retries,
            });
        }
    }
}

async fn worker(shared: Rc<Shared>, mut decoder: Decoder) {
    let policy = match shared.plan.rate {
        None => RetryPolicy::All,
        Some(_) => RetryPolicy::None,
    };
    while let Some((scheduled, counted_from)) = shared.next_request().await {
        let case = &shared.plan.cases[scheduled.case_index];
        let node_index = shared.plan.node_index(case);
        if shared
            .control
            .is_within_retry_after(node_index, counted_from)
        {
            shared.record_answer(
                &scheduled,
                LastAttempt {
                    answer: Err(Failure::NotSent),
                    counted_from,
                    retries: 0,
                },
                None,
            );
            continue;
        }
        let request_id = scheduled.number;
        let idle = shared.idle.borrow_mut().pop();
        let mut connections =
            idle.unwrap_or_else(|| Connections::new(&shared.plan, shared.tls.clone()));
        let send = async |counted_from| {
            connections
                .exchange(&shared.plan, case, request_id, &mut decoder, counted_from)
                .await
        };
        let attempt = shared
            .control
            .send_with_retries(node_index, counted_from, policy, send)
            .await;
        shared.idle.borrow_mut().push(connections);
        let Some(attempt) = attempt else { return };
        let comparable_answer = attempt
            .answer
            .as_ref()
            .ok()
            .and_then(|_| decoder.comparable_answer());
        shared.record_answer(&scheduled, attempt, comparable_answer);
    }
}
