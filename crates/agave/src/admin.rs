//! Read-only methods of the admin socket `<ledger>/admin.rpc`, which also accepts exit and identity
//! changes.
//!
//! Messages have no framing: write the request, read until a newline.

use std::net::SocketAddr;

use serde::{
    Deserialize,
    de::{Deserializer, Error as _, IgnoredAny},
};
use serde_json::{json, value::RawValue};
use std::collections::BTreeMap;

use crate::{
    Error, PublicKey,
    rpc::{read_result, request_body},
};

faultline_metrics::named_enum! {
    pub enum Method {
        StartProgress = "startProgress",
        RpcAddress = "rpcAddress",
        /// Refused with [`Error::Rpc`] -32602 until start-up is complete. solana-test-validator
        /// 2.1.14 still refused it after it reported `Running`.
        ContactInfo = "contactInfo",
        /// Since 4.2.2.
        AdmissionStatus = "validatorAdmissionTicketStatus",
    }
}

impl Method {
    pub fn request(self, id: u64) -> String {
        request_body(self.name(), &json!([]), id)
    }

    pub fn read(self, id: u64, body: &[u8]) -> Result<Answer, Error> {
        let method = self.name();
        match self {
            Self::StartProgress => read_result(method, id, body).map(Answer::StartProgress),
            Self::RpcAddress => read_result(method, id, body).map(Answer::RpcAddress),
            Self::ContactInfo => read_result(method, id, body).map(Answer::ContactInfo),
            Self::AdmissionStatus => read_result(method, id, body).map(Answer::AdmissionStatus),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    StartProgress(StartProgress),
    RpcAddress(Option<SocketAddr>),
    ContactInfo(ContactInfo),
    AdmissionStatus(AdmissionStatus),
}

/// Part of `contactInfo`. The addresses differ between versions and are ignored.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ContactInfo {
    pub id: PublicKey,
}

/// `validatorAdmissionTicketStatus` (VAT) of the root bank. A check of all vote accounts at the
/// beginning of epoch N decides which of them vote and lead in epoch N + 1.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct AdmissionStatus {
    /// Whether the node has a vote key. A standby and an RPC node have none.
    pub voting_enabled: bool,
    /// Whether the feature of the ticket is active. Only 4.2.2 reports it.
    #[serde(default)]
    pub vat_active: Option<bool>,
    /// Whether the account may vote and lead in this epoch.
    pub in_current_epoch_vat: bool,
    /// Why the account would fail the check at the beginning of the next epoch.
    pub next_epoch_vat_failure_reason: Option<AdmissionFailure>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "FailureReason")]
pub enum AdmissionFailure {
    InsufficientLamports {
        balance: u64,
        /// Rent, the ticket, and rewards that are not paid out yet.
        needed: u64,
    },
    Other,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum FailureReason {
    InsufficientLamports {
        #[serde(rename = "InsufficientFundsInVoteAccount")]
        lamports: (u64, u64),
    },
    Other(IgnoredAny),
}

impl From<FailureReason> for AdmissionFailure {
    fn from(reason: FailureReason) -> Self {
        match reason {
            FailureReason::InsufficientLamports {
                lamports: (balance, needed),
            } => Self::InsufficientLamports { balance, needed },
            FailureReason::Other(_) => Self::Other,
        }
    }
}

/// The states are not strictly ordered in time: `LoadingLedger` may appear twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StartProgress {
    /// The first state, and the state between download and start.
    Initializing,
    SearchingForRpcService,
    DownloadingSnapshot,
    CleaningBlockStore,
    CleaningAccounts,
    /// Unpacking, rebuilding storages, generating the index, opening the blockstore.
    LoadingLedger,
    /// Replay of the local ledger; refreshed every 2 s.
    ProcessingLedger,
    StartingServices,
    /// `--dev-halt-at-slot`; until 3.1.
    Halted,
    WaitingForSupermajority,
    /// The node may still be catching up with the cluster.
    Running,
    /// The letters and digits of an unknown state's name.
    Other(String),
}

impl StartProgress {
    const NAMES: [(&'static str, Self); 11] = [
        ("Initializing", Self::Initializing),
        ("SearchingForRpcService", Self::SearchingForRpcService),
        ("DownloadingSnapshot", Self::DownloadingSnapshot),
        ("CleaningBlockStore", Self::CleaningBlockStore),
        ("CleaningAccounts", Self::CleaningAccounts),
        ("LoadingLedger", Self::LoadingLedger),
        ("ProcessingLedger", Self::ProcessingLedger),
        ("StartingServices", Self::StartingServices),
        ("Halted", Self::Halted),
        ("WaitingForSupermajority", Self::WaitingForSupermajority),
        ("Running", Self::Running),
    ];

    pub fn name(&self) -> &str {
        if let Self::Other(name) = self {
            return name;
        }
        let mut names = Self::NAMES.into_iter();
        names
            .find(|(_, state)| state == self)
            .map_or("", |(name, _)| name)
    }

    fn from_name(name: &str) -> Self {
        let mut names = Self::NAMES.into_iter();
        let known = names.find(|(known, _)| *known == name);
        known.map_or_else(
            || {
                let letters = name.chars().filter(char::is_ascii_alphanumeric);
                Self::Other(letters.take(80).collect())
            },
            |(_, state)| state,
        )
    }
}

/// A state is a string, or an object with one key.
impl<'de> Deserialize<'de> for StartProgress {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let state = <&RawValue>::deserialize(deserializer)?.get();
        if let Ok(name) = serde_json::from_str::<String>(state) {
            return Ok(Self::from_name(&name));
        }
        let states: Option<BTreeMap<String, IgnoredAny>> = serde_json::from_str(state).ok();
        match states.into_iter().flatten().collect::<Vec<_>>()[..] {
            [(ref name, _)] => Ok(Self::from_name(name)),
            _ => Err(D::Error::custom(
                "expected a string or an object with one key",
            )),
        }
    }
}

#[cfg(test)]
mod tests;
