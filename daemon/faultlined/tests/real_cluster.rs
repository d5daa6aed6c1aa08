//! The daemon with a real follower under real load, scraped by a real Prometheus. Each number is
//! compared with an independent reading of the same fact.

#![allow(
    clippy::expect_used,
    reason = "a test that cannot prepare its scene fails"
)]

#[path = "real_cluster/dashboards.rs"]
mod dashboards;
#[path = "real_cluster/witness.rs"]
mod witness;

use faultline_testkit::{
    Result,
    binaries::{Binaries, SKIP_MESSAGE},
    cluster::{Cluster, ClusterOptions},
    daemon::{Daemon, value},
    eventually::{eventually, eventually_ok},
    load::Load,
    proc::{is_alive, stat_field, status_bytes},
    prometheus::{self, Prometheus, PrometheusOptions, promtool_check_metrics},
    sink::Sink,
};
use std::{fs, path::Path, time::Duration};

const PATIENCE: Duration = Duration::from_secs(180);

/// More programs than the cache has entries.
const PROGRAMS: u32 = 640;
const CACHE_ENTRIES: u32 = 512;

const MISSES: &str = "agave_program_cache_misses_total";

/// All programs of the test.
struct Scene {
    upstream: Sink,
    daemon: Daemon,
    /// Another daemon, which reads the follower's log. Nobody pushes to it.
    reader: Daemon,
    /// Scrapes both daemons from the beginning, with the shipped rules. `None` if Prometheus is
    /// missing.
    prometheus: Option<Prometheus>,
    cluster: Cluster,
    _folder: tempfile::TempDir,
}

impl Scene {
    /// Starts the daemon first: it waits for a validator. Leader and follower push to the same
    /// daemon.
    fn start() -> Result<Self> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let upstream = Sink::start()?;
        let config = write_config(folder.path(), &upstream);
        let nodes = folder.path().join("nodes");
        fs::create_dir(&nodes).expect("a folder for the nodes");
        let ledger = nodes.join("follower");
        let arguments = [
            "--config",
            &config,
            "--ledger",
            &ledger.display().to_string(),
        ];
        let daemon = Daemon::start(env!("CARGO_BIN_EXE_faultlined"), &arguments, folder.path())?;
        let reader = start_reader(folder.path(), &nodes)?;
        let prometheus = start_prometheus(&daemon, &reader)?;
        assert_eq!(daemon.scrape_once_ticking().get("agave_up", &[]), Some(0.0));
        let cluster = Cluster::start(ClusterOptions {
            programs: PROGRAMS,
            cache_entries: Some(CACHE_ENTRIES),
            follower_metrics: Some(daemon.ingest_url()),
            leader_metrics: Some(daemon.ingest_url()),
            folder: Some(nodes),
            ..ClusterOptions::default()
        })?;
        Ok(Self {
            upstream,
            daemon,
            reader,
            prometheus,
            cluster,
            _folder: folder,
        })
    }

    fn follower(&self) -> u32 {
        self.cluster.follower_pid().expect("a follower runs")
    }

    fn number(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        self.daemon.scrape().ok()?.get(name, labels)
    }
}

trait OnceTicking {
    fn scrape_once_ticking(&self) -> faultline_testkit::expose::Page;
}

impl OnceTicking for Daemon {
    /// The first page.
    fn scrape_once_ticking(&self) -> faultline_testkit::expose::Page {
        eventually_ok(PATIENCE, "the first page", || self.scrape())
    }
}

fn start_prometheus(daemon: &Daemon, reader: &Daemon) -> Result<Option<Prometheus>> {
    if !Prometheus::is_installed() {
        eprintln!("{}", prometheus::SKIP_MESSAGE);
        return Ok(None);
    }
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../grafana/prometheus/rules");
    let rules = rules.canonicalize().expect("the rules");
    let target = |of: &Daemon| of.metrics().parse().expect("an address");
    let hardware = |name: &str| ("hardware".to_owned(), name.to_owned());
    let options = PrometheusOptions {
        targets: vec![target(daemon), target(reader)],
        labels: vec![hardware("pushed-to"), hardware("reads-the-log")],
        rule_files: vec![rules.join("*.yml")],
        ..PrometheusOptions::default()
    };
    Prometheus::start(&options).map(Some)
}

fn start_reader(folder: &Path, nodes: &Path) -> Result<Daemon> {
    let own = folder.join("reader");
    fs::create_dir(&own).expect("a folder for the reader");
    let config = own.join("reader.toml");
    let labels = "[labels]\ncluster = \"loopback\"\nexperiment = \"by two ways\"\narm = \"log\"\nrun = \"1\"\n";
    let text = format!(
        "{labels}[log]\nfile = {:?}\n",
        nodes.join("follower.log").display().to_string()
    );
    fs::write(&config, text).expect("a configuration");
    let (config, ledger) = (
        config.display().to_string(),
        nodes.join("follower").display().to_string(),
    );
    Daemon::start(
        env!("CARGO_BIN_EXE_faultlined"),
        &["--config", &config, "--ledger", &ledger, "--no-ingest"],
        &own,
    )
}

