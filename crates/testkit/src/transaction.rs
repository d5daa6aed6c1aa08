//! Legacy transactions, signed by hand: most call one memo program.

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use ed25519_dalek::{Signer, SigningKey};

/// The 32 bytes of an address.
pub type Address = [u8; 32];

/// An address as text.
pub fn base58(address: Address) -> String {
    bs58::encode(address).into_string()
}

/// An account that signs and pays.
#[derive(Debug, Clone)]
pub struct Keypair(SigningKey);

impl Keypair {
    /// The same keypair for the same seed: test clusters on loopback need no secrets.
    pub fn from_seed(seed: [u8; 32]) -> Self {
        Self(SigningKey::from_bytes(&seed))
    }

    /// The public key.
    pub fn address(&self) -> Address {
        self.0.verifying_key().to_bytes()
    }

    /// The validator's keypair file: a JSON list of 64 numbers.
    pub fn to_file_text(&self) -> String {
        format!("{:?}", self.0.to_keypair_bytes())
    }
}

/// An account of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Account {
    pub address: Address,
    pub signs: bool,
    pub is_written: bool,
}

/// One call of a program.
#[derive(Debug)]
pub(crate) struct Instruction {
    pub program: Address,
    pub accounts: Vec<Account>,
    pub data: Vec<u8>,
}

/// The wire bytes of a transaction in which `payer` calls `program` with `memo` as data and no accounts.
///
/// Two transactions with the same payer, program, memo and blockhash are one transaction to the cluster.
pub fn memo_transaction(
    payer: &Keypair,
    program: Address,
    memo: &str,
    blockhash: [u8; 32],
) -> Vec<u8> {
    let data = memo.as_bytes()[..memo.len().min(usize::from(u16::MAX))].to_vec();
    transaction(
        &[payer],
        &[Instruction {
            program,
            accounts: Vec::new(),
            data,
        }],
        blockhash,
    )
}

/// The wire bytes of a transaction with these signers; the first one pays.
pub(crate) fn transaction(
    signers: &[&Keypair],
    instructions: &[Instruction],
    blockhash: [u8; 32],
) -> Vec<u8> {
    let message = message(signers[0].address(), instructions, blockhash);
    let mut bytes = Vec::with_capacity(message.len() + 65 * signers.len());
    push_compact_u16(&mut bytes, signers.len() as u16);
    for signer in signers {
        bytes.extend_from_slice(&signer.0.sign(&message).to_bytes());
    }
    bytes.extend_from_slice(&message);
    bytes
}

/// All signers are writable. They have the order of the instructions.
fn message(payer: Address, instructions: &[Instruction], blockhash: [u8; 32]) -> Vec<u8> {
    let mut accounts = vec![Account {
        address: payer,
        signs: true,
        is_written: true,
    }];
    for instruction in instructions {
        let program = Account {
            address: instruction.program,
            signs: false,
            is_written: false,
        };
        for account in instruction.accounts.iter().chain([&program]) {
            match accounts
                .iter_mut()
                .find(|known| known.address == account.address)
            {
                Some(known) => {
                    known.signs |= account.signs;
                    known.is_written |= account.is_written;
                }
                None => accounts.push(*account),
            }
        }
    }
    // Signers first, then other writable accounts; otherwise in their order.
    accounts.sort_by_key(|account| (!account.signs, !account.is_written));
    let signers = accounts.iter().filter(|account| account.signs).count();
    let read = accounts
        .iter()
        .filter(|account| !account.signs && !account.is_written)
        .count();
    let mut message = vec![signers as u8, 0, read as u8];
    push_compact_u16(&mut message, accounts.len() as u16);
    accounts
        .iter()
        .for_each(|account| message.extend_from_slice(&account.address));
    message.extend_from_slice(&blockhash);
    push_compact_u16(&mut message, instructions.len() as u16);
    let index_of = |address: &Address| {
        accounts
            .iter()
            .position(|account| account.address == *address)
            .unwrap_or(0) as u8
    };
    for instruction in instructions {
        message.push(index_of(&instruction.program));
        push_compact_u16(&mut message, instruction.accounts.len() as u16);
        message.extend(
            instruction
                .accounts
                .iter()
                .map(|account| index_of(&account.address)),
        );
        push_compact_u16(&mut message, instruction.data.len() as u16);
        message.extend_from_slice(&instruction.data);
    }
    message
}

