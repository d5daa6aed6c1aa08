//! `bench nodes`: compares nodes of one chain.

mod chain;
mod study;

use crate::{
    answer::Expected,
    args::NodesArgs,
    disk,
    endpoint::Endpoint,
    failure::Failure,
    plan::{ConnectionConfig, Plan, RANDOM_HEIGHT, RANDOM_HEX_HEIGHT},
    protocol::Protocol,
    results::Header,
    run::Engine,
    session,
};
use anyhow::{Context, Result, bail, ensure};
pub use chain::version;
use chain::{CHAINS, Chain, RpcCall, call_json};
use faultline_common::{args::UsageError, output::say};
use faultline_text::{clean, count, counted};
use itertools::{Itertools, chain};
use serde_json::Value;
use std::{cell::Cell, iter::zip, path::PathBuf};
pub use study::{page, study_text};

/// A slot may be skipped, so several heights are tried.
const TRIED_HEIGHTS: u64 = 4;
/// `getBlocksWithLimit` asks for 100 final blocks, which may have 50 skipped slots between them.
const SLOTS_OF_LIMITED_BLOCKS: u64 = 150;

pub fn run(args: &NodesArgs) -> Result<(String, u8)> {
    let node_plan = nodes_as_arms(args)?;
    let chain = requested_chain(args)?;
    let folders = data_folders(args, &node_plan)?;
    let (mut notes, range, newest_final) = if args.output.dry_run {
        let draw_later = || {
            say("a run replaces {random} and {hex} by a slot or block that all nodes have");
            (1, 0)
        };
        (Vec::new(), args.slots.unwrap_or_else(draw_later), u64::MAX)
    } else {
        check_chain_and_lag(args, chain, &node_plan)?
    };
    let plan = add_requests(args, chain, node_plan, range, newest_final, &mut notes)?;
    let ca_file = args.ca.as_deref();
    session::run_subcommand("nodes", &plan, &args.output, ca_file, |session| {
        let mut results = session.measure(&plan, &[], notes)?;
        // Reading a folder fills the node's page cache, so it comes after all measurements.
        measure_data_folders(args, &folders, session.engine, &mut results.header);
        Ok(results)
    })
}

fn measure_data_folders(
    args: &NodesArgs,
    folders: &[(String, PathBuf)],
    engine: &Engine,
    header: &mut Header,
) {
    let signal = Cell::new(None);
    let is_stopped = || {
        signal.set(signal.get().or_else(|| engine.take_end_signal()));
        signal.get().is_some()
    };
    for (node, folder) in folders {
        if header.stopped_by.is_none() {
            say(&format!("measuring the size of {}", folder.display()));
            header
                .folder_usages
                .push(disk::measure(node, folder, args.data_time, &is_stopped));
            header.stopped_by = signal
                .get()
                .map(|signal| format!("{signal} while folders were measured"));
        }
    }
}

fn requested_chain(args: &NodesArgs) -> Result<&'static Chain> {
    Ok(CHAINS
        .iter()
        .find(|chain| chain.name == args.chain)
        .ok_or_else(|| {
            let names = CHAINS.each_ref().map(|chain| chain.name).join(", ");
            UsageError(format!("--chain: {:?} is not one of {names}", args.chain))
        })?)
}

/// Arms are named by the node's address.
fn nodes_as_arms(args: &NodesArgs) -> Result<Plan> {
    let mut plan = session::plan_for_load(&args.load);
    for url in &args.urls {
        let endpoint = Endpoint::parse(url).map_err(UsageError)?;
        let mut name = endpoint.redacted_url();
        let same_url_count = plan
            .connections
            .iter()
            .filter(|connection| connection.endpoint.redacted_url() == name)
            .count();
        if same_url_count > 0 {
            name += &format!(" ({})", same_url_count + 1);
        }
        plan.arms.push(name);
        plan.connections
            .push(ConnectionConfig::new(endpoint, Protocol::Http));
    }
    Ok(plan)
}

/// Name and data folder of each node on this machine.
fn data_folders(args: &NodesArgs, node_plan: &Plan) -> Result<Vec<(String, PathBuf)>> {
    ensure!(
        args.data.len() <= node_plan.arms.len(),
        UsageError("--data: there are more folders than nodes".to_owned())
    );
    node_plan
        .arms
        .iter()
        .zip(&args.data)
        .filter(|(_, folder)| folder.as_os_str() != "-")
        .map(|(name, folder)| Ok((name.clone(), disk::data_folder(folder)?)))
        .collect()
}

