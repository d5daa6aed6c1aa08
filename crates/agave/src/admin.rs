//! The admin socket `<ledger>/admin.rpc`. It also accepts exit and identity changes, but only
//! read-only methods exist here.
//!
//! No framing: write the request, read until a newline.

use std::net::SocketAddr;
use std::time::Duration;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use serde_json::json;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

use crate::rpc::{request_body, result};
use crate::{Error, PublicKey};

/// Indexed by [`Method`].
pub const READ_ONLY_METHODS: [&str; 6] = [
    "startProgress",
    "startTime",
    "rpcAddress",
    "pid",
    "contactInfo",
    "validatorAdmissionTicketStatus",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    StartProgress,
    StartTime,
    RpcAddress,
    /// Pid in the validator's own pid namespace. Since 3.0 and late 2.3; [`Error::NotOffered`]
    /// before.
    Pid,
    /// Refused with [`Error::Rpc`] -32602 until start-up is complete. solana-test-validator 2.1.14
    /// still refused it after it reported `Running`.
    ContactInfo,
    /// Since 4.2.2.
    AdmissionStatus,
}

impl Method {
    pub const ALL: [Self; 6] = [
        Self::StartProgress,
        Self::StartTime,
        Self::RpcAddress,
        Self::Pid,
        Self::ContactInfo,
        Self::AdmissionStatus,
    ];

    pub fn name(self) -> &'static str {
        READ_ONLY_METHODS[self as usize]
    }

    pub fn request(self, id: u64) -> String {
        request_body(self.name(), &json!([]), id)
    }

    pub fn read(self, id: u64, body: &[u8]) -> Result<Answer, Error> {
        let method = self.name();
        match self {
            Self::StartProgress => result(method, id, body).map(Answer::StartProgress),
            Self::StartTime => result(method, id, body)
                .map(|time: SinceEpoch| Answer::StartTime(time.into_duration())),
            Self::RpcAddress => result(method, id, body).map(Answer::RpcAddress),
            Self::Pid => result(method, id, body).map(Answer::Pid),
            Self::ContactInfo => result(method, id, body).map(Answer::ContactInfo),
            Self::AdmissionStatus => result(method, id, body).map(Answer::AdmissionStatus),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    StartProgress(StartProgress),
    /// Since the Unix epoch, by the validator's wall clock.
    StartTime(Duration),
    RpcAddress(Option<SocketAddr>),
    Pid(u32),
    ContactInfo(ContactInfo),
    AdmissionStatus(AdmissionStatus),
}

#[derive(Deserialize)]
struct SinceEpoch {
    secs_since_epoch: u64,
    nanos_since_epoch: u32,
}

impl SinceEpoch {
    fn into_duration(self) -> Duration {
        Duration::from_secs(self.secs_since_epoch)
            .saturating_add(Duration::from_nanos(self.nanos_since_epoch.into()))
    }
}

/// Part of `contactInfo`. The addresses differ between versions and are ignored.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ContactInfo {
    pub id: PublicKey,
    #[serde(default)]
    pub shred_version: Option<u16>,
}

/// `validatorAdmissionTicketStatus` of the root bank. Each epoch begins with a check of all vote
/// accounts. An account that fails neither votes nor leads in the epoch after that one.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct AdmissionStatus {
    /// Whether the node has a vote key. A standby and an RPC node have none.
    pub voting_enabled: bool,
    pub current_epoch: u64,
    /// Whether the feature is active. Only 4.2.2 reports it.
    #[serde(default)]
    pub vat_active: Option<bool>,
    pub in_current_epoch_vat: bool,
    pub next_epoch_vat_failure_reason: Option<AdmissionFailure>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "FailureName")]
