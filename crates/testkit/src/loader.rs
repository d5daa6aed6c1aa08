//! Programs that come and change while a cluster runs, by the upgradeable loader. Their new code is in the genesis already,
//! in a buffer account, so that each takes one transaction and not one for each kilobyte.

use ed25519_dalek::VerifyingKey;
use sha2::{Digest, Sha256};

use crate::transaction::{Account, Address, GenesisAccount, Instruction, Keypair, transaction};

/// An account with a buffer's few kilobytes needs less to stay.
const LAMPORTS: u64 = 1_000_000_000;
/// Bytes of a program's account, and what it needs to stay.
const PROGRAM_BYTES: u64 = 36;
const PROGRAM_LAMPORTS: u64 = (128 + PROGRAM_BYTES) * 6_960;
/// What the loader's accounts and instructions begin with.
const BUFFER: u32 = 1;
const DEPLOY: u32 = 2;
const UPGRADE: u32 = 3;

/// The upgradeable loader.
fn loader() -> Address {
    known("BPFLoaderUpgradeab1e11111111111111111111111")
}

fn known(text: &str) -> Address {
    let mut address = [0; 32];
    // What is no address would be refused by the cluster.
    let _ = bs58::decode(text).onto(&mut address);
    address
}

/// A buffer with code that this authority may deploy, once.
pub fn buffer(address: Address, authority: &Keypair, code: &[u8]) -> GenesisAccount {
    let data = [&BUFFER.to_le_bytes()[..], &[1], &authority.address(), code].concat();
    GenesisAccount {
        address,
        owner: loader(),
        lamports: LAMPORTS,
        data,
    }
}

/// Deploys a program, whose code may later have up to `max_code_bytes` bytes.
pub fn deployment(
    authority: &Keypair,
    program: &Keypair,
    buffer: Address,
    max_code_bytes: u64,
    blockhash: [u8; 32],
) -> Vec<u8> {
    let system = [0; 32];
    let (payer, address) = (authority.address(), program.address());
    let created = [
        &0_u32.to_le_bytes()[..],
        &PROGRAM_LAMPORTS.to_le_bytes(),
        &PROGRAM_BYTES.to_le_bytes(),
        &loader(),
    ];
    let create = Instruction {
        program: system,
        accounts: vec![signs(payer), signs(address)],
        data: created.concat(),
    };
    let deploy = Instruction {
        program: loader(),
        accounts: vec![
            signs(payer),
            written(program_data(&address)),
            written(address),
            written(buffer),
            read("SysvarRent111111111111111111111111111111111"),
            read("SysvarC1ock11111111111111111111111111111111"),
            Account {
                address: system,
                signs: false,
                is_written: false,
            },
            signs(payer),
        ],
        data: [&DEPLOY.to_le_bytes()[..], &max_code_bytes.to_le_bytes()].concat(),
    };
    transaction(&[authority, program], &[create, deploy], blockhash)
}

/// Gives a program the code of a buffer, which must not be longer than its first.
pub fn upgrade(
    authority: &Keypair,
    program: Address,
    buffer: Address,
    blockhash: [u8; 32],
) -> Vec<u8> {
    let upgrade = Instruction {
        program: loader(),
        accounts: vec![
            written(program_data(&program)),
            written(program),
            written(buffer),
            written(authority.address()),
            read("SysvarRent111111111111111111111111111111111"),
            read("SysvarC1ock11111111111111111111111111111111"),
            signs(authority.address()),
        ],
        data: UPGRADE.to_le_bytes().to_vec(),
    };
    transaction(&[authority], &[upgrade], blockhash)
}

fn signs(address: Address) -> Account {
    Account {
        address,
        signs: true,
        is_written: true,
    }
}

fn written(address: Address) -> Account {
    Account {
        address,
        signs: false,
        is_written: true,
    }
}

fn read(name: &str) -> Account {
    Account {
        address: known(name),
        signs: false,
        is_written: false,
    }
}

/// Where a program's code is: the first address by this rule that is no public key.
fn program_data(program: &Address) -> Address {
    let candidate = |bump: u8| -> Address {
        let parts = [program, &[bump][..], &loader(), b"ProgramDerivedAddress"];
        Sha256::digest(parts.concat()).into()
    };
    let is_no_key = |address: &Address| VerifyingKey::from_bytes(address).is_err();
    (0..=u8::MAX)
        .rev()
        .map(candidate)
        .find(is_no_key)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_data_address_matches_mainnet() {
        // Metaplex's token metadata on mainnet.
        let program = known("metaqbxxUerdq28cj1RbAWkYQm3ybzjb6a8bt518x1s");
        assert_eq!(
            program_data(&program),
            known("PwDiXFxQsGra4sFFTT8r1QWRMd4vfumiWC1jfWNfdYT")
        );
    }
}
