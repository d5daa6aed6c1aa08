//! What a real follower itself wrote of its program cache, against what the leader's blocks say of the same slots, and against
//! what the follower counted and the simulation says.
//!
//! Both traces, the recording and what was said of them are kept in `target/cache-witness`.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot prepare its scene fails"
)]

#[path = "real_cache/run.rs"]
mod run;

use faultline_cache_sim::{Trace, file};
use faultline_recording::Recording;
use faultline_testkit::{
    Result,
    binaries::{Binaries, SKIP_MESSAGE, UNTRACED_MESSAGE, traced_validator},
    cluster::ClusterOptions,
    load::Calls,
};
use run::{cache, record, results, self_test};
use serde_json::Value;
use std::{collections::BTreeMap, fs, path::Path, process::Command};

/// The cache has less room than the load's 640 programs need.
const ENTRIES: u32 = 512;
/// Three minutes.
const CALLS: u64 = 54_000;
/// Slots that both traces must have.
const COMPARED: usize = 300;

/// A command that must go well; what it says.
fn said(words: &[&str]) -> String {
    let (code, said) = cache(words);
    assert_eq!(code, Some(0), "{words:?}: {said}");
    said
}

/// What each slot looked up: the programs of each transaction, by address, in no order, since threads have none.
fn lookups(trace: &Trace) -> BTreeMap<u64, Vec<Vec<[u8; 32]>>> {
    let address = |program: &u32| {
        trace.programs()[*program as usize]
            .address
            .expect("an address")
    };
    let programs = |set: u32| {
        let mut programs: Vec<_> = trace.programs_of_set(set).iter().map(address).collect();
        programs.sort_unstable();
        programs
    };
    let of = |at: usize| {
        let mut calls: Vec<_> = trace
            .transactions_of(at)
            .iter()
            .map(|call| programs(call.set_number()))
            .collect();
        calls.sort_unstable();
        calls
    };
    trace
        .slots()
        .iter()
        .enumerate()
        .map(|(at, slot)| (slot.slot, of(at)))
        .collect()
}

/// In at least so many slots that both have.
fn are_equal(own: &Trace, blocks: &Trace, least: usize) {
    let (by_own, by_blocks) = (lookups(own), lookups(blocks));
    // The last slot may not be written to its end.
    let last = by_own.keys().next_back().copied().expect("a slot");
    let both: Vec<u64> = by_blocks
        .keys()
        .copied()
        .filter(|slot| *slot < last && by_own.contains_key(slot))
        .collect();
    let apart: Vec<u64> = both
        .iter()
        .copied()
        .filter(|slot| by_own[slot] != by_blocks[slot])
        .collect();
    let calls: usize = both.iter().map(|slot| by_own[slot].len()).sum();
    println!(
        "{} slots with {calls} lookups in both traces, {} of them differ",
        both.len(),
        apart.len()
    );
    assert!(
        both.len() >= least && apart.is_empty(),
        "{} slots, {apart:?}",
        both.len()
    );
}

fn read(path: &Path) -> Trace {
    file::read(fs::read(path).expect("a trace").as_slice()).expect("a trace")
}

/// Loads that the follower wrote, and those that it counted, in the slots that it counted. Both by slot.
fn loads(trace: &Trace, run: &Path) -> (BTreeMap<u64, u64>, BTreeMap<u64, u64>) {
    let recording = Recording::open(run).expect("a recording");
    let (mut written, mut counted) = (BTreeMap::new(), BTreeMap::new());
    for point in recording
        .program_cache_points()
        .expect("points of the cache")
    {
        if let (Some(slot), Some(new), Some(again)) = (point.slot, point.insertions, point.reloads)
        {
            *counted.entry(slot).or_default() += new + again;
        }
    }
    let places: Vec<u64> = trace.slots().iter().map(|slot| slot.slot).collect();
    counted.retain(|slot, _| places.binary_search(slot).is_ok());
    written.extend(counted.keys().map(|slot| (*slot, 0)));
    for load in trace.measured_loads() {
        written.entry(load.slot).and_modify(|loads| *loads += 1);
    }
    (written, counted)
}