fn write_config(folder: &Path, upstream: &Sink) -> String {
    let password = folder.join("password");
    fs::write(&password, "secret\n").expect("a password file");
    let config = folder.join("faultlined.toml");
    let text = format!(
        "[threads]\ninterval = \"1s\"\n[probe]\nenabled = true\ninterval = \"1s\"\n[validator]\ninterval = \"2s\"\n[labels]\ncluster = \"loopback\"\nexperiment = \"by two ways\"\narm = \"push\"\nrun = \"1\"\n[flight]\nfolder = {:?}\n[phase]\nat_tip_for = \"5s\"\n[forward]\nurl = {:?}\ndb = \"up\"\nuser = \"u\"\npassword_file = {:?}\n",
        folder.join("flight").display().to_string(),
        upstream.url(),
        password.display().to_string()
    );
    fs::write(&config, text).expect("a configuration");
    config.display().to_string()
}

#[test]
fn daemon_metrics_of_a_real_validator_match_independent_observers() -> Result<()> {
    if Binaries::find().is_none() {
        eprintln!("{SKIP_MESSAGE}");
        return Ok(());
    }
    let mut scene = Scene::start()?;
    let load = Load::start(scene.cluster.leader_rpc().address(), 300, PROGRAMS)?;
    eventually_ok(PATIENCE, "the cache thrashes", || {
        let seen = (
            scene.number(MISSES, &[]),
            scene.number("agave_program_cache_reloads_total", &[]),
            load.sent(),
        );
        if seen.0 > Some(700.0) && seen.1 > Some(50.0) {
            Ok(())
        } else {
            Err(seen)
        }
    });
    the_target_is_described(&scene)?;
    memory_and_faults_are_those_of_proc(&scene)?;
    pools_add_up_to_the_process(&scene)?;
    transactions_are_those_of_rpc(&scene)?;
    the_probe_is_answered(&scene);
    the_page_is_in_order_and_prometheus_agrees(&mut scene)?;
    dashboards_show_it(&scene)?;
    load.stop();
    cache_counters_are_the_sums_of_the_raw_lines(&scene)?;
    the_log_tells_the_same_as_the_pushes(&scene);
    a_killed_follower_is_noticed_and_its_successor_followed(&mut scene)?;
    assert_eq!(
        (scene.daemon.stop()?, scene.reader.stop()?),
        (Some(0), Some(0))
    );
    Ok(())
}

fn the_target_is_described(scene: &Scene) -> Result<()> {
    let identity = scene
        .cluster
        .follower_rpc()
        .call("getIdentity", serde_json::json!([]))?;
    let identity = identity["identity"].as_str().unwrap_or_default().to_owned();
    let labels = [
        ("identity", identity.as_str()),
        ("version", "2.1.14"),
        ("client", "agave"),
        ("cluster", "loopback"),
    ];
    eventually_ok(PATIENCE, "the target's labels", || {
        let page = scene.daemon.scrape().map_err(|error| error.to_string())?;
        match page.matching("agave_target_info", &labels).len() {
            1 => Ok(()),
            _ => Err(format!("{:?}", page.matching("agave_target_info", &[]))),
        }
    });
    eventually(PATIENCE, "at the tip", || {
        scene
            .number("agave_phase", &[("phase", "at_tip")])
            .filter(|at_tip| *at_tip == 1.0)
    });
    assert!(
        scene
            .number("agave_slots_behind", &[])
            .is_some_and(|behind| behind <= 32.0)
    );
    let capacity = [("kind", "observed")];
    eventually(PATIENCE, "the capacity shows in the evictions", || {
        scene
            .number("agave_program_cache_capacity_entries", &capacity)
            .filter(|n| *n == f64::from(CACHE_ENTRIES))
    });
    Ok(())
}

