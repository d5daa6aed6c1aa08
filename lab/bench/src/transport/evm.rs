//! Writes and reads one storage slot of a contract that this tool deploys on a development chain.

use super::node_client::{NodeClient, with_timeout};
use crate::{failure::Failure, protocol::Protocol};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// Stores the word of the call data. Returns the stored word if there is no call data.
///
/// ```text
/// 00  CALLDATASIZE          36
/// 01  PUSH1 0f; JUMPI       60 0f 57      to the write, if there is a word
/// 04  PUSH1 00; SLOAD       60 00 54
/// 07  PUSH1 00; MSTORE      60 00 52
/// 0a  PUSH1 20; PUSH1 00    60 20 60 00
/// 0e  RETURN                f3
/// 0f  JUMPDEST              5b
/// 10  PUSH1 00              60 00
/// 12  CALLDATALOAD          35
/// 13  PUSH1 00; SSTORE      60 00 55
/// 16  STOP                  00
/// ```
const CONTRACT: &str = "36600f5760005460005260206000f35b60003560005500";

/// Deployment code of 0x0c bytes, which returns the 0x17 bytes after it: `PUSH1 17; PUSH1 0c;
/// PUSH1 00; CODECOPY; PUSH1 17; PUSH1 00; RETURN`.
const DEPLOYMENT: &str = "6017600c60003960176000f3";

const GAS: &str = "0x30d40";
const RECEIPT: &str = "eth_getTransactionReceipt";

/// Notifications of new heads may be missed, so the receipt is polled at least this often.
const MAX_HEAD_WAIT: Duration = Duration::from_secs(1);

const STATE_POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Chain ids of development chains: geth and Ganache, Hardhat and Anvil.
pub const DEVELOPMENT_CHAINS: [&str; 2] = ["0x539", "0x7a69"];

pub struct Evm {
    pub chain_id: String,
    /// Addresses. `None` if nothing can be written.
    pub payer_and_contract: Option<(String, String)>,
    /// Written last.
    pub value: u64,
}

/// The node signs for `payer`. Returns the address of the contract.
pub async fn deploy(client: &mut NodeClient, payer: &str) -> Result<String, Failure> {
    let transaction =
        json!([{"from": payer, "data": format!("0x{DEPLOYMENT}{CONTRACT}"), "gas": GAS}]);
    let hash = client
        .call(Protocol::Http, "eth_sendTransaction", transaction)
        .await?;
    let receipt = with_timeout(client.timeout, async {
        loop {
            match client.call(Protocol::Http, RECEIPT, json!([&hash])).await {
                // Some nodes answer with an error until the transaction is indexed.
                Err(Failure::Missing | Failure::Rpc(..)) => sleep(client.poll_interval).await,
                other => return other,
            }
        }
    });
    let receipt = receipt.await?;
    let address = receipt["contractAddress"]
        .as_str()
        .ok_or(Failure::WrongResult)?;
    Ok(address.to_owned())
}

impl Evm {
    pub async fn prepare(
        &mut self,
        client: &mut NodeClient,
        protocol: Protocol,
    ) -> Result<(), Failure> {
        if self.payer_and_contract.is_some() {
            if client.must_refetch_state {
                let number = self
                    .fetch_value_or_block(client, Protocol::HttpNewConnection)
                    .await?
                    .as_str()
                    .and_then(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok());
                self.value = number.ok_or(Failure::WrongResult)?;
                client.must_refetch_state = false;
            }
            // A node may have the receipt before `latest` has the new state.
            while self.read(client, Protocol::HttpNewConnection).await == Err(Failure::WrongResult)
            {
                sleep(STATE_POLL_INTERVAL).await;
            }
        }
        if client.connect(protocol).await? {
            // The WebSocket has another address: check its chain before any write.
            let chain_id = client.call(protocol, "eth_chainId", json!([])).await?;
            if chain_id != *self.chain_id {
                return Err(Failure::OtherChain);
            }
            if self.payer_and_contract.is_some() {
                client
                    .call(protocol, "eth_subscribe", json!(["newHeads"]))
                    .await?;
            }
        }
        Ok(())
    }

    /// Polls the receipt: over HTTP at an interval, over a WebSocket after each new head.
    pub async fn write(
        &mut self,
        client: &mut NodeClient,
        protocol: Protocol,
    ) -> Result<(), Failure> {
        let (payer, contract) = self.payer_and_contract.as_ref().ok_or(Failure::Missing)?;
        let next = self.value.checked_add(1).ok_or(Failure::WrongResult)?;
        let data = format!("0x{next:064x}");
        let transaction = json!([{"from": payer, "to": contract, "data": data, "gas": GAS}]);
        let hash = client
            .call(protocol, "eth_sendTransaction", transaction)
            .await?;
        loop {
            match client.call(protocol, RECEIPT, json!([&hash])).await {
                Ok(receipt) if receipt["status"] == "0x1" => break,
                Ok(_) => return Err(Failure::WrongResult),
                Err(Failure::Missing) if protocol == Protocol::WebSocket => {
                    if let Ok(message) = timeout(MAX_HEAD_WAIT, client.next_notification()).await {
                        message?;
                    }
                }
                Err(Failure::Missing) => sleep(client.poll_interval).await,
                Err(failure) => return Err(failure),
            }
        }
        self.value = next;
        Ok(())
    }

    /// Fails unless the last written value is read. Without a contract, reads the newest block.
    pub async fn read(&self, client: &mut NodeClient, protocol: Protocol) -> Result<(), Failure> {
        let stored = self.fetch_value_or_block(client, protocol).await?;
        if self.payer_and_contract.is_some() && stored != format!("0x{:064x}", self.value) {
            return Err(Failure::WrongResult);
        }
        Ok(())
    }

    async fn fetch_value_or_block(
        &self,
        client: &mut NodeClient,
        protocol: Protocol,
    ) -> Result<Value, Failure> {
        let (method, params) = match &self.payer_and_contract {
            None => ("eth_getBlockByNumber", json!(["latest", false])),
            Some((_, contract)) => (
                "eth_call",
                json!([{"to": contract, "data": "0x"}, "latest"]),
            ),
        };
        client.call(protocol, method, params).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytecode_lengths_and_jumps_match_its_source() {
        let byte =
            |code: &str, at: usize| u8::from_str_radix(&code[2 * at..2 * at + 2], 16).unwrap();
        assert_eq!((CONTRACT.len() / 2, DEPLOYMENT.len() / 2), (0x17, 0x0c));
        assert_eq!(
            (
                byte(DEPLOYMENT, 1),
                byte(DEPLOYMENT, 3),
                byte(DEPLOYMENT, 8)
            ),
            (0x17, 0x0c, 0x17)
        );
        // The jump leads to the JUMPDEST.
        assert_eq!(byte(CONTRACT, usize::from(byte(CONTRACT, 2))), 0x5b);
    }
}
