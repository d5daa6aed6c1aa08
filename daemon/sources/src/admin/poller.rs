use super::socket::{Failure, Socket};
use super::{AdminFacts, PollTarget, PollTargetLookup};
use crate::asking::{Aged, PollTimer, ProblemLog, life};
use faultline_agave::admin::{AdmissionStatus, Answer, ContactInfo, Method, StartProgress};
use faultline_agave::{Error, PublicKey};
use faultline_core::clock::Clock;
use faultline_core::config;
use faultline_core::hub::Latest;
use faultline_core::supervisor::{PathThread, Stop};
use faultline_kernel::ProcessId;
use faultline_metrics::{Problem, Source, Stamp, Status};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Error code of `contactInfo`: early in the start, and always with solana-test-validator.
const INVALID_PARAMS: i64 = -32602;

/// The admission changes with transfers and with epochs.
const ADMISSION_EVERY: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// Until the start is over; also the delay to notice a new process.
    pub(super) starting: Duration,
    pub(super) running: Duration,
}

const PACE: Pace = Pace {
    starting: Duration::from_secs(1),
    running: Duration::from_secs(10),
};

/// Polls every 1 s while the validator starts, then every 10 s. Only one request runs at a time.
pub struct Poller {
    timeout: Duration,
    pace: Pace,
    clock: Clock,
    target: PollTargetLookup,
    facts: Latest<AdminFacts>,
    memory: Option<ProcessCache>,
    standing: ProblemLog,
    paths: Arc<PathThread>,
}

impl Poller {
    /// Does not connect. `facts` contains `None` without a target.
    pub fn new(
        config: &config::Admin,
        clock: Clock,
        target: PollTargetLookup,
        facts: Latest<AdminFacts>,
    ) -> Self {
        Poller {
            timeout: config.timeout,
            pace: PACE,
            clock,
            target,
            facts,
            memory: None,
            standing: ProblemLog::default(),
            paths: Arc::new(PathThread::new("admin-path")),
        }
    }

    /// For a single poll: the first request is sent at once.
    pub fn at_once(self) -> Self {
        let soon = Duration::from_millis(50);
        Poller {
            pace: Pace {
                starting: soon,
                running: soon,
            },
            ..self
        }
    }

    #[cfg(test)]
    pub(super) fn at(self, pace: Pace) -> Self {
        Poller { pace, ..self }
    }

    /// Returns only on `stop`.
    pub async fn run(mut self, stop: Stop) {
        let mut timer = PollTimer::new(self.clock, self.pace.starting, stop);
        while timer.next().await {
            let Some(question) = self.question() else {
                continue;
            };
            let began = self.clock.now();
            let Some(responses) = timer.during(question.ask(), || self.publish()).await else {
                return;
            };
            self.receive(question.process, responses, began);
        }
    }

    /// `None` without a target, or before the poll is due.
    fn question(&mut self) -> Option<Question> {
        let now = self.clock.now();
        let Some(PollTarget {
            process, ledger, ..
        }) = (self.target)()
        else {
            self.memory = None;
            self.facts.set(None);
            return None;
        };
        if self
            .memory
            .as_ref()
            .is_none_or(|memory| memory.process != process)
        {
            self.memory = Some(ProcessCache::new(process, now));
        }
        let memory = self.memory.as_mut()?;
        if memory.rests(now, self.pace) {
            return None;
        }
        let Some(ledger) = ledger else {
            let unknown =
                Problem::new(Status::Absent, "the validator's ledger folder is not known");
            self.receive(
                process,
                PollResult {
                    problems: vec![unknown],
                    ..PollResult::default()
                },
                now,
            );
            return None;
        };
        Some(Question {
            paths: Arc::clone(&self.paths),
            path: ledger.join("admin.rpc"),
            process,
            timeout: self.timeout,
            address: memory.rpc_address.is_none(),
            admission: memory.admission_is_due(now),
            seen: memory.seen,
        })
    }

    /// Stores a poll's result, unless the process was replaced meanwhile.
    fn receive(&mut self, process: ProcessId, responses: PollResult, began: Stamp) {
        let now = self.clock.now();
        let same = (self.target)().is_some_and(|target| target.process == process);
        let Some(memory) = self
            .memory
            .as_mut()
            .filter(|memory| same && memory.process == process)
        else {
            return;
        };
        memory.receive(responses, now, now.since(began));
        self.standing
            .say(Source::AdminRpc, memory.up, &memory.problems);
        self.publish();
    }

    fn publish(&self) {
        let now = self.clock.now();
        self.facts.set(
            self.memory
                .as_ref()
                .map(|memory| memory.facts(now, self.pace).into()),
        );
    }
}

struct Question {
    paths: Arc<PathThread>,
    path: PathBuf,
    process: ProcessId,
    timeout: Duration,
    address: bool,
    admission: bool,
    seen: bool,
}

#[derive(Debug, Default)]
struct PollResult {
    connected: bool,
    progress: Option<StartProgress>,
    identity: Option<PublicKey>,
    /// `Some(None)`: there is no JSON-RPC.
    rpc_address: Option<Option<SocketAddr>>,
    /// `Some(None)`: the validator does not report it.
    admission: Option<Option<AdmissionStatus>>,
    problems: Vec<Problem>,
}

