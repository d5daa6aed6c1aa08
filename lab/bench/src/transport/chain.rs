//! Writes and reads on EVM chains and Solana.

use super::evm::Evm;
use super::solana::Solana;
use super::talk::{Meter, Talk, in_time};
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
        talk: &mut Talk,
        protocol: Protocol,
        (act, times): (Operation, u32),
    ) -> Result<Exchanged, Failure> {
        let done = self.performed(talk, protocol, (act, times)).await;
        if done.is_err() {
            talk.give_up();
            // A failed write may have an effect.
            match self {
                Chain::Evm(evm) => evm.unsure = true,
                Chain::Solana(solana) => solana.unsure = true,
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
        protocol: Protocol,
        (act, times): (Operation, u32),
    ) -> Result<Exchanged, Failure> {
        // A busy client already has connections and subscriptions.
        in_time(talk.timeout, self.ready(talk, protocol)).await?;
        talk.forget_news();
        talk.meter = Meter::default();
        let mut begun = clock::uptime();
        for index in 0..times {
            if index > 0 {
                // Renewal of the blockhash is not measured.
                let (paused, meter) = (clock::uptime(), talk.meter);
                if let Chain::Solana(solana) = self {
                    solana.renew(talk).await?;
                }
                talk.meter = meter;
                talk.forget_news();
                begun += clock::uptime().saturating_sub(paused);
            }
            in_time(talk.timeout, self.once(talk, protocol, act)).await?;
        }
        Ok(talk.meter.exchanged(clock::uptime().saturating_sub(begun)))
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
        protocol: Protocol,
        act: Operation,
    ) -> Result<(), Failure> {
        match (self, act) {
            (Chain::Evm(evm), Operation::Write) => evm.write(talk, protocol).await,
            (Chain::Evm(evm), Operation::Read) => evm.read(talk, protocol).await,
            (Chain::Solana(solana), Operation::Write) => solana.write(talk, protocol).await,
            (Chain::Solana(solana), Operation::Read) => solana.read(talk, protocol).await,
        }
    }
}
