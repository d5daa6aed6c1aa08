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

fn loader_address() -> Address {
    address_of("BPFLoaderUpgradeab1e11111111111111111111111")
}

fn address_of(text: &str) -> Address {
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
        owner: loader_address(),
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
        &loader_address(),
    ];
    let create = Instruction {
        program: system,
        accounts: vec![writable_signer(payer), writable_signer(address)],
        data: created.concat(),
    };
    let deploy = Instruction {
        program: loader_address(),
        accounts: vec![
            writable_signer(payer),
            writable(program_data_address(&address)),
            writable(address),
            writable(buffer),
            read_only("SysvarRent111111111111111111111111111111111"),
            read_only("SysvarC1ock11111111111111111111111111111111"),
            Account {
                address: system,
                signs: false,
                is_written: false,
            },
            writable_signer(payer),
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
        program: loader_address(),
        accounts: vec![
            writable(program_data_address(&program)),
            writable(program),
            writable(buffer),
            writable(authority.address()),
            read_only("SysvarRent111111111111111111111111111111111"),
            read_only("SysvarC1ock11111111111111111111111111111111"),
            writable_signer(authority.address()),
        ],
        data: UPGRADE.to_le_bytes().to_vec(),
    };
    transaction(&[authority], &[upgrade], blockhash)
}

fn writable_signer(address: Address) -> Account {
    Account {
        address,
        signs: true,
        is_written: true,
    }
}

fn writable(address: Address) -> Account {
    Account {
        address,
        signs: false,
        is_written: true,
    }
}

fn read_only(name: &str) -> Account {
    Account {
        address: address_of(name),
        signs: false,
        is_written: false,
    }
}

/// The address of a program's code: the first derived one that is no public key.
fn program_data_address(program: &Address) -> Address {
    let candidate = |bump: u8| -> Address {
        let parts = [
            program,
            &[bump][..],
            &loader_address(),
            b"ProgramDerivedAddress",
        ];
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
        let program = address_of("metaqbxxUerdq28cj1RbAWkYQm3ybzjb6a8bt518x1s");
        assert_eq!(
            program_data_address(&program),
            address_of("PwDiXFxQsGra4sFFTT8r1QWRMd4vfumiWC1jfWNfdYT")
        );
    }
}