/// Fails if nodes are of different chains or not in sync. Returns notes, the first and last slot or
/// block to request, and the newest final one.
fn check_chain_and_lag(
    args: &NodesArgs,
    chain: &Chain,
    node_plan: &Plan,
) -> Result<(Vec<String>, (u64, u64), u64)> {
    let mut status_plan = node_plan.clone();
    let height_calls = [chain.newest_call, chain.random_range_end_call];
    for call in chain!(height_calls, chain.oldest_call, [chain.version_call]) {
        status_plan.add_request(call.0.to_owned(), call_json(call), None, Expected::Json);
    }
    let engine = Engine::new(&status_plan, args.ca.as_deref())?;
    let genesis = match first_common_hash(&engine, chain, node_plan, chain.genesis_call, &[0])? {
        Ok((_, hash)) => format!("all nodes have the genesis {hash}"),
        Err(why) => format!("the genesis of the nodes could not be compared: {why}"),
    };
    let answers = engine.probe_json(&status_plan)?;
    let (mut notes, (from, to), newest_final) =
        check_in_sync(args, chain, &node_plan.arms, &answers)?;
    let lowest = from.max(to.saturating_sub(TRIED_HEIGHTS - 1));
    let heights = (lowest..=to).rev().collect_vec();
    let block = match first_common_hash(&engine, chain, node_plan, chain.block_call, &heights)? {
        Ok((height, hash)) => format!(
            "all nodes have the block {} with the hash {hash}",
            count(height)
        ),
        Err(why) => format!("no block of the nodes could be compared: {why}"),
    };
    notes.extend([genesis, block]);
    Ok((notes, (from, to), newest_final))
}

/// Height and hash of the first block whose hash all nodes report. Fails if two hashes differ; the
/// inner error says why no hash could be compared.
fn first_common_hash(
    engine: &Engine,
    chain: &Chain,
    node_plan: &Plan,
    call: RpcCall,
    heights: &[u64],
) -> Result<Result<(u64, String), String>> {
    let mut plan = node_plan.clone();
    for height in heights {
        let range = Some((*height, *height));
        plan.add_request(height.to_string(), call_json(call), range, Expected::Json);
    }
    let answers = engine.probe(&plan)?;
    let mut why = "the nodes gave no answer".to_owned();
    let nodes = &node_plan.arms;
    for (height, height_answers) in zip(heights, answers.chunks(nodes.len().max(1))) {
        let (mut hashes, mut failure) = (Vec::new(), None);
        for (node, answer) in zip(nodes, height_answers) {
            match hash_of_answer(chain, answer) {
                Ok(hash) => hashes.push((node, hash)),
                Err(reason) => failure = failure.or(Some(format!("{node}: {reason}"))),
            }
        }
        if let Some((first, hash)) = hashes.first()
            && let Some((other, other_hash)) = hashes.iter().find(|(_, other)| other != hash)
        {
            bail!(
                "{first} and {other} are of different chains, so nothing was measured: {} for block {} gives {hash} and {other_hash}",
                call.0,
                count(*height)
            );
        }
        match (failure, hashes.pop()) {
            (None, Some((_, hash))) => return Ok(Ok((*height, hash))),
            (failure, _) => why = failure.unwrap_or(why),
        }
    }
    Ok(Err(why))
}

fn hash_of_answer(chain: &Chain, answer: &Result<Vec<u8>, Failure>) -> Result<String, String> {
    let bytes = answer.as_ref().map_err(ToString::to_string)?;
    let value = serde_json::from_slice(bytes).ok();
    let hash = value.and_then(|value| chain::hash(chain, &value));
    hash.map(|hash| clean(&hash.chars().take(100).collect::<String>()))
        .ok_or_else(|| "an answer without a hash".to_owned())
}

