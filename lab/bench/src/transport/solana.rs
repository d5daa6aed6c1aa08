//! Transfers a few lamports from a new account, on a test cluster with airdrops.

use super::talk::{Meter, Patience, Talk};
use crate::failure::Failure;
use crate::protocol::Protocol;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use faultline_common::clock;
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};
use std::time::Duration;

/// Mainnet-beta, testnet and devnet, where nothing is written.
pub(super) const PUBLIC: [&str; 3] = [
    "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d",
    "4uhcVJyU9pJkvQyS88uRDiswHXSCkY3zQawwpjk2NsNY",
    "EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG",
];
const AIRDROP: u64 = 10_000_000_000;
/// The target's initial balance, above the rent-exempt minimum.
const FIRST: u64 = 1_000_000_000;
/// A blockhash is valid for about a minute.
const BLOCKHASH_AGE: Duration = Duration::from_secs(20);

pub(super) struct Solana {
    payer: Ed25519KeyPair,
    target: [u8; 32],
    /// Balance of the target.
    lamports: u64,
    transfers: u64,
    /// After a failed transfer, whose effect is unknown.
    unsure: bool,
    blockhash: [u8; 32],
    blockhash_at: Duration,
    subscription: Value,
}

impl Solana {
    /// Makes the first transfer to the target.
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

    /// After a failed transfer, its effect is unknown.
    pub(super) fn is_unsure(&mut self) {
        self.unsure = true;
    }

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
            // The WebSocket only delivers notifications.
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

    /// Over HTTP the status is polled; over a WebSocket the node notifies.
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

    /// Waits until the account's change is read.
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

    /// Different amounts give different signatures.
    fn next(&mut self) -> u64 {
        self.transfers += 1;
        self.transfers
    }

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

    /// One transfer instruction of the system program.
    fn transfer(&self, lamports: u64) -> Vec<u8> {
        let mut message = vec![1, 0, 1, 3];
        message.extend_from_slice(self.payer.public_key().as_ref());
        message.extend_from_slice(&self.target);
        message.extend_from_slice(&[0; 32]);
        message.extend_from_slice(&self.blockhash);
        // One instruction of program account 2 with accounts 0 and 1 and twelve bytes: number 2,
        // the amount.
        message.extend_from_slice(&[1, 2, 2, 0, 1, 12, 2, 0, 0, 0]);
        message.extend_from_slice(&lamports.to_le_bytes());
        let mut transaction = vec![1];
        transaction.extend_from_slice(self.payer.sign(&message).as_ref());
        transaction.extend_from_slice(&message);
        transaction
    }
}

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
