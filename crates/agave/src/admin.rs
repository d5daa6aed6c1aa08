//! `<ledger>/admin.rpc`: the unix socket on which a validator tells how far its start has come.
//!
//! The socket also takes orders (exit, change of identity, plugins). Nothing here can express one: a request is made
//! from [`Method`] only, and [`READ_ONLY_METHODS`] are all its names.
//!
//! No framing: write the request, read until a newline.

use std::net::SocketAddr;
use std::time::Duration;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde_json::json;
use serde_json::value::RawValue;
use std::fmt;

use crate::json::{self, Response};
use crate::{Error, PublicKey};

/// Everything this crate can ask on the socket.
pub const READ_ONLY_METHODS: [&str; 6] = [
    "startProgress",
    "startTime",
    "rpcAddress",
    "pid",
    "contactInfo",
    "validatorAdmissionTicketStatus",
];

/// A question to the admin socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    /// How far the start has come. All versions.
    StartProgress,
    /// When the process started. All versions.
    StartTime,
    /// Where JSON-RPC listens. All versions.
    RpcAddress,
    /// The process id in the validator's own pid namespace. Since 3.0 and late 2.3; [`Error::NotOffered`] before.
    Pid,
    /// Identity and shred version. All versions; refused with [`Error::Rpc`] -32602 until start-up is complete;
    /// solana-test-validator 2.1.14 refused it still after it said `Running`.
    ContactInfo,
    /// Whether the vote account may vote in this epoch and after the next one. Since 4.2.2.
    AdmissionStatus,
}

impl Method {
    /// All of them, in the order of [`READ_ONLY_METHODS`].
    pub const ALL: [Self; 6] = [
        Self::StartProgress,
        Self::StartTime,
        Self::RpcAddress,
        Self::Pid,
        Self::ContactInfo,
        Self::AdmissionStatus,
    ];

    /// Its JSON-RPC name.
    pub fn name(self) -> &'static str {
        READ_ONLY_METHODS[self as usize]
    }

    /// The request to write to the socket.
    pub fn request(self, id: u64) -> String {
        json!({"jsonrpc": "2.0", "id": id, "method": self.name(), "params": []}).to_string()
    }

    /// Reads the answer to [`Method::request`] with the same id.
    ///
    /// # Errors
    /// [`Error::Garbage`], [`Error::Unanswered`] (another id), [`Error::NotOffered`], [`Error::Rpc`], [`Error::Shape`].
    pub fn read(self, id: u64, body: &[u8]) -> Result<Answer, Error> {
        let method = self.name();
        let response: Response<'_> = json::read(body)?;
        if response.id != Some(id) {
            return Err(Error::Unanswered { method });
        }
        let result = response
            .outcome()?
            .map_err(|error| error.into_error(method))?;
        match self {
            Self::StartProgress => json::shape(method, result).map(Answer::StartProgress),
            Self::StartTime => json::shape(method, result)
                .map(|time: SinceEpoch| Answer::StartTime(time.into_duration())),
            Self::RpcAddress => json::shape(method, result).map(Answer::RpcAddress),
            Self::Pid => json::shape(method, result).map(Answer::Pid),
            Self::ContactInfo => json::shape(method, result).map(Answer::ContactInfo),
            Self::AdmissionStatus => json::shape(method, result).map(Answer::AdmissionStatus),
        }
    }
}

/// What came back for a [`Method`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// To [`Method::StartProgress`].
    StartProgress(StartProgress),
    /// To [`Method::StartTime`]: since the Unix epoch, by the validator's wall clock.
    StartTime(Duration),
    /// To [`Method::RpcAddress`]; `None` if the validator has no JSON-RPC.
    RpcAddress(Option<SocketAddr>),
    /// To [`Method::Pid`].
    Pid(u32),
    /// To [`Method::ContactInfo`].
    ContactInfo(ContactInfo),
    /// To [`Method::AdmissionStatus`].
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

