//! The simulated validator behaves as its settings say: checked from outside, by its pushes and by the kernel.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot prepare its scene fails"
)]

use faultline_testkit::{
    Result,
    eventually::{eventually, eventually_ok},
    http,
    ports::PortBlock,
    proc::{is_alive, stat_field, status_bytes, thread_names},
    process::{Program, Running, describe, signal},
    rpc::Rpc,
    simulated::{CACHE_VARIABLE, TRUTH_VARIABLE},
    sink::Sink,
};
use serde_json::json;
use std::{
    collections::BTreeMap,
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    time::Duration,
};
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_faultline-simulated-validator");
const TIMEOUT: Duration = Duration::from_secs(60);

struct Simulated {
    running: Running,
    folder: TempDir,
}

impl Simulated {
    fn start(truth: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Result<Self> {
        Self::start_by(None, truth, arguments, environment)
    }

    /// In a cgroup, if one is given.
    fn start_by(
        group: Option<&Group>,
        truth: &str,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Result<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let ledger = folder.path().join("ledger").display().to_string();
        let script = match group {
            Some(Group(group)) => format!(
                "echo $$ > {}/cgroup.procs && exec \"$0\" \"$@\"",
                group.display()
            ),
            None => "exec \"$0\" \"$@\"".to_owned(),
        };
        let first = ["-c", &script, PROGRAM, "--ledger", &ledger];
        let all = first.iter().chain(arguments).map(ToString::to_string);
        let mut variables = vec![(TRUTH_VARIABLE.to_owned(), Some(truth.to_owned()))];
        variables.extend(
            environment
                .iter()
                .map(|(name, value)| ((*name).to_owned(), Some((*value).to_owned()))),
        );
        let program = Program {
            path: "/bin/sh".into(),
            arguments: all.collect(),
            environment: variables,
            output: folder.path().join("output"),
        };
        Ok(Self {
            running: Running::start(&program)?,
            folder,
        })
    }

    fn ledger(&self) -> PathBuf {
        self.folder.path().join("ledger")
    }

    fn pid(&self) -> u32 {
        self.running.pid()
    }

    fn end(&mut self) -> String {
        eventually(TIMEOUT, "it ends", || {
            self.running.exit_status().expect("a status").map(describe)
        })
    }
}

/// A memory cgroup of version 1 with a limit; removed at the end, when it has no processes.
struct Group(PathBuf);

impl Group {
    /// `None`, with a message, if none can be created.
    fn limited_to(mib: u64) -> Option<Self> {
        let path = Path::new("/sys/fs/cgroup/memory")
            .join(format!("faultline_simulated_{}_{mib}", std::process::id()));
        let made = fs::create_dir(&path).map(|()| Self(path.clone()));
        let limited = made.and_then(|group| {
            fs::write(path.join("memory.limit_in_bytes"), (mib << 20).to_string()).map(|()| group)
        });
        limited
            .inspect_err(|error| eprintln!("SKIPPED: {}: {error}", path.display()))
            .ok()
    }

