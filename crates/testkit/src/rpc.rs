//! A JSON-RPC client for tests.

use std::{net::SocketAddr, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use serde_json::{Value, json};

use crate::{Error, Result, http};

/// A validator's JSON-RPC service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rpc {
    address: SocketAddr,
    timeout: Duration,
}

impl Rpc {
    /// A client of the service at this address; sends nothing yet.
    pub fn new(address: SocketAddr) -> Self {
        Self {
            address,
            timeout: Duration::from_secs(10),
        }
    }

    /// Sets the timeout of the connection and of each read or write. Default: 10 s.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Calls a method and returns its `result`.
    ///
    /// # Errors
    /// [`Error::Rpc`] if the answer is an error object; otherwise as [`http::post`].
    pub fn call(&self, method: &str, params: Value) -> Result<Value> {
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let mut answer = self.post(&request)?;
        match answer.get_mut("result") {
            Some(result) => Ok(result.take()),
            None => Err(Error::Rpc {
                method: method.to_owned(),
                message: answer["error"].to_string(),
            }),
        }
    }

    /// Sends a transaction without preflight. An accepted transaction may still not land.
    ///
    /// # Errors
    /// As [`Rpc::call`].
    pub fn send(&self, transaction: &[u8]) -> Result<()> {
        let how = json!({ "encoding": "base64", "skipPreflight": true });
        self.call("sendTransaction", json!([BASE64.encode(transaction), how]))
            .map(drop)
    }

    /// Calls a method many times in one request. Returns how many answers are results and not errors.
    ///
    /// # Errors
    /// As [`http::post`]; [`Error::Malformed`] when the answer is not a list.
    pub fn batch(&self, method: &str, params: impl IntoIterator<Item = Value>) -> Result<usize> {
        let requests: Vec<Value> = params
            .into_iter()
            .enumerate()
            .map(|(id, params)| json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
            .collect();
        let answer = self.post(&Value::Array(requests))?;
        let answers = answer
            .as_array()
            .ok_or_else(|| Error::malformed("not a batch answer", &answer.to_string()))?;
        Ok(answers
            .iter()
            .filter(|answer| answer.get("result").is_some())
            .count())
    }

    /// The newest slot this node has processed.
    ///
    /// # Errors
    /// As [`Rpc::call`].
    pub fn processed_slot(&self) -> Result<u64> {
        self.number("getSlot")
    }

    /// The highest slot for which the node has shreds.
    ///
    /// # Errors
    /// As [`Rpc::call`].
    pub fn received_slot(&self) -> Result<u64> {
        let answer = self.call("getMaxShredInsertSlot", json!([]))?;
        answer
            .as_u64()
            .ok_or_else(|| Error::malformed("not a number", &answer.to_string()))
    }

    /// Transactions since genesis as of the newest processed slot, votes and fee-paying failures included.
    ///
    /// # Errors
    /// As [`Rpc::call`].
    pub fn transaction_count(&self) -> Result<u64> {
        self.number("getTransactionCount")
    }

    /// A recent blockhash to sign transactions with.
    ///
    /// # Errors
    /// As [`Rpc::call`]; [`Error::Malformed`] when the answer holds no hash.
    pub fn latest_blockhash(&self) -> Result<[u8; 32]> {
        let answer = self.call("getLatestBlockhash", json!([{ "commitment": "processed" }]))?;
        let text = answer["value"]["blockhash"].as_str();
        text.and_then(|text| bs58::decode(text).into_vec().ok()?.try_into().ok())
            .ok_or_else(|| Error::malformed("no blockhash", &answer.to_string()))
    }

    fn number(&self, method: &str) -> Result<u64> {
        let answer = self.call(method, json!([{ "commitment": "processed" }]))?;
        answer
            .as_u64()
            .ok_or_else(|| Error::malformed("not a number", &answer.to_string()))
    }

    fn post(&self, request: &Value) -> Result<Value> {
        let response = http::Request::new("POST", "/")
            .header("Content-Type", "application/json")
            .body(request.to_string().as_bytes())
            .timeout(self.timeout)
            .send(&self.address.to_string())?;
        serde_json::from_slice(&response.body)
            .map_err(|_| Error::malformed("not JSON", &response.text()))
    }
}
