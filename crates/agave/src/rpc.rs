//! JSON-RPC over HTTP.
//!
//! Agave answers JSON-RPC batches, so one POST carries a whole poll ([`RequestBatch`]); answers are
//! matched by id, not by order. RPC opens only after start-up, and only with `--rpc-port`.

mod accounts;
mod votes;

pub use accounts::{
    ALPENGLOW_GATE, FeatureGate, GenesisCertificate, PendingStake, StakeAccounts,
    feature_gate_params, stake_accounts_params,
};
pub use votes::{
    BlockProduction, ClusterNode, ClusterNodes, CreditUnit, LAMPORTS_PER_SOL, LeaderSchedule,
    LeaderSlots, NOT_IN_LEADER_SCHEDULE, ResultWithContext, SlotRange, VoteAccount, VoteAccounts,
};

use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Value, json, value::RawValue};

use crate::{
    Error, Excerpt, PublicKey,
    json::{self, ErrorObject, Response},
    version::is_printable_version,
};

const MAX_ANSWERS: usize = 64;

faultline_metrics::named_enum! {
    pub enum Commitment {
        /// The node's heaviest bank: newest, may be abandoned.
        Processed = "processed",
        /// Optimistically confirmed; the same as finalized under Alpenglow.
        Confirmed = "confirmed",
        /// Rooted: about 32 slots behind `Processed` under Tower, one or two under Alpenglow.
        Finalized = "finalized",
    }
}

/// All but [`Call::MaxShredInsertSlot`] belong to the minimal API, which every validator with RPC
/// offers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Call {
    EpochInfo,
    Slot(Commitment),
    Health,
    Version,
    Identity,
    /// Needs `--full-rpc-api`, otherwise [`Error::NotOffered`].
    MaxShredInsertSlot,
}

