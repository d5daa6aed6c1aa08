//! Sends the requests of a plan and keeps what came of each.
//!
//! One thread does all, so that what is measured of one request is not another thread's wait for a processor. In a closed loop
//! each worker sends its next request when the last was answered. In an open loop requests have moments at which they are to be
//! sent, and latency counts from these, so that a wait for a free connection is not hidden.

mod exchange;
#[cfg(test)]
mod server;
#[cfg(test)]
mod tests;

use crate::answer::Decoder;
use crate::failure::Failure;
use crate::http;
use crate::plan::{Cell as PlanCell, Order, Plan, Turn};
use crate::results::Sample;
use crate::verify::{Verdict, Verify};
use anyhow::Context as _;
use exchange::{Connections, Exchanged};
use faultline_command::clock;
use faultline_command::progress::Progress;
use faultline_command::signals::Signals;
use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Mutex;
use tokio::task::{JoinSet, LocalSet};
use tokio::time::sleep;
use tokio_rustls::TlsConnector;

/// A request that is refused for its rate is tried so often in a closed loop.
const MOST_REFUSALS: u32 = 8;
/// The first wait after a refusal without `Retry-After`; each further one is twice as long.
const FIRST_BACKOFF: Duration = Duration::from_millis(500);
/// The longest wait, whatever a node asks for.
const LONGEST_BACKOFF: Duration = Duration::from_secs(60);
/// Progress is shown and signals are heard so often.
const LOOK: Duration = Duration::from_millis(100);
/// The runtime's timers are that exact; from there on a worker waits actively.
const TIMER: Duration = Duration::from_millis(2);

/// What a run measured.
pub(crate) struct Measured {
    pub(crate) samples: Vec<Sample>,
    pub(crate) verdicts: Vec<Verdict>,
    /// The signal that ended it early.
    pub(crate) stopped_by: Option<&'static str>,
    /// CPU time of this tool per request.
    pub(crate) own_cpu: Option<Duration>,
    /// Of the part that counts.
    pub(crate) length: Duration,
}

/// What sends requests.
pub(crate) struct Engine {
    runtime: Runtime,
    tls: Option<TlsConnector>,
}

impl Engine {
    /// For the nodes of `plan`, which are trusted by the certificates of `authorities` or of the system.
    ///
    /// # Errors
    /// The certificates cannot be used, or the system gives no timers.
    pub(crate) fn new(plan: &Plan, authorities: Option<&Path>) -> anyhow::Result<Engine> {
        let tls = plan.links.iter().any(|link| link.endpoint.tls).then(|| http::trusting(authorities)).transpose()?;
        let runtime =
            Builder::new_current_thread().enable_io().enable_time().build().context("asynchronous sockets")?;
        Ok(Engine { runtime, tls })
    }

    /// Asks every cell of `plan` once, one after another: what came of it, and the decoded bytes.
    ///
    /// # Errors
    /// There is no memory for a decoder.
    pub(crate) fn probe(&self, plan: &Plan) -> anyhow::Result<Vec<Result<Vec<u8>, Failure>>> {
        let mut connections = Connections::new(plan, self.tls.clone());
        let mut decoder = Decoder::new()?;
        let local = LocalSet::new();
        Ok(local.block_on(&self.runtime, async {
            let mut answers = Vec::new();
            for (id, cell) in plan.cells.iter().enumerate() {
                let asked = connections.exchange(plan, cell, id as u64, &mut decoder, clock::uptime()).await;
                answers.push(asked.map(|_| decoder.bytes().to_vec()));
            }
            answers
        }))
    }

