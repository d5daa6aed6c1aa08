//! `bench encoding`: which encoding of account data is answered and decoded faster, over accounts of several sizes.

mod study;

use crate::answer::Expected;
use crate::args::{EncodingArgs, LoadArgs};
use crate::endpoint::Endpoint;
use crate::failure::Failure;
use crate::plan::{Arm, Cell, LinkKind, MOST_REQUESTS, Plan, Subject};
use crate::render;
use crate::results::{CellHead, Header, Results};
use crate::run::{Engine, Measured};
use crate::store;
use faultline_command::args::WrongUsage;
use faultline_command::clock;
use serde_json::json;
use std::rc::Rc;
use std::time::{Duration, UNIX_EPOCH};

/// The study's accounts on mainnet-beta, of 904, 3,232, 5,400, 7,448 and 10,136 bytes.
const STUDY: [&str; 5] = [
    "Po57HwPXoG22SajaQCBn7Zg8hPp15pUTMcTwcr4GhDu",
    "2uLdBfEax2Gzk3KRGTiWoYQPmXWgSG6g1UDax1T9J6MM",
    "4yRzzxU6brZsY9CTZ2Jp9QWhnRftYP6RyZ8FGugVEXN8",
    "CXh2s3cJVwJxZBa7q2ur3paKsWrrznZfApmvjQCPQJpc",
    "Hij4zmmrdmQ49bfgy63C8VF12EYysjF6WGFeZJpfipCk",
];

/// Workers of an open loop, unless set.
const OPEN_WORKERS: usize = 64;

/// Measures, and shows what was measured.
///
/// # Errors
/// Wrong usage, a node that does not answer, an account that it does not have.
pub(crate) fn run(args: &EncodingArgs) -> anyhow::Result<(String, u8)> {
    let plan = plan(args)?;
    if args.output.dry_run {
        return Ok((plan.requests_of_a_round(), 0));
    }
    if let Some(out) = &args.output.out {
        store::reserve(out)?;
    }
    let done = measure(&plan, args);
    if let (Some(out), Err(_)) = (&args.output.out, &done) {
        // It is empty, and was made here.
        let _ = std::fs::remove_file(out);
    }
    let results = done?;
    if let Some(out) = &args.output.out {
        store::write(out, &results)?;
    }
    Ok((crate::shown(&results, args.output.format)?, u8::from(!render::problems(&results).is_empty())))
}

fn measure(plan: &Plan, args: &EncodingArgs) -> anyhow::Result<Results> {
    let engine = Engine::new(plan, args.node.ca.as_deref())?;
    let sizes = sizes(plan, &engine.probe(plan)?)?;
    let started = clock::now();
    let measured = engine.run(&Rc::new(plan.clone()))?;
    Ok(results(plan, &sizes, measured, started.duration_since(UNIX_EPOCH).unwrap_or_default()))
}

/// The study's own tables.
pub(crate) fn study(results: &Results) -> String {
    study::tables(results)
}

