//! Sends the requests of a plan.
//!
//! One thread does everything, so that latency does not include waits for a processor. In a closed
//! loop, each worker sends its next request after the last answer. In an open loop, latency counts
//! from the scheduled time, so that waiting for a free connection is not hidden.

mod exchange;
mod pace;
mod probe;
#[cfg(test)]
mod tests;

use crate::{
    answer::Decoder,
    failure::Failure,
    plan::{Cell as PlanCell, Order, Plan, ScheduledRequest},
    results::{Sample, Timing, ns},
    stream,
    verify::{AnswerVerifier, Verdict},
};
use anyhow::{Context as _, Result};
use exchange::Connections;
use faultline_common::{clock, progress::Progress, signals::Signals};
use futures_util::future::{Either, select};
use pace::{LastAttempt, POLL_INTERVAL, Pace, Retried};
use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet},
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

#[derive(Debug, Clone)]
pub struct RunState {
    pub verdicts: Vec<Verdict>,
    pub refusals: BTreeMap<String, u64>,
    pub messages: BTreeMap<usize, String>,
    pub stopped_by: Option<String>,
    pub own_cpu: Option<Duration>,
    pub length: Duration,
}

/// Called about once a second and at the end, with new samples.
pub type SampleSink<'a> = dyn Fn(&[Sample], &RunState) + 'a;

const FLUSH_INTERVAL: Duration = Duration::from_secs(1);

/// While it exists, a signal stops its work instead of the process.
pub struct Engine {
    runtime: Runtime,
    pub tls: Option<TlsConnector>,
    signals: RefCell<Signals>,
}

impl Engine {
    /// Trusts the certificates of `ca_file`, or the system's.
    pub fn new(plan: &Plan, ca_file: Option<&Path>) -> Result<Engine> {
        let tls = plan
            .links
            .iter()
            .any(|link| link.endpoint.tls)
            .then(|| stream::tls_connector(ca_file))
            .transpose()?;
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .context("asynchronous sockets")?;
        Ok(Engine {
            runtime,
            tls,
            signals: RefCell::new(Signals::listen().context("signals")?),
        })
    }

    /// A signal stops it; pending requests are completed.
    pub fn run(&self, plan: &Rc<Plan>, sink: &SampleSink<'_>) -> Result<MeasuredRun> {
        let shared = Rc::new(Shared::new(plan.clone(), self.tls.clone()));
        let decoders = (0..plan.workers)
            .map(|_| Decoder::new())
            .collect::<Result<Vec<_>, _>>()?;
        let cpu = clock::thread_cpu();
        let mut measured = self.measured(&shared, "requests", sink, async {
            // Open all connections first, as a busy client has them.
            let mut first = Connections::new(plan, self.tls.clone());
            let mut tried = BTreeSet::new();
            for cell in plan.cells.iter().filter(|cell| tried.insert(cell.link)) {
                first.open(plan, cell).await;
            }
            shared.idle.borrow_mut().push(first);
            let mut workers = JoinSet::new();
            for decoder in decoders {
                workers.spawn_local(worker(shared.clone(), decoder));
            }
            join_workers(&mut workers).await
        })?;
        // Busy waiting is CPU time, so the tool's own CPU time is then unknown.
        let is_busy_waiting =
            plan.rate.is_some() || plan.links.iter().any(|link| !link.shape.is_none());
        if !is_busy_waiting {
            measured.state.own_cpu = clock::thread_cpu()
                .saturating_sub(cpu)
                .checked_div(u32::try_from(shared.done.get())?);
        }
        measured
            .samples
            .sort_unstable_by_key(|sample| sample.number);
        Ok(measured)
    }