fn memory_and_faults_are_those_of_proc(scene: &Scene) -> Result<()> {
    let pid = scene.follower();
    for (kind, field) in [("minor", 10), ("major", 12)] {
        let labels = [("type", kind)];
        let before = stat_field(pid, field)? as f64;
        // A tick that began after `before` was read must have counted at least as much.
        let exported = eventually_ok(PATIENCE, "a page newer than the witness", || {
            let exported = scene.number("agave_process_page_faults_total", &labels);
            exported
                .filter(|exported| *exported >= before)
                .ok_or((exported, before))
        });
        let after = stat_field(pid, field)? as f64;
        assert!(
            (before..=after).contains(&exported),
            "{kind}: {before} <= {exported} <= {after}"
        );
    }
    let page = scene.daemon.scrape()?;
    for (kind, line) in [("anon", "RssAnon"), ("file", "RssFile")] {
        let exported = value(
            &page,
            "agave_process_resident_memory_bytes",
            &[("type", kind)],
        )?;
        let witness = status_bytes(pid, line)?.unwrap_or(0) as f64;
        assert!(
            (exported - witness).abs() <= 0.05 * witness + 32e6,
            "{line}: {exported} against {witness}"
        );
    }
    assert_eq!(
        page.get("agave_process_threads", &[]).map(|n| n > 50.0),
        Some(true)
    );
    Ok(())
}

fn pools_add_up_to_the_process(scene: &Scene) -> Result<()> {
    let pid = scene.follower();
    let sum = || {
        let page = scene.daemon.scrape().ok()?;
        let pools = page.matching("agave_thread_pool_page_faults_total", &[("type", "minor")]);
        Some(pools.iter().map(|sample| sample.value).sum::<f64>())
    };
    let before = stat_field(pid, 10)? as f64;
    let exported = eventually_ok(PATIENCE, "pools newer than the witness", || {
        sum()
            .filter(|exported| *exported >= before)
            .ok_or((sum(), before))
    });
    let after = stat_field(pid, 10)? as f64;
    assert!(
        exported <= after,
        "all pools together: {before} <= {exported} <= {after}"
    );
    let replay = scene.number(
        "agave_thread_pool_cpu_seconds_total",
        &[("pool", "solScHandler"), ("mode", "user")],
    );
    assert!(
        replay > Some(0.0),
        "the replay threads have worked: {replay:?}"
    );
    Ok(())
}

fn transactions_are_those_of_rpc(scene: &Scene) -> Result<()> {
    let rpc = scene.cluster.follower_rpc();
    let begin = scene.daemon.scrape()?;
    let before = rpc.transaction_count()? as f64;
    let exported = eventually_ok(PATIENCE, "a count newer than the witness", || {
        let exported = scene.number("agave_bank_transactions", &[]);
        exported
            .filter(|exported| *exported >= before)
            .ok_or((exported, before))
    });
    let after = rpc.transaction_count()? as f64;
    assert!(exported <= after, "{before} <= {exported} <= {after}");
    let end = scene.daemon.scrape()?;
    let grown = |name: &str| {
        Ok::<f64, faultline_testkit::Error>(value(&end, name, &[])? - value(&begin, name, &[])?)
    };
    assert_eq!(
        grown("agave_transactions_total")?,
        grown("agave_bank_transactions")?
    );
    Ok(())
}

fn the_probe_is_answered(scene: &Scene) {
    let method = [("method", "getLatestBlockhash")];
    eventually(PATIENCE, "the probe has timed answers", || {
        scene
            .number("agave_rpc_probe_seconds_count", &method)
            .filter(|count| *count >= 5.0)
    });
    let page = scene.daemon.scrape_once_ticking();
    let failed = page.matching("agave_rpc_probe_failures_total", &method);
    assert!(
        failed.len() == 7 && failed.iter().all(|sample| sample.value == 0.0),
        "{failed:?}"
    );
    assert!(scene.number("agave_rpc_probe_seconds_sum", &method) > Some(0.0));
}

fn the_page_is_in_order_and_prometheus_agrees(scene: &mut Scene) -> Result<()> {
    let Some(mut prometheus) = scene.prometheus.take() else {
        return Ok(());
    };
    promtool_check_metrics(&scene.daemon.page()?).expect("the page passes the linter");
    prometheus.wait_until_up(PATIENCE)?;
    let ask = |expression: &str| {
        let expression =
            expression.replace('@', &format!("instance=\"{}\"", scene.daemon.metrics()));
        prometheus
            .query(&expression)
            .ok()
            .and_then(|series| Some(series.first()?.1))
    };
    eventually_ok(PATIENCE, "Prometheus has what the page says", || {
        let (stored, exported) = (ask(&format!("{MISSES}{{@}}")), scene.number(MISSES, &[]));
        if stored.is_some() && stored == exported {
            Ok(())
        } else {
            Err((stored, exported))
        }
    });
    for expression in [
        "rate(agave_process_page_faults_total{@, type=\"minor\"}[30s])",
        "rate(agave_transactions_total{@}[30s])",
        "histogram_quantile(0.9, rate(agave_program_cache_time_seconds_bucket{@}[60s]))",
    ] {
        eventually_ok(PATIENCE, expression, || {
            ask(expression).filter(|x| *x > 0.0).ok_or(ask(expression))
        });
    }
    scene.prometheus = Some(prometheus);
    Ok(())
}

