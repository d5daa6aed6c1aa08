//! Sends the requests of a plan and keeps what came of each.
//!
//! One thread does all, so that what is measured of one request is not another thread's wait for a processor. In a closed loop
//! each worker sends its next request when the last was answered. In an open loop requests have moments at which they are to be
//! sent, and latency counts from these, so that a wait for a free connection is not hidden.

mod exchange;
#[cfg(test)]
mod hostile;
mod one_by_one;
mod pace;
mod questions;
#[cfg(test)]
mod server;
#[cfg(test)]
mod tests;

use crate::answer::Decoder;
use crate::failure::Failure;
use crate::plan::{Order, Plan, Turn};
use crate::results::Sample;
use crate::stream;
use crate::verify::{Verdict, Verify};
use anyhow::Context as _;
use exchange::Connections;
pub(crate) use exchange::Exchanged;
use faultline_command::clock;
use faultline_command::progress::Progress;
use faultline_command::signals::Signals;
use pace::{Attempted, POLL_INTERVAL, Pace, Repeat};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Mutex;
use tokio::task::{JoinSet, LocalSet};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// What a run measured.
pub(crate) struct Measured {
    pub(crate) samples: Vec<Sample>,
    pub(crate) state: RunState,
}

/// What is known of a run beside its samples.
#[derive(Debug, Clone)]
pub(crate) struct RunState {
    pub(crate) verdicts: Vec<Verdict>,
    /// Refused requests by kind, those that were sent again included.
    pub(crate) refusals: BTreeMap<String, u64>,
    /// The first message of an error object, by cell.
    pub(crate) messages: BTreeMap<usize, String>,
    /// What ended it early.
    pub(crate) stopped_by: Option<String>,
    /// CPU time of this tool per request.
    pub(crate) own_cpu: Option<Duration>,
    /// Of the part that counts.
    pub(crate) length: Duration,
}

/// Takes the samples that are new since the last time, and the state of the run, about once a second and at its end.
pub(crate) type SampleSink<'a> = dyn Fn(&[Sample], &RunState) + 'a;

/// Between two batches of samples.
const FLUSH_INTERVAL: Duration = Duration::from_secs(1);

/// Passes the samples of a run to a sink as they come.
struct SampleFlusher<'a> {
    sink: &'a SampleSink<'a>,
    /// Samples that the sink has.
    flushed: Cell<usize>,
    next_at: Cell<Duration>,
}

impl<'a> SampleFlusher<'a> {
    fn new(sink: &'a SampleSink<'a>) -> SampleFlusher<'a> {
        SampleFlusher {
            sink,
            flushed: Cell::new(0),
            next_at: Cell::new(clock::uptime() + FLUSH_INTERVAL),
        }
    }

    fn flush_if_due(&self, samples: &[Sample], state: impl FnOnce() -> RunState) {
        if clock::uptime() >= self.next_at.get() {
            self.flush(samples, &state());
        }
    }

    fn flush(&self, samples: &[Sample], state: &RunState) {
        (self.sink)(samples.get(self.flushed.get()..).unwrap_or_default(), state);
        self.flushed.set(samples.len());
        self.next_at.set(clock::uptime() + FLUSH_INTERVAL);
    }
}

/// What sends requests. From its making on, a signal to end ends what it does, and not the process.
pub(crate) struct Engine {
    runtime: Runtime,
    tls: Option<TlsConnector>,
    signals: RefCell<Signals>,
}

