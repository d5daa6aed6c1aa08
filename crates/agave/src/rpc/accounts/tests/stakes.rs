use super::super::*;
use crate::rpc::read_result;

fn answer(fields: &[[u64; 3]]) -> StakeAccounts {
    let account = |fields: &[u64; 3]| {
        let data = bs58::encode(fields.map(u64::to_le_bytes).concat()).into_string();
        json!({"pubkey": "s", "account": {"data": [data, "base58"], "lamports": 1, "owner": STAKE_PROGRAM, "space": 200}})
    };
    let result_of =
        json!({"id": 1, "result": fields.iter().map(account).collect::<Vec<_>>()}).to_string();
    read_result("getProgramAccounts", 1, result_of.as_bytes()).unwrap()
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
