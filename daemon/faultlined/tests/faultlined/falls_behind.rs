//! The daemon with a simulated validator of the present network that falls behind and recovers.

#![allow(
    clippy::expect_used,
    reason = "a test that cannot prepare its scene fails"
)]

use faultline_testkit::{
    Result,
    daemon::Daemon,
    eventually::eventually_ok,
    ports::PortBlock,
    process::{Program, Running},
    simulated::TRUTH_VARIABLE,
};
use std::{path::Path, time::Duration};

const FAULTLINED: &str = env!("CARGO_BIN_EXE_faultlined");
const PATIENCE: Duration = Duration::from_secs(240);
/// The validator hangs after the slot time was measured, for longer than the phase `behind` needs
/// to begin.
const TRUTH: &str = "alpenglow=true,slots_per_second=5,voters=6,start_ms=0,hangs_after_ms=75000,\
    hangs_for_ms=35000";

fn validator(folder: &Path, ledger: &Path, rpc_port: u16, ingest: &str) -> Result<Option<Running>> {
    let path = Path::new(FAULTLINED).with_file_name("faultline-simulated-validator");
    if !path.is_file() {
        println!("SKIPPED: no {}", path.display());
        return Ok(None);
    }
    let metrics = format!("host={ingest},db=d,u=u,p=p");
    let set = |name: &str, value: &str| (name.to_owned(), Some(value.to_owned()));
    let running = Running::start(&Program {
        path,
        arguments: ["--ledger", &ledger.display().to_string()]
            .into_iter()
            .chain(["--rpc-port", &rpc_port.to_string()])
            .map(ToOwned::to_owned)
            .collect(),
        environment: vec![
            set(TRUTH_VARIABLE, TRUTH),
            set("SOLANA_METRICS_CONFIG", &metrics),
        ],
        output: folder.join("validator.log"),
    })?;
    Ok(Some(running))
}

fn daemon(folder: &Path, ledger: &Path) -> Result<Daemon> {
    let config = folder.join("c.toml");
    let text = format!(
        "[target]\nledger = \"{}\"\n[rpc]\ninterval = \"1s\"\n[validator]\ninterval = \"1s\"\n\
         [threads]\nenabled = false\n[phase]\nat_tip_for = \"5s\"\n",
        ledger.display()
    );
    std::fs::write(&config, text).expect("a configuration");
    let config = config.display().to_string();
    Daemon::start(FAULTLINED, &["--config", &config], folder)
}

/// A metric, its labels and its value; `None` if it must be absent.
type Series<'a> = (&'a str, &'a [(&'a str, &'a str)], Option<f64>);

fn sees(daemon: &Daemon, what: &str, wanted: &[Series<'_>]) {
    eventually_ok(PATIENCE, what, || {
        let page = daemon.scrape().map_err(|error| error.to_string())?;
        let wrong = wanted
            .iter()
            .map(|(name, labels, value)| (page.get(name, labels), name, value))
            .find(|(found, _, value)| found != *value);
        wrong.map_or(Ok(()), |wrong| Err(format!("{wrong:?}")))
    });
}

fn measures_the_slot_time(daemon: &Daemon) {
    eventually_ok(PATIENCE, "the slot time", || {
        let page = daemon.scrape().map_err(|error| error.to_string())?;
        match page.get("agave_slot_seconds", &[]) {
            Some(seconds) if (seconds - 0.2).abs() < 0.01 => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
}

#[test]
fn under_alpenglow_a_validator_is_at_the_tip_falls_behind_and_recovers() -> Result<()> {
    let folder = tempfile::tempdir().expect("a folder");
    let ledger = folder.path().join("ledger");
    let ports = PortBlock::claim(25_000)?;
    let daemon = daemon(folder.path(), &ledger)?;
    let url = daemon.ingest_url();
    let Some(_validator) = validator(folder.path(), &ledger, ports.port(1), &url)? else {
        return Ok(());
    };
    let at_tip: &[_] = &[("phase", "at_tip")];
    sees(
        &daemon,
        "it is at the tip under Alpenglow",
        &[
            ("agave_consensus", &[("protocol", "alpenglow")], Some(1.0)),
            ("agave_slot", &[("kind", "optimistic")], None),
            (
                "agave_certificate_distance_slots",
                &[("certificate", "finalization")],
                Some(1.0),
            ),
            ("agave_admitted", &[("in", "this_epoch")], Some(1.0)),
            ("agave_phase", at_tip, Some(1.0)),
            ("agave_kept_up", &[], Some(1.0)),
        ],
    );
    measures_the_slot_time(&daemon);
    sees(
        &daemon,
        "it is behind",
        &[
            ("agave_phase", &[("phase", "behind")], Some(1.0)),
            ("agave_healthy", &[], Some(0.0)),
            ("agave_kept_up", &[], Some(0.0)),
        ],
    );
    sees(
        &daemon,
        "it recovers, and is remembered not to have kept up",
        &[
            ("agave_phase", at_tip, Some(1.0)),
            ("agave_healthy", &[], Some(1.0)),
            ("agave_kept_up", &[], Some(0.0)),
        ],
    );
    assert_eq!(daemon.stop()?, Some(0));
    Ok(())
}
