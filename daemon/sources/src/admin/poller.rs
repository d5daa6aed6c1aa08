use super::socket::{Failure, Socket};
use super::{AdminFacts, PollTarget, PollTargetLookup};
use crate::polling::{PollTimer, ProblemLog, Timestamped, response_ttl};
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
const ADMISSION_INTERVAL: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy)]
pub(super) struct PollIntervals {
    /// Used until the start is over. A new process is noticed after at most this time.
    pub(super) starting: Duration,
    pub(super) running: Duration,
}

const POLL_INTERVALS: PollIntervals = PollIntervals {
    starting: Duration::from_secs(1),
    running: Duration::from_secs(10),
};

/// Polls every 1 s while the validator starts, then every 10 s. Only one request runs at a time.
pub struct Poller {
    timeout: Duration,
    poll_intervals: PollIntervals,
    clock: Clock,
    target: PollTargetLookup,
    facts: Latest<AdminFacts>,
    cache: Option<ProcessCache>,
    problem_log: ProblemLog,
    paths: Arc<PathThread>,
}

impl Poller {
    /// Does not connect. The poller sets `facts` to `None` without a target.
    pub fn new(
        config: &config::Admin,
        clock: Clock,
        target: PollTargetLookup,
        facts: Latest<AdminFacts>,
    ) -> Self {
        Poller {
            timeout: config.timeout,
            poll_intervals: POLL_INTERVALS,
            clock,
            target,
            facts,
            cache: None,
            problem_log: ProblemLog::default(),
            paths: Arc::new(PathThread::new("admin-path")),
        }
    }

    /// Shortens the intervals, for a caller that needs a single poll.
    pub fn with_short_intervals(self) -> Self {
        let short_interval = Duration::from_millis(50);
        Poller {
            poll_intervals: PollIntervals {
                starting: short_interval,
                running: short_interval,
            },
            ..self
        }
    }

    #[cfg(test)]
    pub(super) fn at(self, poll_intervals: PollIntervals) -> Self {
        Poller {
            poll_intervals,
            ..self
        }
    }

    /// Returns only on `stop`.
    pub async fn run(mut self, stop: Stop) {
        let mut timer = PollTimer::new(self.clock, self.poll_intervals.starting, stop);
        while timer.next().await {
            let Some(request) = self.request() else {
                continue;
            };
            let began = self.clock.now();
            let Some(responses) = timer.wait_for(request.send(), || self.publish()).await else {
                return;
            };
            self.receive(request.process, responses, began);
        }
    }

    /// `None` without a target, or before the poll is due.
    fn request(&mut self) -> Option<PollRequest> {
        let now = self.clock.now();
        let Some(PollTarget {
            process, ledger, ..
        }) = (self.target)()
        else {
            self.cache = None;
            self.facts.set(None);
            return None;
        };
        if self
            .cache
            .as_ref()
            .is_none_or(|cache| cache.process != process)
        {
            self.cache = Some(ProcessCache::new(process, now));
        }
        let cache = self.cache.as_mut()?;
        if cache.is_waiting(now, self.poll_intervals) {
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
        Some(PollRequest {
            paths: Arc::clone(&self.paths),
            path: ledger.join("admin.rpc"),
            process,
            timeout: self.timeout,
            wants_address: cache.rpc_address.is_none(),
            wants_admission: cache.admission_is_due(now),
            has_connected: cache.has_connected,
        })
    }

    /// Stores a poll's result, unless the process was replaced meanwhile.
    fn receive(&mut self, process: ProcessId, responses: PollResult, began: Stamp) {
        let now = self.clock.now();
        let is_same_process = (self.target)().is_some_and(|target| target.process == process);
        let Some(cache) = self
            .cache
            .as_mut()
            .filter(|cache| is_same_process && cache.process == process)
        else {
            return;
        };
        cache.receive(responses, now, now.since(began));
        self.problem_log
            .log_changes(Source::AdminRpc, cache.up, &cache.problems);
        self.publish();
    }

    fn publish(&self) {
        let now = self.clock.now();
        self.facts.set(
            self.cache
                .as_ref()
                .map(|cache| cache.facts(now, self.poll_intervals).into()),
        );
    }
}

struct PollRequest {
    paths: Arc<PathThread>,
    path: PathBuf,
    process: ProcessId,
    timeout: Duration,
    wants_address: bool,
    wants_admission: bool,
    has_connected: bool,
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

impl PollRequest {
    /// Sends all requests on one connection. Responses before a failure are kept.
    async fn send(&self) -> PollResult {
        let mut responses = PollResult::default();
        if let Err(failure) = self.send_all(&mut responses).await {
            responses
                .problems
                .push(failure.problem(&self.path, self.has_connected));
        }
        responses
    }

