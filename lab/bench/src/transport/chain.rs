//! Writes and reads on EVM chains and Solana.

use super::evm::Evm;
use super::node_client::{NodeClient, in_time};
use super::solana::Solana;
use crate::failure::Failure;
use crate::protocol::Protocol;
use crate::results::{Timing, ns};
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
        client: &mut NodeClient,
        protocol: Protocol,
        (operation, times): (Operation, u32),
    ) -> Result<Timing, Failure> {
        let done = self
            .run_operation(client, protocol, (operation, times))
            .await;
        if done.is_err() {
            client.drop_connections();
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
        client: &mut NodeClient,
        protocol: Protocol,
        (operation, times): (Operation, u32),
    ) -> Result<Timing, Failure> {
        // A busy client already has connections and subscriptions.
        in_time(client.timeout, async {
            match self {
                Chain::Evm(evm) => evm.prepare(client, protocol).await,
                Chain::Solana(solana) => solana.prepare(client, protocol).await,
            }
        })
        .await?;
        client.drain_notifications();
        client.meter = Timing::default();
        let mut begun = clock::uptime();
        for index in 0..times {
            if index > 0 {
                // Renewal of the blockhash is not measured.
                let (paused, meter) = (clock::uptime(), client.meter);
                if let Chain::Solana(solana) = self {
                    solana.renew_blockhash(client).await?;
                }
                client.meter = meter;
                client.drain_notifications();
                begun += clock::uptime().saturating_sub(paused);
            }
            in_time(client.timeout, self.run_once(client, protocol, operation)).await?;
        }
        let took = ns(clock::uptime().saturating_sub(begun));
        let mut timing = client.meter;
        // The time outside of calls was spent waiting.
        timing.phases[0] = took.saturating_sub(timing.phases.iter().sum());
        Ok(timing)
    }

    async fn run_once(
        &mut self,
        client: &mut NodeClient,
        protocol: Protocol,
        operation: Operation,
    ) -> Result<(), Failure> {
        match (self, operation) {
            (Chain::Evm(evm), Operation::Write) => evm.write(client, protocol).await,
            (Chain::Evm(evm), Operation::Read) => evm.read(client, protocol).await,
            (Chain::Solana(solana), Operation::Write) => solana.write(client, protocol).await,
            (Chain::Solana(solana), Operation::Read) => solana.read(client, protocol).await,
        }
    }
}
