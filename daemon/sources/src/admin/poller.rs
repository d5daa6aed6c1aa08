use super::{
    AdminFacts, TargetLookup,
    socket::{Connection, Failure},
};
use crate::polling::{AbsenceLog, PollTimer, Timestamped, response_ttl};
use faultline_agave::{
    Error, PublicKey,
    admin::{AdmissionStatus, Answer, ContactInfo, Method, StartProgress},
};
use faultline_core::{
    clock::Clock,
    config::{self, Config},
    publish::Latest,
    supervisor::{FsCalls, Stop},
};
use faultline_kernel::ProcessId;
use faultline_metrics::{Problem, Source, Stamp};
use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

/// A validator refuses some methods with this code early in its start, solana-test-validator
/// always.
const INVALID_PARAMS: i64 = -32602;

/// The state of the admission ticket changes with transfers and epochs.
const ADMISSION_INTERVAL: Duration = Duration::from_secs(60);

#[derive(Clone, Copy)]
pub struct PollIntervals {
    /// Used until the start is over. A new process is noticed after at most this time.
    pub starting: Duration,
    pub running: Duration,
}

const POLL_INTERVALS: PollIntervals = PollIntervals {
    starting: Duration::from_secs(1),
    running: Duration::from_secs(10),
};

/// Polls every 1 s during the start, then every 10 s. Only one request runs at a time.
pub struct Poller {
    timeout: Duration,
    pub(super) poll_intervals: PollIntervals,
    clock: Clock,
    current_target: TargetLookup,
    pub latest_config: Latest<Config>,
    facts: Latest<AdminFacts>,
    cache: Option<ProcessCache>,
    absence_log: AbsenceLog,
    fs_calls: FsCalls,
}

impl Poller {
    /// Does not connect. The poller sets `facts` to `None` without a target.
    pub fn new(
        config: &config::Admin,
        clock: Clock,
        current_target: TargetLookup,
        facts: Latest<AdminFacts>,
    ) -> Self {
        Self {
            timeout: config.timeout,
            poll_intervals: POLL_INTERVALS,
            clock,
            current_target,
            latest_config: Latest::default(),
            facts,
            cache: None,
            absence_log: AbsenceLog::default(),
            fs_calls: FsCalls::new("admin-path"),
        }
    }

    /// A caller that needs a single poll does not wait a second for it.
    pub fn with_short_intervals(mut self) -> Self {
        let interval = Duration::from_millis(50);
        self.poll_intervals = PollIntervals {
            starting: interval,
            running: interval,
        };
        self
    }

    /// Returns only on `stop`.
    pub async fn run(mut self, stop: Stop) {
        let mut timer = PollTimer::new(self.clock, self.poll_intervals.starting, stop);
        while timer.next().await {
            let Some(target) = (self.current_target)() else {
                self.cache = None;
                self.facts.set(None);
                continue;
            };
            let (process, now) = (target.process, self.clock.now());
            let cache = self
                .cache
                .take()
                .filter(|cache| cache.process == process)
                .unwrap_or_else(|| ProcessCache {
                    process,
                    polled_at: now,
                    ..ProcessCache::default()
                });
            self.cache = Some(cache.clone());
            if cache.is_waiting(now, self.poll_intervals) {
                continue;
            }
            let poll = self.poll(cache, target.ledger.clone());
            // During a slow poll, publishes again at each interval, so that old responses expire.
            let Some(cache) = timer.wait_for(poll, || self.publish()).await else {
                return;
            };
            self.store(cache);
        }
    }

    /// Adds the responses to `cache`, including those before a failure.
    async fn poll(&self, mut cache: ProcessCache, ledger: Option<PathBuf>) -> ProcessCache {
        cache.up = false;
        cache.problems.clear();
        if let Some(ledger) = ledger {
            let path = ledger.join("admin.rpc");
            if let Err(failure) = self.send_requests(&path, &mut cache).await {
                let problem = failure.problem(&path, cache.has_connected);
                cache.problems.push(problem);
            }
        } else {
            let message = "the validator's ledger folder is not known";
            cache.problems.push(Problem::absent_data(message));
        }
        cache.polled_at = self.clock.now();
        cache
    }