    async fn send_all(&self, responses: &mut PollResult) -> Result<(), Failure> {
        let mut socket =
            Socket::open(&self.paths, &self.path, self.process.pid, self.timeout).await?;
        responses.connected = true;
        if let Answer::StartProgress(progress) = socket.send(Method::StartProgress).await? {
            responses.progress = Some(progress);
        }
        if self.wants_address {
            match socket.send(Method::RpcAddress).await {
                Ok(Answer::RpcAddress(address)) => responses.rpc_address = Some(address),
                other => responses.record_failure(&self.path, other)?,
            }
        }
        if responses.progress != Some(StartProgress::Running) {
            return Ok(());
        }
        match socket.send(Method::ContactInfo).await {
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
            other => responses.record_failure(&self.path, other)?,
        }
        if self.wants_admission {
            self.request_admission(&mut socket, responses).await?;
        }
        Ok(())
    }

    /// Older versions lack the method, and solana-test-validator rejects it.
    async fn request_admission(
        &self,
        socket: &mut Socket,
        responses: &mut PollResult,
    ) -> Result<(), Failure> {
        match socket.send(Method::AdmissionStatus).await {
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
            other => responses.record_failure(&self.path, other)?,
        }
        Ok(())
    }
}

impl PollResult {
    /// Records an unexpected response; returns a connection failure.
    fn record_failure(
        &mut self,
        path: &Path,
        other: Result<Answer, Failure>,
    ) -> Result<(), Failure> {
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
    was_polled: bool,
    has_connected: bool,
    running: bool,
    progress: Timestamped<StartProgress>,
    identity: Timestamped<PublicKey>,
    rpc_address: Option<Option<SocketAddr>>,
    admission: Timestamped<Option<AdmissionStatus>>,
    problems: Vec<Problem>,
    up: bool,
}

impl ProcessCache {
    fn new(process: ProcessId, at: Stamp) -> Self {
        ProcessCache {
            process,
            at,
            took: Duration::ZERO,
            was_polled: false,
            has_connected: false,
            running: false,
            progress: Timestamped::default(),
            identity: Timestamped::default(),
            rpc_address: None,
            admission: Timestamped::default(),
            problems: Vec::new(),
            up: false,
        }
    }

    /// True until the next poll is due. A process starts only once, so `running` stays true.
    fn is_waiting(&self, now: Stamp, poll_intervals: PollIntervals) -> bool {
        // A poll may be half an interval early: `at` is the end of the last poll, which is later
        // than its due time.
        self.was_polled
            && self.running
            && now.since(self.at) + poll_intervals.starting / 2 < poll_intervals.running
    }

    fn admission_is_due(&self, now: Stamp) -> bool {
        self.admission
            .at()
            .is_none_or(|at| now.since(at) >= ADMISSION_INTERVAL)
    }

    fn receive(&mut self, responses: PollResult, at: Stamp, took: Duration) {
        (self.at, self.took, self.was_polled) = (at, took, true);
        self.has_connected |= responses.connected;
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

    fn facts(&self, now: Stamp, poll_intervals: PollIntervals) -> AdminFacts {
        let admission = self
            .admission
            .fresh(now, response_ttl(ADMISSION_INTERVAL))
            .flatten();
        let response_ttl = response_ttl(if self.running {
            poll_intervals.running
        } else {
            poll_intervals.starting
        });
        AdminFacts {
            process: self.process,
            at: self.at,
            took: self.took,
            progress: self.progress.fresh(now, response_ttl),
            identity: self.identity.fresh(now, response_ttl),
            rpc_address: self.rpc_address.flatten(),
            admission,
            problems: self.problems.clone(),
            up: self.up,
        }
    }
}
