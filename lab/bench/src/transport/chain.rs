//! Writes and reads on EVM chains and Solana.

use super::evm::Evm;
use super::solana::Solana;
use super::talk::{Meter, NodeClient, in_time};
use crate::failure::Failure;
use crate::protocol::Protocol;
use crate::run::Exchanged;
use faultline_common::clock;

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
        talk: &mut NodeClient,
        protocol: Protocol,
        (operation, times): (Operation, u32),
    ) -> Result<Exchanged, Failure> {
        let done = self.run_operation(talk, protocol, (operation, times)).await;
        if done.is_err() {
            talk.drop_connections();
            // A failed write may have an effect.
            match self {
                Chain::Evm(evm) => evm.effect_unknown = true,
                Chain::Solana(solana) => solana.effect_unknown = true,
            }
        }
        done
    }

    pub(super) fn can_write(&self) -> bool {
        match self {
            Chain::Evm(evm) => evm.can_write(),
            Chain::Solana(_) => true,
        }
    }

    async fn run_operation(
        &mut self,
        talk: &mut NodeClient,
        protocol: Protocol,
        (operation, times): (Operation, u32),
    ) -> Result<Exchanged, Failure> {
        // A busy client already has connections and subscriptions.
        in_time(talk.timeout, self.prepare(talk, protocol)).await?;
        talk.drain_notifications();
        talk.meter = Meter::default();
        let mut begun = clock::uptime();
        for index in 0..times {
            if index > 0 {
                // Renewal of the blockhash is not measured.
                let (paused, meter) = (clock::uptime(), talk.meter);
                if let Chain::Solana(solana) = self {
                    solana.renew_blockhash(talk).await?;
                }
                talk.meter = meter;
                talk.drain_notifications();
                begun += clock::uptime().saturating_sub(paused);
            }
            in_time(talk.timeout, self.run_once(talk, protocol, operation)).await?;
        }
        Ok(talk.meter.exchanged(clock::uptime().saturating_sub(begun)))
    }

    async fn prepare(&mut self, talk: &mut NodeClient, protocol: Protocol) -> Result<(), Failure> {
        match self {
            Chain::Evm(evm) => evm.prepare(talk, protocol).await,
            Chain::Solana(solana) => solana.prepare(talk, protocol).await,
        }
    }

    async fn run_once(
        &mut self,
        talk: &mut NodeClient,
        protocol: Protocol,
        operation: Operation,
    ) -> Result<(), Failure> {
        match (self, operation) {
            (Chain::Evm(evm), Operation::Write) => evm.write(talk, protocol).await,
            (Chain::Evm(evm), Operation::Read) => evm.read(talk, protocol).await,
            (Chain::Solana(solana), Operation::Write) => solana.write(talk, protocol).await,
            (Chain::Solana(solana), Operation::Read) => solana.read(talk, protocol).await,
        }
    }
}
