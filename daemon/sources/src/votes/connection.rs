use crate::rpc::{Client, Failure};
use faultline_agave::rpc;
use hyper::Uri;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::time::Duration;

/// Id of every request: HTTP already matches the response. A changing id would change the texts of
/// problems.
const ID: u64 = 1;

/// A JSON-RPC connection to one process.
pub(super) struct RpcConnection {
    pub(super) client: Client,
    pub(super) url: Uri,
    pub(super) timeout: Duration,
}

impl RpcConnection {
    pub(super) async fn call<T: DeserializeOwned>(
        &mut self,
        method: &'static str,
        params: Value,
    ) -> Result<T, Failure> {
        let body = self
            .client
            .send(
                &self.url,
                rpc::request_body(method, &params, ID),
                self.timeout,
            )
            .await?;
        rpc::result(method, ID, &body).map_err(Failure::Answer)
    }
}
