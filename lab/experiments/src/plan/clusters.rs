//! Public clusters, as listed in <https://docs.anza.xyz/clusters/available>.

use super::Cluster;

pub struct PublicCluster {
    pub rpc: &'static str,
    pub genesis_hash: &'static str,
    pub entrypoints: &'static [&'static str],
    /// Validators whose snapshots are trusted.
    pub known_validators: &'static [&'static str],
}

impl Cluster {
    /// `None` for a private cluster.
    pub fn public_cluster(self) -> Option<&'static PublicCluster> {
        Some(match self {
            Self::MainnetBeta => &PublicCluster {
                rpc: "https://api.mainnet-beta.solana.com",
                genesis_hash: "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d",
                entrypoints: &[
                    "entrypoint.mainnet-beta.solana.com:8001",
                    "entrypoint2.mainnet-beta.solana.com:8001",
                    "entrypoint3.mainnet-beta.solana.com:8001",
                    "entrypoint4.mainnet-beta.solana.com:8001",
                    "entrypoint5.mainnet-beta.solana.com:8001",
                ],
                known_validators: &[
                    "7Np41oeYqPefeNQEHSv1UDhYrehxin3NStELsSKCT4K2",
                    "GdnSyH3YtwcxFvQrVVJMm1JhTS4QVX7MFsX56uJLUfiZ",
                    "DE1bawNcRJB9rVm3buyMVfr8mBEoyyu73NBovf2oXJsJ",
                    "CakcnaRDHka2gXyfbEd2d3xsvkJkqsLw2akB3zsN1D2S",
                ],
            },
            Self::Testnet => &PublicCluster {
                rpc: "https://api.testnet.solana.com",
                genesis_hash: "4uhcVJyU9pJkvQyS88uRDiswHXSCkY3zQawwpjk2NsNY",
                entrypoints: &[
                    "entrypoint.testnet.solana.com:8001",
                    "entrypoint2.testnet.solana.com:8001",
                    "entrypoint3.testnet.solana.com:8001",
                ],
                known_validators: &[
                    "5D1fNXzvv5NjV1ysLjirC4WY92RNsVH18vjmcszZd8on",
                    "dDzy5SR3AXdYWVqbDEkVFdvSPCtS9ihF5kJkHCtXoFs",
                    "Ft5fbkqNa76vnsjYNwjDZUXoTWpP7VYm3mtsaQckQADN",
                    "eoKpUABi59aT4rR9HGS3LcMecfut9x7zJyodWWP43YQ",
                    "9QxCLckBiJc783jnMvXZubK4wH86Eqqvashtrwvcsgkv",
                ],
            },
            Self::Devnet => &PublicCluster {
                rpc: "https://api.devnet.solana.com",
                genesis_hash: "EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG",
                entrypoints: &[
                    "entrypoint.devnet.solana.com:8001",
                    "entrypoint2.devnet.solana.com:8001",
                    "entrypoint3.devnet.solana.com:8001",
                    "entrypoint4.devnet.solana.com:8001",
                    "entrypoint5.devnet.solana.com:8001",
                ],
                known_validators: &[
                    "dv1ZAGvdsz5hHLwWXsVnM94hWf1pjbKVau1QVkaMJ92",
                    "dv2eQHeP4RFrJZ6UeiZWoc3XTtmtZCUKxxCApCDcRNV",
                    "dv4ACNkpYPcE3aKmYDqZm9G5EB3J4MRoeE7WNDRBVJB",
                    "dv3qDFk1DTF36Z62bNvrCXe9sKATA6xvVy6A798xxAS",
                ],
            },
            Self::Localnet => return None,
        })
    }
}
