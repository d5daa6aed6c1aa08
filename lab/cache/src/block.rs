use crate::address::{self, Address, CLOCK};
use faultline_cache_sim::trace::{Loader, MAX_KEYS};
use serde::Deserialize;
use serde_json::Value;

/// Errors of executed transactions. After any other error a transaction in a block only paid fees.
const EXECUTION_ERRORS: [&str; 3] = [
    "InstructionError",
    "InsufficientFundsForRent",
    "UnbalancedTransaction",
];

/// The answer to `getBlock` with `transactionDetails` "accounts".
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BlockResponse {
    parent_slot: u64,
    transactions: Vec<TransactionResponse>,
}

#[derive(Deserialize)]
struct TransactionResponse {
    meta: Option<TransactionMeta>,
    transaction: AccountKeys,
}

#[derive(Deserialize)]
struct TransactionMeta {
    err: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AccountKeys {
    account_keys: Vec<KeyResponse>,
}

#[derive(Deserialize)]
struct KeyResponse {
    pubkey: String,
    signer: bool,
    writable: bool,
}

#[derive(Debug)]
pub struct Block {
    pub slot: u64,
    pub parent: u64,
    pub transactions: Vec<Transaction>,
}

#[derive(Debug)]
pub struct Transaction {
    /// (key, whether its account may be a program).
    pub non_signers: Vec<(Address, bool)>,
    /// All writable accounts, if `change` is set. A signer among them may be new.
    pub possibly_changed: Vec<Address>,
    pub change: Option<ProgramChange>,
    pub fees_only: bool,
}

/// What a transaction with the upgradeable loader may have done to a writable program.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ProgramChange {
    /// The transaction has the clock account, which deployments and upgrades need.
    Deployed,
    /// The transaction lacks the clock account.
    ExtendedOrClosed,
}

impl Block {
    pub fn new(slot: u64, response: BlockResponse) -> Result<Self, String> {
        let transactions = response
            .transactions
            .into_iter()
            .map(parse_transaction)
            .collect::<Result<_, _>>()?;
        Ok(Self {
            slot,
            parent: response.parent_slot,
            transactions,
        })
    }
}

impl Transaction {
    /// `key` is a key of this transaction.
    pub fn signs(&self, key: &Address) -> bool {
        !self.non_signers.iter().any(|(other, _)| other == key)
    }
}

fn parse_transaction(response: TransactionResponse) -> Result<Transaction, String> {
    let keys = response.transaction.account_keys;
    if keys.len() > MAX_KEYS {
        return Err(format!("a transaction with {} accounts", keys.len()));
    }
    let err = response.meta.ok_or("a transaction without metadata")?.err;
    let has_loader = keys
        .iter()
        .any(|key| address::loader(&key.pubkey) == Some(Loader::V3));
    let has_clock = keys.iter().any(|key| key.pubkey == CLOCK);
    let change = (has_loader && err.is_none()).then_some(if has_clock {
        ProgramChange::Deployed
    } else {
        ProgramChange::ExtendedOrClosed
    });
    let mut non_signers = Vec::with_capacity(keys.len());
    let mut possibly_changed = Vec::new();
    for key in keys {
        let not_a_key = || {
            format!(
                "{:?} is no public key",
                faultline_text::clean(&key.pubkey.chars().take(60).collect::<String>())
            )
        };
        let address = address::parse(&key.pubkey).ok_or_else(not_a_key)?;
        // Programs are read-only except in transactions that deploy or change them. If a deployment
        // creates the account of a program, this account signs.
        if key.writable && change.is_some() {
            possibly_changed.push(address);
        }
        if !key.signer {
            non_signers.push((address, !key.writable || has_loader));
        }
    }
    Ok(Transaction {
        non_signers,
        possibly_changed,
        change,
        fees_only: err.is_some_and(|err| !was_executed(&err)),
    })
}

