//! `bench transport`: compares HTTP with WebSocket for reads and writes. The arms are protocols.

mod evm;
mod node_client;
mod solana;
mod study;

use crate::{
    answer::Expected,
    args::{TransportArgs, first_duplicate},
    endpoint::Endpoint,
    failure::Failure,
    plan::{ConnectionConfig, Plan},
    protocol::{Named, Protocol},
    results::{Results, Timing, ns},
    session::{self, Session},
};
use anyhow::{Context, Result, anyhow, bail, ensure};
use evm::Evm;
use faultline_common::{args::UsageError, clock, output::say};
use faultline_text::{clean, duration};
use node_client::{NodeClient, with_timeout};
use serde_json::{Value, json};
use solana::Solana;
use std::rc::Rc;
pub use study::{page, study_text};

/// Limit of an answer, and of all notifications that wait.
const MAX_ANSWER_BYTES: usize = 16 << 20;

#[derive(Clone, Copy, PartialEq)]
enum Operation {
    Write,
    /// On Solana, sends a transfer and waits until the new balance is read.
    Read,
}

/// An operation, and how many times in a row it is done.
type Scenario = (Operation, u32);

pub fn run(args: &TransportArgs) -> Result<(String, u8)> {
    ensure!(
        first_duplicate(&args.transports).is_none(),
        UsageError("--transports names a transport twice".to_owned())
    );
    let scenarios = [
        (Operation::Write, 1),
        (Operation::Write, args.in_a_row),
        (Operation::Read, 1),
        (Operation::Read, args.in_a_row),
    ];
    let plan = make_plan(args, &scenarios)?;
    if args.output.dry_run {
        say(
            "these are the tasks of each round; the node's chain decides their requests, and whether any are writes",
        );
        let line = |case| format!("{}: {}\n", plan.arm_name(case), plan.request_label(case));
        return Ok((plan.cases.iter().map(line).collect(), 0));
    }
    let ca_file = args.node.ca.as_deref();
    session::run_subcommand("transport", &plan, &args.output, ca_file, |session| {
        measure(args, plan.clone(), session, &scenarios)
    })
}

fn make_plan(args: &TransportArgs, scenarios: &[Scenario]) -> Result<Plan> {
    let http = Endpoint::parse(&args.node.url).map_err(UsageError)?;
    let websocket = match &args.websocket {
        Some(url) => Endpoint::parse_websocket(url).map_err(UsageError)?,
        None => http.default_websocket(),
    };
    let mut plan = Plan {
        arms: args
            .transports
            .iter()
            .map(|protocol| protocol.name().to_owned())
            .collect(),
        connections: vec![
            ConnectionConfig::new(http, Protocol::Http),
            ConnectionConfig::new(websocket, Protocol::WebSocket),
        ],
        rounds: args.rounds,
        warm_up: args.warm_up,
        seed: args.seed,
        timeout: args.timeout,
        max_answer_bytes: MAX_ANSWER_BYTES,
        max_failure_percent: args.max_failures,
        ..Plan::default()
    };
    let poll = duration(args.poll);
    for (operation, times) in scenarios {
        let operation = match operation {
            Operation::Write => "write",
            Operation::Read => "read",
        };
        let label = match times {
            1 => format!("single {operation}"),
            _ => format!("{times} {operation}s in a row"),
        };
        let call = format!("{label}, polled every {poll}");
        plan.add_request(label, call, None, Expected::Unverified);
    }
    // `NodeClient` uses both connections. The first identifies the node.
    for case in &mut plan.cases {
        case.connection_index = 0;
    }
    Ok(plan)
}

fn measure(
    args: &TransportArgs,
    mut plan: Plan,
    session: &Session<'_>,
    scenarios: &[Scenario],
) -> Result<Results> {
    let engine = session.engine;
    let [http, websocket] = plan.connections.as_slice() else {
        bail!("the plan needs one connection by HTTP and one by WebSocket")
    };
    let uses_tls = http.endpoint.uses_tls;
    let mut client = NodeClient::new(
        [http.clone(), websocket.clone()],
        engine.tls.clone(),
        args.timeout,
        args.poll,
    );
    let (mut chain, mut notes) = engine.run_preparation(set_up_chain(&mut client))?;
    let http2 = Protocol::Http2.name();
    if let Some(arm_index) = plan.arms.iter().position(|arm| arm == http2) {
        // Even a JSON-RPC error proves that the node has HTTP/2.
        let call = client.call(Protocol::Http2, "eth_chainId", json!([]));
        if let Err(failure) = engine.run_preparation(async { Ok(call.await) })?
            && failure.may_be_no_http2(uses_tls)
        {
            notes.push(session::remove_arm_without_http2(
                &mut plan, arm_index, &failure,
            )?);
        }
    }
    client.drop_connections();
    if matches!(&chain, Chain::Evm(evm) if evm.payer_and_contract.is_none()) {
        plan.cases
            .retain(|case| scenarios[case.request_index].0 == Operation::Read);
    } else {
        notes.push("What was read was compared with what was written".to_owned());
    }
    notes.push(format!(
        "Polled every {}; waits between polls, and for notifications, are in `queued`",
        duration(args.poll)
    ));
    let plan = Rc::new(plan);
    session.measure_with(&plan, &[], notes, |sink| {
        engine.run_sequentially(&plan, sink, async |case| {
            let protocol = Protocol::named(plan.arm_name(case)).ok_or(Failure::Missing)?;
            let scenario = scenarios[case.request_index];
            chain.perform(&mut client, protocol, scenario).await
        })
    })
}

