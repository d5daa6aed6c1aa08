//! Transfers a few lamports from a new account, on a test cluster with airdrops.

use super::node_client::{NodeClient, with_timeout};
use crate::{failure::Failure, protocol::Protocol};
use base64::{Engine, engine::general_purpose::STANDARD};
use faultline_common::clock;
use ring::{
    rand::SystemRandom,
    signature::{Ed25519KeyPair, KeyPair},
};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::sleep;

/// Mainnet-beta, testnet and devnet.
pub const PUBLIC_GENESIS_HASHES: [&str; 3] = [
    "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d",
    "4uhcVJyU9pJkvQyS88uRDiswHXSCkY3zQawwpjk2NsNY",
    "EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG",
];
const AIRDROP_LAMPORTS: u64 = 10_000_000_000;
/// The recipient's initial balance, above the rent-exempt minimum.
const INITIAL_LAMPORTS: u64 = 1_000_000_000;
/// A blockhash is valid for about a minute.
const MAX_BLOCKHASH_AGE: Duration = Duration::from_secs(20);

pub struct Solana {
    payer: Ed25519KeyPair,
    recipient: [u8; 32],
    recipient_balance: u64,
    /// Number of transfers; also the lamports of the last one.
    transfers: u64,
    blockhash: [u8; 32],
    blockhash_at: Duration,
    /// Id of the subscription to the recipient.
    subscription: Value,
}

impl Solana {
    /// Funds a payer by an airdrop, and makes the first transfer to the recipient.
    pub async fn fund_new_account(client: &mut NodeClient) -> Result<Self, Failure> {
        let random = SystemRandom::new();
        let seed = || {
            ring::rand::generate::<[u8; 32]>(&random)
                .map(|seed| seed.expose())
                .map_err(|_| Failure::WrongResult)
        };
        let mut solana = Self {
            payer: Ed25519KeyPair::from_seed_unchecked(&seed()?)
                .map_err(|_| Failure::WrongResult)?,
            recipient: seed()?,
            recipient_balance: 0,
            transfers: 0,
            blockhash: [0; 32],
            blockhash_at: Duration::ZERO,
            subscription: Value::Null,
        };
        let address = bs58::encode(solana.payer.public_key()).into_string();
        let airdrop = json!([address, AIRDROP_LAMPORTS]);
        let signature = client
            .call(Protocol::Http, "requestAirdrop", airdrop)
            .await?;
        wait_until_processed(client, Protocol::Http, &signature).await?;
        solana.prepare(client, Protocol::Http).await?;
        let transfer = solana.sign_transfer(INITIAL_LAMPORTS);
        let signature = send(client, Protocol::Http, &transfer).await?;
        wait_until_processed(client, Protocol::Http, &signature).await?;
        solana.recipient_balance = INITIAL_LAMPORTS;
        Ok(solana)
    }

    pub async fn renew_blockhash(&mut self, client: &mut NodeClient) -> Result<(), Failure> {
        let now = clock::uptime();
        if self.blockhash == [0; 32] || now.saturating_sub(self.blockhash_at) > MAX_BLOCKHASH_AGE {
            let options = json!([{"commitment": "confirmed"}]);
            let latest = client
                .call(Protocol::HttpNewConnection, "getLatestBlockhash", options)
                .await?;
            let text = latest["value"]["blockhash"]
                .as_str()
                .ok_or(Failure::WrongResult)?;
            bs58::decode(text)
                .onto(&mut self.blockhash)
                .map_err(|_| Failure::WrongResult)?;
            self.blockhash_at = now;
        }
        Ok(())
    }

    pub async fn prepare(
        &mut self,
        client: &mut NodeClient,
        protocol: Protocol,
    ) -> Result<(), Failure> {
        self.renew_blockhash(client).await?;
        if client.must_refetch_state {
            let options = json!([self.recipient_address(), {"commitment": "processed"}]);
            let balance = client
                .call(Protocol::HttpNewConnection, "getBalance", options)
                .await?;
            self.recipient_balance = balance["value"].as_u64().ok_or(Failure::WrongResult)?;
            client.must_refetch_state = false;
        }
        if protocol == Protocol::WebSocket {
            // Transactions are sent over HTTP, so it must be connected before the timing.
            client.connect(Protocol::Http).await?;
        }
        if client.connect(protocol).await? {
            self.subscription = client
                .call(protocol, "accountSubscribe", self.account_params())
                .await?;
        }
        Ok(())
    }