/// `contactInfo`, the part worth having; the addresses differ between versions and are ignored.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ContactInfo {
    pub id: PublicKey,
    /// `None` if the version does not tell.
    #[serde(default)]
    pub shred_version: Option<u16>,
}

/// `validatorAdmissionTicketStatus`, of the root bank. Each epoch begins with a check of all vote accounts; who fails it neither
/// votes nor leads in the epoch after that one. `vote_account` is left out: it is an array of bytes, unlike other keys.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct AdmissionStatus {
    /// Whether it has a key to vote with: a standby and an RPC node have none.
    pub voting_enabled: bool,
    /// The epoch of the root bank.
    pub current_epoch: u64,
    /// Whether the feature is active. 4.2.2 alone reports it.
    #[serde(default)]
    pub vat_active: Option<bool>,
    /// Whether it is admitted in this epoch.
    pub in_current_epoch_vat: bool,
    /// Why it would fail the check at the beginning of the next epoch; `None` if it would pass.
    pub next_epoch_vat_failure_reason: Option<AdmissionFailure>,
}

/// Why a vote account fails the check.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "FailureName")]
pub enum AdmissionFailure {
    /// There is no such account, or nobody has delegated to it.
    NoVoteAccount,
    /// It has no BLS key.
    NoBlsKey,
    /// It has too little.
    Lamports {
        balance: u64,
        /// What it needs: rent, the ticket, and rewards that are not paid out yet.
        needed: u64,
    },
    /// A reason that this crate does not know.
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

impl AdmissionFailure {
    pub fn name(&self) -> &'static str {
        match self {
            Self::NoVoteAccount => "no vote account",
            Self::NoBlsKey => "no BLS key",
            Self::Lamports { .. } => "too few lamports",
            Self::Other => "other",
        }
    }
}

/// How far the start has come. The states are not strictly ordered in time: `LoadingLedger` may appear twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StartProgress {
    /// The default; also between the download and the start proper.
    Initializing,
    /// Searching gossip for a node to download from.
    SearchingForRpcService,
    /// Downloading; the socket tells no bytes.
    DownloadingSnapshot {
        /// The snapshot's slot.
        slot: Option<u64>,
        rpc_addr: Option<SocketAddr>,
    },
    /// Shred-version clean-up of the blockstore.
    CleaningBlockStore,
    /// Clearing old account folders.
    CleaningAccounts,
    /// Unpacking, rebuilding storages, generating the index, opening the blockstore.
    LoadingLedger,
    /// Replaying what the local ledger holds; refreshed every 2 s.
    ProcessingLedger {
        /// Replayed up to here.
        slot: Option<u64>,
        /// Holds data up to here.
        max_slot: Option<u64>,
    },
    StartingServices,
    /// `--dev-halt-at-slot`; until 3.1.
    Halted,
    /// A cluster restart waits for stake.
    WaitingForSupermajority {
        /// The slot restarted from.
        slot: Option<u64>,
        /// Stake seen in gossip.
        gossip_stake_percent: Option<u64>,
    },
    /// Services are up. Catching up with the network comes after this.
    Running,
    /// A state this crate does not know, by the letters and digits of its name.
    Other(String),
}

impl StartProgress {
    /// The state's name as Agave spells it.
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

    /// A state whose data cannot be read keeps its name.
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
        struct State;

        impl<'de> Visitor<'de> for State {
            type Value = StartProgress;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or an object with one key")
            }

            fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<StartProgress, E> {
                Ok(StartProgress::new(name, None))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<StartProgress, A::Error> {
                let (name, data): (String, &RawValue) = map
                    .next_entry()?
                    .ok_or_else(|| A::Error::invalid_length(0, &self))?;
                match map.next_key::<String>()? {
                    None => Ok(StartProgress::new(&name, Some(data))),
                    Some(_) => Err(A::Error::invalid_length(2, &self)),
                }
            }
        }

        deserializer.deserialize_any(State)
    }
}

#[cfg(test)]
mod tests;
