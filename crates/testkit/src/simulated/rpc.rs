//! What a simulated validator answers: JSON-RPC over HTTP and on the admin socket, each as a validator words it.

use super::VERSION;
use super::chain::ROOT_DEPTH;
use super::state::State;
use crate::http::{UnknownLength, read_body, read_headers, read_line};
use serde_json::{Value, json};
use std::io::{BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;

const SLOTS_IN_EPOCH: u64 = 432_000;
/// Blocks skipped since genesis.
const SKIPPED: u64 = 1_000;
/// `--health-check-slot-distance`.
const HEALTHY: u64 = 128;

/// A JSON-RPC error: its code, its message, its data.
type Refusal = (i64, &'static str, Value);

const NO_SUCH_METHOD: Refusal = (-32601, "Method not found", Value::Null);

/// Answers JSON-RPC at this port, a thread a connection, until the process ends.
///
/// # Errors
/// The port is not free.
pub(super) fn serve(port: u16, state: &Arc<State>) -> std::io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    let state = Arc::clone(state);
    std::thread::Builder::new().name("solJsonRpcSvc".to_owned()).spawn(move || {
        for connection in listener.incoming().flatten() {
            let state = Arc::clone(&state);
            let serving = move || converse(connection, &state).unwrap_or_default();
            drop(std::thread::Builder::new().name("solRpcEl00".to_owned()).spawn(serving));
        }
    })?;
    Ok(())
}

/// Requests of one connection, until it closes or sends what is not HTTP.
fn converse(connection: TcpStream, state: &State) -> Option<()> {
    let mut answers = connection.try_clone().ok()?;
    let mut from = BufReader::new(connection);
    loop {
        read_line(&mut from).ok()?;
        let headers = read_headers(&mut from).ok()?;
        let body = read_body(&mut from, &headers, UnknownLength::Empty).ok()?;
        let answer = http(&body, state);
        let length = answer.len();
        let head =
            format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{answer}");
        answers.write_all(head.as_bytes()).ok()?;
        if headers.iter().any(|(name, value)| name == "connection" && value == "close") {
            return None;
        }
    }
}

/// Answers a body: one request, or a batch of them.
fn http(body: &[u8], state: &State) -> String {
    let answer = |request: &Value| frame(request, rpc(request, state));
    let answer = match serde_json::from_slice(body) {
        Ok(Value::Array(requests)) => Value::Array(requests.iter().map(answer).collect()),
        Ok(request) => answer(&request),
        Err(_) => frame(&Value::Null, Err((-32700, "Parse error", Value::Null))),
    };
    answer.to_string()
}

fn frame(request: &Value, outcome: Result<Value, Refusal>) -> Value {
    let id = request.get("id").cloned().unwrap_or_default();
    match outcome {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err((code, message, Value::Null)) => {
            json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
        }
        Err((code, message, data)) => {
            json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message, "data": data}})
        }
    }
}

fn method(request: &Value) -> &str {
    request.get("method").and_then(Value::as_str).unwrap_or_default()
}

fn rpc(request: &Value, state: &State) -> Result<Value, Refusal> {
    let (slot, tip) = (state.slot(), state.tip());
    let behind = tip.saturating_sub(slot);
    match method(request) {
        "getSlot" => Ok(json!(match request.pointer("/params/0/commitment").and_then(Value::as_str) {
            Some("processed") => slot,
            Some("confirmed") => slot - 1,
            _ => slot - ROOT_DEPTH,
        })),
        "getEpochInfo" => Ok(json!({
            "absoluteSlot": slot,
            "blockHeight": slot - SKIPPED,
            "epoch": slot / SLOTS_IN_EPOCH,
            "slotIndex": slot % SLOTS_IN_EPOCH,
            "slotsInEpoch": SLOTS_IN_EPOCH,
            "transactionCount": state.transactions(),
        })),
        "getTransactionCount" => Ok(json!(state.transactions())),
        "getHealth" if behind <= HEALTHY => Ok(json!("ok")),
        "getHealth" => Err((-32005, "Node is behind", json!({"numSlotsBehind": behind}))),
        "getMaxShredInsertSlot" => Ok(json!(tip)),
        "getVersion" => Ok(json!({"solana-core": VERSION, "feature-set": 0})),
        "getIdentity" => Ok(json!({"identity": state.identity})),
        "getVoteAccounts" => Ok(json!({"current": [], "delinquent": []})),
        _ => Err(NO_SUCH_METHOD),
    }
}

/// Answers at the admin socket, one connection after the other, until the process ends.
pub(super) fn answer_admin(socket: &UnixListener, state: &State) {
    for stream in socket.incoming().flatten() {
        // Who goes away has lost its answer only.
        drop(admin_requests(&stream, state));
    }
}

fn admin_requests(mut stream: &UnixStream, state: &State) -> std::io::Result<()> {
    stream.set_read_timeout(Some(std::time::Duration::from_secs(5)))?;
    for request in serde_json::Deserializer::from_reader(stream).into_iter::<Value>() {
        let request = request?;
        let answer = frame(&request, admin(&request, state));
        stream.write_all(format!("{answer}\n").as_bytes())?;
    }
    Ok(())
}

fn admin(request: &Value, state: &State) -> Result<Value, Refusal> {
    let address = state.rpc_port.map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)).to_string());
    match method(request) {
        "startProgress" if state.runs() => Ok(json!("Running")),
        "startProgress" => Ok(json!({"ProcessingLedger": {"slot": state.tip(), "max_slot": state.tip()}})),
        "startTime" => Ok(json!({
            "secs_since_epoch": state.started.as_secs(),
            "nanos_since_epoch": state.started.subsec_nanos(),
        })),
        "rpcAddress" => Ok(json!(address)),
        "contactInfo" if state.runs() => Ok(json!({"id": state.identity, "rpc": address, "shred_version": 1})),
        "contactInfo" => Err((-32602, "Retry once validator start up is complete", Value::Null)),
        _ => Err(NO_SUCH_METHOD),
    }
}
