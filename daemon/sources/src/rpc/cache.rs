use super::{RpcFacts, client::Readiness};
use crate::polling::{Timestamped, response_ttl, slot_ttl};
use faultline_agave::{
    Error, PublicKey,
    rpc::{Answer, Call, Commitment, EpochInfo, Health, NodeVersion},
};
use faultline_kernel::ProcessId;
use faultline_metrics::{Problem, Stamp};
use std::time::Duration;

/// Identity and version are requested once in this many answered polls.
const POLLS_PER_IDENTITY_REQUEST: u32 = 5;

/// The last responses of one process.
#[derive(Default)]
pub struct ResponseCache {
    pub process: ProcessId,
    polled_at: Stamp,
    epoch_info: Timestamped<EpochInfo>,
    confirmed: Timestamped<u64>,
    finalized: Timestamped<u64>,
    health: Timestamped<Health>,
    max_shred_slot: Timestamped<u64>,
    slots_behind: Timestamped<u64>,
    identity: Timestamped<PublicKey>,
    version: Timestamped<NodeVersion>,
    pub problems: Vec<Problem>,
    up: bool,
    answered_polls: u64,
    /// The node does not offer `getMaxShredInsertSlot`.
    is_minimal_api: bool,
}

impl ResponseCache {
    pub fn new(process: ProcessId, at: Stamp) -> Self {
        Self {
            process,
            polled_at: at,
            ..Self::default()
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
        if self
            .answered_polls
            .is_multiple_of(POLLS_PER_IDENTITY_REQUEST.into())
        {
            calls.extend([Call::Version, Call::Identity]);
        }
        calls
    }

    pub fn set_problem(&mut self, problem: Problem, at: Stamp) {
        self.polled_at = at;
        self.up = false;
        self.problems = vec![problem];
    }

    pub fn receive(&mut self, calls: &[Call], answers: Vec<Result<Answer, Error>>, at: Stamp) {
        self.polled_at = at;
        self.up = false;
        self.answered_polls += 1;
        self.problems.clear();
        let (mut processed_slot, mut max_shred_slot) = (None, None);
        for (call, answer) in calls.iter().zip(answers) {
            match answer {
                Ok(Answer::EpochInfo(info)) => {
                    processed_slot = Some(info.absolute_slot);
                    self.up = true;
                    self.epoch_info.set(info, at);
                }
                Ok(Answer::Slot(slot)) if *call == Call::Slot(Commitment::Confirmed) => {
                    self.confirmed.set(slot, at)
                }
                Ok(Answer::Slot(slot)) => self.finalized.set(slot, at),
                Ok(Answer::Health(health)) => self.health.set(health, at),
                // Zero: no shred was received.
                Ok(Answer::MaxShredInsertSlot(slot)) => {
                    max_shred_slot = Some(slot).filter(|slot| *slot > 0)
                }
                Ok(Answer::Identity(identity)) => self.identity.set(identity, at),
                Ok(Answer::Version(version)) => self.version.set(version, at),
                Err(Error::NotOffered { .. }) if *call == Call::MaxShredInsertSlot => {
                    self.is_minimal_api = true
                }
                Err(error) => self.problems.push(match error {
                    Error::NotOffered { .. } => Problem::absent_data(error),
                    _ => Problem::broken(error),
                }),
            }
        }
        if let Some(slot) = max_shred_slot {
            self.max_shred_slot.set(slot, at);
        }
        if let (Some(processed), Some(max_shred)) = (processed_slot, max_shred_slot) {
            self.slots_behind
                .set(max_shred.saturating_sub(processed), at);
        }
        if self.is_minimal_api {
            self.problems.push(Problem::absent_data(
                "getMaxShredInsertSlot is not offered: the validator runs without --full-rpc-api",
            ));
        }
    }

    /// Values of expired responses are `None`, times of receipt stay.
    pub fn facts(&self, now: Stamp, interval: Duration) -> RpcFacts {
        let (poll_ttl, identity_ttl) = (
            slot_ttl(interval),
            response_ttl(interval.saturating_mul(POLLS_PER_IDENTITY_REQUEST)),
        );
        RpcFacts {
            process: self.process,
            polled_at: self.polled_at,
            epoch_info: self.epoch_info.fresh(now, poll_ttl),
            confirmed: self.confirmed.fresh(now, poll_ttl),
            finalized: self.finalized.fresh(now, poll_ttl),
            health: self.health.fresh(now, poll_ttl),
            max_shred_slot: self.max_shred_slot.fresh(now, poll_ttl),
            slots_behind: self.slots_behind.fresh(now, poll_ttl),
            processed_slot_received_at: self.epoch_info.received_at(),
            slots_behind_received_at: self.slots_behind.received_at(),
            identity: self.identity.fresh(now, identity_ttl),
            version: self.version.fresh(now, identity_ttl),
            problems: self.problems.clone(),
            up: self.up,
        }
    }

    pub fn readiness(&self, has_started: bool) -> Readiness {
        match has_started {
            _ if self.answered_polls > 0 => Readiness::RespondedBefore,
            true => Readiness::Started,
            false => Readiness::Starting,
        }
    }
}
