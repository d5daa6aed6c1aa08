use super::{
    RpcFacts,
    client::{Failure, Readiness},
};
use crate::polling::{Timestamped, response_ttl, slot_ttl};
use faultline_agave::{
    Error, PublicKey,
    rpc::{Answer, Call, Commitment, EpochInfo, Health, NodeVersion},
};
use faultline_kernel::ProcessId;
use faultline_metrics::{Problem, Stamp, Status};
use std::time::Duration;

/// Identity and version are requested in every fifth poll.
const SLOW_FACTOR: u32 = 5;

/// The last responses of one process.
#[derive(Debug)]
pub struct ResponseCache {
    pub process: ProcessId,
    at: Stamp,
    took: Duration,
    epoch_info: Timestamped<EpochInfo>,
    confirmed: Timestamped<u64>,
    finalized: Timestamped<u64>,
    health: Timestamped<Health>,
    max_shred: Timestamped<u64>,
    slots_behind: Timestamped<u64>,
    identity: Timestamped<PublicKey>,
    version: Timestamped<NodeVersion>,
    problems: Vec<Problem>,
    up: bool,
    answered_polls: u64,
    /// The node does not offer `getMaxShredInsertSlot`.
    is_minimal_api: bool,
}

impl ResponseCache {
    pub fn new(process: ProcessId, at: Stamp) -> Self {
        ResponseCache {
            process,
            at,
            took: Duration::ZERO,
            epoch_info: Timestamped::default(),
            confirmed: Timestamped::default(),
            finalized: Timestamped::default(),
            health: Timestamped::default(),
            max_shred: Timestamped::default(),
            slots_behind: Timestamped::default(),
            identity: Timestamped::default(),
            version: Timestamped::default(),
            problems: Vec::new(),
            up: false,
            answered_polls: 0,
            is_minimal_api: false,
        }
    }

    pub fn calls(&self) -> Vec<Call> {
        let mut calls = vec![
            Call::EpochInfo,
            Call::Slot(Commitment::Confirmed),
            Call::Slot(Commitment::Finalized),
            Call::Health,
        ];
        if !self.is_minimal_api {
            calls.push(Call::MaxShredInsertSlot);
        }
        if self.answered_polls.is_multiple_of(SLOW_FACTOR.into()) {
            calls.extend([Call::Version, Call::Identity]);
        }
        calls
    }

    pub fn set_problem(&mut self, problem: Problem, at: Stamp, took: Duration) {
        (self.at, self.took, self.up, self.problems) = (at, took, false, vec![problem]);
    }

    pub fn receive(
        &mut self,
        calls: &[Call],
        answers: Vec<Result<Answer, Error>>,
        at: Stamp,
        took: Duration,
    ) {
        (self.at, self.took, self.up) = (at, took, false);
        self.answered_polls += 1;
        self.problems.clear();
        let (mut processed, mut shred) = (None, None);
        for (call, answer) in calls.iter().zip(answers) {
            match answer {
                Ok(Answer::EpochInfo(info)) => {
                    processed = Some(info.absolute_slot);
                    self.up = true;
                    self.epoch_info.set(info, at);
                }
                Ok(Answer::Slot(slot)) if *call == Call::Slot(Commitment::Confirmed) => {
                    self.confirmed.set(slot, at)
                }
                Ok(Answer::Slot(slot)) => self.finalized.set(slot, at),
                Ok(Answer::Health(health)) => self.health.set(health, at),
                // Zero: no shred was received.
                Ok(Answer::MaxShredInsertSlot(slot)) => shred = Some(slot).filter(|slot| *slot > 0),
                Ok(Answer::Identity(identity)) => self.identity.set(identity, at),
                Ok(Answer::Version(version)) => self.version.set(version, at),
                Err(Error::NotOffered { .. }) if *call == Call::MaxShredInsertSlot => {
                    self.is_minimal_api = true
                }
                Err(error) => self.problems.push(call_problem(&error)),
            }
        }
        if let Some(shred) = shred {
            self.max_shred.set(shred, at);
        }
        if let (Some(processed), Some(shred)) = (processed, shred) {
            self.slots_behind.set(shred.saturating_sub(processed), at);
        }
        if self.is_minimal_api {
            self.problems.push(Problem::absent(
                "getMaxShredInsertSlot is not offered: the validator runs without --full-rpc-api",
            ));
        }
    }

    /// Facts that have not expired, with polls every `interval`.
    pub fn facts(&self, now: Stamp, interval: Duration) -> RpcFacts {
        let (fast_ttl, slow_ttl) = (
            slot_ttl(interval),
            response_ttl(interval.saturating_mul(SLOW_FACTOR)),
        );
        RpcFacts {
            process: self.process,
            at: self.at,
            took: self.took,
            epoch_info: self.epoch_info.fresh(now, fast_ttl),
            confirmed: self.confirmed.fresh(now, fast_ttl),
            finalized: self.finalized.fresh(now, fast_ttl),
            health: self.health.fresh(now, fast_ttl),
            max_shred: self.max_shred.fresh(now, fast_ttl),
            slots_behind: self.slots_behind.fresh(now, fast_ttl),
            slot_at: self.epoch_info.at(),
            distance_at: self.slots_behind.at(),
            identity: self.identity.fresh(now, slow_ttl),
            version: self.version.fresh(now, slow_ttl),
            problems: self.problems.clone(),
            up: self.up,
        }
    }

    fn readiness(&self, started: bool) -> Readiness {
        match (self.answered_polls > 0, started) {
            (true, _) => Readiness::Answered,
            (false, true) => Readiness::Started,
            (false, false) => Readiness::Starting,
        }
    }

    pub fn fail(
        &mut self,
        failure: &Failure,
        server: &str,
        started: bool,
        (at, took): (Stamp, Duration),
    ) {
        self.set_problem(failure.problem(server, self.readiness(started)), at, took);
    }
}

fn call_problem(error: &Error) -> Problem {
    let status = if matches!(error, Error::NotOffered { .. }) {
        Status::Absent
    } else {
        Status::Broken
    };
    Problem::new(status, error)
}
