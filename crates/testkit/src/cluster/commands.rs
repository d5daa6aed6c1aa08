//! Files and command lines of a cluster.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{ClusterOptions, FirstSnapshot, Follower, FollowerAddress, MAX_FOLLOWERS, WARP_SLOT};
use crate::{
    Error, Result,
    binaries::Binaries,
    ports::PortBlock,
    process::Program,
    transaction::{
        Address, GenesisAccount, base58, follower_identities, mint, payers, program_address,
    },
    voter,
};

const NO_VOTING: &str = "--no-voting";
/// The owner of accounts without data.
const SYSTEM: Address = [0; 32];
const PAYER_LAMPORTS: u64 = 1_000_000_000_000;
/// Environment of both nodes. The metrics client honours proxies, but the daemon is on loopback.
const ALWAYS: [(&str, &str); 2] = [
    ("AGAVE_NO_ENFORCE_NOFILE", "1"),
    ("NO_PROXY", "127.0.0.1,localhost"),
];

/// Paths and ports of one cluster.
#[derive(Debug)]
pub struct Layout {
    pub folder: PathBuf,
    pub leader_ledger: PathBuf,
    pub follower_ledger: PathBuf,
    pub follower_log: PathBuf,
    pub leader_rpc_port: u16,
    pub follower_rpc_port: u16,
    pub follower_addresses: [FollowerAddress; MAX_FOLLOWERS],
    binaries: Binaries,
    accounts: PathBuf,
    leader_ports: NodePorts,
    faucet_port: u16,
}

#[derive(Debug)]
struct NodePorts {
    gossip: u16,
    dynamic: (u16, u16),
}

impl Layout {
    /// Creates the files that must exist before the leader starts. Removes the ledgers of an older cluster.
    pub fn prepare(
        folder: PathBuf,
        binaries: Binaries,
        ports: &PortBlock,
        options: &ClusterOptions,
    ) -> Result<Self> {
        let layout = Self {
            leader_ledger: folder.join("leader"),
            follower_ledger: folder.join("follower"),
            follower_log: folder.join("follower.log"),
            leader_rpc_port: ports.port(10),
            follower_rpc_port: ports.port(110),
            follower_addresses: follower_addresses(&folder, ports),
            accounts: folder.join("payers"),
            leader_ports: NodePorts {
                gossip: ports.port(1),
                dynamic: (ports.port(20), ports.port(60)),
            },
            faucet_port: ports.port(12),
            binaries,
            folder,
        };
        for stale in [
            &layout.leader_ledger,
            &layout.follower_ledger,
            &layout.accounts,
        ] {
            match fs::remove_dir_all(stale) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(Error::file(stale)(error));
                }
                _ => {}
            }
        }
        fs::create_dir_all(&layout.accounts).map_err(Error::file(&layout.accounts))?;
        for (address, identity) in layout.follower_addresses.iter().zip(follower_identities()) {
            write(&address.identity, &identity.to_file_text())?;
        }
        let payers = payers(options.payers)
            .into_iter()
            .map(|payer| GenesisAccount {
                address: payer.address(),
                owner: SYSTEM,
                lamports: PAYER_LAMPORTS,
                data: Vec::new(),
            });
        let voting = if options.follower_stakes.is_empty() {
            Vec::new()
        } else {
            voter::accounts(&options.follower_stakes)
        };
        for account in payers.chain(voting).chain(options.accounts.iter().cloned()) {
            let file = layout
                .accounts
                .join(format!("{}.json", base58(account.address)));
            write(&file, &account.to_file_text())?;
        }
        Ok(layout)
    }

    pub fn leader_program(&self, options: &ClusterOptions) -> Program {
        let mut arguments = vec!["--reset".to_owned(), "--quiet".to_owned()];
        let mut set = |name: &str, value: String| arguments.extend([format!("--{name}"), value]);
        set("ledger", text(&self.leader_ledger));
        set("mint", base58(mint().address()));
        set("account-dir", text(&self.accounts));
        set("rpc-port", self.leader_rpc_port.to_string());
        set("faucet-port", self.faucet_port.to_string());
        if options.first_snapshot == FirstSnapshot::Copied {
            set("warp-slot", WARP_SLOT.to_string());
        }
        if let Some(slots) = options.slots_per_epoch {
            set("slots-per-epoch", slots.to_string());
        }
        arguments.extend(self.leader_ports.arguments());
        let files = match options.program_files.as_slice() {
            [] => std::slice::from_ref(&self.binaries.memo_program),
            files => files,
        };
        let authority = payers(1).iter().map(|payer| base58(payer.address())).next();
        for (index, file) in (0..options.programs + options.upgradeable).zip(files.iter().cycle()) {
            let is_upgradeable = index >= options.programs;
            let option = if is_upgradeable {
                "--upgradeable-program"
            } else {
                "--bpf-program"
            };
            let address = base58(program_address(index));
            arguments.extend([option.to_owned(), address, text(file)]);
            arguments.extend(authority.clone().filter(|_| is_upgradeable));
        }
        Program {
            path: self.binaries.test_validator.clone(),
            arguments,
            environment: environment(
                options,
                options.leader_metrics.as_deref(),
                &options.leader_environment,
            ),
            output: self.folder.join("leader.out"),
        }
    }

    pub fn follower_program(&self, options: &ClusterOptions, genesis_hash: &str) -> Program {
        let mut arguments = self
            .follower_command(options, genesis_hash, &self.follower_ledger)
            .split_off(1);
        if options.first_snapshot == FirstSnapshot::Copied {
            arguments.extend([
                "--no-genesis-fetch".to_owned(),
                "--no-snapshot-fetch".to_owned(),
            ]);
        }
        arguments.extend(["--log".to_owned(), text(&self.follower_log)]);
        arguments.extend(options.follower_arguments.iter().cloned());
        Program {
            path: options
                .follower_program
                .clone()
                .unwrap_or_else(|| self.binaries.validator.clone()),
            arguments,
            environment: environment(
                options,
                options.follower_metrics.as_deref(),
                &options.follower_environment,
            ),
            output: self.folder.join("follower.out"),
        }
    }

    /// The follower with the first address, which votes if it has stake.
    pub fn follower_command(
        &self,
        options: &ClusterOptions,
        genesis_hash: &str,
        ledger: &Path,
    ) -> Vec<String> {
        let [address, ..] = &self.follower_addresses;
        let mut command = self.follower(genesis_hash).command(address, ledger);
        if !options.follower_stakes.is_empty() {
            command.retain(|argument| argument != NO_VOTING);
            let account = base58(voter::vote_account());
            // It then produces blocks before it has a vote in a rooted slot.
            command.extend(
                [
                    "--no-wait-for-vote-to-start-leader",
                    "--vote-account",
                    &account,
                ]
                .map(str::to_owned),
            );
        }
        command
    }

    /// The common command of all followers of the leader with this genesis.
    pub fn follower(&self, genesis_hash: &str) -> Follower {
        let switches = [
            NO_VOTING,
            "--private-rpc",
            "--full-rpc-api",
            "--allow-private-addr",
            "--no-port-check",
            "--no-poh-speed-test",
            "--no-os-network-limits-test",
        ];
        let mut arguments: Vec<String> = switches.map(str::to_owned).into();
        // Private addresses exclude XDP.
        if self.binaries.version >= vec![4, 2] {
            arguments.push("--no-xdp".to_owned());
        }
        let mut set =
            |name: &str, value: &str| arguments.extend([format!("--{name}"), value.to_owned()]);
        set("expected-genesis-hash", genesis_hash);
        set("limit-ledger-size", "50000000");
        set("max-genesis-archive-unpacked-size", "200000000");
        set("bind-address", "127.0.0.1");
        let always = ALWAYS.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Follower {
            program: self.binaries.validator.clone(),
            arguments,
            environment: always.into(),
            entrypoint: format!("127.0.0.1:{}", self.leader_ports.gossip),
        }
    }

    /// `agave-validator`.
    pub fn validator(&self) -> &Path {
        &self.binaries.validator
    }

    /// Copies genesis and snapshot to the follower unless it has a ledger already.
    pub fn copy_snapshot(&self) -> Result<()> {
        if self.follower_ledger.exists() {
            return Ok(());
        }
        fs::create_dir_all(&self.follower_ledger).map_err(Error::file(&self.follower_ledger))?;
        let snapshot_start = format!("snapshot-{WARP_SLOT}-");
        for entry in fs::read_dir(&self.leader_ledger).map_err(Error::file(&self.leader_ledger))? {
            let name = entry.map_err(Error::file(&self.leader_ledger))?.file_name();
            if name.to_string_lossy().starts_with(&snapshot_start) || name == "genesis.bin" {
                let from = self.leader_ledger.join(&name);
                fs::copy(&from, self.follower_ledger.join(&name)).map_err(Error::file(&from))?;
            }
        }
        Ok(())
    }
}

