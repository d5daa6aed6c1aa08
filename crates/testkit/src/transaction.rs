//! Legacy transactions that call one memo program, signed by hand.

use ed25519_dalek::{Signer, SigningKey};

/// The 32 bytes of an address.
pub type Address = [u8; 32];

/// An account that signs and pays.
#[derive(Debug, Clone)]
pub struct Keypair(SigningKey);

impl Keypair {
    /// The same keypair for the same seed, always: test clusters live on loopback and guard nothing.
    pub fn from_seed(seed: [u8; 32]) -> Self {
        Self(SigningKey::from_bytes(&seed))
    }

    /// The public half.
    pub fn address(&self) -> Address {
        self.0.verifying_key().to_bytes()
    }

    /// The validator's keypair file: a JSON list of 64 numbers.
    pub fn to_file_text(&self) -> String {
        format!("{:?}", self.0.to_keypair_bytes())
    }
}

/// The wire bytes of a transaction in which `payer` calls `program` with `memo` as data and no accounts.
///
/// Two transactions with the same payer, program, memo and blockhash are one transaction to the cluster.
pub fn memo_transaction(payer: &Keypair, program: Address, memo: &str, blockhash: [u8; 32]) -> Vec<u8> {
    let message = memo_message(payer.address(), program, memo, blockhash);
    let mut bytes = Vec::with_capacity(message.len() + 65);
    push_compact_u16(&mut bytes, 1);
    bytes.extend_from_slice(&payer.0.sign(&message).to_bytes());
    bytes.extend_from_slice(&message);
    bytes
}

fn memo_message(payer: Address, program: Address, memo: &str, blockhash: [u8; 32]) -> Vec<u8> {
    // One signature is required; of the accounts that sign none is read-only, of the others one (the program).
    let mut message = vec![1, 0, 1];
    push_compact_u16(&mut message, 2);
    message.extend_from_slice(&payer);
    message.extend_from_slice(&program);
    message.extend_from_slice(&blockhash);
    push_compact_u16(&mut message, 1);
    message.push(1);
    push_compact_u16(&mut message, 0);
    let memo = &memo.as_bytes()[..memo.len().min(usize::from(u16::MAX))];
    push_compact_u16(&mut message, memo.len() as u16);
    message.extend_from_slice(memo);
    message
}

/// Appends a length as the legacy transaction format has it: 7 bits a byte, lowest first, the high bit says "more".
fn push_compact_u16(bytes: &mut Vec<u8>, length: u16) {
    let mut rest = length;
    while rest > 0x7f {
        bytes.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    bytes.push(rest as u8);
}

/// The address at which the cluster loads its memo program number `index`.
pub fn program_address(index: u32) -> Address {
    numbered(b"memo program", index)
}

/// The payers every cluster funds at genesis. The cost model allows one account 12 million compute units of writes a
/// block, 60 calls at the default of 200,000: one payer alone would cap the load at 150 transactions a second.
pub fn payers() -> Vec<Keypair> {
    (0..16).map(|index| Keypair::from_seed(numbered(b"payer", index))).collect()
}

/// The account that receives the mint of the cluster.
pub fn mint() -> Keypair {
    Keypair::from_seed(numbered(b"mint", 0))
}

/// The followers' identities, the same in every cluster.
pub fn follower_identities() -> [Keypair; 2] {
    [0, 1].map(|index| Keypair::from_seed(numbered(b"follower", index)))
}

fn numbered(kind: &[u8], index: u32) -> [u8; 32] {
    let mut bytes = [b'f'; 32];
    bytes[..kind.len()].copy_from_slice(kind);
    bytes[28..].copy_from_slice(&index.to_be_bytes());
    bytes
}

/// An account as `solana-test-validator --account-dir` reads it: owned by the system program, without data.
pub(crate) fn account_file_text(address: Address, lamports: u64) -> String {
    serde_json::json!({
        "pubkey": bs58::encode(address).into_string(),
        "account": {
            "lamports": lamports,
            "data": ["", "base64"],
            "owner": "11111111111111111111111111111111",
            "executable": false,
            "rentEpoch": 0,
            "space": 0,
        },
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use ed25519_dalek::{Signature, Verifier};

    use super::*;

    #[test]
    fn a_seed_gives_the_public_key_of_rfc_8032() {
        let seed = *b"\x9d\x61\xb1\x9d\xef\xfd\x5a\x60\xba\x84\x4a\xf4\x92\xec\x2c\xc4\x44\x49\xc5\x69\x7b\x32\x69\x19\x70\x3b\xac\x03\x1c\xae\x7f\x60";
        assert_eq!(Keypair::from_seed(seed).address()[..8], [0xd7, 0x5a, 0x98, 0x01, 0x82, 0xb1, 0x0a, 0xb7]);
    }

    #[test]
    fn the_signature_covers_the_message_byte_for_byte() {
        let payer = Keypair::from_seed([7; 32]);
        let mut bytes = memo_transaction(&payer, [9; 32], "hello", [5; 32]);
        assert_eq!(bytes[0], 1, "one signature");
        let signature = Signature::from_slice(&bytes[1..65]).unwrap();
        let key = payer.0.verifying_key();
        assert!(key.verify(&bytes[65..], &signature).is_ok());
        *bytes.last_mut().unwrap() ^= 1;
        assert!(key.verify(&bytes[65..], &signature).is_err());
    }

    #[test]
    fn a_message_has_the_legacy_layout() {
        let payer = Keypair::from_seed([7; 32]).address();
        let message = memo_message(payer, [9; 32], "hi", [5; 32]);
        let expected = [&[1, 0, 1, 2][..], &payer, &[9; 32], &[5; 32], &[1, 1, 0, 2], b"hi"].concat();
        assert_eq!(message, expected);
    }

    #[test]
    fn compact_u16_gives_the_known_answers() {
        let answers: [(u16, &[u8]); 8] = [
            (0, &[0]),
            (0x7f, &[0x7f]),
            (0x80, &[0x80, 0x01]),
            (0xff, &[0xff, 0x01]),
            (0x100, &[0x80, 0x02]),
            (0x7fff, &[0xff, 0xff, 0x01]),
            (0x8000, &[0x80, 0x80, 0x02]),
            (0xffff, &[0xff, 0xff, 0x03]),
        ];
        for (length, answer) in answers {
            let mut bytes = Vec::new();
            push_compact_u16(&mut bytes, length);
            assert_eq!(bytes, answer, "{length:#x}");
        }
    }

    #[test]
    fn programs_payers_and_identities_are_all_different_accounts() {
        let mut accounts: Vec<Address> = (0..1000).map(program_address).collect();
        accounts.extend(payers().iter().map(Keypair::address));
        accounts.push(mint().address());
        accounts.extend(follower_identities().iter().map(Keypair::address));
        let count = accounts.len();
        accounts.sort_unstable();
        accounts.dedup();
        assert_eq!(accounts.len(), count);
    }

    #[test]
    fn a_keypair_file_is_a_json_list_of_seed_and_public_key() {
        let keypair = Keypair::from_seed([7; 32]);
        let bytes: Vec<u8> = serde_json::from_str(&keypair.to_file_text()).unwrap();
        assert_eq!(bytes, [[7; 32], keypair.address()].concat());
    }
}
