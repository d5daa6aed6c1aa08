//! A validator that SIGSTOP stops, as a real Prometheus sees it: known series end, and no value is
//! invented.

#![allow(
    clippy::expect_used,
    reason = "a test that cannot prepare its scene fails"
)]

use faultline_testkit::{
    Result,
    daemon::Daemon,
    eventually::{eventually, eventually_ok},
    proc::stat_field,
    process::signal,
    prometheus::{Prometheus, PrometheusOptions, SKIP_MESSAGE},
};
use std::time::Duration;

const FAULTLINED: &str = env!("CARGO_BIN_EXE_faultlined");
const PATIENCE: Duration = Duration::from_secs(240);

/// The mock validator is the daemon's child.
fn child_of(pid: u32) -> Option<u32> {
    let processes = std::fs::read_dir("/proc").ok()?.flatten();
    let mut pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.find(|one| stat_field(*one, 4).is_ok_and(|parent| parent == i64::from(pid)))
}

fn number(prometheus: &Prometheus, query: &str) -> Option<f64> {
    let series = prometheus.query(query).ok()?;
    series.first().map(|one| one.1)
}

fn sees(prometheus: &Prometheus, what: &str, query: &str, wanted: Option<f64>) {
    eventually_ok(PATIENCE, what, || {
        let seen = number(prometheus, query);
        if seen == wanted { Ok(()) } else { Err(seen) }
    });
}

fn stopped_and_in_no_known_phase(prometheus: &Prometheus) {
    let number = |query: &str| number(prometheus, query);
    let sees = |what: &str, query: &str, wanted| sees(prometheus, what, query, wanted);
    sees(
        "nobody answers",
        "faultline_source_up{source=\"rpc\"}",
        Some(0.0),
    );
    sees("the distance is not known", "agave_slots_behind", None);
    sees("the phase is not known", "sum(agave_phase)", Some(0.0));
    sees(
        "the kernel calls it stopped",
        "agave_process_state{state=\"stopped\"}",
        Some(1.0),
    );
    sees("its slot stands still", "agave_stalled", Some(1.0));
    assert_eq!(
        (number("up"), number("agave_up")),
        (Some(1.0), Some(1.0)),
        "the process is there"
    );
    assert!(
        number("agave_process_resident_memory_bytes{type=\"anon\"}") > Some(0.0),
        "and what the kernel says of it"
    );
    sees(
        "no phase gains time",
        "sum(increase(agave_phase_seconds_total[5s]))",
        Some(0.0),
    );
    assert_eq!(number("faultline_missed_ticks_total"), Some(0.0));
}

#[test]
fn a_stopped_validator_is_up_with_unknown_phase_until_it_continues() -> Result<()> {
    if !Prometheus::is_installed() {
        println!("{SKIP_MESSAGE}");
        return Ok(());
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let daemon = Daemon::start(FAULTLINED, &["--demo"], folder.path())?;
    let targets = vec![daemon.metrics().parse().expect("an address")];
    let mut prometheus = Prometheus::start(&PrometheusOptions {
        targets,
        ..PrometheusOptions::default()
    })?;
    prometheus.wait_until_up(PATIENCE)?;
    let sees = |what: &str, query: &str, wanted| sees(&prometheus, what, query, wanted);
    sees(
        "it is at the tip",
        "agave_phase{phase=\"at_tip\"}",
        Some(1.0),
    );
    assert_eq!(number(&prometheus, "sum(agave_phase)"), Some(1.0));

    let validator = eventually(PATIENCE, "the stand-in", || child_of(daemon.pid()));
    signal(validator, "STOP")?;
    stopped_and_in_no_known_phase(&prometheus);

    signal(validator, "CONT")?;
    sees("it goes on", "sum(agave_phase)", Some(1.0));
    assert_eq!(daemon.stop()?, Some(0));
    Ok(())
}