fn was_executed(err: &Value) -> bool {
    let name = err
        .as_str()
        .or_else(|| Some(err.as_object()?.keys().next()?.as_str()));
    name.is_some_and(|name| EXECUTION_ERRORS.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn key(fill: u8) -> String {
        address::text(&[fill; 32])
    }

    fn block(keys: Value, err: Value) -> Result<Block, String> {
        let answer = json!({"parentSlot": 6, "transactions": [{
            "meta": {"err": err, "fee": 5000}, "transaction": {"accountKeys": keys, "signatures": ["s"]}, "version": 0}]});
        Block::new(7, serde_json::from_value(answer).unwrap())
    }

    fn account(key: &str, signer: bool, writable: bool) -> Value {
        json!({"pubkey": key, "signer": signer, "writable": writable, "source": "transaction"})
    }

    #[test]
    fn readonly_accounts_that_do_not_sign_may_be_programs() {
        let keys = json!([
            account(&key(1), true, true),
            account(&key(2), false, true),
            account(&key(3), false, false)
        ]);
        let block = block(keys, Value::Null).unwrap();
        assert_eq!((block.slot, block.parent), (7, 6));
        assert_eq!(
            block.transactions[0].non_signers,
            [([2; 32], false), ([3; 32], true)]
        );
        assert_eq!(
            (
                block.transactions[0].change,
                block.transactions[0].fees_only
            ),
            (None, false)
        );
    }

    #[test]
    fn a_successful_loader_call_may_have_changed_writable_accounts() {
        let loader = account("BPFLoaderUpgradeab1e11111111111111111111111", false, false);
        let keys = |clock: bool| {
            let mut keys = vec![
                account(&key(1), true, true),
                account(&key(2), false, true),
                loader.clone(),
            ];
            keys.extend(clock.then(|| account(CLOCK, false, false)));
            Value::Array(keys)
        };
        let upgraded = &block(keys(true), Value::Null).unwrap().transactions[0];
        assert_eq!(
            (upgraded.possibly_changed.as_slice(), upgraded.change),
            ([[1; 32], [2; 32]].as_slice(), Some(ProgramChange::Deployed))
        );
        assert!(upgraded.non_signers.contains(&([2; 32], true)));
        let extended = &block(keys(false), Value::Null).unwrap().transactions[0];
        assert_eq!(extended.change, Some(ProgramChange::ExtendedOrClosed));
        let failed = &block(keys(true), json!({"InstructionError": [0, "Custom"]}))
            .unwrap()
            .transactions[0];
        assert_eq!(
            (
                failed.possibly_changed.len(),
                failed.change,
                failed.fees_only
            ),
            (0, None, false)
        );
    }

    #[test]
    fn a_transaction_that_could_not_be_loaded_only_paid_fees() {
        let fees_only = |err: Value| block(json!([]), err).unwrap().transactions[0].fees_only;
        assert!(
            fees_only(json!("ProgramAccountNotFound"))
                && fees_only(json!("InvalidProgramForExecution"))
        );
        assert!(
            !fees_only(json!({"InstructionError": [2, {"Custom": 1}]})) && !fees_only(Value::Null)
        );
        assert!(!fees_only(
            json!({"InsufficientFundsForRent": {"account_index": 2}})
        ));
    }

    #[test]
    fn an_invalid_block_is_refused() {
        let many = Value::Array(vec![account(&key(3), false, false); 257]);
        assert!(
            block(many, Value::Null)
                .unwrap_err()
                .contains("257 accounts")
        );
        assert!(
            block(json!([account("0OIl", false, false)]), Value::Null)
                .unwrap_err()
                .contains("no public key")
        );
        let answer = json!({"parentSlot": 6, "transactions": [{"meta": null, "transaction": {"accountKeys": []}}]});
        assert!(
            Block::new(7, serde_json::from_value(answer).unwrap())
                .unwrap_err()
                .contains("metadata")
        );
    }
}
