//! JSON-RPC answers of each phase, as the release's server composes them (solana-rpc 4.5.0-alpha.4, src/rpc.rs).

use std::collections::HashMap;

use agave_votor_messages::reward_certificate::NUM_SLOTS_FOR_REWARD;
use agave_votor_messages::wire::{WireBlockCertMessage, WireCertSignature};
use jsonrpc_core::{Error, Failure, Id, Output, Success, Version};
use serde::Serialize;
use solana_bls_signatures::{BLS_SIGNATURE_AFFINE_SIZE, Signature};
use solana_epoch_info::EpochInfo;
use solana_rpc_client_api::custom_error::RpcCustomError;
use solana_rpc_client_api::request::{
    DELINQUENT_VALIDATOR_SLOT_DISTANCE, MAX_RPC_VOTE_ACCOUNT_INFO_EPOCH_CREDITS_HISTORY,
};
use solana_rpc_client_types::response::{
    Response, RpcBlockProduction, RpcBlockProductionRange, RpcIdentity, RpcResponseContext,
    RpcVersionInfo, RpcVoteAccountInfo, RpcVoteAccountStatus,
};

use crate::cluster::{
    self, ACTIVATION_SLOT, EPOCH, GENESIS_SLOT, LAMPORTS_PER_SOL, MIGRATION_SLOT, Phase,
    SLOTS_IN_EPOCH, VALIDATORS, Validator, Votes,
};
use crate::points::block;
use crate::release::rewards;

/// How many epochs before that of the migration the accounts are old.
const OLD_EPOCHS: u64 = 10;
/// Timely votes earn so much.
const CREDITS_A_SLOT: u64 = 16;

pub fn success(result: &impl Serialize) -> String {
    text(&Output::Success(Success {
        jsonrpc: Some(Version::V2),
        result: serde_json::to_value(result).expect("answers are JSON"),
        id: Id::Num(1),
    }))
}

pub fn failure(error: impl Into<Error>) -> String {
    text(&Output::Failure(Failure {
        jsonrpc: Some(Version::V2),
        error: error.into(),
        id: Id::Num(1),
    }))
}

fn text(output: &Output) -> String {
    serde_json::to_string(output).expect("answers are JSON") + "\n"
}

pub fn unhealthy(num_slots_behind: Option<u64>) -> String {
    failure(RpcCustomError::NodeUnhealthy { num_slots_behind })
}

/// rpc_health.rs: without a certificate of finalization a node does not know, also before the migration.
pub fn health(phase: Phase) -> String {
    if phase.is_alpenglow() {
        success(&"ok")
    } else {
        unhealthy(None)
    }
}

pub fn genesis_certificate(phase: Phase) -> Option<WireBlockCertMessage> {
    let signers: bitvec::vec::BitVec<u8> = VALIDATORS
        .iter()
        .map(|validator| validator.votes.newest(GENESIS_SLOT) == GENESIS_SLOT)
        .collect();
    // No signature of these validators: nobody who reads an answer can verify it without their keys.
    let mut signature = [0; BLS_SIGNATURE_AFFINE_SIZE];
    for (at, byte) in signature.iter_mut().zip(1_u8..) {
        *at = byte;
    }
    phase.is_alpenglow().then(|| WireBlockCertMessage {
        block: block(GENESIS_SLOT),
        signature: WireCertSignature {
            signature: Signature(signature),
            bitmap: solana_signer_store::encode_base2(&signers).expect("a few signers"),
        },
    })
}

fn lamports(sol: u64) -> u64 {
    sol * LAMPORTS_PER_SOL
}

/// Credits of an account at the end of the processed bank, in the order in which the chain keeps them.
fn epoch_credits(phase: Phase, of: &Validator) -> Vec<(u64, u64, u64)> {
    let last_of_tower = if phase.is_alpenglow() {
        GENESIS_SLOT
    } else {
        phase.processed()
    };
    let last_vote = of.votes.newest(last_of_tower);
    let mut credits = Vec::new();
    let mut sum = 0;
    for epoch in EPOCH - OLD_EPOCHS..=last_vote / SLOTS_IN_EPOCH {
        let slots = (last_vote - epoch * SLOTS_IN_EPOCH).min(SLOTS_IN_EPOCH);
        // An account that stopped had voted like others.
        let voted = if of.voted == 0 { 990 } else { of.voted };
        let earned = slots * CREDITS_A_SLOT * voted / 1000;
        credits.push((epoch, sum + earned, sum));
        sum += earned;
    }
    if phase.is_alpenglow() {
        pay_rewards(phase, of, &mut credits);
    }
    credits
}

fn pay_rewards(phase: Phase, of: &Validator, credits: &mut Vec<(u64, u64, u64)>) {
    let total_stake = VALIDATORS.iter().map(|of| lamports(of.stake_sol)).sum();
    for epoch in EPOCH..=phase.epoch() {
        let begin = (epoch * SLOTS_IN_EPOCH).max(MIGRATION_SLOT);
        let end = ((epoch + 1) * SLOTS_IN_EPOCH).min(phase.processed() - NUM_SLOTS_FOR_REWARD);
        let of_slot = |of: &Validator| rewards::of_slot(epoch, total_stake, lamports(of.stake_sol));
        if of.votes.newest(end - 1) < end - 1 {
            continue;
        }
        let slots = end - begin;
        let own = of_slot(of).0 * (slots * of.voted / 1000);
        let a_block: u64 = VALIDATORS
            .iter()
            .map(|voter| of_slot(voter).1 * voter.voted / 1000)
            .sum();
        rewards::pay(credits, epoch, own + a_block * (slots * of.led / 1000));
    }
}

