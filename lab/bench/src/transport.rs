//! `bench transport`: compares HTTP with WebSocket for reads and writes.

mod chain;
mod evm;
mod solana;
mod study;
mod talk;

use crate::answer::Expected;
use crate::args::TransportArgs;
use crate::endpoint::Endpoint;
use crate::failure::Failure;
use crate::plan::{Arm, Cell, LinkKind, Plan, Subject};
use crate::preset::{self, Preflight, Session};
use crate::protocol::Protocol;
use crate::results::Results;
use crate::run::Engine;
use crate::stream::Shape;
use anyhow::bail;
use chain::{Chain, Operation};
use evm::Evm;
use faultline_common::args::UsageError;
use faultline_text::{clean, time};
use serde_json::{Value, json};
use solana::Solana;
pub(crate) use study::sentences;
use talk::{Meter, Patience, Talk};

const LIMIT: usize = 16 << 20;

/// An operation and its repetitions in a row.
type Scenario = (Operation, u32);

pub(crate) fn run(args: &TransportArgs) -> anyhow::Result<(String, u8)> {
    let (protocols, scenarios) = (protocols(args)?, scenarios(args));
    let plan = plan(args, &scenarios)?;
    if args.output.dry_run {
        let line = |cell: &Cell| {
            format!(
                "{}: {}\n",
                plan.arms.get(cell.arm).map_or("", |arm| &arm.name),
                cell.method
            )
        };
        return Ok((plan.cells.iter().map(line).collect(), 0));
    }
    preset::with(&plan, (&args.output, args.node.ca.as_deref()), |session| {
        measure(args, plan.clone(), session, (&protocols, &scenarios))
    })
}

pub(crate) fn study(results: &Results) -> String {
    study::tables(results)
}

fn protocols(args: &TransportArgs) -> anyhow::Result<Vec<Protocol>> {
    let mut protocols = Vec::new();
    for protocol in args
        .transports
        .iter()
        .filter_map(|name| Protocol::named(name))
    {
        if protocols.contains(&protocol) {
            return Err(UsageError("--transports names one twice".to_owned()).into());
        }
        protocols.push(protocol);
    }
    Ok(protocols)
}

fn scenarios(args: &TransportArgs) -> Vec<Scenario> {
    vec![
        (Operation::Write, 1),
        (Operation::Write, args.in_a_row),
        (Operation::Read, 1),
        (Operation::Read, args.in_a_row),
    ]
}

fn named((act, times): Scenario) -> String {
    let act = if act == Operation::Write {
        "write"
    } else {
        "read"
    };
    if times == 1 {
        format!("single {act}")
    } else {
        format!("{times} {act}s in a row")
    }
}

fn plan(args: &TransportArgs, scenarios: &[Scenario]) -> anyhow::Result<Plan> {
    let http = Endpoint::read(&args.node.url).map_err(UsageError)?;
    let websocket = match &args.websocket {
        Some(url) => Endpoint::read_websocket(url).map_err(UsageError)?,
        None => http.usual_websocket(),
    };
    let poll = time(args.poll);
    let cells = (0..scenarios.len())
        .flat_map(|subject| (0..args.transports.len()).map(move |arm| (subject, arm)));
    let cell = |(subject, arm): (usize, usize)| Cell {
        arm,
        subject,
        link: 0,
        method: format!(
            "{}, polled every {poll}",
            scenarios
                .get(subject)
                .copied()
                .map(named)
                .unwrap_or_default()
        ),
        numbers: None,
        expected: Expected::Json { same: false },
    };
    Ok(Plan {
        cells: cells.map(cell).collect(),
        weights: Vec::new(),
        values: Vec::new(),
        arms: args
            .transports
            .iter()
            .map(|name| Arm { name: name.clone() })
            .collect(),
        links: [(http, Protocol::Http), (websocket, Protocol::WebSocket)]
            .map(|(endpoint, protocol)| LinkKind {
                endpoint,
                shape: Shape::default(),
                protocol,
            })
            .into(),
        subjects: scenarios
            .iter()
            .map(|scenario| Subject {
                name: named(*scenario),
            })
            .collect(),
        rounds: args.rounds,
        warm_up: args.warm_up,
        workers: 1,
        rate: None,
        seed: args.seed,
        timeout: args.timeout,
        limit: LIMIT,
        max_failures: args.max_failures,
    })
}