impl Engine {
    /// For the nodes of `plan`, which are trusted by the certificates of `authorities` or of the system.
    ///
    /// # Errors
    /// The certificates cannot be used, signals cannot be heard, or the system gives no timers.
    pub(crate) fn new(plan: &Plan, authorities: Option<&Path>) -> anyhow::Result<Engine> {
        let tls = plan
            .links
            .iter()
            .any(|link| link.endpoint.tls)
            .then(|| stream::trusting(authorities))
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

    /// Sends all requests, or those until a signal to end; what is under way then is waited for.
    ///
    /// # Errors
    /// There is no memory for decoders, or a worker failed.
    pub(crate) fn run(&self, plan: &Rc<Plan>, sink: &SampleSink<'_>) -> anyhow::Result<Measured> {
        let flusher = SampleFlusher::new(sink);
        let shared = Rc::new(Shared::new(plan.clone(), self.tls.clone()));
        let decoders = (0..plan.workers)
            .map(|_| Decoder::new())
            .collect::<Result<Vec<_>, _>>()?;
        let cpu = clock::thread_cpu();
        let progress = RefCell::new(Progress::new(plan.requests(), "requests"));
        let inspect = || {
            let refused: u64 = shared.pace.refusals().values().sum();
            let more = if refused > 0 {
                format!(", {refused} refused")
            } else {
                String::new()
            };
            progress.borrow_mut().at(shared.done.get(), &more);
            flusher.flush_if_due(&shared.samples.borrow(), || shared.state());
        };
        self.with_signals(&shared.pace, inspect, async {
            // Before the schedule begins: a client that asks often has a connection.
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
            all_ended(&mut workers).await
        })?;
        let own_cpu = clock::thread_cpu()
            .saturating_sub(cpu)
            .checked_div(u32::try_from(shared.done.get())?);
        // In an open loop and over a slowed link the active wait for the next moment is CPU time as well.
        let waits = plan.rate.is_some() || plan.links.iter().any(|link| !link.shape.is_none());
        let state = RunState {
            own_cpu: own_cpu.filter(|_| !waits),
            ..shared.state()
        };
        let mut samples = shared.samples.take();
        flusher.flush(&samples, &state);
        samples.sort_unstable_by_key(|sample| sample.number);
        Ok(Measured { samples, state })
    }

    /// The signal to end that came since the last look.
    pub(crate) fn end_requested(&self) -> Option<&'static str> {
        let newest = self
            .signals
            .borrow_mut()
            .wait(None, Duration::ZERO)
            .unwrap_or_default();
        newest
            .into_iter()
            .find(|newest| newest.asks_to_end())
            .map(|to_end| to_end.stops().unwrap_or("SIGHUP"))
    }

    /// Does `work`, and looks now and then. A signal to end ends `pace`, and `work` by that; `None` after a second signal, which does
    /// not wait for it.
    ///
    /// # Errors
    /// Those of `work`.
    pub(crate) fn with_signals<T>(
        &self,
        pace: &Pace,
        inspect: impl Fn(),
        work: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<Option<T>> {
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
                inspect();
            }
        })
    }
}

async fn all_ended(workers: &mut JoinSet<()>) -> anyhow::Result<()> {
    while let Some(ended) = workers.join_next().await {
        ended.context("a worker failed, so that requests are missing")?;
    }
    Ok(())
}

/// What workers have in common.
struct Shared {
    plan: Rc<Plan>,
    tls: Option<TlsConnector>,
    order: Mutex<Order>,
    samples: RefCell<Vec<Sample>>,
    verify: RefCell<Verify>,
    /// Connections that no request uses now; the last was used last. So no more are kept in use than are needed at the same time.
    idle: RefCell<Vec<Connections>>,
    pace: Pace,
    /// When the first round that counts began.
    begun: Cell<Option<Duration>>,
    /// When the first request of all was to be sent.
    first: Cell<Option<Duration>>,
    done: Cell<u64>,
    messages: RefCell<BTreeMap<usize, String>>,
}

impl Shared {
    fn new(plan: Rc<Plan>, tls: Option<TlsConnector>) -> Shared {
        // So much is there at once; a long run takes more by and by.
        let expected = usize::try_from(plan.requests()).unwrap_or(0).min(1 << 20);
        Shared {
            order: Mutex::new(Order::new(&plan)),
            verify: RefCell::new(Verify::new(&plan)),
            plan,
            tls,
            samples: RefCell::new(Vec::with_capacity(expected)),
            idle: RefCell::default(),
            pace: Pace::default(),
            begun: Cell::default(),
            first: Cell::default(),
            done: Cell::default(),
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
            length: self.begun.get().map_or(Duration::ZERO, |begun| {
                clock::uptime().saturating_sub(begun)
            }),
        }
    }