    fn measured(
        &self,
        shared: &Shared,
        unit: &'static str,
        sink: &SampleSink<'_>,
        work: impl Future<Output = Result<()>>,
    ) -> Result<MeasuredRun> {
        let flush = |state: &RunState| {
            let samples = shared.samples.borrow();
            sink(
                samples.get(shared.flushed.get()..).unwrap_or_default(),
                state,
            );
            shared.flushed.set(samples.len());
        };
        let progress = RefCell::new(Progress::new(shared.plan.requests(), unit));
        let next_flush = Cell::new(clock::uptime() + FLUSH_INTERVAL);
        let report_progress = || {
            let refused: u64 = shared.pace.refusals().values().sum();
            let more = if refused > 0 {
                format!(", {refused} refused")
            } else {
                String::new()
            };
            progress.borrow_mut().at(shared.done.get(), &more);
            if clock::uptime() >= next_flush.get() {
                flush(&shared.state());
                next_flush.set(clock::uptime() + FLUSH_INTERVAL);
            }
        };
        self.with_signals(&shared.pace, report_progress, work)?;
        let state = shared.state();
        flush(&state);
        Ok(MeasuredRun {
            samples: shared.samples.take(),
            state,
        })
    }

    pub fn end_requested(&self) -> Option<&'static str> {
        end_requested(&mut self.signals.borrow_mut(), Duration::ZERO)
    }

    /// Runs `work` before any measurement. Its connections are closed afterwards.
    pub fn first<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let pace = Pace::default();
        let either = async {
            // `work` does not check the pace, so the first signal ends it.
            match select(pin!(work), pin!(pace.until(Duration::MAX))).await {
                Either::Left((done, _)) => done.map(Some),
                Either::Right(_) => Ok(None),
            }
        };
        let done = self.with_signals(&pace, || (), either)?;
        done.flatten().with_context(|| pace.ended_early())
    }

    pub fn run_sequentially(
        &self,
        plan: &Rc<Plan>,
        sink: &SampleSink<'_>,
        mut perform: impl AsyncFnMut(&PlanCell) -> Result<Timing, Failure>,
    ) -> Result<MeasuredRun> {
        let shared = Shared::new(plan.clone(), None);
        self.measured(&shared, "tasks", sink, async {
            while let Some((scheduled, at)) = shared.next().await {
                let cell = &plan.cells[scheduled.cell];
                let send = async |_| perform(cell).await;
                let node = plan.node(cell.link);
                let attempted = shared.pace.send_with_retries(node, at, Retried::All, send);
                let Some(attempted) = attempted.await else {
                    break;
                };
                shared.record_answer(&scheduled, LastAttempt { at, ..attempted }, None);
            }
            Ok(())
        })
    }

    /// The first signal stops `pace`, and thereby `work`. `None` after a second signal, which does
    /// not wait for `work`.
    fn with_signals<T>(
        &self,
        pace: &Pace,
        report_progress: impl Fn(),
        work: impl Future<Output = Result<T>>,
    ) -> Result<Option<T>> {
        LocalSet::new().block_on(&self.runtime, async {
            let mut work = pin!(work);
            loop {
                if let Ok(done) = timeout(POLL_INTERVAL, work.as_mut()).await {
                    return done.map(Some);
                }
                if let Some(signal) = self.end_requested() {
                    if pace.ended_by().is_some() {
                        return Ok(None);
                    }
                    pace.end(signal.to_owned());
                }
                report_progress();
            }
        })
    }
}

/// A signal that ends the process, if one comes within `wait`.
pub fn end_requested(signals: &mut Signals, wait: Duration) -> Option<&'static str> {
    let received = signals.wait(None, wait).unwrap_or_default();
    let mut to_end = received
        .into_iter()
        .filter(|signal| signal.is_end_request());
    to_end
        .next()
        .map(|signal| signal.stop_signal_name().unwrap_or("SIGHUP"))
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
    samples: RefCell<Vec<Sample>>,
    verify: RefCell<AnswerVerifier>,
    /// Taken from the end, so that only as many as needed stay in use.
    idle: RefCell<Vec<Connections>>,
    pace: Pace,
    started_at: Cell<Option<Duration>>,
    first: Cell<Option<Duration>>,
    done: Cell<u64>,
    /// Samples that the sink has.
    flushed: Cell<usize>,
    messages: RefCell<BTreeMap<usize, String>>,
}

