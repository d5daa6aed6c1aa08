mod rpc;

use super::*;
use base64::{Engine, engine::general_purpose::STANDARD};
use faultline_cache_sim::{
    Trace, file,
    trace::{ChangeKind, Loader},
};
use faultline_metrics::{Batch, Stamp, Tick};
use faultline_recording::{
    NewProcess, NewRecording, NewSession, Point, ProgramCachePoint, ReplaySlotPoint, Writer,
};
use faultline_testkit::mock_node::{MockNode, Reply};
use serde_json::Value;
use std::{fs, path::Path};

const QUICK: RetryPolicy = RetryPolicy {
    max_tries: 2,
    first_wait: Duration::from_millis(1),
    answer_timeout: Duration::from_secs(60),
};
const V3: &str = "BPFLoaderUpgradeab1e11111111111111111111111";
const CLOCK: &str = crate::address::CLOCK;

fn key(fill: u8) -> String {
    crate::address::text(&[fill; 32])
}

/// A recording of a validator that expects the genesis hash `key(9)`, with datapoints of these
/// slots, each with two transactions.
fn recording(folder: &Path, slots: &[u64]) -> std::path::PathBuf {
    let path = folder.join("run.fltl");
    let at = Stamp {
        uptime: Duration::ZERO,
        unix: Duration::from_secs(1_800_000_000),
    };
    let session = NewSession {
        started: at,
        interval: Duration::from_secs(1),
        version: "0.1.0".to_owned(),
        manifest: json!({}),
    };
    let mut writer = Writer::create(
        &path,
        &NewRecording {
            labels: Vec::new(),
            session,
        },
    )
    .unwrap();
    let manifest = json!({"arguments": ["--expected-genesis-hash", key(9)]});
    writer
        .begin_process(&NewProcess {
            pid: 7,
            started_unix: None,
            seen: at,
            manifest,
        })
        .unwrap();
    writer
        .tick(&Tick {
            number: 1,
            at,
            batches: Vec::<std::sync::Arc<Batch>>::new(),
        })
        .unwrap();
    for slot in slots {
        let (slot, one) = (Some(*slot), Some(1));
        let cache = ProgramCachePoint {
            slot,
            misses: one,
            evictions: one,
            reloads: one,
            insertions: one,
            ..ProgramCachePoint::default()
        };
        let replay = ReplaySlotPoint {
            slot,
            total_transactions: Some(2),
            ..ReplaySlotPoint::default()
        };
        writer.point(&Point::ProgramCache(cache)).unwrap();
        writer.point(&Point::ReplaySlot(replay)).unwrap();
    }
    writer.finish(at).unwrap();
    path
}

fn transaction(keys: &[(&str, bool)], err: Value) -> Value {
    let payer = json!({"pubkey": key(200), "signer": true, "writable": true});
    let keys = keys
        .iter()
        .map(|(key, writable)| json!({"pubkey": key, "signer": false, "writable": writable}));
    let keys: Vec<Value> = std::iter::once(payer).chain(keys).collect();
    json!({"meta": {"err": err}, "transaction": {"accountKeys": keys, "signatures": ["x"]}})
}

fn block(parent: u64, transactions: &[Value]) -> Reply {
    Reply::result(json!({"parentSlot": parent, "blockhash": "x", "transactions": transactions}))
}

/// Key 1 is an upgradeable program whose code is in 11. Key 2 is a program of an older loader, and
/// 3 is no program. Key 4 does not exist. Key 5 is a closed program, and its code in 15 does not
/// exist.
fn account(name: &str) -> Value {
    let account = |owner: &str, executable: bool, space: u64, data: &[u8]| {
        json!({"owner": owner, "executable": executable, "space": space, "data": [STANDARD.encode(data), "base64"],
            "lamports": 1, "rentEpoch": 0})
    };
    match (0..=255).find(|fill| key(*fill) == name) {
        Some(1) => account(V3, true, 36, &[11; 32]),
        Some(2) => account(
            "BPFLoader2111111111111111111111111111111111",
            true,
            700,
            &[0; 32],
        ),
        Some(5) => account(V3, true, 36, &[15; 32]),
        Some(11) => account(V3, false, 1_045, &[0; 32]),
        Some(4 | 15) => Value::Null,
        _ => account("11111111111111111111111111111111", false, 0, &[]),
    }
}

