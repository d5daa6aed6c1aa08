//! Stake that changes at the end of an epoch, and Alpenglow's feature gate and genesis certificate.
//! All methods need `--full-rpc-api`.
//!
//! Offsets are those of `StakeStateV2::Stake` in 2.0 to 4.4. Without `--account-index program-id`,
//! a node reads all its accounts to answer `getProgramAccounts`.

use serde::{
    Deserialize,
    de::{Deserializer, Error as _},
};
use serde_json::{Value, json};

use crate::{PublicKey, json};

const STAKE_PROGRAM: &str = "Stake11111111111111111111111111111111111111";
const STAKE_ACCOUNT_BYTES: u64 = 200;
const VOTER_OFFSET: u64 = 124;
/// Stake, activation epoch and deactivation epoch: eight bytes each.
const DELEGATION_OFFSET: u64 = 156;
const DELEGATION_BYTES: usize = 24;
/// More than the daemon's limit of 16 MiB for an answer allows.
const MAX_ACCOUNTS: usize = 1 << 18;

pub fn stake_accounts_params(account: PublicKey) -> Value {
    let filters = json!([{"dataSize": STAKE_ACCOUNT_BYTES}, {"memcmp": {"offset": VOTER_OFFSET, "bytes": account.to_string()}}]);
    let slice = json!({"offset": DELEGATION_OFFSET, "length": DELEGATION_BYTES});
    json!([STAKE_PROGRAM, {"commitment": "processed", "encoding": "base58", "dataSlice": slice, "filters": filters}])
}

#[derive(Debug, Deserialize)]
pub struct StakeAccounts(
    #[serde(deserialize_with = "json::bounded_list::<_, _, MAX_ACCOUNTS>")] Vec<KeyedAccount>,
);

#[derive(Debug, Deserialize)]
struct KeyedAccount {
    account: Account,
}

#[derive(Debug, PartialEq, Deserialize)]
struct Account {
    data: Delegation,
}

#[derive(Debug, PartialEq)]
struct Delegation {
    stake: u64,
    activation_epoch: u64,
    deactivation_epoch: u64,
}

/// Lamports that activate or deactivate at the end of an epoch.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PendingStake {
    /// Becomes active in the next epoch.
    pub activating: u64,
    /// Is active until the end of this epoch.
    pub deactivating: u64,
}

impl StakeAccounts {
    /// Assumes that all stake changes within one epoch. More than a quarter (9 % from 1.18 on) of a
    /// cluster's stake would take longer.
    pub fn pending_stake(&self, epoch: u64) -> PendingStake {
        let mut sum = PendingStake::default();
        for KeyedAccount { account } in &self.0 {
            let Delegation {
                stake,
                activation_epoch,
                deactivation_epoch,
            } = account.data;
            match (activation_epoch == epoch, deactivation_epoch == epoch) {
                (true, false) => sum.activating = sum.activating.saturating_add(stake),
                (false, true) => sum.deactivating = sum.deactivating.saturating_add(stake),
                // Deactivated in the epoch of its activation, or no change in this epoch.
                _ => {}
            }
        }
        sum
    }
}

impl Delegation {
    fn parse(data: &str, encoding: &str) -> Option<Self> {
        let mut bytes = [0; DELEGATION_BYTES];
        let length = (encoding == "base58").then(|| bs58::decode(data).onto(&mut bytes).ok())??;
        let mut fields = bytes
            .chunks_exact(8)
            .map(|field| field.try_into().map(u64::from_le_bytes));
        let mut next = || fields.next()?.ok();
        (length == DELEGATION_BYTES).then(|| {
            Some(Self {
                stake: next()?,
                activation_epoch: next()?,
                deactivation_epoch: next()?,
            })
        })?
    }
}

impl<'de> Deserialize<'de> for Delegation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (data, encoding) = <(String, String)>::deserialize(deserializer)?;
        Self::parse(&data, &encoding)
            .ok_or_else(|| D::Error::custom("expected 24 bytes of a stake account in base58"))
    }
}

/// The gate of SIMD-0326 from 4.3 on. 4.2.2 has another gate, which no public cluster activated.
pub const ALPENGLOW_GATE: &str = "A1pengvuM6JEcyNuTnMqepBKhwHE3N6PmUrdATGawhJS";
const FEATURE_PROGRAM: &str = "Feature111111111111111111111111111111111111";
/// A tag byte, and the slot of the activation.
const GATE_BYTES: usize = 9;

/// `getAgGenesisCert` without the signature; null if there is no certificate. Since 4.2.2.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
pub struct GenesisCertificate {
    pub block: GenesisBlock,
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
pub struct GenesisBlock {
    /// 0 if the cluster began with Alpenglow.
    pub slot: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeatureGate {
    /// No account, an account that is not a feature, or a pending feature.
    Inactive,
    ActiveSince(u64),
}

pub fn feature_gate_params(gate: &str) -> Value {
    let slice = json!({"offset": 0, "length": GATE_BYTES});
    json!([gate, {"commitment": "finalized", "encoding": "base58", "dataSlice": slice}])
}

impl<'de> Deserialize<'de> for FeatureGate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Account {
            owner: String,
            data: (String, String),
        }

        let Some(Account { owner, data }) = Option::<Account>::deserialize(deserializer)? else {
            return Ok(Self::Inactive);
        };
        if owner != FEATURE_PROGRAM {
            return Ok(Self::Inactive);
        }
        let mut bytes = [0; GATE_BYTES];
        let (text, encoding) = data;
        let length = bs58::decode(text).onto(&mut bytes).ok();
        match (bytes, length.filter(|_| encoding == "base58")) {
            ([0, ..], Some(1..)) => Ok(Self::Inactive),
            ([1, slot @ ..], Some(GATE_BYTES)) => Ok(Self::ActiveSince(u64::from_le_bytes(slot))),
            _ => Err(D::Error::custom(
                "expected 9 bytes of a feature account in base58",
            )),
        }
    }
}

#[cfg(test)]
mod tests;
