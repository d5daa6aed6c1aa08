//! What is written to and read from a node, and how it is seen that a write is done: on an EVM chain and on Solana.

use super::evm::Evm;
use super::solana::Solana;
use super::talk::{Meter, Talk, Way};
use crate::failure::Failure;
use crate::run::Exchanged;
use faultline_command::clock;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// What is done once, or in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    Write,
    Read,
}

/// A node's chain.
pub(super) enum Chain {
    Evm(Evm),
    Solana(Box<Solana>),
}

/// How to wait for what is not there yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// Between two polls.
    pub(super) poll: Duration,
    /// For one write or read.
    pub(super) timeout: Duration,
}

impl Chain {
    /// Does this so many times, one after the other.
    pub(super) async fn perform(
        &mut self,
        talk: &mut Talk,
        (way, act, times): (Way, Act, u32),
        patience: Patience,
    ) -> Result<Exchanged, Failure> {
        let done = self.performed(talk, (way, act, times), patience).await;
        if done.is_err() {
            talk.give_up();
            match self {
                Chain::Evm(evm) => evm.is_unsure(),
                Chain::Solana(solana) => solana.is_unsure(),
            }
        }
        done
    }

    /// Whether anything is written.
    pub(super) fn writes(&self) -> bool {
        match self {
            Chain::Evm(evm) => evm.writes(),
            Chain::Solana(_) => true,
        }
    }

    async fn performed(
        &mut self,
        talk: &mut Talk,
        (way, act, times): (Way, Act, u32),
        patience: Patience,
    ) -> Result<Exchanged, Failure> {
        // A client that asks often has its connections and subscriptions.
        timeout(patience.timeout, self.ready(talk, way)).await.map_err(|_| Failure::Timeout)??;
        let (begun, mut meter) = (clock::uptime(), Meter::default());
        for _ in 0..times {
            talk.forget_news();
            let work = self.once(talk, (way, act), patience, &mut meter);
            timeout(patience.timeout, work).await.map_err(|_| Failure::Timeout)??;
        }
        Ok(meter.exchanged(clock::uptime().saturating_sub(begun)))
    }

    async fn ready(&mut self, talk: &mut Talk, way: Way) -> Result<(), Failure> {
        match self {
            Chain::Evm(evm) => evm.ready(talk, way).await,
            Chain::Solana(solana) => solana.ready(talk, way).await,
        }
    }

    async fn once(
        &mut self,
        talk: &mut Talk,
        (way, act): (Way, Act),
        patience: Patience,
        meter: &mut Meter,
    ) -> Result<(), Failure> {
        match (self, act) {
            (Chain::Evm(evm), Act::Write) => evm.write(talk, way, patience, meter).await,
            (Chain::Evm(evm), Act::Read) => evm.read(talk, way, meter).await,
            (Chain::Solana(solana), Act::Write) => solana.write(talk, way, patience, meter).await,
            (Chain::Solana(solana), Act::Read) => solana.read(talk, way, patience, meter).await,
        }
    }
}

impl Patience {
    /// Waits for the next poll.
    pub(super) async fn next_poll(self) {
        sleep(self.poll).await;
    }
}