fn plan(args: &EncodingArgs) -> anyhow::Result<Plan> {
    let mut encodings: Vec<String> = Vec::new();
    for encoding in &args.encodings {
        if encodings.contains(encoding) {
            return Err(WrongUsage(format!("--encodings names {encoding} twice")).into());
        }
        encodings.push(encoding.clone());
    }
    let accounts: Vec<String> = match args.accounts.is_empty() {
        true => STUDY.map(str::to_owned).into(),
        false => args.accounts.clone(),
    };
    for account in &accounts {
        let address = bs58::decode(account).into_vec().ok().filter(|bytes| bytes.len() == 32);
        if address.is_none() || accounts.iter().filter(|other| *other == account).count() > 1 {
            let wrong = if address.is_none() { "is no address of an account" } else { "is there twice" };
            return Err(WrongUsage(format!("--accounts: {account:?} {wrong}")).into());
        }
    }
    let endpoint = Endpoint::read(&args.node.url).map_err(WrongUsage)?;
    let method = |account: &str, encoding: &str| {
        let mut options = json!({ "encoding": encoding });
        if let Some((offset, length)) = args.data_slice {
            options["dataSlice"] = json!({ "offset": offset, "length": length });
        }
        format!(r#""method":"getAccountInfo","params":{}"#, json!([account, options]))
    };
    let cells = accounts.iter().enumerate().flat_map(|(subject, account)| {
        let cell = move |(arm, encoding): (usize, &String)| Cell {
            arm,
            subject,
            method: method(account, encoding),
            expected: Expected::Account,
        };
        encodings.iter().enumerate().map(cell).collect::<Vec<_>>()
    });
    let LoadArgs { rounds, warm_up, workers, rate, seed, timeout, max_answer } = args.load;
    let plan = Plan {
        cells: cells.collect(),
        arms: encodings.iter().map(|name| Arm { name: name.clone(), link: 0 }).collect(),
        links: vec![LinkKind { endpoint }],
        subjects: accounts.into_iter().map(|name| Subject { name }).collect(),
        rounds,
        warm_up,
        workers: workers.map_or(if rate.is_some() { OPEN_WORKERS } else { 1 }, usize::from),
        rate,
        seed,
        timeout,
        limit: max_answer,
    };
    if plan.requests() > MOST_REQUESTS {
        return Err(WrongUsage(format!("{} requests are too many: at most {MOST_REQUESTS}", plan.requests())).into());
    }
    Ok(plan)
}

/// The size of every subject, by the first encoding that gave its bytes.
fn sizes(plan: &Plan, answers: &[Result<Vec<u8>, Failure>]) -> anyhow::Result<Vec<Option<u64>>> {
    let node = plan.links.first().map(|link| link.endpoint.shown()).unwrap_or_default();
    if let Some(Err(failure)) = answers.first()
        && answers.iter().all(Result::is_err)
        && *failure != Failure::Missing
    {
        anyhow::bail!("{node} gives no account: {failure}");
    }
    let mut sizes = vec![None; plan.subjects.len()];
    for (cell, answer) in plan.cells.iter().zip(answers) {
        let name = plan.subjects.get(cell.subject).map_or("", |subject| &subject.name);
        match answer {
            Err(Failure::Missing) => {
                anyhow::bail!("{node} has no account {name}: name accounts that it has with --accounts")
            }
            Ok(bytes) if !bytes.is_empty() => {
                if let Some(size) = sizes.get_mut(cell.subject) {
                    size.get_or_insert(bytes.len() as u64);
                }
            }
            _ => {}
        }
    }
    Ok(sizes)
}

fn results(plan: &Plan, sizes: &[Option<u64>], measured: Measured, started: Duration) -> Results {
    let name = |cell: &Cell| plan.subjects.get(cell.subject).map(|subject| subject.name.clone()).unwrap_or_default();
    let head = |cell: &Cell| CellHead {
        arm: plan.arms.get(cell.arm).map(|arm| arm.name.clone()).unwrap_or_default(),
        subject: name(cell),
        size: sizes.get(cell.subject).copied().flatten(),
    };
    let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let header = Header {
        preset: "encoding".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started_unix_ns: i64::try_from(started.as_nanos()).unwrap_or(i64::MAX),
        nodes: plan.links.iter().map(|link| link.endpoint.shown()).collect(),
        arms: plan.arms.iter().map(|arm| arm.name.clone()).collect(),
        verdicts: measured.verdicts,
        seed: plan.seed,
        rounds: plan.rounds,
        warm_up: plan.warm_up,
        workers: plan.workers,
        rate: plan.rate,
        stopped_by: measured.stopped_by.map(str::to_owned),
        own_cpu_ns: measured.own_cpu.map(ns),
        length_ns: ns(measured.length),
    };
    Results { header, cells: plan.cells.iter().map(head).collect(), samples: measured.samples }
}