fn node(mut blocks: impl FnMut(u64) -> Reply + Send + 'static) -> MockNode {
    MockNode::of_methods(move |method, params| match method {
        "getGenesisHash" => Reply::result(json!(key(9))),
        "getSlot" => Reply::result(json!(1_000)),
        "getBlocks" => Reply::result(json!([98, 99])),
        "getMultipleAccounts" => {
            let names = params[0].as_array().unwrap();
            let accounts: Vec<Value> = names
                .iter()
                .map(|name| account(name.as_str().unwrap()))
                .collect();
            Reply::result(json!({"context": {"slot": 1}, "value": accounts}))
        }
        "getBlock" => blocks(params[0].as_u64().unwrap()),
        other => panic!("{other}"),
    })
    .unwrap()
}

fn fetch_args(run: &Path, node: &MockNode, before: u64) -> FetchArgs {
    FetchArgs {
        run: run.to_owned(),
        rpc: Some(node.url()),
        validator_trace: None,
        out: None,
        ca: None,
        requests: 2,
        before: Some(before),
    }
}

fn ask(run: &Path, node: &MockNode, before: u64) -> anyhow::Result<String> {
    fetch(&fetch_args(run, node, before), QUICK).map(|(output, _)| output)
}

fn read(run: &Path) -> Trace {
    file::read(fs::read(run.with_extension("trace")).unwrap().as_slice()).unwrap()
}

fn plain(slot: u64) -> Reply {
    let vote = transaction(&[(&key(3), false)], Value::Null);
    block(
        slot - 1,
        &[
            transaction(
                &[(&key(1), false), (&key(2), false), (&key(4), false)],
                Value::Null,
            ),
            vote,
        ],
    )
}