    /// [`Engine::probe`] of requests for JSON: their results.
    ///
    /// # Errors
    /// A request that is not answered well.
    pub(crate) fn probe_json(&self, plan: &Plan) -> anyhow::Result<Vec<serde_json::Value>> {
        let node = |cell: &PlanCell| plan.arms.get(cell.arm).map_or("a node", |arm| &arm.name).to_owned();
        let read = |(answer, cell): (Result<Vec<u8>, Failure>, &PlanCell)| {
            let bytes =
                answer.map_err(|failure| anyhow::anyhow!("{} gives no {}: {failure}", node(cell), cell.method))?;
            Ok(serde_json::from_slice(&bytes)?)
        };
        self.probe(plan)?.into_iter().zip(&plan.cells).map(read).collect()
    }

    /// Sends all requests, or those until a signal to end.
    ///
    /// # Errors
    /// Signals cannot be heard, or there is no memory for decoders.
    pub(crate) fn run(&self, plan: &Rc<Plan>) -> anyhow::Result<Measured> {
        let mut signals = Signals::listen().context("signals")?;
        let shared = Rc::new(Shared::new(plan.clone(), self.tls.clone()));
        let decoders = (0..plan.workers).map(|_| Decoder::new()).collect::<Result<Vec<_>, _>>()?;
        let local = LocalSet::new();
        let cpu = clock::thread_cpu();
        let stopped_by = local.block_on(&self.runtime, async {
            let mut workers = JoinSet::new();
            for decoder in decoders {
                workers.spawn_local(worker(shared.clone(), decoder));
            }
            let stopped_by = watch(&shared, &mut signals, &mut workers).await;
            workers.shutdown().await;
            stopped_by
        });
        let own_cpu = clock::thread_cpu().saturating_sub(cpu).checked_div(u32::try_from(shared.done.get())?);
        let mut samples = shared.samples.take();
        samples.sort_unstable_by_key(|sample| sample.number);
        let length = shared.begun.get().map_or(Duration::ZERO, |begun| clock::uptime().saturating_sub(begun));
        let verdicts = shared.verify.borrow().verdicts.clone();
        // In an open loop the active wait for the next moment is CPU time as well.
        let own_cpu = own_cpu.filter(|_| plan.rate.is_none());
        Ok(Measured { samples, verdicts, stopped_by, own_cpu, length })
    }
}

/// Shows progress until all workers have ended or a signal asks to end.
async fn watch(shared: &Shared, signals: &mut Signals, workers: &mut JoinSet<()>) -> Option<&'static str> {
    let mut progress = Progress::new(shared.plan.requests(), "requests");
    loop {
        let ended = tokio::time::timeout(LOOK, async { while workers.join_next().await.is_some() {} }).await;
        if ended.is_ok() {
            return None;
        }
        let heard = signals.wait(None, Duration::ZERO).unwrap_or_default();
        if let Some(name) = heard.into_iter().find(|heard| heard.asks_to_end()).map(|heard| heard.stops()) {
            return Some(name.unwrap_or("SIGHUP"));
        }
        let refused = shared.refused.get();
        let more = if refused > 0 { format!(", {refused} refused for their rate") } else { String::new() };
        progress.at(shared.done.get(), &more);
    }
}

/// What workers have in common.
struct Shared {
    plan: Rc<Plan>,
    tls: Option<TlsConnector>,
    order: Mutex<Order>,
    samples: RefCell<Vec<Sample>>,
    verify: RefCell<Verify>,
    /// When the first round that counts began.
    begun: Cell<Option<Duration>>,
    /// When the first request of all was to be sent.
    first: Cell<Option<Duration>>,
    /// Nothing is sent before: a node asked for fewer requests.
    resume: Cell<Duration>,
    done: Cell<u64>,
    refused: Cell<u64>,
}

impl Shared {
    fn new(plan: Rc<Plan>, tls: Option<TlsConnector>) -> Shared {
        Shared {
            order: Mutex::new(Order::new(&plan)),
            verify: RefCell::new(Verify::new(plan.arms.len(), plan.subjects.len())),
            plan,
            tls,
            samples: RefCell::default(),
            begun: Cell::default(),
            first: Cell::default(),
            resume: Cell::default(),
            done: Cell::default(),
            refused: Cell::default(),
        }
    }

