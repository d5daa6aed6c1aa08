//! `<ledger>/admin.rpc`: the unix socket on which a validator tells how far its start has come.
//!
//! The socket also takes orders (exit, change of identity, plugins). Nothing here can express one: a request is made
//! from [`Method`] only, and [`READ_ONLY_METHODS`] are all its names.
//!
//! No framing: write the request, read until a newline.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::json::{self, Response};
use crate::{Error, Excerpt};

/// Everything this crate can ask on the socket.
pub const READ_ONLY_METHODS: [&str; 5] = [
    "startProgress",
    "startTime",
    "rpcAddress",
    "pid",
    "contactInfo",
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
}

impl Method {
    /// All of them, in the order of [`READ_ONLY_METHODS`].
    pub const ALL: [Self; 5] = [
        Self::StartProgress,
        Self::StartTime,
        Self::RpcAddress,
        Self::Pid,
        Self::ContactInfo,
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
        let response: Response = json::read(body)?;
        if !response.answers(id) {
            return Err(Error::Unanswered { method });
        }
        let result = response
            .outcome()?
            .map_err(|error| error.into_error(method))?;
        match self {
            Self::StartProgress => StartProgress::from_json(&result).map(Answer::StartProgress),
            Self::StartTime => json::shape(method, result)
                .map(|time: SinceEpoch| Answer::StartTime(time.into_duration())),
            Self::RpcAddress => json::shape(method, result).map(Answer::RpcAddress),
            Self::Pid => json::shape(method, result).map(Answer::Pid),
            Self::ContactInfo => json::shape(method, result).map(Answer::ContactInfo),
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
    /// To [`Method::RpcAddress`]: `ip:port`; `None` if the validator has no JSON-RPC.
    RpcAddress(Option<String>),
    /// To [`Method::Pid`].
    Pid(u32),
    /// To [`Method::ContactInfo`].
    ContactInfo(ContactInfo),
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
    /// The identity's public key, base58.
    pub id: String,
    /// `None` if the version does not tell.
    #[serde(default)]
    pub shred_version: Option<u16>,
    /// `None` where the struct has no such field, which is every stock version known (2.0 to 4.4).
    #[serde(default)]
    pub version: Option<String>,
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
        /// Whom from: `ip:port`.
        rpc_addr: Option<String>,
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
    /// Starting services.
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
    /// A state this crate does not know, by its name.
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

    /// A string, or an object with the name as its only key. A state whose data cannot be read keeps its name.
    fn from_json(result: &Value) -> Result<Self, Error> {
        let wrong = || Error::Shape {
            method: Method::StartProgress.name(),
            why: "neither a string nor an object with one key".into(),
            text: Excerpt::of(result.to_string().as_bytes()),
        };
        let (name, data) = match result {
            Value::String(name) => (name, &Value::Null),
            Value::Object(map) if map.len() == 1 => map.iter().next().ok_or_else(wrong)?,
            _ => return Err(wrong()),
        };
        let number = |key| data.get(key).and_then(Value::as_u64);
        Ok(match name.as_str() {
            "Initializing" => Self::Initializing,
            "SearchingForRpcService" => Self::SearchingForRpcService,
            "DownloadingSnapshot" => Self::DownloadingSnapshot {
                slot: number("slot"),
                rpc_addr: data
                    .get("rpc_addr")
                    .and_then(Value::as_str)
                    .map(str::to_owned),
            },
            "CleaningBlockStore" => Self::CleaningBlockStore,
            "CleaningAccounts" => Self::CleaningAccounts,
            "LoadingLedger" => Self::LoadingLedger,
            "ProcessingLedger" => Self::ProcessingLedger {
                slot: number("slot"),
                max_slot: number("max_slot"),
            },
            "StartingServices" => Self::StartingServices,
            "Halted" => Self::Halted,
            "WaitingForSupermajority" => Self::WaitingForSupermajority {
                slot: number("slot"),
                gossip_stake_percent: number("gossip_stake_percent"),
            },
            "Running" => Self::Running,
            other => Self::Other(other.chars().filter(|c| !c.is_control()).take(80).collect()),
        })
    }
}

#[cfg(test)]
mod tests;
