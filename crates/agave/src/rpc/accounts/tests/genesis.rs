use super::super::*;
use crate::rpc::{ResultWithContext, read_result};

fn gate(value: &Value) -> Result<FeatureGate, crate::Error> {
    let body = json!({"id": 1, "result": {"context": {"slot": 1}, "value": value}}).to_string();
    let answer: Result<ResultWithContext<FeatureGate>, _> =
        read_result("getAccountInfo", 1, body.as_bytes());
    answer.map(|answer| answer.value)
}

fn account(owner: &str, bytes: &[u8]) -> Value {
    let data = bs58::encode(bytes).into_string();
    json!({"data": [data, "base58"], "executable": false, "lamports": 1, "owner": owner, "rentEpoch": u64::MAX, "space": 9})
}

#[test]
fn a_gate_is_active_since_its_slot_and_pending_or_absent_before() {
    let active = [1, 0x30, 0xbc, 0x1d, 0, 0, 0, 0, 0];
    let of = |value: &Value| gate(value).unwrap();
    assert_eq!(
        of(&account(FEATURE_PROGRAM, &active)),
        FeatureGate::ActiveSince(1_948_720)
    );
    assert_eq!(
        of(&account(FEATURE_PROGRAM, &[0; 9])),
        FeatureGate::Inactive
    );
    assert_eq!(of(&Value::Null), FeatureGate::Inactive);
    let stranger = "11111111111111111111111111111111";
    assert_eq!(
        of(&account(stranger, &[])),
        FeatureGate::Inactive,
        "somebody sent it SOL"
    );
    for bytes in [&[][..], &[1, 2], &[2; 9]] {
        let error = gate(&account(FEATURE_PROGRAM, bytes))
            .unwrap_err()
            .to_string();
        assert!(error.contains("9 bytes"), "{error}");
    }
}

#[test]
fn a_genesis_certificate_has_a_slot_and_null_is_a_valid_result() {
    let read = |of: Value| -> Result<Option<GenesisCertificate>, crate::Error> {
        read_result(
            "getAgGenesisCert",
            1,
            json!({"id": 1, "result": of}).to_string().as_bytes(),
        )
    };
    let certificate = json!({"block": {"slot": 459_652_999, "blockId": vec![7; 32]}, "signature": {"signature": vec![0; 192], "bitmap": [1]}});
    let slot = read(certificate)
        .unwrap()
        .map(|certificate| certificate.block.slot);
    assert_eq!(slot, Some(459_652_999));
    assert_eq!(read(Value::Null), Ok(None));
    assert!(read(json!(7)).is_err());
}