impl Call {
    pub fn method(self) -> &'static str {
        match self {
            Self::EpochInfo => "getEpochInfo",
            Self::Slot(_) => "getSlot",
            Self::Health => "getHealth",
            Self::Version => "getVersion",
            Self::Identity => "getIdentity",
            Self::MaxShredInsertSlot => "getMaxShredInsertSlot",
        }
    }

    fn params(self) -> Value {
        match self {
            Self::EpochInfo => json!([{"commitment": "processed"}]),
            Self::Slot(commitment) => json!([{"commitment": commitment.name()}]),
            _ => json!([]),
        }
    }

    fn parse_answer(self, response: Response<'_>) -> Result<Answer, Error> {
        let method = self.method();
        let result = match response.outcome()? {
            Ok(result) => result,
            Err(error) if self == Self::Health => {
                return Health::from_error(error).map(Answer::Health);
            }
            Err(error) => return Err(error.into_error(method)),
        };
        match self {
            Self::EpochInfo => json::parse_result(method, result).map(Answer::EpochInfo),
            Self::Slot(_) => json::parse_result(method, result).map(Answer::Slot),
            Self::Version => {
                check_version(json::parse_result(method, result)?).map(Answer::Version)
            }
            Self::Identity => json::parse_result(method, result)
                .map(|IdentityResult { identity }| Answer::Identity(identity)),
            Self::MaxShredInsertSlot => {
                json::parse_result(method, result).map(Answer::MaxShredInsertSlot)
            }
            Self::Health if result.get() == "\"ok\"" => Ok(Answer::Health(Health::Ok)),
            Self::Health => Err(Error::UnexpectedResult {
                method,
                why: "expected `ok`".into(),
                text: Excerpt::of(result.get()),
            }),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    EpochInfo(EpochInfo),
    Slot(u64),
    Health(Health),
    Version(NodeVersion),
    Identity(PublicKey),
    /// Highest slot with stored shreds; 0 on a node that has received none.
    MaxShredInsertSlot(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EpochInfo {
    pub absolute_slot: u64,
    pub block_height: u64,
    pub epoch: u64,
    pub slot_index: u64,
    pub slots_in_epoch: u64,
    /// Since genesis, votes and failures included; may fall at a fork switch and at a restart.
    #[serde(default)]
    pub transaction_count: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// Within `--health-check-slot-distance` of the cluster.
    Ok,
    Unhealthy {
        /// `None` if the node does not know the cluster's newest slot: after each start, and since
        /// 4.5 always under Tower.
        slots_behind: Option<u64>,
    },
}

impl Health {
    const NODE_UNHEALTHY: i64 = -32005;

    /// `None` if an unhealthy node does not report `slots_behind`.
    pub fn is_healthy(&self) -> Option<bool> {
        match self {
            Self::Ok => Some(true),
            Self::Unhealthy { slots_behind } => slots_behind.map(|_| false),
        }
    }

    fn from_error(error: ErrorObject<'_>) -> Result<Self, Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Distance {
            num_slots_behind: Option<u64>,
        }

        if error.code != Self::NODE_UNHEALTHY {
            return Err(error.into_error(Call::Health.method()));
        }
        let distance = error
            .data
            .and_then(|data| serde_json::from_str::<Distance>(data.get()).ok());
        let slots_behind = distance.and_then(|distance| distance.num_slots_behind);
        Ok(Self::Unhealthy { slots_behind })
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct NodeVersion {
    pub solana_core: String,
    #[serde(default)]
    pub feature_set: Option<u32>,
}

#[derive(Deserialize)]
struct IdentityResult {
    identity: PublicKey,
}

fn check_version(version: NodeVersion) -> Result<NodeVersion, Error> {
    match is_printable_version(&version.solana_core) {
        true => Ok(version),
        false => Err(Error::UnexpectedResult {
            method: Call::Version.method(),
            why: "expected a version of at most 128 printable ASCII characters".into(),
            text: Excerpt::of(version.solana_core),
        }),
    }
}

#[derive(Deserialize)]
struct Responses<'a>(
    #[serde(borrow, deserialize_with = "json::bounded_list::<_, _, MAX_ANSWERS>")]
    Vec<Response<'a, &'a RawValue>>,
);

/// Ids are the positions of the calls, from 1.
#[derive(Debug, PartialEq)]
pub struct RequestBatch {
    calls: Vec<Call>,
    body: String,
}

impl RequestBatch {
    pub fn new(calls: impl Into<Vec<Call>>) -> Self {
        let calls = calls.into();
        let request = |(id, call): (u64, &Call)| request_body(call.method(), &call.params(), id);
        let requests: Vec<String> = (1..).zip(&calls).map(request).collect();
        let body = format!("[{}]", requests.join(","));
        Self { calls, body }
    }

    pub fn calls(&self) -> &[Call] {
        &self.calls
    }

    /// The body to POST as `application/json`: always an array.
    pub fn body(&self) -> &str {
        &self.body
    }

    /// Returns one outcome for each call, in the order of the calls. Answers with unknown ids are
    /// ignored; of several with the same id the first counts.
    ///
    /// # Errors
    /// If it is not JSON-RPC, or an error without an id refused the whole batch.
    pub fn read(&self, body: &[u8]) -> Result<Vec<Result<Answer, Error>>, Error> {
        let mut responses = if body.trim_ascii_start().starts_with(b"{") {
            vec![json::read(body)?]
        } else {
            json::read::<Responses<'_>>(body)?.0
        };
        if let [Response { id: None, .. }] = *responses {
            return match responses.remove(0).outcome()? {
                Err(error) => Err(error.into_error("batch")),
                Ok(_) => Err(Error::NotJsonRpc {
                    why: "an answer without id".into(),
                    text: Excerpt::of(body),
                }),
            };
        }
        let match_answer = |(id, call): (u64, &Call)| {
            let position = responses
                .iter()
                .position(|response| response.id == Some(id));
            let position = position.ok_or(Error::MissingAnswer {
                method: call.method(),
            })?;
            call.parse_answer(responses.remove(position))
        };
        Ok((1..).zip(&self.calls).map(match_answer).collect())
    }
}

/// Methods without parameters, which every validator with RPC offers and answers from memory.
pub const PROBE_METHODS: [&str; 6] = [
    "getSlot",
    "getBlockHeight",
    "getEpochInfo",
    "getLatestBlockhash",
    "getTransactionCount",
    "getHealth",
];

/// The body to POST as `application/json`; `params` is an array.
pub fn request_body(method: &'static str, params: &Value, id: u64) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

pub fn check_answer(method: &'static str, id: u64, body: &[u8]) -> Result<(), Error> {
    read_result::<IgnoredAny>(method, id, body).map(drop)
}

/// An error may lack the id, because the request was not readable.
pub fn read_result<'a, T: Deserialize<'a>>(
    method: &'static str,
    id: u64,
    body: &'a [u8],
) -> Result<T, Error> {
    let response: Response<'a, T> =
        json::read(body).map_err(|why| parse_failure(method, id, body, why))?;
    let answered_id = response.id;
    if answered_id.is_some_and(|answered_id| answered_id != id) {
        return Err(Error::MissingAnswer { method });
    }
    match response.outcome()? {
        Err(error) => Err(error.into_error(method)),
        Ok(result) if answered_id.is_some() => Ok(result),
        Ok(_) => Err(Error::MissingAnswer { method }),
    }
}

/// Distinguishes a result of the wrong type from a body that is no answer.
fn parse_failure(method: &'static str, id: u64, body: &[u8], why: Error) -> Error {
    let answer = json::read::<Response<'_>>(body);
    if answer.as_ref().is_ok_and(|answer| answer.id != Some(id)) {
        return Error::MissingAnswer { method };
    }
    match (answer.and_then(Response::outcome), why) {
        (Ok(Ok(result)), Error::NotJsonRpc { why, .. }) => Error::UnexpectedResult {
            method,
            why,
            text: Excerpt::of(result.get()),
        },
        (_, why) => why,
    }
}

#[cfg(test)]
mod tests;
