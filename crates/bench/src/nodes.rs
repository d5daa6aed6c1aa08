//! `bench nodes`: which of several nodes answers the same requests faster.

mod study;

use crate::answer::Expected;
use crate::args::NodesArgs;
use crate::endpoint::Endpoint;
use crate::plan::{Arm, Cell, LinkKind, Plan, RANDOM, Subject};
use crate::preset::{self, Known};
use crate::results::Results;
use crate::run::Engine;
use crate::stream::Shape;
use anyhow::{Context as _, ensure};
use faultline_command::args::WrongUsage;
use faultline_text::{clean, count};
use serde_json::Value;

/// Methods, their parameters, and whether every node must give the same result.
const METHODS: [(&str, &str, bool); 6] = [
    ("getBlock", r#"[{random},{"encoding":"json","maxSupportedTransactionVersion":0,"rewards":false}]"#, true),
    ("getBlockTime", "[{random}]", true),
    ("getBlocksWithLimit", "[{random},100]", true),
    ("getSlot", r#"[{"commitment":"processed"}]"#, false),
    ("getLatestBlockhash", "[]", false),
    ("getEpochInfo", "[]", false),
];

/// What all nodes are asked first, at the same moment: the newest slot, the newest that stays, the oldest block, what it is.
const FIRST: [(&str, &str); 4] = [
    ("getSlot", r#"[{"commitment":"processed"}]"#),
    ("getSlot", r#"[{"commitment":"finalized"}]"#),
    ("getFirstAvailableBlock", "[]"),
    ("getVersion", "[]"),
];

/// Measures, and shows what was measured.
///
/// # Errors
/// Wrong usage, a node that does not answer, nodes that are not in sync.
pub(crate) fn run(args: &NodesArgs) -> anyhow::Result<(String, u8)> {
    let nodes = nodes(args)?;
    let authorities = args.ca.as_deref();
    let first = first(args, &nodes);
    let (known, range) = match args.output.dry_run {
        true => (Known::default(), args.slots.unwrap_or((0, 0))),
        false => in_sync(args, &nodes, &Engine::new(&first, authorities)?.probe_json(&first)?)?,
    };
    let plan = plan(args, nodes, range)?;
    preset::run("nodes", &plan, (&args.output, authorities), |_| Ok(known))
}

/// The study's own tables.
pub(crate) fn study(results: &Results) -> String {
    study::tables(results)
}

/// The nodes by their names.
fn nodes(args: &NodesArgs) -> anyhow::Result<Vec<(String, Endpoint)>> {
    let mut nodes: Vec<(String, Endpoint)> = Vec::new();
    for url in &args.urls {
        let endpoint = Endpoint::read(url).map_err(WrongUsage)?;
        let mut name = endpoint.shown();
        let same = nodes.iter().filter(|(_, other)| other.shown() == name).count();
        if same > 0 {
            name += &format!(" ({})", same + 1);
        }
        nodes.push((name, endpoint));
    }
    Ok(nodes)
}

fn with_nodes(args: &NodesArgs, nodes: &[(String, Endpoint)]) -> Plan {
    let arm = |(name, _): &(String, Endpoint)| Arm { name: name.clone() };
    Plan {
        arms: nodes.iter().map(arm).collect(),
        links: nodes
            .iter()
            .map(|(_, endpoint)| LinkKind { endpoint: endpoint.clone(), shape: Shape::default() })
            .collect(),
        ..preset::empty(&args.load)
    }
}

fn first(args: &NodesArgs, nodes: &[(String, Endpoint)]) -> Plan {
    let ask = |(subject, (method, params)): (usize, (&str, &str)), arm: usize| Cell {
        arm,
        subject,
        link: arm,
        method: format!(r#""method":"{method}","params":{params}"#),
        numbers: None,
        expected: Expected::Json { same: false },
    };
    let cells = FIRST.into_iter().enumerate().flat_map(|what| (0..nodes.len()).map(move |arm| ask(what, arm)));
    let subjects = FIRST.map(|(method, _)| Subject { name: method.to_owned() }).into();
    Plan { cells: cells.collect(), subjects, ..with_nodes(args, nodes) }
}

/// What the nodes say of themselves, and the slots that all of them have.
fn in_sync(args: &NodesArgs, nodes: &[(String, Endpoint)], answers: &[Value]) -> anyhow::Result<(Known, (u64, u64))> {
    let of = |what: usize, node: usize| answers.get(what * nodes.len() + node).unwrap_or(&Value::Null);
    let slots = |what: usize| -> anyhow::Result<Vec<u64>> {
        let slot = |node: usize| of(what, node).as_u64().context("a node answers with a slot that is none");
        (0..nodes.len()).map(slot).collect()
    };
    let (heads, finalized, oldest) = (slots(0)?, slots(1)?, slots(2)?);
    let newest = heads.iter().copied().max().unwrap_or(0);
    let mut notes = Vec::new();
    for (place, ((name, _), head)) in nodes.iter().zip(&heads).enumerate() {
        let version = of(3, place).get("solana-core").and_then(Value::as_str).map_or("unknown".to_owned(), clean);
        let behind = newest - head;
        notes.push(format!("{name}: version {version}, slot {}, {behind} behind the newest", count(*head)));
        let most = args.max_lag;
        ensure!(behind <= most, "{name} is {behind} slots behind: nodes within {most} are compared (--max-lag)");
    }
    let range = match args.slots {
        Some(range) => range,
        None => (oldest.into_iter().max().unwrap_or(0), finalized.into_iter().min().unwrap_or(0)),
    };
    ensure!(range.0 <= range.1, "the nodes have no finalized block in common");
    notes.push(format!("random slots from {} to {}", count(range.0), count(range.1)));
    Ok((Known { sizes: Vec::new(), notes }, range))
}

fn plan(args: &NodesArgs, nodes: Vec<(String, Endpoint)>, range: (u64, u64)) -> anyhow::Result<Plan> {
    let mut cells = Vec::new();
    for (subject, name) in args.methods.iter().enumerate() {
        let known = METHODS.iter().find(|(known, ..)| known == name);
        let twice = args.methods.iter().filter(|other| *other == name).count() > 1;
        let Some((method, params, same)) = known.filter(|_| !twice) else {
            let known = METHODS.map(|(name, ..)| name).join(", ");
            return Err(WrongUsage(format!("--methods: {name:?}; each once, of {known}")).into());
        };
        cells.extend((0..nodes.len()).map(|arm| Cell {
            arm,
            subject,
            link: arm,
            method: format!(r#""method":"{method}","params":{params}"#),
            numbers: params.contains(RANDOM).then_some(range),
            expected: Expected::Json { same: *same },
        }));
    }
    let subjects = args.methods.iter().map(|name| Subject { name: name.clone() }).collect();
    Ok(Plan { subjects, cells, ..with_nodes(args, &nodes) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Bench, BenchArgs};
    use clap::Parser;
    use serde_json::json;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: BenchArgs,
    }

    fn args(more: &[&str]) -> NodesArgs {
        let words = ["bench", "nodes", "http://one:1", "http://two:2/?key=1", "http://two:2/?key=2"];
        match Cli::try_parse_from(words.iter().chain(more)).unwrap().args.what {
            Bench::Nodes(args) => args,
            other => panic!("{other:?}"),
        }
    }

    /// Heads, finalized slots, oldest blocks, versions of three nodes.
    fn answers(heads: [u64; 3]) -> Vec<Value> {
        let mut answers: Vec<Value> = heads.map(Value::from).into();
        answers.extend([70, 60, 65, 5, 9, 7].map(Value::from));
        answers.extend(["2.1.14", "2.0.0", "2.1.14"].map(|version| json!({"solana-core": version})));
        answers
    }

    #[test]
    fn nodes_in_sync_are_asked_for_what_all_of_them_have() {
        let args = args(&[]);
        let nodes = nodes(&args).unwrap();
        let names: Vec<&str> = nodes.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["http://one:1", "http://two:2/...", "http://two:2/... (2)"]);
        let (known, range) = in_sync(&args, &nodes, &answers([100, 98, 92])).unwrap();
        assert_eq!((range, known.notes.len()), ((9, 60), 4));
        assert!(known.notes[1].contains("version 2.0.0") && known.notes[1].contains("2 behind"), "{known:?}");
        let plan = plan(&args, nodes, range).unwrap();
        assert_eq!((plan.cells.len(), plan.cells[0].numbers, plan.cells[8].numbers), (9, Some((9, 60)), None));
    }

    #[test]
    fn nodes_that_are_not_in_sync_and_methods_that_are_not_known_are_refused() {
        let plain = args(&[]);
        let nodes = nodes(&plain).unwrap();
        let refused = in_sync(&plain, &nodes, &answers([100, 98, 89])).unwrap_err().to_string();
        assert!(refused.contains("two:2/... (2) is 11 slots behind"), "{refused}");
        assert!(in_sync(&args(&["--max-lag", "11"]), &nodes, &answers([100, 98, 89])).is_ok());
        assert!(in_sync(&plain, &nodes, &answers([100, 98, 95])[..5]).is_err(), "a node without an answer");
        for bad in ["getBlok", "getSlot,getSlot"] {
            let refused = plan(&args(&["--methods", bad]), nodes.clone(), (0, 1)).unwrap_err();
            assert!(refused.is::<WrongUsage>(), "{bad}");
        }
    }
}
