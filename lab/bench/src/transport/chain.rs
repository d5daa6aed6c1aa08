//! Writes and reads on EVM chains and Solana.

use super::evm::Evm;
use super::solana::Solana;
use super::talk::{Meter, Patience, Talk};
use crate::failure::Failure;
use crate::protocol::Protocol;
use crate::run::Exchanged;
use faultline_common::clock;
use std::time::Duration;
use tokio::time::timeout;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Write,
    Read,
}

pub(super) enum Chain {
    Evm(Evm),
    Solana(Box<Solana>),
}

impl Chain {
    pub(super) async fn perform(
        &mut self,
        talk: &mut Talk,
        (protocol, act, times): (Protocol, Operation, u32),
        patience: Patience,
    ) -> Result<Exchanged, Failure> {
        let done = self.performed(talk, (protocol, act, times), patience).await;
        if done.is_err() {
            talk.give_up();
            match self {
                Chain::Evm(evm) => evm.is_unsure(),
                Chain::Solana(solana) => solana.is_unsure(),
            }
        }
        done
    }

    pub(super) fn writes(&self) -> bool {
        match self {
            Chain::Evm(evm) => evm.writes(),
            Chain::Solana(_) => true,
        }
    }

    async fn performed(
        &mut self,
        talk: &mut Talk,
        (protocol, act, times): (Protocol, Operation, u32),
        patience: Patience,
    ) -> Result<Exchanged, Failure> {
        // A busy client already has connections and subscriptions.
        timeout(patience.timeout, self.ready(talk, protocol))
            .await
            .map_err(|_| Failure::Timeout)??;
        talk.forget_news();
        let (begun, mut meter, mut apart) = (clock::uptime(), Meter::default(), Duration::ZERO);
        for index in 0..times {
            if index > 0 {
                // Renewal of the blockhash is not measured.
                let paused = clock::uptime();
                if let Chain::Solana(solana) = self {
                    solana.renew(talk).await?;
                }
                talk.forget_news();
                apart += clock::uptime().saturating_sub(paused);
            }
            let work = self.once(talk, (protocol, act), patience, &mut meter);
            timeout(patience.timeout, work)
                .await
                .map_err(|_| Failure::Timeout)??;
        }
        Ok(meter.exchanged(clock::uptime().saturating_sub(begun + apart)))
    }

    async fn ready(&mut self, talk: &mut Talk, protocol: Protocol) -> Result<(), Failure> {
        match self {
            Chain::Evm(evm) => evm.ready(talk, protocol).await,
            Chain::Solana(solana) => solana.ready(talk, protocol).await,
        }
    }

    async fn once(
        &mut self,
        talk: &mut Talk,
        (protocol, act): (Protocol, Operation),
        patience: Patience,
        meter: &mut Meter,
    ) -> Result<(), Failure> {
        match (self, act) {
            (Chain::Evm(evm), Operation::Write) => evm.write(talk, protocol, patience, meter).await,
            (Chain::Evm(evm), Operation::Read) => evm.read(talk, protocol, meter).await,
            (Chain::Solana(solana), Operation::Write) => {
                solana.write(talk, protocol, patience, meter).await
            }
            (Chain::Solana(solana), Operation::Read) => {
                solana.read(talk, protocol, patience, meter).await
            }
        }
    }
}