impl NodePorts {
    fn arguments(&self) -> Vec<String> {
        let mut arguments = Vec::new();
        let mut set = |name: &str, value: String| arguments.extend([format!("--{name}"), value]);
        set("bind-address", "127.0.0.1".to_owned());
        set("gossip-port", self.gossip.to_string());
        set(
            "dynamic-port-range",
            format!("{}-{}", self.dynamic.0, self.dynamic.1),
        );
        arguments
    }
}

/// Addresses for followers in the block of ports, above the leader's.
fn follower_addresses(folder: &Path, ports: &PortBlock) -> [FollowerAddress; MAX_FOLLOWERS] {
    let address = |name: &str, rpc: u16, gossip: u16, range: (u16, u16)| FollowerAddress {
        identity: folder.join(format!("{name}-identity.json")),
        rpc_port: ports.port(rpc),
        gossip_port: ports.port(gossip),
        port_range: (ports.port(range.0), ports.port(range.1)),
    };
    [
        address("follower", 110, 101, (120, 158)),
        address("second-follower", 112, 102, (160, 198)),
    ]
}

/// The value of `SOLANA_METRICS_CONFIG` for pushes to this URL.
pub fn metrics_config(url: &str) -> String {
    format!("host={url},db=prof,u=a,p=b")
}

fn environment(
    options: &ClusterOptions,
    metrics: Option<&str>,
    further: &[(String, String)],
) -> Vec<(String, Option<String>)> {
    let set = |name: &str, value: &str| (name.to_owned(), Some(value.to_owned()));
    let mut environment = vec![
        ("RUST_LOG".to_owned(), None),
        (
            "SOLANA_METRICS_CONFIG".to_owned(),
            metrics.map(metrics_config),
        ),
    ];
    environment.extend(ALWAYS.map(|(name, value)| set(name, value)));
    if let Some(entries) = options.cache_entries {
        environment.push(set("AGAVE_PROGRAM_CACHE_ENTRIES", &entries.to_string()));
    }
    environment.extend(further.iter().map(|(name, value)| set(name, value)));
    environment
}

fn write(path: &Path, content: &str) -> Result<()> {
    fs::write(path, content).map_err(Error::file(path))
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