#[test]
fn programs_of_each_transaction_are_kept_in_block_order() {
    let folder = tempfile::tempdir().unwrap();
    let run = recording(folder.path(), &[100, 101, 102]);
    let node = node(upgrade_and_close);
    let output = ask(&run, &node, 0).unwrap();
    assert!(
        output.contains("covers 100.00 % of the recorded transactions; 0 recorded slots missing"),
        "{output}"
    );
    assert!(output.contains("1 account of unknown kind"), "{output}");
    let trace = read(&run);
    assert_eq!(trace.meta().cluster, key(9));
    let programs: Vec<_> = trace
        .programs()
        .iter()
        .map(|p| (p.address.unwrap()[0], p.loader, p.bytes, p.has_code))
        .collect();
    let v3 = Some(Loader::V3);
    assert_eq!(
        programs,
        [
            (1, v3, Some(1_000), true),
            (2, Some(Loader::V2), Some(700), true),
            (5, v3, None, false)
        ]
    );
    let calls = |at: usize| {
        trace
            .transactions_of(at)
            .iter()
            .map(|call| {
                (
                    trace.programs_of_set(call.set_number()),
                    call.is_fees_only(),
                )
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(calls(0), [([0, 1].as_slice(), false)]);
    assert_eq!(calls(1), [([1].as_slice(), true), ([0].as_slice(), false)]);
    assert_eq!(calls(2), [([2].as_slice(), false)]);
    let changes: Vec<_> = trace
        .changes()
        .iter()
        .map(|c| (c.slot_index, c.position, c.program, c.kind))
        .collect();
    assert_eq!(
        changes,
        [
            (1, 2, 0, ChangeKind::Deployed),
            (2, 1, 2, ChangeKind::Closed)
        ]
    );
    let numbers: Vec<_> = trace
        .slots()
        .iter()
        .map(|slot| (slot.slot, slot.parent, slot.transactions))
        .collect();
    assert_eq!(numbers, [(100, 99, 2), (101, 100, 2), (102, 101, 2)]);
}

fn upgrade_and_close(slot: u64) -> Reply {
    match slot {
        100 => plain(slot),
        101 => {
            let upgrade = transaction(&[(&key(1), true), (V3, false), (CLOCK, false)], Value::Null);
            block(
                100,
                &[
                    transaction(&[(&key(2), false)], json!("ProgramAccountNotFound")),
                    upgrade,
                ],
            )
        }
        _ => {
            let close = transaction(&[(&key(5), true), (V3, false)], Value::Null);
            block(101, &[transaction(&[(&key(3), false)], Value::Null), close])
        }
    }
}

#[test]
fn fetch_looks_up_buffers_but_not_code_of_a_first_deployment() {
    let folder = tempfile::tempdir().unwrap();
    let run = recording(folder.path(), &[100, 101]);
    let node = node(deployment);
    let output = ask(&run, &node, 0).unwrap();
    assert!(!output.contains("of unknown kind"), "{output}");
    let trace = read(&run);
    let named = |programs: &[u32]| {
        let mut named: Vec<u8> = programs
            .iter()
            .map(|p| trace.programs()[*p as usize].address.unwrap()[0])
            .collect();
        named.sort_unstable();
        named
    };
    let calls = |at: usize| {
        trace
            .transactions_of(at)
            .iter()
            .map(|call| named(trace.programs_of_set(call.set_number())))
            .collect::<Vec<_>>()
    };
    assert_eq!((calls(0), calls(1)), (vec![vec![4]], vec![vec![1, 11, 15]]));
    assert!(
        trace
            .programs()
            .iter()
            .all(|program| program.has_code == (program.address.unwrap()[0] == 1))
    );
    let changes: Vec<_> = trace
        .changes()
        .iter()
        .map(|c| (c.slot_index, named(&[c.program]), c.kind))
        .collect();
    assert_eq!(
        changes,
        [
            (0, vec![1], ChangeKind::Deployed),
            (1, vec![1], ChangeKind::Deployed)
        ]
    );
}

fn deployment(slot: u64) -> Reply {
    let vote = transaction(&[(&key(3), false)], Value::Null);
    let (program, data, buffer) = (
        (key(1), true),
        (key(11), true),
        (key(if slot == 100 { 4 } else { 15 }), true),
    );
    let keys = [
        program,
        data,
        buffer,
        (V3.to_owned(), false),
        (CLOCK.to_owned(), false),
    ];
    let keys: Vec<(&str, bool)> = keys
        .iter()
        .map(|(key, writable)| (key.as_str(), *writable))
        .collect();
    let mut change = transaction(&keys, Value::Null);
    // The account of a new program signs for its creation.
    change["transaction"]["accountKeys"][1]["signer"] = json!(slot == 100);
    block(slot - 1, &[change, vote])
}

#[test]
fn an_interrupted_fetch_resumes_without_repeating_requests() {
    let folder = tempfile::tempdir().unwrap();
    let run = recording(folder.path(), &[100, 101, 102, 1_001]);
    let broken = node(|slot| {
        if slot < 102 {
            plain(slot)
        } else {
            Reply::status(500, &[], "")
        }
    });
    let error = format!("{:#}", ask(&run, &broken, 0).unwrap_err());
    assert!(
        error.contains("slot 102: run the same command again") && error.contains("500"),
        "{error}"
    );
    // As if the command was killed within a record.
    let path = run.with_extension("trace");
    let mut bytes = fs::read(&path).unwrap();
    bytes.extend([4, 90, 1]);
    fs::write(&path, bytes).unwrap();
    let whole = node(plain);
    let output = ask(&run, &whole, 0).unwrap();
    assert!(
        output.contains("75.00 %") && output.contains("1 slot not finalized yet"),
        "{output}"
    );
    assert!(output.contains("not enough to predict from"), "{output}");
    let requested: Vec<_> = whole
        .requests()
        .into_iter()
        .filter(|(method, _)| method == "getBlock")
        .collect();
    assert_eq!(requested.len(), 1, "{requested:?}");
    let trace = read(&run);
    assert_eq!(
        (
            trace.slots().len(),
            trace.programs().len(),
            trace.set_count()
        ),
        (3, 2, 1)
    );
}

#[test]
fn a_resumed_fetch_writes_the_trace_of_an_uninterrupted_one() {
    let close = |slot| match slot {
        100 => block(99, &[transaction(&[(&key(5), false)], Value::Null)]),
        _ => upgrade_and_close(102),
    };
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let [whole, resumed] = folders
        .each_ref()
        .map(|folder| recording(folder.path(), &[100, 102]));
    ask(&whole, &node(close), 0).unwrap();
    let broken = node(move |slot| match slot {
        100 => close(slot),
        _ => Reply::status(500, &[], ""),
    });
    let args = FetchArgs {
        requests: 1,
        ..fetch_args(&resumed, &broken, 0)
    };
    fetch(&args, QUICK).map(|_| ()).unwrap_err();
    assert_eq!(read(&resumed).slots().len(), 1);
    ask(&resumed, &node(close), 0).unwrap();
    assert_eq!(read(&resumed).changes()[0].kind, ChangeKind::Closed);
    assert_eq!(read(&resumed), read(&whole));
}

#[test]
fn skipped_and_unavailable_slots_are_missing_and_earlier_blocks_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let run = recording(folder.path(), &[100, 101, 102]);
    let node = node(|slot| match slot {
        101 => Reply::error(
            -32007,
            "Slot 101 was skipped, or missing due to ledger jump to recent snapshot",
        ),
        102 => Reply::error(-32004, "Block not available for slot 102"),
        slot => plain(slot),
    });
    let output = ask(&run, &node, 2).unwrap();
    assert!(
        output.contains("2 recorded slots missing") && output.contains("33.33 %"),
        "{output}"
    );
    assert!(
        output.contains("1 slot skipped") && output.contains("1 slot not available"),
        "{output}"
    );
    assert_eq!(
        read(&run)
            .slots()
            .iter()
            .map(|slot| slot.slot)
            .collect::<Vec<_>>(),
        [98, 99, 100]
    );
}

#[test]
fn earlier_slots_that_an_existing_trace_cannot_get_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let run = recording(folder.path(), &[100, 101]);
    let node = node(plain);
    let output = ask(&run, &node, 0).unwrap();
    assert!(!output.contains("before the first slot"), "{output}");
    let output = ask(&run, &node, 2).unwrap();
    assert!(
        output.contains("2 slots left out before the first slot of the trace"),
        "{output}"
    );
    assert_eq!(read(&run).slots().len(), 2);
}

#[test]
fn a_recording_from_slot_0_has_no_earlier_slots() {
    let folder = tempfile::tempdir().unwrap();
    let run = recording(folder.path(), &[0, 1]);
    let node = MockNode::of_methods(|method, params| match method {
        "getGenesisHash" => Reply::result(json!(key(9))),
        "getSlot" => Reply::result(json!(1_000)),
        "getBlocks" => Reply::result(json!([0])),
        "getBlock" => block(params[0].as_u64().unwrap().saturating_sub(1), &[]),
        other => panic!("{other}"),
    })
    .unwrap();
    ask(&run, &node, 5).unwrap();
    assert_eq!(read(&run).slots().len(), 2);
}

#[test]
fn a_node_with_another_genesis_hash_is_refused_before_any_block_is_requested() {
    let folder = tempfile::tempdir().unwrap();
    let run = recording(folder.path(), &[100]);
    let other = MockNode::of_methods(|method, _| match method {
        "getGenesisHash" => Reply::result(json!(key(8))),
        "getSlot" => Reply::result(json!(1_000)),
        _ => plain(100),
    })
    .unwrap();
    let error = format!("{:#}", ask(&run, &other, 0).unwrap_err());
    assert!(
        error.contains(&format!(
            "genesis hash {}, and the recorded validator expected {}",
            key(8),
            key(9)
        )),
        "{error}"
    );
    assert!(!run.with_extension("trace").exists());
}

#[test]
fn another_cluster_and_foreign_files_are_refused_and_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let slots: Vec<u64> = (100..130).collect();
    let run = recording(folder.path(), &slots);
    let other = node(|slot| block(slot - 1, &[]));
    let error = format!("{:#}", ask(&run, &other, 0).unwrap_err());
    assert!(
        error.contains("0 transactions at this node and 2 in the recording"),
        "{error}"
    );
    let path = run.with_extension("trace");
    for (garbage, what) in [
        (&b"not a trace"[..], "it is not a trace file"),
        (b"", "damaged at byte"),
        (b"SQLite format 3\0", "it is not a trace file"),
    ] {
        fs::write(&path, garbage).unwrap();
        let error = format!("{:#}", ask(&run, &other, 0).unwrap_err());
        assert!(
            error.contains("run.trace") && error.contains(what),
            "{error}"
        );
        assert_eq!(fs::read(&path).unwrap(), garbage);
    }
    fs::remove_file(&path).unwrap();
    let meta = Meta {
        source: Source::Blocks,
        cluster: key(8),
        version: String::new(),
    };
    drop(TraceFile::open(&path, meta).unwrap());
    let error = format!("{:#}", ask(&run, &other, 0).unwrap_err());
    assert!(
        error.contains("another cluster") || error.contains("genesis hash"),
        "{error}"
    );
}