/// `answers` of all nodes, call by call: newest height, end of the random range, oldest height (if
/// the chain has a call for it), version.
fn check_in_sync(
    args: &NodesArgs,
    chain: &Chain,
    nodes: &[String],
    answers: &[Value],
) -> Result<(Vec<String>, (u64, u64), u64)> {
    let (mut answers, unit) = (answers.iter(), chain.height_unit);
    let mut next_heights = |(method, _)| -> Result<Vec<u64>> {
        let height = |(node, answer)| {
            chain::height(answer).with_context(|| {
                format!(
                    "{node}: the answer to {method} is not a {unit} number; check its address and --chain"
                )
            })
        };
        zip(nodes, answers.by_ref()).map(height).collect()
    };
    let heads = next_heights(chain.newest_call)?;
    let range_end = next_heights(chain.random_range_end_call)?
        .into_iter()
        .min()
        .unwrap_or(0)
        .saturating_sub(chain.unfinalized_margin);
    let oldest = match chain.oldest_call {
        Some(call) => next_heights(call)?.into_iter().max().unwrap_or(0),
        None => 0,
    };
    ensure!(answers.len() == nodes.len(), "a node does not answer");
    let newest = heads.iter().copied().max().unwrap_or(0);
    let mut notes = Vec::new();
    for (name, head) in zip(nodes, &heads) {
        let version = answers.next().and_then(version);
        let (version, behind) = (version.map_or("unknown".to_owned(), clean), newest - head);
        notes.push(format!(
            "{name}: version {version}, {unit} {}, {behind} behind the newest",
            count(*head)
        ));
        let max_lag = args.max_lag;
        ensure!(
            behind <= max_lag,
            "{name} is {} behind the most advanced node: at most {max_lag} are allowed (--max-lag)",
            counted(behind as f64, unit)
        );
    }
    let (from, to) = args.slots.unwrap_or((oldest, range_end));
    ensure!(from <= to, "the nodes have no finalized block in common");
    let range = [from, to].map(count).join(" to ");
    notes.push(format!("random {unit}s from {range}"));
    Ok((notes, (from, to), range_end))
}