/// The newest vote, and the newest finalization or root of this account.
fn last_vote_and_root(phase: Phase, of: &Validator) -> (u64, u64) {
    let processed = phase.processed();
    let newest = of.votes.newest(processed);
    match of.votes {
        _ if newest < processed => (newest, newest - 31),
        Votes::InTime(missing) if phase.is_alpenglow() => {
            (processed - 2 - missing, processed - 2 - missing)
        }
        Votes::Slowly if phase.is_alpenglow() => {
            (processed - NUM_SLOTS_FOR_REWARD, processed - 2_400)
        }
        Votes::InTime(missing) => (processed - 1 - missing, processed - 32 - missing),
        Votes::Slowly => (processed - 3, processed - 34),
        Votes::Until(_) | Votes::Absent { .. } => (processed - 2, processed - 2),
    }
}

/// Basis points are native from the feature gate on, which is active here but under Tower.
fn commission(phase: Phase, of: &Validator) -> (u8, u16) {
    if phase == Phase::Tower {
        let percent = of.commission_bps / 100;
        return (u8::try_from(percent).expect("at most 100"), percent * 100);
    }
    let percent = of.commission_bps.div_ceil(100).min(u16::from(u8::MAX));
    (
        u8::try_from(percent).expect("at most 255"),
        of.commission_bps,
    )
}

pub fn vote_accounts(phase: Phase) -> RpcVoteAccountStatus {
    let all = VALIDATORS.iter().map(|of| {
        let mut epoch_credits = epoch_credits(phase, of);
        let history = MAX_RPC_VOTE_ACCOUNT_INFO_EPOCH_CREDITS_HISTORY;
        epoch_credits.drain(..epoch_credits.len().saturating_sub(history));
        let (last_vote, root_slot) = last_vote_and_root(phase, of);
        let (commission, bps) = commission(phase, of);
        RpcVoteAccountInfo {
            vote_pubkey: cluster::key(of.vote_account).to_string(),
            node_pubkey: cluster::key(of.identity).to_string(),
            activated_stake: lamports(of.stake_sol),
            commission,
            inflation_rewards_commission_bps: Some(bps),
            epoch_vote_account: true,
            epoch_credits,
            last_vote,
            root_slot,
        }
    });
    let oldest = phase.processed() - DELINQUENT_VALIDATOR_SLOT_DISTANCE;
    let (current, delinquent) = all.partition(|account| account.last_vote > oldest);
    RpcVoteAccountStatus {
        current,
        delinquent,
    }
}

/// An identity that has just changed its vote account: the old one, with more stake, is not delinquent yet.
pub fn two_current_vote_accounts(phase: Phase) -> RpcVoteAccountStatus {
    let mut accounts = vote_accounts(phase);
    let old = cluster::key("twin-old-vote").to_string();
    let at = accounts
        .delinquent
        .iter()
        .position(|of| of.vote_pubkey == old);
    let mut old = accounts.delinquent.remove(at.expect("it is delinquent"));
    old.last_vote = phase.processed() - 100;
    old.root_slot = old.last_vote;
    accounts.current.insert(0, old);
    accounts
}

pub fn epoch_info(phase: Phase) -> EpochInfo {
    let absolute_slot = phase.processed();
    EpochInfo {
        epoch: phase.epoch(),
        slot_index: absolute_slot % SLOTS_IN_EPOCH,
        slots_in_epoch: SLOTS_IN_EPOCH,
        absolute_slot,
        block_height: cluster::height(absolute_slot),
        transaction_count: Some(500_000_000_000 + (absolute_slot - ACTIVATION_SLOT / 2) * 900),
    }
}

pub fn block_production(phase: Phase) -> Response<RpcBlockProduction> {
    let last_slot = phase.finalized();
    let first_slot = last_slot / SLOTS_IN_EPOCH * SLOTS_IN_EPOCH;
    let passed = usize::try_from(last_slot - first_slot).expect("an epoch");
    let mut by_identity: HashMap<String, (usize, usize)> = HashMap::new();
    for of in VALIDATORS.iter().filter(|of| of.led > 0) {
        let led = passed * usize::try_from(of.led).expect("at most 1000") / 1000;
        let identity = cluster::key(of.identity).to_string();
        by_identity.insert(identity, (led, led - led / 40));
    }
    Response {
        context: RpcResponseContext::new(last_slot),
        value: RpcBlockProduction {
            by_identity,
            range: RpcBlockProductionRange {
                first_slot,
                last_slot,
            },
        },
    }
}

pub fn balance(phase: Phase, lamports: u64) -> Response<u64> {
    Response {
        context: RpcResponseContext::new(phase.processed()),
        value: lamports,
    }
}

pub fn version() -> RpcVersionInfo {
    let version = solana_version::Version::default();
    RpcVersionInfo {
        solana_core: version.to_string(),
        feature_set: Some(version.feature_set()),
    }
}

pub fn identity(of: &str) -> RpcIdentity {
    RpcIdentity {
        identity: cluster::key(of).to_string(),
    }
}