/// Appends a length in the legacy transaction format: 7 bits per byte, lowest first; the high bit means that more follow.
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

/// Default number of payers of a load. The cost model allows one account 12 million compute units of writes per block, or
/// 60 calls at the default of 200,000: a single payer would limit the load to 150 transactions per second.
pub const PAYERS: u32 = 16;

/// The first `count` payers, which a cluster funds in its genesis.
pub fn payers(count: u32) -> Vec<Keypair> {
    (0..count)
        .map(|index| Keypair::from_seed(numbered(b"payer", index)))
        .collect()
}

/// The account that receives the mint of the cluster.
pub fn mint() -> Keypair {
    Keypair::from_seed(numbered(b"mint", 0))
}

/// The followers' identities, the same in every cluster.
pub fn follower_identities() -> [Keypair; 2] {
    [0, 1].map(|index| Keypair::from_seed(numbered(b"follower", index)))
}

pub(crate) fn numbered(kind: &[u8], index: u32) -> [u8; 32] {
    let mut bytes = [b'f'; 32];
    bytes[..kind.len()].copy_from_slice(kind);
    bytes[28..].copy_from_slice(&index.to_be_bytes());
    bytes
}

/// An account of a cluster's genesis.
#[derive(Debug, Clone)]
pub struct GenesisAccount {
    pub address: Address,
    /// The program that owns it.
    pub owner: Address,
    /// Its balance in lamports.
    pub lamports: u64,
    pub data: Vec<u8>,
}

impl GenesisAccount {
    /// JSON in the format of `solana-test-validator --account-dir`.
    pub(crate) fn to_file_text(&self) -> String {
        serde_json::json!({
            "pubkey": base58(self.address),
            "account": {
                "lamports": self.lamports,
                "data": [BASE64.encode(&self.data), "base64"],
                "owner": base58(self.owner),
                "executable": false,
                "rentEpoch": 0,
                "space": self.data.len(),
            },
        })
        .to_string()
    }
}

#[cfg(test)]
mod tests {
    use ed25519_dalek::{Signature, Verifier};

    use super::*;

    #[test]
    fn a_seed_gives_the_public_key_of_rfc_8032() {
        let seed = *b"\x9d\x61\xb1\x9d\xef\xfd\x5a\x60\xba\x84\x4a\xf4\x92\xec\x2c\xc4\x44\x49\xc5\x69\x7b\x32\x69\x19\x70\x3b\xac\x03\x1c\xae\x7f\x60";
        assert_eq!(
            Keypair::from_seed(seed).address()[..8],
            [0xd7, 0x5a, 0x98, 0x01, 0x82, 0xb1, 0x0a, 0xb7]
        );
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
        let memo = Instruction {
            program: [9; 32],
            accounts: Vec::new(),
            data: b"hi".to_vec(),
        };
        let message = message(payer, &[memo], [5; 32]);
        let expected = [
            &[1, 0, 1, 2][..],
            &payer,
            &[9; 32],
            &[5; 32],
            &[1, 1, 0, 2],
            b"hi",
        ]
        .concat();
        assert_eq!(message, expected);
        let written = |fill: u8, signs: bool| Account {
            address: [fill; 32],
            signs,
            is_written: true,
        };
        let read = Account {
            address: [4; 32],
            signs: false,
            is_written: false,
        };
        let calls = [
            (6, vec![written(2, false), read]),
            (8, vec![read, written(3, true)]),
        ];
        let calls = calls.map(|(fill, accounts)| Instruction {
            program: [fill; 32],
            accounts,
            data: vec![fill],
        });
        let expected = [
            &[2, 0, 3, 6][..],
            &payer,
            &[3; 32],
            &[2; 32],
            &[4; 32],
            &[6; 32],
            &[8; 32],
            &[5; 32],
            &[2, 4, 2, 2, 3, 1, 6, 5, 2, 3, 1, 1, 8],
        ];
        assert_eq!(super::message(payer, &calls, [5; 32]), expected.concat());
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
    fn program_payer_and_identity_accounts_are_distinct() {
        let mut accounts: Vec<Address> = (0..1000).map(program_address).collect();
        accounts.extend(payers(64).iter().map(Keypair::address));
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