    fn oom_kills(&self) -> Option<u64> {
        let text = fs::read_to_string(self.0.join("memory.oom_control")).ok()?;
        text.lines()
            .find_map(|line| line.strip_prefix("oom_kill ")?.parse().ok())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let removed = (0..200).any(|_| {
            let removed = fs::remove_dir(&self.0).is_ok();
            if !removed {
                std::thread::sleep(Duration::from_millis(10));
            }
            removed
        });
        if !removed {
            eprintln!("{} stays behind", self.0.display());
        }
    }
}

/// A field of the lines with this name, by slot.
fn by_slot(sink: &Sink, name: &str, field: &str) -> BTreeMap<u64, u64> {
    let text = sink.bodies().concat();
    let text = String::from_utf8_lossy(&text);
    let value = |line: &str, key: &str| {
        let fields = line.split(' ').nth(1)?;
        let found = fields
            .split(',')
            .find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='))?;
        found.strip_suffix('i')?.parse::<u64>().ok()
    };
    let lines = text
        .lines()
        .filter(|line| line.starts_with(&format!("{name},")));
    lines
        .filter_map(|line| Some((value(line, "slot")?, value(line, field)?)))
        .collect()
}

fn config(sink: &Sink) -> String {
    format!("host={},db=d,u=u,p=p", sink.url())
}

#[test]
fn simulated_cache_misses_follow_size_and_slot_in_all_instances() -> Result<()> {
    let truth = "first_calls_per_slot=640,push_ms=100,start_ms=0";
    let sinks = [Sink::start()?, Sink::start()?, Sink::start()?];
    let start = |sink: &Sink, entries: &str| {
        Simulated::start(
            truth,
            &[],
            &[
                ("SOLANA_METRICS_CONFIG", &config(sink)),
                (CACHE_VARIABLE, entries),
            ],
        )
    };
    let _all = [
        start(&sinks[0], "512")?,
        start(&sinks[1], "512")?,
        start(&sinks[2], "1024")?,
    ];
    let misses = |sink: &Sink| by_slot(sink, "loaded-programs-cache-stats", "misses");
    let [one, two, large] = eventually_ok(TIMEOUT, "fifty common slots", || {
        let all = [misses(&sinks[0]), misses(&sinks[1]), misses(&sinks[2])];
        if common_slots(all.each_ref()).count() >= 50 {
            Ok(all)
        } else {
            Err(all.map(|all| all.len()))
        }
    });
    let window = common_slots([&one, &two, &large]);
    // 180 of 640 programs do not fit into nine tenths of 512, and there are 16 calls in each slot: 4.5 misses.
    let until = |slot: u64| slot * 9 / 2;
    for slot in window.clone() {
        assert_eq!(
            one.get(&slot),
            Some(&(until(slot) - until(slot - 1))),
            "{slot}"
        );
        assert_eq!(
            (one.get(&slot), large.get(&slot)),
            (two.get(&slot), Some(&0)),
            "{slot}"
        );
    }
    let contents = |sink: &Sink| {
        let all = by_slot(sink, "replay-slot-stats", "total_transactions");
        let slots = window.clone();
        slots
            .filter_map(|slot| all.get(&slot).copied())
            .collect::<Vec<_>>()
    };
    assert_eq!(contents(&sinks[0]), contents(&sinks[2]));
    assert_eq!(one.values().next(), Some(&640));
    Ok(())
}

fn common_slots(of: [&BTreeMap<u64, u64>; 3]) -> std::ops::RangeInclusive<u64> {
    // The first slot of each instance has the first calls.
    let firsts = of.iter().filter_map(|all| all.keys().next().copied());
    let lasts = of.iter().filter_map(|all| all.keys().last().copied());
    firsts.max().unwrap_or_default() + 1..=lasts.min().unwrap_or_default()
}

#[test]
fn the_simulated_validator_behaves_like_a_real_validator() -> Result<()> {
    let ports = PortBlock::claim(27_000)?;
    let rpc = Rpc::new(SocketAddr::from((Ipv4Addr::LOCALHOST, ports.port(1))));
    let port = ports.port(1).to_string();
    let simulated = Simulated::start(
        "behind_at_start=60,catch_up_percent=100",
        &["--rpc-port", &port],
        &[],
    )?;
    eventually(TIMEOUT, "JSON-RPC opens", || {
        rpc.call("getHealth", json!([])).ok()
    });
    let number = |method: &str, params| {
        rpc.call(method, params)
            .map(|value| value.as_u64().unwrap_or_default())
    };
    let processed = number("getSlot", json!([{"commitment": "processed"}]))?;
    let tip = number("getMaxShredInsertSlot", json!([]))?;
    assert!(
        (55..=70).contains(&(tip - processed)),
        "{processed} of {tip}"
    );
    let first = number("getTransactionCount", json!([]))?;
    eventually(TIMEOUT, "transactions", || {
        number("getTransactionCount", json!([]))
            .ok()
            .filter(|now| *now > first)
    });
    assert_eq!(rpc.call("getVersion", json!([]))?["solana-core"], "2.1.14");
    assert!(
        thread_names(simulated.pid())?
            .iter()
            .any(|name| name == "solReplayStage")
    );
    let comm = fs::read_to_string(format!("/proc/{}/comm", simulated.pid())).unwrap_or_default();
    assert_eq!(comm, "agave-validator\n");
    let mut second = Simulated::start(
        "",
        &["--ledger", &simulated.ledger().display().to_string()],
        &[],
    )?;
    assert_eq!(second.end(), "exit code 1", "the ledger is locked");
    assert!(
        http::get(&rpc.address().to_string(), "/").is_ok(),
        "what is no request is answered"
    );
    Ok(())
}

#[test]
fn the_simulated_validator_exits_with_the_configured_code_or_signal() -> Result<()> {
    let mut exits = Simulated::start("start_ms=0,exits_after_ms=100,exit_code=7", &[], &[])?;
    assert_eq!(exits.end(), "exit code 7");
    let mut polite = Simulated::start("", &[], &[])?;
    eventually(TIMEOUT, "it has begun", || {
        polite.ledger().join("admin.rpc").exists().then_some(())
    });
    signal(polite.pid(), "TERM")?;
    assert_eq!(polite.end(), "signal 15");
    Ok(())
}

#[test]
fn a_simulated_validator_that_ignores_sigterm_is_killed_without_its_child() -> Result<()> {
    let sink = Sink::start()?;
    let simulated = Simulated::start(
        "ignores_term=true,forks=true,start_ms=0,push_ms=50",
        &[],
        &[("SOLANA_METRICS_CONFIG", &config(&sink))],
    )?;
    let child = eventually(TIMEOUT, "a child", || {
        fs::read_to_string(simulated.ledger().join("child.pid"))
            .ok()?
            .parse::<u32>()
            .ok()
    });
    eventually(TIMEOUT, "a push", || (sink.count() > 0).then_some(()));
    signal(simulated.pid(), "TERM")?;
    let pushed = sink.count();
    eventually(TIMEOUT, "pushes go on", || {
        (sink.count() > pushed + 3).then_some(())
    });
    assert!(is_alive(child));
    drop(simulated);
    assert!(is_alive(child), "nobody has ended it");
    signal(child, "KILL")
}

#[test]
fn non_executing_and_hanging_simulated_validators_push_no_slots() -> Result<()> {
    let (never, hangs) = (Sink::start()?, Sink::start()?);
    let start = |truth: &str, sink: &Sink| {
        Simulated::start(truth, &[], &[("SOLANA_METRICS_CONFIG", &config(sink))])
    };
    let _both = [
        start("push_ms=50,start_ms=0,executes=false", &never)?,
        start("push_ms=50,start_ms=0,hangs_after_ms=400", &hangs)?,
    ];
    eventually(TIMEOUT, "pushes", || {
        (never.count() > 30 && hangs.count() > 30).then_some(())
    });
    let frozen = |sink: &Sink| by_slot(sink, "replay-slot-stats", "slot").len();
    assert_eq!(frozen(&never), 0);
    let heard = |sink: &Sink| by_slot(sink, "shred_insert_is_full", "slot").len();
    let before = (frozen(&hangs), heard(&hangs));
    assert!(before.0 > 0 && before.0 < before.1, "{before:?}");
    eventually(TIMEOUT, "the cluster goes on", || {
        (heard(&hangs) > before.1 + 10).then_some(())
    });
    assert_eq!(frozen(&hangs), before.0);
    Ok(())
}

#[test]
fn the_simulated_validator_is_oom_killed_only_below_its_needed_memory() -> Result<()> {
    let (Some(small), Some(enough)) = (Group::limited_to(50), Group::limited_to(96)) else {
        return Ok(());
    };
    let anonymous = "anonymous_mib=64,anonymous_ms=300";
    // Without a file: while the kernel can evict file pages, it may delay the kill for minutes.
    let mut killed = Simulated::start_by(Some(&small), anonymous, &[], &[])?;
    assert_eq!(killed.end(), "signal 9");
    assert!(small.oom_kills().is_some_and(|kills| kills > 0));
    let with_file = format!("{anonymous},file_mib=48,file_mib_per_second=200");
    let mut lives = Simulated::start_by(Some(&enough), &with_file, &[], &[])?;
    // 12,288 pages: the file does not fit next to the other memory, so all pages fault each time. It waits for the disk so
    // often that a busy machine takes ten times as long.
    eventually(3 * TIMEOUT, "more faults than the file has pages", || {
        lives.running.check().expect("it lives");
        stat_field(lives.pid(), 12)
            .ok()
            .filter(|faults| *faults > 15_000)
    });
    let anonymous = status_bytes(lives.pid(), "RssAnon")?;
    assert!(
        anonymous.is_some_and(|bytes| (64 << 20..80 << 20).contains(&bytes)),
        "{anonymous:?}"
    );
    assert_eq!(enough.oom_kills(), Some(0));
    drop(lives);
    Ok(())
}
