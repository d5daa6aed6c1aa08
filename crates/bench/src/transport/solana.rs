//! Writes and reads on Solana: transfers of a few lamports from a new account of this tool, on a test cluster that gives it some.

use super::talk::{Meter, Patience, Talk};
use crate::failure::Failure;
use crate::protocol::Protocol;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use faultline_command::clock;
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};
use std::time::Duration;

/// Genesis hashes of mainnet-beta, testnet and devnet: nothing is written there.
pub(super) const PUBLIC: [&str; 3] = [
    "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d",
    "4uhcVJyU9pJkvQyS88uRDiswHXSCkY3zQawwpjk2NsNY",
    "EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG",
];
/// What the tool's account gets.
const AIRDROP: u64 = 10_000_000_000;
/// What the account that is read has from the beginning: more than accounts need to stay.
const FIRST: u64 = 1_000_000_000;
/// A blockhash is valid for about a minute; within a row it is renewed as well.
const BLOCKHASH_AGE: Duration = Duration::from_secs(20);

/// The tool's account, and the one that it pays.
pub(super) struct Solana {
    payer: Ed25519KeyPair,
    target: [u8; 32],
    /// Of the target, after the last transfer.
    lamports: u64,
    transfers: u64,
    /// Whether a transfer failed, so that it may be done or not.
    unsure: bool,
    blockhash: [u8; 32],
    blockhash_at: Duration,
    /// Of the target, on the WebSocket.
    subscription: Value,
}

impl Solana {
    /// A new account with lamports, which has paid the target for the first time.
    ///
    /// # Errors
    /// The node gives no lamports, or a write is not done in time.
    pub(super) async fn funded(talk: &mut Talk, patience: Patience) -> Result<Solana, Failure> {
        let random = SystemRandom::new();
        let seed = || {
            ring::rand::generate::<[u8; 32]>(&random)
                .map(|seed| seed.expose())
                .map_err(|_| Failure::Wrong)
        };
        let payer = Ed25519KeyPair::from_seed_unchecked(&seed()?).map_err(|_| Failure::Wrong)?;
        let (target, blockhash) = (seed()?, [0; 32]);
        let mut solana = Solana {
            payer,
            target,
            lamports: 0,
            transfers: 0,
            unsure: false,
            blockhash,
            blockhash_at: Duration::ZERO,
            subscription: Value::Null,
        };
        let address = bs58::encode(solana.payer.public_key().as_ref()).into_string();
        let meter = &mut Meter::default();
        let signature = talk
            .call(
                Protocol::Http,
                "requestAirdrop",
                &json!([address, AIRDROP]),
                meter,
            )
            .await?;
        solana
            .polled(talk, Protocol::Http, (&signature, patience), meter)
            .await?;
        solana.ready(talk, Protocol::Http).await?;
        let transaction = solana.transfer(FIRST);
        let signature = send(talk, Protocol::Http, &transaction, meter).await?;
        solana
            .polled(talk, Protocol::Http, (&signature, patience), meter)
            .await?;
        solana.lamports = FIRST;
        Ok(solana)
    }

    /// A transfer failed: it may be done or not.
    pub(super) fn is_unsure(&mut self) {
        self.unsure = true;
    }

    /// Asks for a new blockhash when the last one gets old.
    pub(super) async fn renew(&mut self, talk: &mut Talk) -> Result<(), Failure> {
        let now = clock::uptime();
        if self.blockhash == [0; 32] || now.saturating_sub(self.blockhash_at) > BLOCKHASH_AGE {
            let options = json!([{"commitment": "confirmed"}]);
            let latest = talk
                .call(
                    Protocol::HttpNew,
                    "getLatestBlockhash",
                    &options,
                    &mut Meter::default(),
                )
                .await?;
            let text = latest
                .pointer("/value/blockhash")
                .and_then(Value::as_str)
                .ok_or(Failure::Wrong)?;
            bs58::decode(text)
                .onto(&mut self.blockhash)
                .map_err(|_| Failure::Wrong)?;
            self.blockhash_at = now;
        }
        Ok(())
    }

    pub(super) async fn ready(
        &mut self,
        talk: &mut Talk,
        protocol: Protocol,
    ) -> Result<(), Failure> {
        self.renew(talk).await?;
        let meter = &mut Meter::default();
        if self.unsure {
            let options =
                json!([bs58::encode(self.target).into_string(), {"commitment": "processed"}]);
            let balance = talk
                .call(Protocol::HttpNew, "getBalance", &options, meter)
                .await?;
            self.lamports = balance
                .get("value")
                .and_then(Value::as_u64)
                .ok_or(Failure::Wrong)?;
            self.unsure = false;
        }
        if protocol == Protocol::WebSocket {
            // There a node only reports; requests go over HTTP.
            talk.connect(Protocol::Http).await?;
        }
        if talk.connect(protocol).await? {
            let target = bs58::encode(self.target).into_string();
            let options = json!([target, {"encoding": "base64", "commitment": "processed"}]);
            self.subscription = talk
                .call(protocol, "accountSubscribe", &options, meter)
                .await?;
        }
        Ok(())
    }

