//! Answers of a mock validator in the real format: JSON-RPC over HTTP and on the admin socket. The
//! demo of the daemon and the simulated validator of the tests share this code; their scenarios
//! differ.

mod votes;

use serde_json::{Value, json};
use std::{
    borrow::Cow,
    fs::{self, File, Permissions},
    io::{self, Write},
    os::unix::{
        fs::PermissionsExt,
        net::{UnixListener, UnixStream},
    },
    path::Path,
    time::Duration,
};

/// Process name in the kernel, regardless of the file's name.
pub const PROGRAM_NAME: &str = "agave-validator";
/// The last slot before Alpenglow.
pub const GENESIS_SLOT: u64 = SLOTS_IN_EPOCH + 4_999;

const SLOTS_IN_EPOCH: u64 = 432_000;
/// Slots without a block since genesis.
const SKIPPED_SLOTS: u64 = 1_000;
/// The node is healthy up to this many slots behind: `--health-check-slot-distance`.
const MAX_HEALTHY_SLOTS_BEHIND: u64 = 128;
/// How long a client of the admin socket may be silent.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// Code, message and data of a JSON-RPC error.
type RpcError = (i64, Cow<'static, str>, Value);

const NO_SUCH_METHOD: RpcError = (-32601, Cow::Borrowed("Method not found"), Value::Null);

/// The consensus protocol of a node. It determines the release and the format of the answers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Protocol {
    /// Release 2.1.14.
    Tower,
    /// Release 4.4.0. The migration was in epoch 1.
    Alpenglow,
}

impl Protocol {
    #[must_use]
    pub const fn agave_version(self) -> &'static str {
        match self {
            Self::Tower => "2.1.14",
            Self::Alpenglow => "4.4.0",
        }
    }

    /// Slots from the root to the processed slot.
    #[must_use]
    pub const fn root_depth(self) -> u64 {
        match self {
            Self::Tower => 31,
            Self::Alpenglow => 2,
        }
    }

    /// Slots from the newest confirmed slot to the processed one. With Alpenglow, confirmed and
    /// finalized are the same slot.
    const fn confirmed_depth(self) -> u64 {
        match self {
            Self::Tower => 1,
            Self::Alpenglow => self.root_depth(),
        }
    }
}

/// State of a mock validator at one moment, from which it answers.
#[derive(Debug)]
pub struct NodeState {
    pub protocol: Protocol,
    /// Determines rewards.
    pub slot_time: Duration,
    pub identity: String,
    /// `IP:PORT`; `None` if the node does not answer JSON-RPC.
    pub rpc_address: Option<String>,
    /// Since the Unix epoch.
    pub started: Duration,
    /// Whether the node has completed its start.
    pub is_running: bool,
    /// The result of `startProgress`.
    pub progress: Value,
    /// Newest replayed slot, at least [`Protocol::root_depth`]; with Alpenglow above
    /// [`GENESIS_SLOT`].
    pub slot: u64,
    /// Newest slot of the cluster.
    pub tip: u64,
    /// Since genesis, up to `slot`.
    pub transactions: u64,
    /// Voting validators with stake, including this one. With 0, this node neither votes nor lists
    /// vote accounts.
    pub voters: u64,
}

impl NodeState {
    #[must_use]
    pub fn answer_http(&self, body: &[u8]) -> String {
        let answer = |request: &Value| response(request, self.rpc_outcome(request));
        let answer = match serde_json::from_slice(body) {
            Ok(Value::Array(requests)) => Value::Array(requests.iter().map(answer).collect()),
            Ok(request) => answer(&request),
            Err(_) => response(
                &Value::Null,
                Err((-32700, "Parse error".into(), Value::Null)),
            ),
        };
        answer.to_string()
    }

    #[must_use]
    pub fn answer_admin(&self, request: &Value) -> String {
        let started = self.started;
        let outcome = match method(request) {
            "startProgress" => Ok(self.progress.clone()),
            "startTime" => Ok(json!({
                "secs_since_epoch": started.as_secs(),
                "nanos_since_epoch": started.subsec_nanos()
            })),
            "rpcAddress" => Ok(json!(self.rpc_address)),
            "contactInfo" if self.is_running => {
                Ok(json!({"id": self.identity, "rpc": self.rpc_address, "shred_version": 1}))
            }
            "contactInfo" => Err((
                -32602,
                "Retry once validator start up is complete".into(),
                Value::Null,
            )),
            "validatorAdmissionTicketStatus" if self.protocol == Protocol::Alpenglow => {
                Ok(votes::admission(self))
            }
            _ => Err(NO_SUCH_METHOD),
        };
        format!("{}\n", response(request, outcome))
    }

