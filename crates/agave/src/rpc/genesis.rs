//! The genesis certificate of Alpenglow, and its feature gate. Both need `--full-rpc-api`.

use serde::{
    Deserialize,
    de::{Deserializer, Error as _},
};
use serde_json::{Value, json};

/// The gate of SIMD-0326 from 4.3 on. No public cluster activated the other gate, of 4.2.2.
pub const ALPENGLOW_GATE: &str = "A1pengvuM6JEcyNuTnMqepBKhwHE3N6PmUrdATGawhJS";
const FEATURE_PROGRAM: &str = "Feature111111111111111111111111111111111111";
/// A tag byte, and the slot.
const GATE_BYTES: usize = 9;

/// `getAgGenesisCert` without the signature; null if there is no certificate. Since 4.2.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct GenesisCertificate {
    pub block: GenesisBlock,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
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
mod tests {
    use super::*;
    use crate::rpc::{InContext, result};

    fn gate(value: &Value) -> Result<FeatureGate, crate::Error> {
        let body = json!({"id": 1, "result": {"context": {"slot": 1}, "value": value}}).to_string();
        let answer: Result<InContext<FeatureGate>, _> =
            result("getAccountInfo", 1, body.as_bytes());
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
            result(
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
}