fn add_requests(
    args: &NodesArgs,
    chain: &Chain,
    mut plan: Plan,
    (from, to): (u64, u64),
    newest_final: u64,
    notes: &mut Vec<String>,
) -> Result<Plan> {
    let methods = match args.methods.as_slice() {
        [] => chain.default_methods.to_vec(),
        methods => methods.iter().map(String::as_str).collect(),
    };
    for name in &methods {
        let method = chain.methods.iter().find(|(other, ..)| other == name);
        let is_repeated = methods.iter().filter(|other| *other == name).count() > 1;
        let Some((name, params, must_agree)) = method.filter(|_| !is_repeated) else {
            let names = chain.methods.iter().map(|(name, ..)| name).join(", ");
            bail!(UsageError(format!(
                "--methods: {name:?} is not known or named twice; with --chain {} there are {names}",
                chain.name
            )));
        };
        let mut last_height = to;
        if *name == "getBlocksWithLimit" {
            if newest_final.saturating_sub(from) < SLOTS_OF_LIMITED_BLOCKS {
                let note = format!(
                    "{name} is left out: no slot of the range is at least {SLOTS_OF_LIMITED_BLOCKS} below {}, the newest finalized slot that all nodes have; repeat it later, or with earlier --slots",
                    count(newest_final)
                );
                ensure!(methods.len() > 1, "nothing was measured: {note}");
                notes.push(note);
                continue;
            }
            last_height = to.min(newest_final - SLOTS_OF_LIMITED_BLOCKS);
        }
        // With an empty range the placeholders stay.
        let has_height =
            from <= to && (params.contains(RANDOM_HEIGHT) || params.contains(RANDOM_HEX_HEIGHT));
        plan.add_request(
            (*name).to_owned(),
            call_json((name, params)),
            has_height.then_some((from, last_height)),
            Expected::for_method(name, *must_agree),
        );
    }
    Ok(plan)
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
        let words = [
            "bench",
            "nodes",
            "http://one:1",
            "http://two:2/?key=1",
            "http://two:2/?key=2",
        ];
        match Cli::try_parse_from(words.iter().chain(more))
            .unwrap()
            .args
            .command
        {
            Bench::Nodes(args) => args,
            other => panic!("{other:?}"),
        }
    }

    /// Heads, finalized slots, oldest blocks, versions of three nodes.
    fn answers(heads: [u64; 3]) -> Vec<Value> {
        let mut answers: Vec<Value> = heads.map(Value::from).into();
        answers.extend([70, 60, 65, 5, 9, 7].map(Value::from));
        answers
            .extend(["2.1.14", "2.0.0", "2.1.14"].map(|version| json!({"solana-core": version})));
        answers
    }

    #[test]
    fn in_sync_nodes_are_queried_only_for_data_all_have() {
        let args = args(&[]);
        let nodes = nodes_as_arms(&args).unwrap();
        assert_eq!(
            nodes.arms,
            ["http://one:1", "http://two:2/...", "http://two:2/... (2)"]
        );
        let (mut notes, range, newest_final) =
            check_in_sync(&args, &CHAINS[0], &nodes.arms, &answers([100, 98, 92])).unwrap();
        assert_eq!((range, newest_final, notes.len()), ((9, 60), 60, 4));
        assert!(
            notes[1].contains("version 2.0.0") && notes[1].contains("2 behind"),
            "{notes:?}"
        );
        let plan = add_requests(&args, &CHAINS[0], nodes, range, newest_final, &mut notes).unwrap();
        assert_eq!(
            (
                plan.cases.len(),
                plan.cases[0].random_range,
                plan.cases[8].random_range
            ),
            (9, Some((9, 60)), None)
        );
    }

    #[test]
    fn blocks_with_limit_start_where_all_their_blocks_are_final() {
        let args = args(&["--methods", "getBlocksWithLimit,getSlot"]);
        let of = |range, newest_final| {
            let nodes = nodes_as_arms(&args).unwrap();
            let mut notes = Vec::new();
            let plan =
                add_requests(&args, &CHAINS[0], nodes, range, newest_final, &mut notes).unwrap();
            (plan.cases[0].random_range, notes.len())
        };
        assert_eq!(of((9, 1000), 1000), (Some((9, 850)), 0));
        assert_eq!(of((9, 60), 1000), (Some((9, 60)), 0));
        assert_eq!(of((9, 2000), 159), (Some((9, 9)), 0));
        for (range, newest_final) in [((9, 60), 158), ((0, 60), 60), ((90, 2000), 60)] {
            assert_eq!(of(range, newest_final), (None, 1), "only getSlot is left");
        }
    }

    #[test]
    fn unsynchronized_nodes_and_unknown_methods_are_refused() {
        let plain = args(&[]);
        let nodes = nodes_as_arms(&plain).unwrap();
        let refused = check_in_sync(&plain, &CHAINS[0], &nodes.arms, &answers([100, 98, 89]))
            .unwrap_err()
            .to_string();
        assert!(
            refused.contains("two:2/... (2) is 11 slots behind"),
            "{refused}"
        );
        assert!(
            check_in_sync(
                &args(&["--max-lag", "11"]),
                &CHAINS[0],
                &nodes.arms,
                &answers([100, 98, 89])
            )
            .is_ok()
        );
        let too_few = &answers([100, 98, 95])[..11];
        assert!(
            check_in_sync(&plain, &CHAINS[0], &nodes.arms, too_few).is_err(),
            "a node without an answer"
        );
        let mut no_height = answers([100, 98, 95]);
        no_height[7] = json!("none");
        let refused = check_in_sync(&plain, &CHAINS[0], &nodes.arms, &no_height).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "http://two:2/...: the answer to getFirstAvailableBlock is not a slot number; check its address and --chain"
        );
        for bad in ["getBlok", "getSlot,getSlot"] {
            let refused = add_requests(
                &args(&["--methods", bad]),
                &CHAINS[0],
                nodes.clone(),
                (0, 1),
                1,
                &mut Vec::new(),
            )
            .unwrap_err();
            assert!(refused.is::<UsageError>(), "{bad}");
        }
    }

    #[test]
    fn evm_blocks_are_sampled_only_below_unfinalized_ones() {
        let args = args(&["--chain", "evm"]);
        let (chain, nodes) = (
            requested_chain(&args).unwrap(),
            nodes_as_arms(&args).unwrap(),
        );
        let mut answers: Vec<Value> = ["0x88", "0x87", "0x88"].map(Value::from).into();
        answers.extend(answers.clone());
        answers.extend(["Geth/v1", "Geth/v2", "Other"].map(Value::from));
        let (mut notes, range, _) = check_in_sync(&args, chain, &nodes.arms, &answers).unwrap();
        assert_eq!(range, (0, 0x87 - 64));
        assert!(
            notes[1].contains("version Geth/v2") && notes[1].contains("1 behind"),
            "{notes:?}"
        );
        let plan = add_requests(&args, chain, nodes, range, range.1, &mut notes).unwrap();
        let method = plan.call(&plan.cases[0], 0);
        assert!(
            method.contains(r#""eth_getBlockByNumber","params":["0x"#),
            "{method}"
        );
        let wrong = super::requested_chain(&super::tests::args(&["--chain", "sol"])).unwrap_err();
        assert!(wrong.is::<UsageError>(), "{wrong}");
    }
}
