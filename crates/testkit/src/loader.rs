//! Deploys and upgrades programs of the upgradeable loader while a cluster runs. Buffer accounts in the genesis already have
//! the new code, so that each program needs one transaction and not one for each kilobyte.

use ed25519_dalek::VerifyingKey;
use sha2::{Digest, Sha256};

use crate::transaction::{Account, Address, GenesisAccount, Instruction, Keypair, transaction};

/// Balance of a buffer account: more than its rent exemption.
const LAMPORTS: u64 = 1_000_000_000;
/// Bytes of a program's account, and its rent exemption.
const PROGRAM_BYTES: u64 = 36;
const PROGRAM_LAMPORTS: u64 = (128 + PROGRAM_BYTES) * 6_960;
/// First numbers of the loader's accounts and instructions.
const BUFFER: u32 = 1;
const DEPLOY: u32 = 2;
const UPGRADE: u32 = 3;

/// The upgradeable loader.
fn loader() -> Address {
    known("BPFLoaderUpgradeab1e11111111111111111111111")
}

fn known(text: &str) -> Address {
    let mut address = [0; 32];
    // The cluster would refuse an invalid address.
    let _ = bs58::decode(text).onto(&mut address);
    address
}

/// A buffer account with code that this authority may deploy once.
pub fn buffer(address: Address, authority: &Keypair, code: &[u8]) -> GenesisAccount {
    let data = [&BUFFER.to_le_bytes()[..], &[1], &authority.address(), code].concat();
    GenesisAccount {
        address,
        owner: loader(),
        lamports: LAMPORTS,
        data,
    }
}

/// A transaction that deploys a program. Its later versions may have up to `max_code_bytes` bytes.
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

/// A transaction that replaces a program's code by that of a buffer, which must not exceed `max_code_bytes`.
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

/// The address of a program's code: the first derived one that is no public key.
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