impl Shared {
    fn new(plan: Rc<Plan>, tls: Option<TlsConnector>) -> Shared {
        let expected = usize::try_from(plan.requests()).unwrap_or(0).min(1 << 20);
        Shared {
            order: Mutex::new(Order::new(&plan)),
            verify: RefCell::new(AnswerVerifier::new(&plan)),
            plan,
            tls,
            samples: RefCell::new(Vec::with_capacity(expected)),
            idle: RefCell::default(),
            pace: Pace::default(),
            started_at: Cell::default(),
            first: Cell::default(),
            done: Cell::default(),
            flushed: Cell::default(),
            messages: RefCell::default(),
        }
    }

    fn state(&self) -> RunState {
        RunState {
            verdicts: self.verify.borrow().verdicts.clone(),
            refusals: self.pace.refusals(),
            messages: self.messages.borrow().clone(),
            stopped_by: self.pace.ended_by(),
            own_cpu: None,
            length: self.started_at.get().map_or(Duration::ZERO, |started_at| {
                clock::uptime().saturating_sub(started_at)
            }),
        }
    }

    /// Returns at the scheduled time. Workers wait in FIFO order, so that only one waits actively.
    /// `None` after the last request.
    async fn next(&self) -> Option<(ScheduledRequest, Duration)> {
        let mut order = self.order.lock().await;
        let scheduled = order.next()?;
        let now = clock::uptime();
        let first = self.first.get().unwrap_or(now);
        self.first.set(Some(first));
        let at = self
            .plan
            .rate
            .map(|rate| first + Duration::from_secs_f64(scheduled.number as f64 / rate));
        let may_send = match at {
            None => self.pace.wait_for_resume().await,
            Some(at) => self.pace.until(at).await,
        };
        if !may_send {
            return None;
        }
        let at = at.unwrap_or_else(clock::uptime);
        if scheduled.round.is_some() && self.started_at.get().is_none() {
            self.started_at.set(Some(at));
        }
        Some((scheduled, at))
    }

    /// Records the outcome of a request. `answer` has slot and bytes if answers are compared.
    fn record_answer(
        &self,
        scheduled: &ScheduledRequest,
        attempted: LastAttempt<Timing>,
        answer: Option<(Option<u64>, &[u8])>,
    ) {
        let round = self.plan.round_of(scheduled.number);
        let cell = &self.plan.cells[scheduled.cell];
        let mut verify = self.verify.borrow_mut();
        verify.record_answer((cell.arm, cell.subject), round, answer);
        self.done.set(self.done.get() + 1);
        // Only the first per cell.
        if let Some(message) = attempted.answer.as_ref().err().and_then(Failure::message) {
            let mut messages = self.messages.borrow_mut();
            messages
                .entry(scheduled.cell)
                .or_insert_with(|| message.to_owned());
        }
        if let Some(round) = scheduled.round {
            let started_at = self.started_at.get().unwrap_or(attempted.at);
            self.samples.borrow_mut().push(Sample {
                number: scheduled.number,
                round,
                cell: scheduled.cell,
                at_ns: ns(attempted.at.saturating_sub(started_at)),
                result: attempted.answer.map_err(|failure| failure.kind()),
                refused: attempted.refused,
            });
        }
    }
}

async fn worker(shared: Rc<Shared>, mut decoder: Decoder) {
    let repeat = if shared.plan.rate.is_none() {
        Retried::All
    } else {
        Retried::None
    };
    while let Some((scheduled, at)) = shared.next().await {
        let cell = &shared.plan.cells[scheduled.cell];
        let node = shared.plan.node(cell.link);
        if shared.pace.is_paused(node, at) {
            shared.record_answer(
                &scheduled,
                LastAttempt {
                    answer: Err(Failure::NotSent),
                    at,
                    refused: 0,
                },
                None,
            );
            continue;
        }
        let idle = shared.idle.borrow_mut().pop();
        let mut connections =
            idle.unwrap_or_else(|| Connections::new(&shared.plan, shared.tls.clone()));
        let send = async |at| {
            connections
                .exchange(&shared.plan, cell, scheduled.number, &mut decoder, at)
                .await
        };
        let attempted = shared.pace.send_with_retries(node, at, repeat, send).await;
        shared.idle.borrow_mut().push(connections);
        let Some(attempted) = attempted else { return };
        let timing = attempted.answer.as_ref().ok();
        let answer = timing.and_then(|_| decoder.answer());
        shared.record_answer(&scheduled, attempted, answer);
    }
}