fn measure(
    args: &TransportArgs,
    mut plan: Plan,
    session: &Session<'_>,
    (protocols, scenarios): (&[Protocol], &[Scenario]),
) -> anyhow::Result<Results> {
    let engine = session.engine;
    let [http, websocket] = plan.links.as_slice() else {
        bail!("a transport without a node")
    };
    let tls = http.endpoint.tls;
    let mut talk = Talk::new(
        (http.clone(), websocket.clone()),
        engine.tls(),
        (LIMIT, args.timeout),
    );
    let patience = Patience {
        poll: args.poll,
        timeout: args.timeout,
    };
    let (mut chain, mut notes) = engine.first(chain(&mut talk, patience))?;
    let protocols = &mut protocols.to_vec();
    if let Some(index) = protocols
        .iter()
        .position(|protocol| *protocol == Protocol::Http2)
        && let Some(failure) = http2_failure(engine, &mut talk, tls)?
    {
        notes.push(preset::leave_out(&mut plan, index, &failure)?);
        protocols.remove(index);
    }
    talk.give_up();
    if !chain.writes() {
        let reads = |cell: &Cell| {
            scenarios
                .get(cell.subject)
                .is_some_and(|(act, _)| *act == Operation::Read)
        };
        plan.cells.retain(reads);
    }
    notes.push(format!(
        "Polled every {}; what is between polls, and until a node reports, is in `queued`",
        time(args.poll)
    ));
    notes.push("What was read was compared with what was written".to_owned());
    let known = Preflight {
        sizes: Vec::new(),
        notes,
    };
    session.results("transport", &plan, known, |sink| {
        engine.one_by_one(&plan, sink, async |cell| {
            let (protocol, scenario) = (protocols.get(cell.arm), scenarios.get(cell.subject));
            let (protocol, (act, times)) = protocol
                .copied()
                .zip(scenario.copied())
                .ok_or(Failure::Missing)?;
            chain
                .perform(&mut talk, (protocol, act, times), patience)
                .await
        })
    })
}

/// Why the node cannot be reached by HTTP/2. A JSON-RPC error is also an answer.
fn http2_failure(engine: &Engine, talk: &mut Talk, tls: bool) -> anyhow::Result<Option<Failure>> {
    let (meter, no_params) = (&mut Meter::default(), json!([]));
    let call = talk.call(Protocol::Http2, "eth_chainId", &no_params, meter);
    let exchange = engine.first(async { Ok(call.await) })?;
    Ok(exchange.err().filter(|failure| failure.is_no_http2(tls)))
}

async fn chain(talk: &mut Talk, patience: Patience) -> anyhow::Result<(Chain, Vec<String>)> {
    let meter = &mut Meter::default();
    let node = "the node";
    match talk
        .call(Protocol::Http, "eth_chainId", &json!([]), meter)
        .await
    {
        Ok(id) => evm(talk, id.as_str().unwrap_or_default(), patience).await,
        Err(Failure::Rpc(..)) => match talk
            .call(Protocol::Http, "getGenesisHash", &json!([]), meter)
            .await
        {
            Ok(genesis) => solana(talk, genesis.as_str().unwrap_or_default(), patience).await,
            Err(failure) => bail!("{node} is neither of an EVM chain nor of Solana: {failure}"),
        },
        Err(failure) => bail!("{node} does not answer: {failure}"),
    }
}

async fn evm(
    talk: &mut Talk,
    id: &str,
    patience: Patience,
) -> anyhow::Result<(Chain, Vec<String>)> {
    let meter = &mut Meter::default();
    let version = version(talk, "web3_clientVersion").await;
    let mut notes = vec![format!("EVM chain {}, {version}", clean(id))];
    let accounts = talk
        .call(Protocol::Http, "eth_accounts", &json!([]), meter)
        .await
        .unwrap_or_default();
    let payer = accounts
        .get(0)
        .and_then(Value::as_str)
        .filter(|_| evm::DEVELOPMENT.contains(&id));
    let Some(payer) = payer else {
        notes.push("No development chain with an account that the node signs for: nothing is written, and the newest block is read".to_owned());
        return Ok((Chain::Evm(Evm::read_only(id)), notes));
    };
    match Evm::deploy(talk, (id, payer), patience).await {
        Ok(evm) => Ok((Chain::Evm(evm), notes)),
        Err(failure) => bail!("the storage contract could not be deployed: {failure}"),
    }
}

async fn solana(
    talk: &mut Talk,
    genesis: &str,
    patience: Patience,
) -> anyhow::Result<(Chain, Vec<String>)> {
    if solana::PUBLIC.contains(&genesis) {
        bail!(
            "this is a public cluster: both reading and writing need transfers; use a test cluster, such as solana-test-validator"
        );
    }
    let version = version(talk, "getVersion").await;
    match Solana::funded(talk, patience).await {
        Ok(solana) => Ok((
            Chain::Solana(Box::new(solana)),
            vec![format!("Solana, {version}")],
        )),
        Err(failure) => {
            bail!("the node gives no lamports for transfers (requestAirdrop): {failure}")
        }
    }
}

async fn version(talk: &mut Talk, method: &str) -> String {
    let version = talk
        .call(Protocol::Http, method, &json!([]), &mut Meter::default())
        .await
        .unwrap_or_default();
    let text = version
        .as_str()
        .or_else(|| version.get("solana-core").and_then(Value::as_str));
    text.map_or("unknown version".to_owned(), |text| {
        format!("version {}", clean(text))
    })
}
