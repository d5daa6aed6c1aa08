//! `bench encoding`: compares encodings of account data.

mod study;

use crate::answer::{Encoding, Expected};
use crate::args::EncodingArgs;
use crate::endpoint::Endpoint;
use crate::failure::Failure;
use crate::plan::{Arm, Cell, LinkKind, Plan, Subject};
use crate::preset::{self, Preflight};
use crate::protocol::Protocol;
use crate::results::Results;
use crate::stream::Shape;
use faultline_common::args::UsageError;
use serde_json::json;
pub(crate) use study::p_value;

/// The study's accounts of 904, 3,232, 5,400, 7,448 and 10,136 bytes on mainnet-beta.
const STUDY: [&str; 5] = [
    "Po57HwPXoG22SajaQCBn7Zg8hPp15pUTMcTwcr4GhDu",
    "2uLdBfEax2Gzk3KRGTiWoYQPmXWgSG6g1UDax1T9J6MM",
    "4yRzzxU6brZsY9CTZ2Jp9QWhnRftYP6RyZ8FGugVEXN8",
    "CXh2s3cJVwJxZBa7q2ur3paKsWrrznZfApmvjQCPQJpc",
    "Hij4zmmrdmQ49bfgy63C8VF12EYysjF6WGFeZJpfipCk",
];

pub(crate) fn run(args: &EncodingArgs) -> anyhow::Result<(String, u8)> {
    let plan = plan(args)?;
    preset::run(
        "encoding",
        &plan,
        (&args.output, args.node.ca.as_deref()),
        |engine| {
            Ok(Preflight {
                sizes: sizes(&plan, &engine.probe(&plan)?)?,
                notes: Vec::new(),
            })
        },
    )
}

pub(crate) fn study(results: &Results) -> String {
    study::tables(results)
}

fn plan(args: &EncodingArgs) -> anyhow::Result<Plan> {
    let encodings = encodings(args)?;
    let accounts = accounts(args)?;
    let endpoint = Endpoint::read(&args.node.url).map_err(UsageError)?;
    let shapes = shapes(args)?;
    let mut cells = Vec::new();
    let mut subjects = Vec::new();
    for (link, shape) in shapes.iter().enumerate() {
        for account in &accounts {
            for (arm, encoding) in encodings.iter().enumerate() {
                cells.push(Cell {
                    arm,
                    subject: subjects.len(),
                    link,
                    method: method(account, encoding, args.data_slice),
                    numbers: None,
                    expected: Expected::Account(
                        Encoding::named(encoding).unwrap_or(Encoding::Base64),
                    ),
                });
            }
            let over = if args.links.is_empty() {
                String::new()
            } else {
                format!(" over {shape}")
            };
            subjects.push(Subject {
                name: format!("{account}{over}"),
            });
        }
    }
    Ok(Plan {
        cells,
        arms: encodings.into_iter().map(|name| Arm { name }).collect(),
        links: shapes
            .into_iter()
            .map(|shape| LinkKind {
                endpoint: endpoint.clone(),
                shape,
                protocol: Protocol::Http,
            })
            .collect(),
        subjects,
        ..preset::empty(&args.load)
    })
}

fn encodings(args: &EncodingArgs) -> Result<Vec<String>, UsageError> {
    let mut encodings: Vec<String> = Vec::new();
    for encoding in &args.encodings {
        if encodings.contains(encoding) {
            return Err(UsageError(format!("--encodings names {encoding} twice")));
        }
        encodings.push(encoding.clone());
    }
    Ok(encodings)
}

fn accounts(args: &EncodingArgs) -> Result<Vec<String>, UsageError> {
    if args.accounts.is_empty() {
        return Ok(STUDY.map(str::to_owned).into());
    }
    let is_address = |account: &str| {
        bs58::decode(account)
            .into_vec()
            .is_ok_and(|bytes| bytes.len() == 32)
    };
    for account in &args.accounts {
        let wrong = if !is_address(account) {
            "is no address of an account"
        } else if args
            .accounts
            .iter()
            .filter(|other| *other == account)
            .count()
            > 1
        {
            "is there twice"
        } else {
            continue;
        };
        return Err(UsageError(format!("--accounts: {account:?} {wrong}")));
    }
    Ok(args.accounts.clone())
}

/// Without `--links` one link that adds nothing.
fn shapes(args: &EncodingArgs) -> Result<Vec<Shape>, UsageError> {
    let mut shapes: Vec<Shape> = args
        .links
        .iter()
        .filter_map(|text| Shape::read(text))
        .collect();
    if shapes
        .iter()
        .any(|shape| shapes.iter().filter(|other| *other == shape).count() > 1)
    {
        return Err(UsageError("--links names one twice".to_owned()));
    }
    if shapes.is_empty() {
        shapes.push(Shape::default());
    }
    Ok(shapes)
}

fn method(account: &str, encoding: &str, data_slice: Option<(u64, u64)>) -> String {
    let mut options = json!({ "encoding": encoding });
    if let Some((offset, length)) = data_slice {
        options["dataSlice"] = json!({ "offset": offset, "length": length });
    }
    format!(
        r#""method":"getAccountInfo","params":{}"#,
        json!([account, options])
    )
}

/// From the first encoding that returned bytes.
fn sizes(plan: &Plan, answers: &[Result<Vec<u8>, Failure>]) -> anyhow::Result<Vec<Option<u64>>> {
    let node = plan
        .links
        .first()
        .map(|link| link.endpoint.shown())
        .unwrap_or_default();
    if let Some(Err(failure)) = answers.first()
        && answers.iter().all(Result::is_err)
        && *failure != Failure::Missing
    {
        anyhow::bail!("{node} gives no account: {failure}");
    }
    let mut sizes = vec![None; plan.subjects.len()];
    for (cell, answer) in plan.cells.iter().zip(answers) {
        let name = plan
            .subjects
            .get(cell.subject)
            .map_or("", |subject| &subject.name);
        match answer {
            Err(Failure::Missing) => {
                anyhow::bail!(
                    "{node} has no account {name}: name accounts that it has with --accounts"
                )
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
