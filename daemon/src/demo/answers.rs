//! What the stand-in answers: JSON-RPC over HTTP and on the admin socket, each as the validator words it.

use super::recording::Recording;
use super::{IDENTITY, VERSION, story};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;

/// Transactions since genesis, at the start.
const TRANSACTIONS: u64 = 50_000_000;
const SLOTS_IN_EPOCH: u64 = 432_000;
/// Blocks skipped since genesis.
const SKIPPED: u64 = 1_000;
/// How far behind the processed slot the root is.
const ROOT_DEPTH: u64 = 31;
/// `--health-check-slot-distance`.
const HEALTHY: u64 = 128;

const NO_SUCH_METHOD: i64 = -32601;
const BAD_PARAMS: i64 = -32602;
const GARBAGE: i64 = -32700;
const UNHEALTHY: i64 = -32005;

/// An error object without its frame.
struct Refusal {
    code: i64,
    message: &'static str,
    data: Option<Value>,
}

type Outcome = Result<Value, Refusal>;

fn refuse(code: i64, message: &'static str) -> Outcome {
    Err(Refusal { code, message, data: None })
}

/// Answers an HTTP body: one request, or a batch of them.
pub(super) fn http(body: &[u8], recording: &Recording, uptime: Duration) -> String {
    let answer = |request: &Value| frame(request, rpc(request, recording, uptime));
    let answer = match serde_json::from_slice(body) {
        Ok(Value::Array(requests)) => Value::Array(requests.iter().map(answer).collect()),
        Ok(request) => answer(&request),
        Err(_) => frame(&Value::Null, refuse(GARBAGE, "Parse error")),
    };
    answer.to_string()
}

/// Answers one request of the admin socket; ends with a newline.
pub(super) fn admin(request: &Value, rpc_address: SocketAddr, started: Duration, uptime: Duration) -> String {
    let runs = uptime >= story::RUNNING;
    let outcome = match method(request) {
        "startProgress" => Ok(story::progress(uptime)),
        "startTime" => Ok(json!({"secs_since_epoch": started.as_secs(), "nanos_since_epoch": started.subsec_nanos()})),
        "rpcAddress" => Ok(json!(rpc_address.to_string())),
        "contactInfo" if runs => Ok(json!({"id": IDENTITY, "rpc": rpc_address.to_string(), "shred_version": 1})),
        "contactInfo" => refuse(BAD_PARAMS, "Retry once validator start up is complete"),
        _ => refuse(NO_SUCH_METHOD, "Method not found"),
    };
    format!("{}\n", frame(request, outcome))
}

fn method(request: &Value) -> &str {
    request.get("method").and_then(Value::as_str).unwrap_or_default()
}

fn frame(request: &Value, outcome: Outcome) -> Value {
    let id = request.get("id").cloned().unwrap_or_default();
    match outcome {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err(Refusal { code, message, data }) => {
            let mut error = json!({"code": code, "message": message});
            if let (Some(error), Some(data)) = (error.as_object_mut(), data) {
                error.insert("data".to_owned(), data);
            }
            json!({"jsonrpc": "2.0", "id": id, "error": error})
        }
    }
}

fn rpc(request: &Value, recording: &Recording, uptime: Duration) -> Outcome {
    let (slot, transactions) = recording.newest(story::replayed(uptime));
    let (tip, _) = recording.newest(story::tip(uptime));
    let behind = tip.saturating_sub(slot);
    match method(request) {
        "getSlot" => Ok(json!(match commitment(request) {
            "processed" => slot,
            "confirmed" => slot - 1,
            _ => slot - ROOT_DEPTH,
        })),
        "getEpochInfo" => Ok(json!({
            "absoluteSlot": slot,
            "blockHeight": slot - SKIPPED,
            "epoch": slot / SLOTS_IN_EPOCH,
            "slotIndex": slot % SLOTS_IN_EPOCH,
            "slotsInEpoch": SLOTS_IN_EPOCH,
            "transactionCount": TRANSACTIONS + transactions,
        })),
        "getHealth" if behind <= HEALTHY => Ok(json!("ok")),
        "getHealth" => {
            Err(Refusal { code: UNHEALTHY, message: "Node is behind", data: Some(json!({"numSlotsBehind": behind})) })
        }
        "getMaxShredInsertSlot" => Ok(json!(tip)),
        "getVersion" => Ok(json!({"solana-core": VERSION, "feature-set": 0})),
        "getIdentity" => Ok(json!({"identity": IDENTITY})),
        _ => refuse(NO_SUCH_METHOD, "Method not found"),
    }
}

fn commitment(request: &Value) -> &str {
    request.pointer("/params/0/commitment").and_then(Value::as_str).unwrap_or("finalized")
}

#[cfg(test)]
mod tests;
