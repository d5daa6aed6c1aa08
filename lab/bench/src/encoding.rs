//! `bench encoding`: compares encodings of account data.

mod study;

use crate::answer::Expected;
use crate::args::{EncodingArgs, first_duplicate};
use crate::endpoint::Endpoint;
use crate::failure::Failure;
use crate::plan::{Cell, LinkKind, Plan};
use crate::preset;
use crate::protocol::Protocol;
use crate::stream::LinkShape;
use faultline_common::args::UsageError;
use serde_json::json;
pub(crate) use study::{page, tables as study};

/// The study's accounts of 904, 3,232, 5,400, 7,448 and 10,136 bytes on mainnet-beta.
const STUDY_ACCOUNTS: [&str; 5] = [
    "Po57HwPXoG22SajaQCBn7Zg8hPp15pUTMcTwcr4GhDu",
    "2uLdBfEax2Gzk3KRGTiWoYQPmXWgSG6g1UDax1T9J6MM",
    "4yRzzxU6brZsY9CTZ2Jp9QWhnRftYP6RyZ8FGugVEXN8",
    "CXh2s3cJVwJxZBa7q2ur3paKsWrrznZfApmvjQCPQJpc",
    "Hij4zmmrdmQ49bfgy63C8VF12EYysjF6WGFeZJpfipCk",
];

pub(crate) fn run(args: &EncodingArgs) -> anyhow::Result<(String, u8)> {
    let plan = plan(args)?;
    let ca_file = args.node.ca.as_deref();
    preset::run("encoding", &plan, &args.output, ca_file, |session| {
        let sizes = sizes(&plan, &session.engine.probe(&plan)?)?;
        session.measure(&plan, &sizes, Vec::new())
    })
}

fn plan(args: &EncodingArgs) -> anyhow::Result<Plan> {
    if let Some(twice) = first_duplicate(&args.encodings) {
        let name = twice.name();
        return Err(UsageError(format!("--encodings names {name} twice")).into());
    }
    if first_duplicate(&args.links).is_some() {
        return Err(UsageError("--links names one twice".to_owned()).into());
    }
    let accounts = accounts(args)?;
    let endpoint = Endpoint::read(&args.node.url).map_err(UsageError)?;
    let mut plan = preset::plan_for_load(&args.load);
    plan.arms = args
        .encodings
        .iter()
        .map(|encoding| encoding.name().to_owned())
        .collect();
    // Without `--links` there is one link that adds no delay.
    let shapes = match args.links.as_slice() {
        [] => &[LinkShape::default()],
        shapes => shapes,
    };
    for (link, shape) in shapes.iter().enumerate() {
        for account in &accounts {
            for (arm, encoding) in args.encodings.iter().enumerate() {
                plan.cells.push(Cell {
                    arm,
                    subject: plan.subjects.len(),
                    link,
                    method: method(account, encoding.name(), args.data_slice),
                    numbers: None,
                    expected: Expected::Account(*encoding),
                });
            }
            let link_suffix = if args.links.is_empty() {
                String::new()
            } else {
                format!(" over {shape}")
            };
            plan.subjects.push(format!("{account}{link_suffix}"));
        }
        plan.links.push(LinkKind {
            shape: *shape,
            ..LinkKind::new(endpoint.clone(), Protocol::Http)
        });
    }
    Ok(plan)
}

fn accounts(args: &EncodingArgs) -> Result<Vec<String>, UsageError> {
    if args.accounts.is_empty() {
        return Ok(STUDY_ACCOUNTS.map(str::to_owned).into());
    }
    let wrong = |account: &String, why: &str| UsageError(format!("--accounts: {account:?} {why}"));
    for account in &args.accounts {
        let bytes = bs58::decode(account).into_vec();
        if bytes.map_or(0, |bytes| bytes.len()) != 32 {
            return Err(wrong(account, "is no address of an account"));
        }
    }
    match first_duplicate(&args.accounts) {
        Some(account) => Err(wrong(account, "is there twice")),
        None => Ok(args.accounts.clone()),
    }
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

/// Size of each account, from the first encoding that returned bytes.
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
        let name = plan.subject(cell);
        match answer {
            Err(Failure::Missing) => {
                anyhow::bail!(
                    "{node} has no account {name}: name accounts that it has with --accounts"
                )
            }
            Ok(bytes) if !bytes.is_empty() => {
                sizes[cell.subject].get_or_insert(bytes.len() as u64);
            }
            _ => {}
        }
    }
    Ok(sizes)
}