    /// Transfers some lamports, until the node has processed it. Over HTTP its status is asked for again and again, over a WebSocket
    /// the node reports it.
    pub(super) async fn write(
        &mut self,
        talk: &mut Talk,
        protocol: Protocol,
        patience: Patience,
        meter: &mut Meter,
    ) -> Result<(), Failure> {
        let lamports = self.next();
        let after = self.lamports.checked_add(lamports).ok_or(Failure::Wrong)?;
        let transaction = self.transfer(lamports);
        if protocol != Protocol::WebSocket {
            let signature = send(talk, protocol, &transaction, meter).await?;
            self.polled(talk, protocol, (&signature, patience), meter)
                .await?;
        } else {
            let signature = transaction
                .get(1..65)
                .map(|bytes| bs58::encode(bytes).into_string());
            let options = json!([signature, {"commitment": "processed"}]);
            let subscription = talk
                .call(protocol, "signatureSubscribe", &options, meter)
                .await?;
            send(talk, Protocol::Http, &transaction, meter).await?;
            let result = reported(talk, &subscription, meter, |_| true).await?;
            if result
                .pointer("/value/err")
                .is_some_and(|error| !error.is_null())
            {
                return Err(Failure::Wrong);
            }
        }
        self.lamports = after;
        Ok(())
    }

    /// Transfers some lamports, until the change of the account is read.
    pub(super) async fn read(
        &mut self,
        talk: &mut Talk,
        protocol: Protocol,
        patience: Patience,
        meter: &mut Meter,
    ) -> Result<(), Failure> {
        let lamports = self.next();
        let after = self.lamports.checked_add(lamports).ok_or(Failure::Wrong)?;
        let transaction = self.transfer(lamports);
        if protocol == Protocol::WebSocket {
            send(talk, Protocol::Http, &transaction, meter).await?;
            let has = |result: &Value| {
                result.pointer("/value/lamports").and_then(Value::as_u64) == Some(after)
            };
            reported(talk, &self.subscription, meter, has).await?;
        } else {
            send(talk, protocol, &transaction, meter).await?;
            let target = bs58::encode(self.target).into_string();
            let options = json!([target, {"encoding": "base64", "commitment": "processed"}]);
            loop {
                let account = talk
                    .call(protocol, "getAccountInfo", &options, meter)
                    .await?;
                if account.pointer("/value/lamports").and_then(Value::as_u64) == Some(after) {
                    break;
                }
                patience.next_poll().await;
            }
        }
        self.lamports = after;
        Ok(())
    }

    /// Every transfer has another amount, and so another signature.
    fn next(&mut self) -> u64 {
        self.transfers += 1;
        self.transfers
    }

    /// Asks for a signature's status until it has one.
    async fn polled(
        &self,
        talk: &mut Talk,
        protocol: Protocol,
        (signature, patience): (&Value, Patience),
        meter: &mut Meter,
    ) -> Result<(), Failure> {
        let begun = clock::uptime();
        loop {
            let statuses = talk
                .call(
                    protocol,
                    "getSignatureStatuses",
                    &json!([[signature]]),
                    meter,
                )
                .await?;
            match statuses.pointer("/value/0") {
                Some(status) if status.is_object() => {
                    let failed = status.get("err").is_some_and(|error| !error.is_null());
                    return if failed { Err(Failure::Wrong) } else { Ok(()) };
                }
                _ if clock::uptime().saturating_sub(begun) > patience.timeout => {
                    return Err(Failure::Timeout);
                }
                _ => patience.next_poll().await,
            }
        }
    }

    /// A signed transaction that pays the target so many lamports: one instruction of the system program.
    fn transfer(&self, lamports: u64) -> Vec<u8> {
        let mut message = vec![1, 0, 1, 3];
        message.extend_from_slice(self.payer.public_key().as_ref());
        message.extend_from_slice(&self.target);
        message.extend_from_slice(&[0; 32]);
        message.extend_from_slice(&self.blockhash);
        // One instruction of account 2 with accounts 0 and 1 and twelve bytes: number 2, the amount.
        message.extend_from_slice(&[1, 2, 2, 0, 1, 12, 2, 0, 0, 0]);
        message.extend_from_slice(&lamports.to_le_bytes());
        let mut transaction = vec![1];
        transaction.extend_from_slice(self.payer.sign(&message).as_ref());
        transaction.extend_from_slice(&message);
        transaction
    }
}

/// Sends a transaction: its signature.
async fn send(
    talk: &mut Talk,
    protocol: Protocol,
    transaction: &[u8],
    meter: &mut Meter,
) -> Result<Value, Failure> {
    let options = json!({"encoding": "base64", "skipPreflight": true});
    talk.call(
        protocol,
        "sendTransaction",
        &json!([STANDARD.encode(transaction), options]),
        meter,
    )
    .await
}

/// What the node reports to that subscription, once it is what is waited for.
async fn reported(
    talk: &mut Talk,
    subscription: &Value,
    meter: &mut Meter,
    is_it: impl Fn(&Value) -> bool,
) -> Result<Value, Failure> {
    loop {
        let news = talk.notified(meter).await?;
        let of = news.pointer("/params/subscription") == Some(subscription);
        if let Some(result) = news
            .pointer("/params/result")
            .filter(|result| of && is_it(result))
        {
            return Ok(result.clone());
        }
    }
}
