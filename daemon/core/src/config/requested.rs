use faultline_agave::PublicKey;
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rpc {
    pub enabled: bool,
    /// `None`: 127.0.0.1 and the port on the validator's command line.
    pub url: Option<String>,
    pub interval: Duration,
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

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    pub enabled: bool,
    /// One of [`faultline_agave::rpc::PROBES`].
    pub method: &'static str,
    /// At least a second.
    pub interval: Duration,
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

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Validator {
    pub enabled: bool,
    /// `None`: the identity's vote account.
    pub vote_account: Option<PublicKey>,
    /// Reads all stake accounts to find stake that activates or deactivates.
    pub activating_stake: bool,
    /// At least a second.
    pub interval: Duration,
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

/// File systems, disks, network and processors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    pub enabled: bool,
    /// At least a second.
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
    pub enabled: bool,
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