/// Runs during the load, so that queries of the newest value have one.
fn dashboards_show_it(scene: &Scene) -> Result<()> {
    let Some(prometheus) = &scene.prometheus else {
        return Ok(());
    };
    let series = scene
        .daemon
        .page()?
        .lines()
        .filter(|line| !line.starts_with('#'))
        .count();
    println!("{series} series of one validator");
    assert!(
        series <= 1900,
        "docs/DASHBOARDS.md promises at most 1,900 series for one validator, not {series}"
    );
    dashboards::every_query_shows_something_or_there_is_a_reason(
        prometheus,
        scene.daemon.metrics(),
    );
    dashboards::every_dashboard_is_drawn(prometheus, scene.daemon.metrics())
}

/// The witness sums the lines that the daemon forwarded. Only the follower's lines must count,
/// although the leader pushed too.
fn cache_counters_are_the_sums_of_the_raw_lines(scene: &Scene) -> Result<()> {
    let identity = scene
        .cluster
        .follower_rpc()
        .call("getIdentity", serde_json::json!([]))?;
    let identity = identity["identity"].as_str().unwrap_or_default().to_owned();
    for (field, name) in [
        ("misses", MISSES),
        ("evictions", "agave_program_cache_evictions_total"),
        ("reloads", "agave_program_cache_reloads_total"),
        ("insertions", "agave_program_cache_insertions_total"),
    ] {
        let exported = eventually_ok(PATIENCE, name, || {
            let witness = witness::sum(
                &scene.upstream.bodies(),
                "loaded-programs-cache-stats",
                &identity,
                field,
            );
            let exported = scene.number(name, &[]);
            if exported == Some(witness as f64) {
                Ok(witness)
            } else {
                Err((exported, witness))
            }
        });
        println!("{name}: {exported}, as the raw lines say");
    }
    eventually(PATIENCE, "the leader's lines are foreign", || {
        scene
            .number("faultline_ingest_lines_total", &[("result", "foreign")])
            .filter(|lines| *lines > 100.0)
    });
    let leader = witness::senders(&scene.upstream.bodies())
        .into_iter()
        .filter(|id| *id != identity)
        .count();
    assert!(leader >= 1, "the leader pushed to the same port");
    assert_eq!(
        scene.number("faultline_forward_bytes_total", &[("result", "lost")]),
        Some(0.0)
    );
    Ok(())
}

/// The log has every pushed datapoint, from the first line on.
fn the_log_tells_the_same_as_the_pushes(scene: &Scene) {
    for name in [
        MISSES,
        "agave_program_cache_evictions_total",
        "agave_program_cache_reloads_total",
    ] {
        eventually_ok(PATIENCE, &format!("{name} from the log"), || {
            let read = scene
                .reader
                .scrape()
                .ok()
                .and_then(|page| page.get(name, &[]));
            let pushed = scene.number(name, &[]);
            if read.is_some() && read == pushed {
                Ok(())
            } else {
                Err((read, pushed))
            }
        });
    }
}

fn a_killed_follower_is_noticed_and_its_successor_followed(scene: &mut Scene) -> Result<()> {
    let old = scene.follower();
    let misses = scene.number(MISSES, &[]);
    let started = scene.number("agave_process_start_time_seconds", &[]);
    scene.cluster.kill_follower()?;
    assert!(!is_alive(old));
    let gone = eventually(PATIENCE, "the end is noticed", || {
        scene
            .daemon
            .scrape()
            .ok()
            .filter(|page| page.get("agave_up", &[]) == Some(0.0))
    });
    assert_eq!(gone.get("agave_phase", &[("phase", "gone")]), Some(1.0));
    assert!(
        gone.matching("agave_process_page_faults_total", &[])
            .is_empty(),
        "series end with the process"
    );
    assert!(
        gone.matching("agave_thread_pool_threads", &[]).is_empty(),
        "series end with the process"
    );
    assert!(gone.get(MISSES, &[]) >= misses, "sums stay");
    scene.cluster.start_follower()?;
    scene.cluster.wait_until_following()?;
    let again = eventually(PATIENCE, "the successor is followed", || {
        scene.daemon.scrape().ok().filter(|page| {
            page.get("agave_up", &[]) == Some(1.0) && page.get("agave_healthy", &[]).is_some()
        })
    });
    assert_eq!(again.sum("agave_process_restarts_total"), Some(1.0));
    assert!(again.get("agave_process_start_time_seconds", &[]) > started);
    eventually_ok(
        PATIENCE,
        "the successor's points are added to the sums",
        || {
            let now = scene.number(MISSES, &[]);
            let pushed = scene.number("faultline_source_up", &[("source", "datapoints")]);
            if now >= misses && pushed == Some(1.0) {
                Ok(())
            } else {
                Err((now, misses, pushed))
            }
        },
    );
    Ok(())
}
