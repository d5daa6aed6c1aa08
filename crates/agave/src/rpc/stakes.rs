//! Stake that activates or deactivates at the end of an epoch, from `getProgramAccounts` of the
//! stake program.
//!
//! Offsets are those of `StakeStateV2::Stake` in 2.0 to 4.4. The method needs `--full-rpc-api`, and
//! reads all accounts of the node unless it has `--account-index program-id`.

use serde::{
    Deserialize,
    de::{Deserializer, Error as _},
};
use serde_json::{Value, json};

use crate::{PublicKey, json};

const STAKE_PROGRAM: &str = "Stake11111111111111111111111111111111111111";
const ACCOUNT_BYTES: u64 = 200;
const VOTER_OFFSET: u64 = 124;
/// Stake, activation epoch and deactivation epoch: eight bytes each.
const DELEGATION_OFFSET: u64 = 156;
const DELEGATION_BYTES: usize = 24;
/// Limit of the list. An answer of 16 MiB has fewer accounts.
const MAX_ACCOUNTS: usize = 1 << 18;

pub fn stake_accounts_params(account: PublicKey) -> Value {
    let filters = json!([{"dataSize": ACCOUNT_BYTES}, {"memcmp": {"offset": VOTER_OFFSET, "bytes": account.to_string()}}]);
    let slice = json!({"offset": DELEGATION_OFFSET, "length": DELEGATION_BYTES});
    json!([STAKE_PROGRAM, {"commitment": "processed", "encoding": "base58", "dataSlice": slice, "filters": filters}])
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct StakeAccounts(
    #[serde(deserialize_with = "json::list::<_, _, MAX_ACCOUNTS>")] Vec<KeyedAccount>,
);

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct KeyedAccount {
    account: Account,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Account {
    data: Delegation,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Delegation {
    stake: u64,
    activated: u64,
    deactivated: u64,
}

/// Lamports that activate or deactivate at the end of an epoch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PendingStake {
    /// Counts from the next epoch on.
    pub activating: u64,
    /// Counts until the end of this epoch.
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
                activated,
                deactivated,
            } = account.data;
            match (activated == epoch, deactivated == epoch) {
                (true, false) => sum.activating = sum.activating.saturating_add(stake),
                (false, true) => sum.deactivating = sum.deactivating.saturating_add(stake),
                // Deactivated before it ever counted, or no change in this epoch.
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
                activated: next()?,
                deactivated: next()?,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::result;

    fn answer(fields: &[[u64; 3]]) -> StakeAccounts {
        let account = |fields: &[u64; 3]| {
            let data = bs58::encode(fields.map(u64::to_le_bytes).concat()).into_string();
            json!({"pubkey": "s", "account": {"data": [data, "base58"], "lamports": 1, "owner": STAKE_PROGRAM, "space": 200}})
        };
        let result_of =
            json!({"id": 1, "result": fields.iter().map(account).collect::<Vec<_>>()}).to_string();
        result("getProgramAccounts", 1, result_of.as_bytes()).unwrap()
    }

    #[test]
    fn stake_activated_or_deactivated_this_epoch_is_in_transition() {
        let never = u64::MAX;
        let accounts = answer(&[
            [1, never, never],
            [2, 4, never],
            [4, 5, never],
            [8, 5, 5],
            [16, 3, 5],
            [32, never, 5],
            [64, 2, 4],
        ]);
        assert_eq!(
            accounts.pending_stake(5),
            PendingStake {
                activating: 4,
                deactivating: 48
            }
        );
        assert_eq!(accounts.pending_stake(9), PendingStake::default());
        assert_eq!(
            answer(&[[u64::MAX, 5, never], [1, 5, never]])
                .pending_stake(5)
                .activating,
            u64::MAX
        );
    }

    #[test]
    fn an_invalid_stake_delegation_is_refused() {
        for data in [
            json!(["", "base58"]),
            json!(["AAAA", "base64"]),
            json!(["0OIl", "base58"]),
            json!(["1".repeat(25), "base58"]),
        ] {
            let accounts = json!([{"account": {"data": data}}]);
            let error = serde_json::from_value::<StakeAccounts>(accounts).unwrap_err();
            assert!(error.to_string().contains("24 bytes"), "{error}");
        }
    }
}