    /// The next request, and when it is to be sent, at the earliest then. Workers wait for their turn in the order in which they
    /// ask, so that only one waits actively.
    async fn next(&self) -> Option<(Turn, Duration)> {
        let mut order = self.order.lock().await;
        let turn = order.next()?;
        let now = clock::uptime();
        let first = self.first.get().unwrap_or(now);
        self.first.set(Some(first));
        let at = match self.plan.rate {
            None => {
                until(self.resume.get()).await;
                clock::uptime()
            }
            Some(rate) => {
                let at = first + Duration::from_secs_f64(turn.number as f64 / rate);
                until(at).await;
                at
            }
        };
        if turn.round.is_some() && self.begun.get().is_none() {
            self.begun.set(Some(at));
        }
        Some((turn, at))
    }

    fn keep(&self, sample: Option<Sample>) {
        self.done.set(self.done.get() + 1);
        self.samples.borrow_mut().extend(sample);
    }
}

async fn until(moment: Duration) {
    loop {
        let left = moment.saturating_sub(clock::uptime());
        if left.is_zero() {
            return;
        }
        if left > TIMER { sleep(left - TIMER).await } else { tokio::task::yield_now().await }
    }
}

async fn worker(shared: Rc<Shared>, mut decoder: Decoder) {
    let mut connections = Connections::new(&shared.plan, shared.tls.clone());
    while let Some((turn, at)) = shared.next().await {
        let Some(cell) = shared.plan.cells.get(turn.cell) else { return };
        let (asked, at, refused) = asked(&shared, cell, (turn, at), &mut connections, &mut decoder).await;
        if let Ok(exchanged) = &asked
            && exchanged.decoded.bytes
        {
            // What has no slot can be compared with the answer to the same request.
            let at = exchanged.decoded.slot.unwrap_or_else(|| shared.plan.round_of(turn.number));
            shared.verify.borrow_mut().answered(cell.arm, cell.subject, at, decoder.bytes());
        }
        let begun = shared.begun.get().unwrap_or(at);
        shared.keep(turn.round.map(|round| sample(&turn, round, (at, begun), asked, refused)));
    }
}

/// One request, sent again after a wait if the node refused it for its rate in a closed loop; when it was sent, and how often
/// it was refused.
async fn asked(
    shared: &Shared,
    cell: &PlanCell,
    (turn, mut at): (Turn, Duration),
    connections: &mut Connections,
    decoder: &mut Decoder,
) -> (Result<Exchanged, Failure>, Duration, u32) {
    let mut refused = 0;
    loop {
        let asked = connections.exchange(&shared.plan, cell, turn.number, decoder, at).await;
        let Err(Failure::RateLimited(wish)) = asked else { return (asked, at, refused) };
        shared.refused.set(shared.refused.get() + 1);
        if shared.plan.rate.is_some() || refused == MOST_REFUSALS {
            return (asked, at, refused);
        }
        let wait = wish.unwrap_or(FIRST_BACKOFF * 2_u32.pow(refused)).min(LONGEST_BACKOFF);
        shared.resume.set(shared.resume.get().max(clock::uptime() + wait));
        refused += 1;
        until(shared.resume.get()).await;
        at = clock::uptime();
    }
}

fn sample(
    turn: &Turn,
    round: u32,
    (at, begun): (Duration, Duration),
    asked: Result<Exchanged, Failure>,
    refused: u32,
) -> Sample {
    let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let (number, cell, at_ns) = (turn.number, turn.cell, ns(at.saturating_sub(begun)));
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
        refused,
    };
    match asked {
        Err(failure) => Sample { failure: Some(failure.to_string()), ..failed },
        Ok(good) => Sample {
            phases: Some(good.phases.map(ns)),
            decode_cpu_ns: ns(good.decode_cpu),
            sent: good.sent,
            received: good.received,
            ..failed
        },
    }
}