    /// The next request, and when it is to be sent, at the earliest then. Workers wait for their turn in the order in which they
    /// ask, so that only one waits actively. `None` after the last, or if the run is to end.
    async fn next(&self) -> Option<(Turn, Duration)> {
        let mut order = self.order.lock().await;
        let turn = order.next()?;
        let now = clock::uptime();
        let first = self.first.get().unwrap_or(now);
        self.first.set(Some(first));
        let at = self
            .plan
            .rate
            .map(|rate| first + Duration::from_secs_f64(turn.number as f64 / rate));
        let goes_on = match at {
            None => self.pace.resumed().await,
            Some(at) => self.pace.until(at).await,
        };
        if !goes_on {
            return None;
        }
        let at = at.unwrap_or_else(clock::uptime);
        if turn.round.is_some() && self.begun.get().is_none() {
            self.begun.set(Some(at));
        }
        Some((turn, at))
    }

    /// Keeps what came of a request, with the slot and the bytes of its answer, if there are any to compare.
    fn answered(
        &self,
        turn: &Turn,
        attempted: Attempted<Exchanged>,
        answer: Option<(Option<u64>, &[u8])>,
    ) {
        if let Some(cell) = self.plan.cells.get(turn.cell) {
            self.verify.borrow_mut().answered(
                (cell.arm, cell.subject),
                self.plan.round_of(turn.number),
                answer,
            );
        }
        self.done.set(self.done.get() + 1);
        remember_message(
            &mut self.messages.borrow_mut(),
            turn.cell,
            &attempted.answer,
        );
        let begun = self.begun.get().unwrap_or(attempted.at);
        self.samples.borrow_mut().extend(
            turn.round
                .map(|round| sample(turn, round, begun, attempted)),
        );
    }
}

async fn worker(shared: Rc<Shared>, mut decoder: Decoder) {
    let repeat = if shared.plan.rate.is_none() {
        Repeat::All
    } else {
        Repeat::None
    };
    while let Some((turn, at)) = shared.next().await {
        let Some(cell) = shared.plan.cells.get(turn.cell) else {
            return;
        };
        let node = shared.plan.node(cell.link);
        if shared.pace.holds_back(node, at) {
            shared.answered(
                &turn,
                Attempted {
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
                .exchange(&shared.plan, cell, turn.number, &mut decoder, at)
                .await
        };
        let attempted = shared.pace.attempted(node, at, repeat, send).await;
        shared.idle.borrow_mut().push(connections);
        let Some(attempted) = attempted else { return };
        let decoded = attempted
            .answer
            .as_ref()
            .ok()
            .map(|exchanged| exchanged.decoded);
        let answer = decoded
            .filter(|decoded| decoded.bytes)
            .map(|decoded| (decoded.slot, decoder.bytes()));
        shared.answered(&turn, attempted, answer);
    }
}

/// The first message of an error object about a cell stays.
fn remember_message<T>(
    messages: &mut BTreeMap<usize, String>,
    cell: usize,
    answer: &Result<T, Failure>,
) {
    if let Some(message) = answer.as_ref().err().and_then(Failure::message) {
        messages.entry(cell).or_insert_with(|| message.to_owned());
    }
}

/// What is kept of a request.
fn sample(turn: &Turn, round: u32, begun: Duration, attempted: Attempted<Exchanged>) -> Sample {
    let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let (number, cell, at_ns) = (
        turn.number,
        turn.cell,
        ns(attempted.at.saturating_sub(begun)),
    );
    let failed = Sample {
        number,
        round,
        cell,
        at_ns,
        phases: None,
        decode_cpu_ns: 0,
        sent: 0,
        received: 0,
        failure: None,
        refused: attempted.refused,
    };
    match attempted.answer {
        Err(failure) => Sample {
            failure: Some(failure.kind()),
            ..failed
        },
        Ok(good) => Sample {
            phases: Some(good.phases.map(ns)),
            decode_cpu_ns: ns(good.decode_cpu),
            sent: good.sent,
            received: good.received,
            ..failed
        },
    }
}
