//! The node's answers.

use std::{
    collections::HashMap,
    net::SocketAddr,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::json;

const SLOTS_IN_EPOCH: u64 = 432_000;

/// The phase, and files that replace its answers, by method.
#[derive(Debug, Default)]
pub struct Answers {
    pub phase: String,
    pub variants: HashMap<String, String>,
    pub pace: Option<Pace>,
    /// The highest slot with shreds: a purge does not lower it.
    pub max_shred: u64,
}

/// How slots advance.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    pub since: Instant,
    /// The processed slot at that time.
    pub begin: u64,
    pub slot_time: Duration,
    /// Whether confirmed and finalized slots advance, too.
    pub roots: bool,
}

impl Pace {
    /// Number of slots since the start.
    pub fn slots(&self) -> u64 {
        (self.since.elapsed().as_secs_f64() / self.slot_time.as_secs_f64()) as u64
    }
}

impl Answers {
    /// Answers a request. A method without a file gives an error.
    pub fn answer(&mut self, request: &Value) -> Value {
        let file = self.file(request);
        let mut answer =
            json(&file).unwrap_or_else(|_| json!({"jsonrpc": "2.0", "error": no_such_method()}));
        if let Some(account) = request.pointer("/params/0/votePubkey") {
            retain_account(&mut answer, account);
        }
        self.shift_slots(request, &mut answer);
        answer["id"] = request["id"].clone();
        answer
    }

    /// The processed slot in the files.
    pub fn file_slot(&self) -> u64 {
        let info = json(&format!("{}/getEpochInfo.json", self.phase));
        info.map_or(0, |info| {
            info["result"]["absoluteSlot"].as_u64().unwrap_or(0)
        })
    }

    /// Numbers to add to processed slots and to rooted slots of the files. `None` if slots do not advance.
    pub fn slot_offsets(&self) -> Option<(i64, i64)> {
        let pace = self.pace?;
        let by = pace.begin as i64 - self.file_slot() as i64 + pace.slots() as i64;
        Some((by, if pace.roots { by } else { 0 }))
    }

    /// Adds the slots that have passed since the file.
    fn shift_slots(&mut self, request: &Value, answer: &mut Value) {
        let Some((by, rooted)) = self.slot_offsets() else {
            return;
        };
        let method = "getMaxShredInsertSlot";
        if request["method"] == method && !self.variants.contains_key(method) {
            let slot = self.file_slot().saturating_add_signed(by) + 1;
            self.max_shred = self.max_shred.max(slot);
            *answer = json!({"jsonrpc": "2.0", "result": self.max_shred});
        }
        let Some(result) = answer.get_mut("result") else {
            return;
        };
        match request["method"].as_str().unwrap_or_default() {
            "getSlot" if request.pointer("/params/0/commitment") == Some(&json!("processed")) => {
                add(result, by);
            }
            "getSlot" => add(result, rooted),
            "getEpochInfo" => {
                add(&mut result["absoluteSlot"], by);
                let slot = result["absoluteSlot"].as_u64().unwrap_or(0);
                result["epoch"] = json!(slot / SLOTS_IN_EPOCH);
                result["slotIndex"] = json!(slot % SLOTS_IN_EPOCH);
            }
            "getVoteAccounts" => {
                let current = result["current"].as_array_mut();
                for account in current.into_iter().flatten() {
                    add(&mut account["lastVote"], by);
                    add(&mut account["rootSlot"], by);
                }
            }
            _ => {}
        }
    }

    /// Answers one request of the admin socket, as a node whose services run. Ends with a newline.
    pub fn admin(&self, request: &Value, rpc: SocketAddr, started: Duration) -> String {
        let result = match request["method"].as_str().unwrap_or_default() {
            "startProgress" => json!("Running"),
            "startTime" => json!({
                "secs_since_epoch": started.as_secs(),
                "nanos_since_epoch": started.subsec_nanos(),
            }),
            "rpcAddress" => json!(rpc.to_string()),
            "contactInfo" => {
                let identity = json(&format!("{}/getIdentity.json", self.phase));
                let identity =
                    identity.map_or(Value::Null, |mut all| all["result"]["identity"].take());
                json!({"id": identity, "rpc": rpc.to_string(), "shred_version": 1})
            }
            "validatorAdmissionTicketStatus" => {
                let file = "admin/validatorAdmissionTicketStatus-admitted.json";
                let mut status = json(file).map_or(Value::Null, |mut all| all["result"].take());
                let slot = self
                    .file_slot()
                    .saturating_add_signed(self.slot_offsets().map_or(0, |by| by.0));
                status["current_epoch"] = json!(slot / SLOTS_IN_EPOCH);
                status
            }
            _ => Value::Null,
        };
        let id = &request["id"];
        let answer = if result.is_null() {
            json!({"jsonrpc": "2.0", "id": id, "error": no_such_method()})
        } else {
            json!({"jsonrpc": "2.0", "id": id, "result": result})
        };
        format!("{answer}\n")
    }

    fn file(&self, request: &Value) -> String {
        let method = request["method"].as_str().unwrap_or_default();
        if let Some(file) = self.variants.get(method) {
            return file.clone();
        }
        let phase = &self.phase;
        let part = match method {
            "getSlot" => {
                let commitment = request.pointer("/params/0/commitment");
                commitment.and_then(Value::as_str).unwrap_or("finalized")
            }
            "getBalance" if self.is_identity(&request["params"][0]) => "identity",
            "getBalance" => "vote-account",
            _ => return format!("{phase}/{method}.json"),
        };
        format!("{phase}/{method}-{part}.json")
    }

    fn is_identity(&self, account: &Value) -> bool {
        let answer = json(&format!("{}/getIdentity.json", self.phase));
        answer.is_ok_and(|answer| answer["result"]["identity"] == *account)
    }
}

fn no_such_method() -> Value {
    json!({"code": -32601, "message": "Method not found"})
}

fn add(number: &mut Value, slots: i64) {
    if let Some(slot) = number.as_u64() {
        *number = json!(slot.saturating_add_signed(slots));
    }
}

fn retain_account(answer: &mut Value, account: &Value) {
    for list in ["current", "delinquent"] {
        if let Some(accounts) = answer["result"][list].as_array_mut() {
            accounts.retain(|of| of["votePubkey"] == *account);
        }
    }
}