async fn set_up_chain(client: &mut NodeClient) -> Result<(Chain, Vec<String>)> {
    match call_http(client, "eth_chainId").await {
        Ok(id) => return set_up_evm(client, id.as_str().unwrap_or_default()).await,
        Err(Failure::Rpc(..)) => {}
        Err(failure) => bail!("the node does not answer: {failure}"),
    }
    let genesis = call_http(client, "getGenesisHash")
        .await
        .map_err(|failure| {
            anyhow!("the node is neither of an EVM chain nor of Solana: {failure}")
        })?;
    let genesis = genesis
        .as_str()
        .context("the node answers getGenesisHash without a text")?;
    if solana::PUBLIC_GENESIS_HASHES.contains(&genesis) {
        bail!(
            "this is a public cluster: both reading and writing need transfers; use a test cluster, such as solana-test-validator"
        );
    }
    let version = version_text(client, "getVersion").await;
    let notes = vec![format!("Solana, {version}")];
    let solana = Solana::fund_new_account(client).await.map_err(|failure| {
        anyhow!("the node gives no lamports for transfers (requestAirdrop): {failure}")
    })?;
    Ok((Chain::Solana(Box::new(solana)), notes))
}

async fn call_http(client: &mut NodeClient, method: &str) -> Result<Value, Failure> {
    client.call(Protocol::Http, method, json!([])).await
}

async fn set_up_evm(client: &mut NodeClient, id: &str) -> Result<(Chain, Vec<String>)> {
    let version = version_text(client, "web3_clientVersion").await;
    let mut notes = vec![format!("EVM chain {}, {version}", clean(id))];
    let accounts = match call_http(client, "eth_accounts").await {
        Err(Failure::Rpc(..)) => Value::Null,
        answer => answer.map_err(|failure| anyhow!("eth_accounts failed: {failure}"))?,
    };
    let payer = accounts[0]
        .as_str()
        .filter(|_| evm::DEVELOPMENT_CHAINS.contains(&id));
    let payer_and_contract = match payer {
        Some(payer) => {
            let address = evm::deploy(client, payer).await.map_err(|failure| {
                anyhow!("the storage contract could not be deployed: {failure}")
            })?;
            Some((payer.to_owned(), address))
        }
        None => {
            notes.push(
                "No development chain with an account that the node signs for: nothing is written, and the newest block is read".to_owned(),
            );
            None
        }
    };
    let evm = Evm {
        chain_id: id.to_owned(),
        payer_and_contract,
        value: 0,
    };
    Ok((Chain::Evm(evm), notes))
}

async fn version_text(client: &mut NodeClient, method: &str) -> String {
    let answer = call_http(client, method).await.unwrap_or_default();
    crate::nodes::version(&answer).map_or("unknown version".to_owned(), |text| {
        format!("version {}", clean(text))
    })
}

enum Chain {
    Evm(Evm),
    Solana(Box<Solana>),
}

impl Chain {
    async fn perform(
        &mut self,
        client: &mut NodeClient,
        protocol: Protocol,
        scenario: Scenario,
    ) -> Result<Timing, Failure> {
        let timed = self.time_operation(client, protocol, scenario).await;
        if timed.is_err() {
            client.drop_connections();
            client.must_refetch_state = true;
        }
        timed
    }

    async fn time_operation(
        &mut self,
        client: &mut NodeClient,
        protocol: Protocol,
        (operation, times): Scenario,
    ) -> Result<Timing, Failure> {
        // Preparation is not measured: a busy client already has connections and subscriptions.
        with_timeout(client.timeout, async {
            match self {
                Self::Evm(evm) => evm.prepare(client, protocol).await,
                Self::Solana(solana) => solana.prepare(client, protocol).await,
            }
        })
        .await?;
        client.drain_notifications();
        client.sums = Timing::default();
        let mut begun = clock::uptime();
        for index in 0..times {
            if index > 0 {
                // Renewal of the blockhash is not measured.
                let (paused, sums) = (clock::uptime(), client.sums);
                if let Self::Solana(solana) = self {
                    solana.renew_blockhash(client).await?;
                }
                client.sums = sums;
                client.drain_notifications();
                begun += clock::uptime().saturating_sub(paused);
            }
            with_timeout(client.timeout, async {
                match (&mut *self, operation) {
                    (Self::Evm(evm), Operation::Write) => evm.write(client, protocol).await,
                    (Self::Evm(evm), Operation::Read) => evm.read(client, protocol).await,
                    (Self::Solana(solana), Operation::Write) => {
                        solana.write(client, protocol).await
                    }
                    (Self::Solana(solana), Operation::Read) => solana.read(client, protocol).await,
                }
            })
            .await?;
        }
        let took = ns(clock::uptime().saturating_sub(begun));
        let mut timing = client.sums;
        // The time outside of calls was spent waiting.
        timing.phases[0] = took.saturating_sub(timing.phases.iter().sum());
        Ok(timing)
    }
}
