//! Ledgers on a file system that stops responding, and below a path that is not UTF-8.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot prepare its scene fails"
)]

use crate::{hostile_answers::validator, support::mounted::Mounted};
use faultline_testkit::{daemon::Daemon, eventually::eventually_ok, http, proc};
use std::{
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    path::Path,
    time::Duration,
};

const PATIENCE: Duration = Duration::from_secs(120);
const UNANSWERED: &str = "its file system does not answer";

fn start(folder: &Path) -> Daemon {
    let config = folder.join("c.toml").display().to_string();
    Daemon::start(
        env!("CARGO_BIN_EXE_faultlined"),
        &["--config", &config, "--no-ingest"],
        folder,
    )
    .expect("the daemon")
}

fn number(daemon: &Daemon, name: &str, label: (&str, &str)) -> Option<f64> {
    let labels = [label];
    let labels = if label.0.is_empty() { &[][..] } else { &labels };
    daemon.scrape().ok()?.get(name, labels)
}

/// Polls of JSON-RPC continue: a response expires after 3 s, and ten more ticks take longer.
fn slots_stay(daemon: &Daemon) {
    let ticks = || number(daemon, "faultline_ticks_total", ("", "")).ok_or("no page");
    let first = eventually_ok(PATIENCE, "a tick", ticks);
    eventually_ok(PATIENCE, "ten ticks", || match ticks() {
        Ok(ticks) if ticks >= first + 10.0 => Ok(()),
        other => Err(other),
    });
    let slot = number(daemon, "agave_slot", ("kind", "processed"));
    assert_eq!(slot, Some(2_160.0), "{}", daemon.log());
}

fn is_named(daemon: &Daemon, what: &str) {
    eventually_ok(PATIENCE, what, || {
        let page = http::get(daemon.metrics(), "/").map(|page| page.text());
        let page = page.unwrap_or_default();
        let named = |text: &str| {
            let mut lines = text.lines();
            lines.any(|line| line.contains(what) && line.contains(UNANSWERED))
        };
        if named(&page.replace('<', "\n<")) && named(&daemon.log()) {
            Ok(())
        } else {
            Err(format!("{page}\n{}", daemon.log()))
        }
    });
}

#[test]
fn a_hanging_ledger_file_system_blocks_neither_other_metrics_nor_shutdown() {
    let folder = tempfile::tempdir().expect("a folder");
    let ledger = folder.path().join("ledger");
    fs::create_dir(&ledger).expect("a folder");
    fs::write(ledger.join("agave.log"), "").expect("a file");
    fs::write(folder.path().join("hostile"), "").expect("a file");
    let _validator = validator(folder.path());
    let port = eventually_ok(PATIENCE, "the port", || {
        fs::read_to_string(folder.path().join("port"))
    });
    let config = format!(
        "[target]\nledger = {ledger:?}\n[log]\nfile = {:?}\n[record]\nfile = {:?}\n\
         [rpc]\nurl = \"http://127.0.0.1:{port}\"\ninterval = \"1s\"\n[validator]\ninterval = \"1s\"\n",
        ledger.join("agave.log"),
        folder.path().join("run.db")
    );
    fs::write(folder.path().join("c.toml"), config).expect("a file");
    let daemon = start(folder.path());
    for source in ["admin_rpc", "rpc", "log", "votes"] {
        eventually_ok(PATIENCE, source, || {
            match number(&daemon, "faultline_source_up", ("source", source)) {
                Some(1.0) => Ok(()),
                _ => Err(daemon.log()),
            }
        });
    }
    let Some(hung) = Mounted::dead(ledger.clone()) else {
        eprintln!("SKIPPED: no FUSE mount can be made here");
        return;
    };
    is_named(&daemon, "admin.rpc");
    is_named(&daemon, "agave.log");
    slots_stay(&daemon);
    // While a thread hangs, no second one is started.
    let threads = proc::thread_names(daemon.pid()).expect("threads");
    for name in ["admin-path", "target-path", "log-open", "manifest-path"] {
        let of_name = threads.iter().filter(|thread| *thread == name);
        assert!(of_name.count() <= 1, "{threads:?}");
    }
    let log = folder.path().join("faultlined.log");
    assert_eq!(daemon.stop().expect("it ends"), Some(0));
    let words = fs::read_to_string(log).expect("a log");
    assert!(words.contains("graceful=true"), "{words}");
    let daemon = start(folder.path());
    is_named(&daemon, "admin.rpc");
    is_named(&daemon, "agave.log");
    slots_stay(&daemon);
    assert_eq!(daemon.stop().expect("it ends"), Some(0));
    drop(hung);
}

#[test]
fn a_non_utf_8_ledger_path_is_followed_and_shown_escaped() {
    let top = tempfile::tempdir().expect("a folder");
    let folder = top.path().join(OsStr::from_bytes(b"l\xffdger"));
    fs::create_dir_all(folder.join("ledger")).expect("a folder");
    fs::write(folder.join("hostile"), "").expect("a file");
    let _validator = validator(&folder);
    eventually_ok(PATIENCE, "the port", || {
        fs::read_to_string(folder.join("port"))
    });
    let program = top.path().join("faultlined");
    let ledger = folder.join("ledger");
    let script = [
        b"#!/bin/sh\nexec ",
        env!("CARGO_BIN_EXE_faultlined").as_bytes(),
        b" \"$@\" --ledger ",
        ledger.as_os_str().as_bytes(),
        b"\n",
    ];
    fs::write(&program, script.concat()).expect("a file");
    fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).expect("a program");
    let daemon = Daemon::start(&program.display().to_string(), &[], top.path());
    let daemon = daemon.expect("the daemon");
    for source in ["admin_rpc", "resources"] {
        eventually_ok(PATIENCE, source, || {
            match number(&daemon, "faultline_source_up", ("source", source)) {
                Some(1.0) => Ok(()),
                _ => Err(daemon.log()),
            }
        });
    }
    let words = daemon.log();
    assert!(words.contains(r"l\\xffdger/ledger"), "{words}");
    assert_eq!(daemon.stop().expect("it ends"), Some(0));
}