    /// Sends a transfer. Over HTTP, polls its status. Over a WebSocket, waits for a notification.
    pub async fn write(
        &mut self,
        client: &mut NodeClient,
        protocol: Protocol,
    ) -> Result<(), Failure> {
        let (transaction, balance) = self.next_transfer()?;
        if protocol != Protocol::WebSocket {
            let signature = send(client, protocol, &transaction).await?;
            wait_until_processed(client, protocol, &signature).await?;
        } else {
            let signature = bs58::encode(&transaction[1..65]).into_string();
            let options = json!([signature, {"commitment": "processed"}]);
            let subscription = client.call(protocol, "signatureSubscribe", options).await?;
            send(client, Protocol::Http, &transaction).await?;
            let result = wait_for_notification(client, &subscription, |_| true).await?;
            if !result["value"]["err"].is_null() {
                return Err(Failure::WrongResult);
            }
        }
        self.recipient_balance = balance;
        Ok(())
    }

    /// Sends a transfer and waits until the recipient's account shows it.
    pub async fn read(
        &mut self,
        client: &mut NodeClient,
        protocol: Protocol,
    ) -> Result<(), Failure> {
        let (transaction, balance) = self.next_transfer()?;
        let has_balance = |account: &Value| account["value"]["lamports"] == balance;
        if protocol == Protocol::WebSocket {
            send(client, Protocol::Http, &transaction).await?;
            wait_for_notification(client, &self.subscription, has_balance).await?;
        } else {
            send(client, protocol, &transaction).await?;
            while !has_balance(
                &client
                    .call(protocol, "getAccountInfo", self.account_params())
                    .await?,
            ) {
                sleep(client.poll_interval).await;
            }
        }
        self.recipient_balance = balance;
        Ok(())
    }

    fn recipient_address(&self) -> String {
        bs58::encode(self.recipient).into_string()
    }

    fn account_params(&self) -> Value {
        json!([self.recipient_address(), {"encoding": "base64", "commitment": "processed"}])
    }

    /// The transaction, and the recipient's balance after it. Different amounts make different
    /// signatures.
    fn next_transfer(&mut self) -> Result<(Vec<u8>, u64), Failure> {
        self.transfers += 1;
        let balance = self.recipient_balance.checked_add(self.transfers);
        Ok((
            self.sign_transfer(self.transfers),
            balance.ok_or(Failure::WrongResult)?,
        ))
    }

    fn sign_transfer(&self, lamports: u64) -> Vec<u8> {
        // One instruction: its program is account 2, its accounts are 0 and 1, and its twelve
        // bytes are the number of the instruction, 2, and the amount.
        let message = [
            &[1, 0, 1, 3],
            self.payer.public_key().as_ref(),
            &self.recipient,
            &[0; 32],
            &self.blockhash,
            &[1, 2, 2, 0, 1, 12, 2, 0, 0, 0],
            &lamports.to_le_bytes(),
        ]
        .concat();
        [&[1], self.payer.sign(&message).as_ref(), &message].concat()
    }
}

async fn wait_until_processed(
    client: &mut NodeClient,
    protocol: Protocol,
    signature: &Value,
) -> Result<(), Failure> {
    with_timeout(client.timeout, async {
        loop {
            let statuses = client
                .call(protocol, "getSignatureStatuses", json!([[signature]]))
                .await?;
            let status = &statuses["value"][0];
            if status.is_object() {
                let succeeded = status["err"].is_null();
                return succeeded.then_some(()).ok_or(Failure::WrongResult);
            }
            sleep(client.poll_interval).await;
        }
    })
    .await
}

async fn send(
    client: &mut NodeClient,
    protocol: Protocol,
    transaction: &[u8],
) -> Result<Value, Failure> {
    let options = json!({"encoding": "base64", "skipPreflight": true});
    let params = json!([STANDARD.encode(transaction), options]);
    client.call(protocol, "sendTransaction", params).await
}

async fn wait_for_notification(
    client: &mut NodeClient,
    subscription: &Value,
    accepts: impl Fn(&Value) -> bool,
) -> Result<Value, Failure> {
    loop {
        let notification = client.next_notification().await?;
        let params = &notification["params"];
        if let Some(result) = params.get("result")
            && params["subscription"] == *subscription
            && accepts(result)
        {
            return Ok(result.clone());
        }
    }
}