pub enum AdmissionFailure {
    /// The account does not exist, or has no delegated stake.
    NoVoteAccount,
    NoBlsKey,
    Lamports {
        balance: u64,
        /// Rent, the ticket, and rewards that are not paid out yet.
        needed: u64,
    },
    Other,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum FailureName {
    Word(String),
    Lamports {
        #[serde(rename = "InsufficientFundsInVoteAccount")]
        lamports: (u64, u64),
    },
    Other(serde::de::IgnoredAny),
}

impl From<FailureName> for AdmissionFailure {
    fn from(name: FailureName) -> Self {
        match name {
            FailureName::Word(word) if word == "VoteAccountNotFound" => Self::NoVoteAccount,
            FailureName::Word(word) if word == "NoBLSPubkey" => Self::NoBlsKey,
            FailureName::Lamports {
                lamports: (balance, needed),
            } => Self::Lamports { balance, needed },
            FailureName::Word(_) | FailureName::Other(_) => Self::Other,
        }
    }
}

/// The states are not strictly ordered in time: `LoadingLedger` may appear twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StartProgress {
    /// The default; also between download and actual start.
    Initializing,
    SearchingForRpcService,
    DownloadingSnapshot {
        slot: Option<u64>,
        rpc_addr: Option<SocketAddr>,
    },
    CleaningBlockStore,
    CleaningAccounts,
    /// Unpacking, rebuilding storages, generating the index, opening the blockstore.
    LoadingLedger,
    /// Replay of the local ledger; refreshed every 2 s.
    ProcessingLedger {
        slot: Option<u64>,
        max_slot: Option<u64>,
    },
    StartingServices,
    /// `--dev-halt-at-slot`; until 3.1.
    Halted,
    WaitingForSupermajority {
        slot: Option<u64>,
        gossip_stake_percent: Option<u64>,
    },
    /// Catching up with the cluster comes after this.
    Running,
    /// The letters and digits of an unknown state's name.
    Other(String),
}

impl StartProgress {
    pub fn name(&self) -> &str {
        match self {
            Self::Initializing => "Initializing",
            Self::SearchingForRpcService => "SearchingForRpcService",
            Self::DownloadingSnapshot { .. } => "DownloadingSnapshot",
            Self::CleaningBlockStore => "CleaningBlockStore",
            Self::CleaningAccounts => "CleaningAccounts",
            Self::LoadingLedger => "LoadingLedger",
            Self::ProcessingLedger { .. } => "ProcessingLedger",
            Self::StartingServices => "StartingServices",
            Self::Halted => "Halted",
            Self::WaitingForSupermajority { .. } => "WaitingForSupermajority",
            Self::Running => "Running",
            Self::Other(name) => name,
        }
    }

    fn new(name: &str, data: Option<&RawValue>) -> Self {
        let data = data.and_then(|data| serde_json::from_str(data.get()).ok());
        let StateData {
            slot,
            max_slot,
            rpc_addr,
            gossip_stake_percent,
        } = data.unwrap_or_default();
        match name {
            "Initializing" => Self::Initializing,
            "SearchingForRpcService" => Self::SearchingForRpcService,
            "DownloadingSnapshot" => Self::DownloadingSnapshot { slot, rpc_addr },
            "CleaningBlockStore" => Self::CleaningBlockStore,
            "CleaningAccounts" => Self::CleaningAccounts,
            "LoadingLedger" => Self::LoadingLedger,
            "ProcessingLedger" => Self::ProcessingLedger { slot, max_slot },
            "StartingServices" => Self::StartingServices,
            "Halted" => Self::Halted,
            "WaitingForSupermajority" => Self::WaitingForSupermajority {
                slot,
                gossip_stake_percent,
            },
            "Running" => Self::Running,
            other => {
                let name = other.chars().filter(char::is_ascii_alphanumeric);
                Self::Other(name.take(80).collect())
            }
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct StateData {
    slot: Option<u64>,
    max_slot: Option<u64>,
    rpc_addr: Option<SocketAddr>,
    gossip_stake_percent: Option<u64>,
}

impl<'de> Deserialize<'de> for StartProgress {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let state = <&RawValue>::deserialize(deserializer)?.get();
        if let Ok(name) = serde_json::from_str::<String>(state) {
            return Ok(Self::new(&name, None));
        }
        let states: Option<BTreeMap<String, &RawValue>> = serde_json::from_str(state).ok();
        match states.into_iter().flatten().collect::<Vec<_>>()[..] {
            [(ref name, data)] => Ok(Self::new(name, Some(data))),
            _ => Err(D::Error::custom(
                "expected a string or an object with one key",
            )),
        }
    }
}

#[cfg(test)]
mod tests;