    fn rpc_outcome(&self, request: &Value) -> Result<Value, RpcError> {
        let slot = self.slot;
        let slots_behind = self.tip.saturating_sub(slot);
        match method(request) {
            "getSlot" => Ok(json!(match request
                .pointer("/params/0/commitment")
                .and_then(Value::as_str)
            {
                Some("processed") => slot,
                Some("confirmed") => slot.saturating_sub(self.protocol.confirmed_depth()),
                _ => slot.saturating_sub(self.protocol.root_depth()),
            })),
            "getEpochInfo" => Ok(json!({
                "absoluteSlot": slot,
                "blockHeight": slot.saturating_sub(SKIPPED_SLOTS),
                "epoch": slot / SLOTS_IN_EPOCH,
                "slotIndex": slot % SLOTS_IN_EPOCH,
                "slotsInEpoch": SLOTS_IN_EPOCH,
                "transactionCount": self.transactions,
            })),
            "getBlockHeight" => Ok(json!(slot.saturating_sub(SKIPPED_SLOTS))),
            "getLatestBlockhash" => Ok(json!({
                "context": self.context(),
                "value": {"blockhash": self.identity, "lastValidBlockHeight": slot.saturating_add(150)},
            })),
            "getTransactionCount" => Ok(json!(self.transactions)),
            "getHealth" if slots_behind <= MAX_HEALTHY_SLOTS_BEHIND => Ok(json!("ok")),
            "getHealth" => Err((
                -32005,
                format!("Node is behind by {slots_behind} slots").into(),
                json!({"numSlotsBehind": slots_behind}),
            )),
            "getMaxShredInsertSlot" => Ok(json!(self.tip)),
            "getVersion" => {
                Ok(json!({"solana-core": self.protocol.agave_version(), "feature-set": 0}))
            }
            "getIdentity" => Ok(json!({"identity": self.identity})),
            "getAgGenesisCert" if self.protocol == Protocol::Alpenglow => {
                Ok(votes::genesis_certificate())
            }
            "getVoteAccounts" if self.voters == 0 => Ok(json!({"current": [], "delinquent": []})),
            other if self.voters > 0 => {
                votes::answer(self, other, &request["params"]).ok_or(NO_SUCH_METHOD)
            }
            _ => Err(NO_SUCH_METHOD),
        }
    }

    fn context(&self) -> Value {
        json!({"apiVersion": self.protocol.agave_version(), "slot": self.slot})
    }
}

fn method(request: &Value) -> &str {
    request
        .get("method")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn response(request: &Value, outcome: Result<Value, RpcError>) -> Value {
    let id = request.get("id").cloned().unwrap_or_default();
    match outcome {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err((code, message, Value::Null)) => {
            json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
        }
        Err((code, message, data)) => {
            json!({
                "jsonrpc": "2.0",
                "id": id,
                "error": {"code": code, "message": message, "data": data}
            })
        }
    }
}

/// Lock and admin socket of a ledger. Dropping it releases the lock and closes the socket; the file
/// `admin.rpc` stays.
#[derive(Debug)]
pub struct Ledger {
    _lock: File,
    socket: UnixListener,
}

impl Ledger {
    /// Locks `ledger.lock` and listens at `admin.rpc`, which only this user may open. Fails if
    /// another process has the lock.
    pub fn lock(folder: &Path) -> io::Result<Self> {
        let lock = File::create(folder.join("ledger.lock"))?;
        lock.try_lock()?;
        let path = folder.join("admin.rpc");
        // The owner of the lock owns the socket: an existing one belongs to an ended process.
        if path.exists() {
            fs::remove_file(&path)?;
        }
        let socket = UnixListener::bind(&path)?;
        fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        Ok(Self {
            _lock: lock,
            socket,
        })
    }

    /// Serves the admin socket until the process ends, one connection at a time, because requests
    /// are short. Answers end with a newline.
    pub fn serve(&self, answer: impl Fn(&Value) -> String) {
        for stream in self.socket.incoming() {
            // An error of one client, such as a timeout, must not end the loop.
            drop(stream.and_then(|stream| answer_requests(&stream, &answer)));
        }
    }
}

fn answer_requests(mut stream: &UnixStream, answer: impl Fn(&Value) -> String) -> io::Result<()> {
    stream.set_read_timeout(Some(READ_TIMEOUT))?;
    for request in serde_json::Deserializer::from_reader(stream).into_iter::<Value>() {
        stream.write_all(answer(&request?).as_bytes())?;
    }
    Ok(())
}
