//! What is asked of the validator and looked at on its host, and how often.

use faultline_agave::PublicKey;
use std::time::Duration;

/// JSON-RPC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rpc {
    /// Whether it is asked.
    pub enabled: bool,
    /// Its address; `None`: 127.0.0.1 and the port on the validator's command line.
    pub url: Option<String>,
    /// From question to question.
    pub interval: Duration,
    /// How long an answer may take.
    pub timeout: Duration,
}

impl Default for Rpc {
    fn default() -> Self {
        Rpc {
            enabled: true,
            url: None,
            interval: Duration::from_secs(1),
            timeout: Duration::from_secs(2),
        }
    }
}

/// Requests of a client to JSON-RPC, to time them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// Whether any is sent.
    pub enabled: bool,
    /// What is asked: one of [`faultline_agave::rpc::PROBES`].
    pub method: &'static str,
    /// From request to request, a second at least.
    pub interval: Duration,
    /// How long an answer may take.
    pub timeout: Duration,
}

impl Default for Probe {
    fn default() -> Self {
        let (interval, timeout) = (Duration::from_secs(10), Duration::from_secs(5));
        Probe {
            enabled: false,
            method: "getLatestBlockhash",
            interval,
            timeout,
        }
    }
}

/// What JSON-RPC is asked about votes, leader slots and the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Validator {
    /// Whether it is asked.
    pub enabled: bool,
    /// The vote account; `None`: the one of the identity.
    pub vote_account: Option<PublicKey>,
    /// Whether all stake accounts are looked through for stake that begins or ends to count.
    pub activating_stake: bool,
    /// From round to round, a second at least.
    pub interval: Duration,
    /// How long each answer may take.
    pub timeout: Duration,
}

impl Default for Validator {
    fn default() -> Self {
        let (interval, timeout) = (Duration::from_secs(60), Duration::from_secs(5));
        Validator {
            enabled: true,
            vote_account: None,
            activating_stake: false,
            interval,
            timeout,
        }
    }
}

/// What the node may run out of: file systems, disks, the network, processors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Whether it is looked at.
    pub enabled: bool,
    /// From poll to poll, a second at least.
    pub interval: Duration,
}

impl Default for Host {
    fn default() -> Self {
        Host {
            enabled: true,
            interval: Duration::from_secs(15),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admin {
    /// Whether it is asked.
    pub enabled: bool,
    /// How long an answer may take.
    pub timeout: Duration,
}

impl Default for Admin {
    fn default() -> Self {
        Admin {
            enabled: true,
            timeout: Duration::from_secs(2),
        }
    }
}