    async fn send_requests(&self, path: &Path, cache: &mut ProcessCache) -> Result<(), Failure> {
        let pid = cache.process.pid;
        let mut connection = Connection::open(&self.fs_calls, path, pid, self.timeout).await?;
        cache.has_connected = true;
        let mut is_running = false;
        if let Answer::StartProgress(progress) = connection.send(Method::StartProgress).await? {
            cache.up = true;
            is_running = progress == StartProgress::Running;
            cache.has_started |= is_running;
            cache.progress.set(progress, self.clock.now());
        }
        if cache.rpc_address.is_none() {
            match connection.send(Method::RpcAddress).await {
                Ok(Answer::RpcAddress(address)) => cache.rpc_address = Some(address),
                other => cache.record_failure(path, other)?,
            }
        }
        if !is_running {
            return Ok(());
        }
        match connection.send(Method::ContactInfo).await {
            Ok(Answer::ContactInfo(ContactInfo { id, .. })) => {
                cache.identity.set(id, self.clock.now());
            }
            Err(Failure::AnswerError(Error::Rpc {
                code: INVALID_PARAMS,
                message,
            })) => {
                if self.lacks_other_identity(cache) {
                    let message = format!(
                        "the admin socket does not report the identity ({message}); enable JSON-RPC or set target.identity"
                    );
                    cache.problems.push(Problem::absent_data(message));
                }
            }
            other => cache.record_failure(path, other)?,
        }
        let now = self.clock.now();
        let is_recent = |at| now.since(at) < ADMISSION_INTERVAL;
        if cache.admission.received_at().is_some_and(is_recent) {
            return Ok(());
        }
        match connection.send(Method::AdmissionStatus).await {
            Ok(Answer::AdmissionStatus(status)) => cache.admission.set(Some(status), now),
            // Older versions lack the method, and solana-test-validator rejects it.
            Err(Failure::AnswerError(
                Error::NotOffered { .. }
                | Error::Rpc {
                    code: INVALID_PARAMS,
                    ..
                },
            )) => cache.admission.set(None, now),
            other => cache.record_failure(path, other)?,
        }
        Ok(())
    }

    fn lacks_other_identity(&self, cache: &ProcessCache) -> bool {
        self.latest_config.get().is_none_or(|config| {
            let has_rpc = config.rpc.url.is_some() || cache.rpc_address.flatten().is_some();
            config.target.identity.is_none() && !(config.rpc.enabled && has_rpc)
        })
    }

    /// Drops the result of a replaced process.
    fn store(&mut self, cache: ProcessCache) {
        if (self.current_target)().is_some_and(|target| target.process == cache.process) {
            self.absence_log
                .log_new_absences(Source::AdminRpc, cache.up, &cache.problems);
            self.cache = Some(cache);
            self.publish();
        }
    }

    fn publish(&self) {
        let now = self.clock.now();
        let facts = self
            .cache
            .as_ref()
            .map(|cache| cache.facts(now, self.poll_intervals).into());
        self.facts.set(facts);
    }
}

/// The last responses of one process.
#[derive(Clone, Default)]
struct ProcessCache {
    process: ProcessId,
    /// When the last poll ended; before that, when the process was found.
    polled_at: Stamp,
    has_connected: bool,
    /// Once true, stays true for this process.
    has_started: bool,
    progress: Timestamped<StartProgress>,
    identity: Timestamped<PublicKey>,
    /// `Some(None)`: there is no JSON-RPC.
    rpc_address: Option<Option<SocketAddr>>,
    /// Inner `None`: it is not reported.
    admission: Timestamped<Option<AdmissionStatus>>,
    problems: Vec<Problem>,
    up: bool,
}

impl ProcessCache {
    /// True until the next poll is due.
    fn is_waiting(&self, now: Stamp, poll_intervals: PollIntervals) -> bool {
        // `polled_at` is the end of a poll, shortly after its due time. Without this tolerance, the
        // next poll would be late by one interval `starting`.
        self.has_started
            && now.since(self.polled_at) + poll_intervals.starting / 2 < poll_intervals.running
    }

    /// Records an error response; returns a connection failure.
    fn record_failure(
        &mut self,
        path: &Path,
        result: Result<Answer, Failure>,
    ) -> Result<(), Failure> {
        match result {
            Err(failure @ Failure::AnswerError(_)) => self
                .problems
                .push(failure.problem(path, self.has_connected)),
            Err(failure) => return Err(failure),
            Ok(_) => {}
        }
        Ok(())
    }

    fn facts(&self, now: Stamp, poll_intervals: PollIntervals) -> AdminFacts {
        let interval = match self.has_started {
            true => poll_intervals.running,
            false => poll_intervals.starting,
        };
        let ttl = response_ttl(interval);
        let admission = self.admission.fresh(now, response_ttl(ADMISSION_INTERVAL));
        AdminFacts {
            process: self.process,
            polled_at: self.polled_at,
            progress: self.progress.fresh(now, ttl),
            identity: self.identity.fresh(now, ttl),
            rpc_address: self.rpc_address.flatten(),
            admission: admission.flatten(),
            problems: self.problems.clone(),
            up: self.up,
        }
    }
}