impl Question {
    /// Sends all requests on one connection; responses before a failure count.
    async fn ask(&self) -> PollResult {
        let mut responses = PollResult::default();
        if let Err(failure) = self.ask_all(&mut responses).await {
            responses
                .problems
                .push(failure.problem(&self.path, self.seen));
        }
        responses
    }

    async fn ask_all(&self, responses: &mut PollResult) -> Result<(), Failure> {
        let mut socket =
            Socket::open(&self.paths, &self.path, self.process.pid, self.timeout).await?;
        responses.connected = true;
        if let Answer::StartProgress(progress) = socket.ask(Method::StartProgress).await? {
            responses.progress = Some(progress);
        }
        if self.address {
            match socket.ask(Method::RpcAddress).await {
                Ok(Answer::RpcAddress(address)) => responses.rpc_address = Some(address),
                other => responses.miss(&self.path, other)?,
            }
        }
        if responses.progress != Some(StartProgress::Running) {
            return Ok(());
        }
        match socket.ask(Method::ContactInfo).await {
            Ok(Answer::ContactInfo(ContactInfo { id, .. })) => responses.identity = Some(id),
            Err(Failure::Answer(Error::Rpc {
                code: INVALID_PARAMS,
                message,
            })) => {
                let what = format!(
                    "the admin socket does not report the identity ({message}); enable JSON-RPC or set target.identity"
                );
                responses.problems.push(Problem::new(Status::Absent, what));
            }
            other => responses.miss(&self.path, other)?,
        }
        if self.admission {
            self.ask_admission(&mut socket, responses).await?;
        }
        Ok(())
    }

    /// Older versions do not have it, and solana-test-validator rejects it.
    async fn ask_admission(
        &self,
        socket: &mut Socket,
        responses: &mut PollResult,
    ) -> Result<(), Failure> {
        match socket.ask(Method::AdmissionStatus).await {
            Ok(Answer::AdmissionStatus(status)) => responses.admission = Some(Some(status)),
            Err(Failure::Answer(
                Error::NotOffered { .. }
                | Error::Rpc {
                    code: INVALID_PARAMS,
                    ..
                },
            )) => {
                responses.admission = Some(None);
            }
            other => responses.miss(&self.path, other)?,
        }
        Ok(())
    }
}

impl PollResult {
    /// Records an unexpected response; returns a connection failure.
    fn miss(&mut self, path: &Path, other: Result<Answer, Failure>) -> Result<(), Failure> {
        if let Err(failure @ Failure::Answer(_)) = other {
            self.problems.push(failure.problem(path, true));
            return Ok(());
        }
        other.map(|_| ())
    }
}

#[derive(Debug)]
struct ProcessCache {
    process: ProcessId,
    /// When the last poll ended; initially the start.
    at: Stamp,
    took: Duration,
    target: bool,
    seen: bool,
    running: bool,
    progress: Aged<StartProgress>,
    identity: Aged<PublicKey>,
    rpc_address: Option<Option<SocketAddr>>,
    admission: Aged<Option<AdmissionStatus>>,
    problems: Vec<Problem>,
    up: bool,
}

impl ProcessCache {
    fn new(process: ProcessId, at: Stamp) -> Self {
        ProcessCache {
            process,
            at,
            took: Duration::ZERO,
            target: false,
            seen: false,
            running: false,
            progress: Aged::default(),
            identity: Aged::default(),
            rpc_address: None,
            admission: Aged::default(),
            problems: Vec::new(),
            up: false,
        }
    }

    /// True until the next poll is due. Within one process a start happens once.
    fn rests(&self, now: Stamp, pace: Pace) -> bool {
        // Half an interval early counts: a poll ends after it was due, and the next one must not
        // wait a whole interval for that.
        self.target && self.running && now.since(self.at) + pace.starting / 2 < pace.running
    }

    fn admission_is_due(&self, now: Stamp) -> bool {
        self.admission
            .at()
            .is_none_or(|at| now.since(at) >= ADMISSION_EVERY)
    }

    fn receive(&mut self, responses: PollResult, at: Stamp, took: Duration) {
        (self.at, self.took, self.target) = (at, took, true);
        self.seen |= responses.connected;
        self.up = responses.progress.is_some();
        self.running |= responses.progress == Some(StartProgress::Running);
        if let Some(progress) = responses.progress {
            self.progress.set(progress, at);
        }
        if let Some(identity) = responses.identity {
            self.identity.set(identity, at);
        }
        if let Some(admission) = responses.admission {
            self.admission.set(admission, at);
        }
        self.rpc_address = self.rpc_address.or(responses.rpc_address);
        self.problems = responses.problems;
    }

    fn facts(&self, now: Stamp, pace: Pace) -> AdminFacts {
        let admission = self.admission.fresh(now, life(ADMISSION_EVERY)).flatten();
        let life = life(if self.running {
            pace.running
        } else {
            pace.starting
        });
        AdminFacts {
            process: self.process,
            at: self.at,
            took: self.took,
            progress: self.progress.fresh(now, life),
            identity: self.identity.fresh(now, life),
            rpc_address: self.rpc_address.flatten(),
            admission,
            problems: self.problems.clone(),
            up: self.up,
        }
    }
}