#[test]
fn inconsistent_responses_end_the_fetch_naming_the_slot() {
    let folder = tempfile::tempdir().unwrap();
    let run = recording(folder.path(), &[100]);
    let refused = |node: MockNode| format!("{:#}", ask(&run, &node, 0).unwrap_err());
    let output = refused(node(|_| block(100, &[])));
    assert!(output.contains("slot 100 has the parent 100"), "{output}");
    let output = refused(node(|_| {
        block(99, &[transaction(&[("0OIl", false)], Value::Null)])
    }));
    assert!(
        output.contains("slot 100") && output.contains("no public key"),
        "{output}"
    );
    let few = MockNode::of_methods(|method, _| match method {
        "getGenesisHash" => Reply::result(json!(key(9))),
        "getSlot" => Reply::result(json!(1_000)),
        "getBlock" => plain(100),
        _ => Reply::result(json!({"value": [null]})),
    })
    .unwrap();
    let output = refused(few);
    assert!(
        output.contains("1 accounts in the answer, and 4 were requested"),
        "{output}"
    );
}

#[test]
fn a_recording_without_cache_data_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let run = recording(folder.path(), &[]);
    let output = format!("{:#}", ask(&run, &node(plain), 0).unwrap_err());
    assert!(
        output.contains("loaded-programs-cache-stats") && output.contains("SOLANA_METRICS_CONFIG"),
        "{output}"
    );
}