#[test]
#[ignore = "has three minutes of load and needs a validator of its own: .ci/run --long, or cargo test --workspace --test cache_witness -- --ignored"]
fn a_validators_own_trace_matches_its_blocks() -> Result<()> {
    let Some(traced) = traced_validator() else {
        eprintln!("{UNTRACED_MESSAGE}");
        return Ok(());
    };
    if Binaries::find().is_none() {
        eprintln!("{SKIP_MESSAGE}");
        return Ok(());
    }
    let folder = results("cache-witness");
    let [run, written, own, blocks] = ["run.fltl", "cache.txt", "own.trace", "run.trace"]
        .map(|name| folder.join(name).display().to_string());
    let options = ClusterOptions {
        cache_entries: Some(ENTRIES),
        follower_environment: vec![("AGAVE_PROGRAM_CACHE_TRACE".to_owned(), written.clone())],
        follower_program: Some(traced),
        ..ClusterOptions::default()
    };
    record(
        (&folder, "run"),
        options,
        Calls {
            max_transactions: CALLS,
            ..Calls::default()
        },
        |_, _| Ok(()),
    )?;
    println!(
        "{}",
        said(&["fetch", &run, "--validator-trace", &written, "--out", &own])
    );
    let [own_trace, blocks_trace] = [&own, &blocks].map(|path| read(path.as_ref()));

    are_equal(&own_trace, &blocks_trace, COMPARED);
    let (written, counted) = loads(&own_trace, run.as_ref());
    let differing = written
        .iter()
        .filter(|(slot, loads)| counted.get(slot) != Some(loads))
        .count();
    let [written, counted] = [&written, &counted].map(|loads| loads.values().sum::<u64>());
    println!("{written} loads written, {counted} counted; {differing} slots differ");
    assert!(
        written.abs_diff(counted) * 1_000 <= counted,
        "{written} and {counted}"
    );

    for trace in [&own, &blocks] {
        let said: Value =
            serde_json::from_str(&said(&["predict", &run, "--trace", trace, "--json"]))
                .expect("JSON");
        let sum =
            |what: &str| self_test(&said, "insertions", what) + self_test(&said, "reloads", what);
        let (recorded, predicted) = (sum("recorded"), sum("predicted"));
        println!("{trace}: {recorded} loads, {predicted:.0} predicted");
        assert!(
            (predicted / recorded - 1.0).abs() < 0.01,
            "{recorded} and {predicted}"
        );
    }
    Ok(())
}

/// 40 s, and slots that both must have.
const REPLAYED_CALLS: u64 = 12_000;
const REPLAYED: usize = 80;

#[test]
#[ignore = "needs a ledger tool of its own: .ci/run --long, or cargo test --workspace --test cache_witness -- --ignored"]
#[expect(clippy::disallowed_methods, reason = "a test starts programs itself")]
fn a_ledger_replays_lookups_match_its_blocks() -> Result<()> {
    let Some(tool) = traced_validator().map(|traced| traced.with_file_name("agave-ledger-tool"))
    else {
        eprintln!("{UNTRACED_MESSAGE}");
        return Ok(());
    };
    if Binaries::find().is_none() || !tool.is_file() {
        eprintln!("{SKIP_MESSAGE}, or no {}", tool.display());
        return Ok(());
    }
    let folder = results("cache-replay");
    let [run, written, own, blocks, nodes] =
        ["run.fltl", "cache.txt", "own.trace", "run.trace", "nodes"]
            .map(|name| folder.join(name).display().to_string());
    fs::create_dir(&nodes).expect("a folder for the nodes");
    let options = ClusterOptions {
        folder: Some(nodes.clone().into()),
        ..ClusterOptions::default()
    };
    record(
        (&folder, "run"),
        options,
        Calls {
            max_transactions: REPLAYED_CALLS,
            ..Calls::default()
        },
        |_, _| Ok(()),
    )?;
    // The nodes have ended. From the first snapshot on, not from the follower's own.
    let (none, ledger) = (
        folder.join("none").display().to_string(),
        format!("{nodes}/follower"),
    );
    fs::create_dir(&none).expect("an empty folder");
    let mut replay = Command::new(&tool);
    replay.args([
        "verify",
        "--ignore-ulimit-nofile-error",
        "--ledger",
        &ledger,
    ]);
    replay
        .args(["--incremental-snapshot-archive-path", &none])
        .env("AGAVE_PROGRAM_CACHE_TRACE", &written);
    let output = replay.output().expect("the tool can be run");
    fs::write(
        folder.join("replay.log"),
        [&output.stdout[..], &output.stderr[..]].concat(),
    )
    .expect("a file");
    assert!(
        output.status.success(),
        "{}, {}",
        output.status,
        folder.join("replay.log").display()
    );
    println!(
        "{}",
        said(&["fetch", &run, "--validator-trace", &written, "--out", &own])
    );
    are_equal(&read(own.as_ref()), &read(blocks.as_ref()), REPLAYED);
    Ok(())
}