/// Unmounted when dropped.
struct SmallDisk(std::path::PathBuf);

impl SmallDisk {
    /// `None` if this user cannot mount it.
    #[expect(clippy::disallowed_methods, reason = "a test mounts a disk of its own")]
    fn mount(at: std::path::PathBuf) -> Option<Self> {
        fs::create_dir(&at).unwrap();
        let mut mount = std::process::Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"])
            .arg(&at)
            .stderr(std::process::Stdio::null());
        if mount.status().is_ok_and(|status| status.success()) {
            return Some(Self(at));
        }
        println!("SKIPPED: a tmpfs cannot be mounted here; root may");
        None
    }

    fn fill(&self) {
        assert!(
            fs::write(self.0.join("filler"), vec![1; 128 << 10]).is_err(),
            "the disk was not filled"
        );
    }

    fn free(&self) {
        fs::remove_file(self.0.join("filler")).unwrap();
    }
}

impl Drop for SmallDisk {
    #[expect(clippy::disallowed_methods, reason = "a test unmounts its own disk")]
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount")
            .arg("-l")
            .arg(&self.0)
            .status();
    }
}

#[test]
fn a_full_disk_ends_the_fetch_and_a_rerun_resumes() {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(folder.path().join("small")) else {
        return;
    };
    let run = recording(folder.path(), &[100, 101, 102]);
    let out = disk.0.join("run.trace");

    let node = node(long_block);
    let ask = || {
        let args = FetchArgs {
            run: run.clone(),
            rpc: Some(node.url()),
            validator_trace: None,
            out: Some(out.clone()),
            ca: None,
            requests: 1,
            before: Some(0),
        };
        fetch(&args, QUICK).map(|(output, _)| output)
    };

    // There is no space for the header of the file.
    disk.fill();
    assert_no_space(format!("{:#}", ask().unwrap_err()));
    disk.free();
    // There is space for the first block and a part of the second.
    fs::write(disk.0.join("filler"), vec![1; 48 << 10]).unwrap();
    assert_no_space(format!("{:#}", ask().unwrap_err()));
    let saved = file::read_whole_records(fs::read(&out).unwrap().as_slice())
        .unwrap()
        .trace;
    assert_eq!(
        saved
            .slots()
            .iter()
            .map(|slot| slot.slot)
            .collect::<Vec<_>>(),
        [100]
    );
    disk.free();
    let requested = node.requests().len();
    let output = ask().unwrap();
    assert!(output.contains("100.00 %"), "{output}");
    let again: Vec<_> = node
        .requests()
        .into_iter()
        .skip(requested)
        .filter(|(method, _)| method == "getBlock")
        .collect();
    assert_eq!(again.len(), 2, "{again:?}");
    let trace = file::read(fs::read(&out).unwrap().as_slice()).unwrap();
    assert_eq!(
        (
            trace.slots().len(),
            trace.call_count(),
            trace.programs().len()
        ),
        (3, 27_000, 2)
    );
}

fn assert_no_space(output: String) {
    assert!(
        output.contains(
            "run.trace: there is no space left: free space, and run the same command again"
        ),
        "{output}"
    );
    assert!(output.contains("No space left on device"), "{output}");
}

/// A block that needs several pages on the disk.
fn long_block(slot: u64) -> Reply {
    let one = |at: u64| {
        transaction(
            &[(&key(if at.is_multiple_of(3) { 1 } else { 2 }), false)],
            Value::Null,
        )
    };
    block(slot - 1, &(0..9_000).map(one).collect::<Vec<_>>())
}
