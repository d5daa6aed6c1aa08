//! Runs of an experiment as a Prometheus sees them: it finds their recorders by the file that the runner writes, and the
//! dashboard of experiments shows them. The real runner, the real daemon, the real Prometheus; only the validators are
//! simulated.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot prepare its scene fails"
)]
#![expect(clippy::disallowed_methods, reason = "a test starts programs itself")]

use crate::support::simulated::{Scene, said};
use faultline_testkit::{
    eventually::eventually_ok,
    process::{Program, Running, signal, tail},
    prometheus::{Prometheus, PrometheusOptions, SKIP_MESSAGE},
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    time::Duration,
};

const PATIENCE: Duration = Duration::from_secs(180);
const LANES: [&str; 2] = ["a", "b"];
const EXPERIMENT: &str = "scraped";

/// One arm twice at the same time, for as long as nobody stops it.
fn scene() -> Option<Scene> {
    let scene = Scene::with_groups()?;
    let mut lanes = String::new();
    for (port, lane) in (10..).step_by(10).zip(LANES) {
        lanes += &format!(
            "[[lane]]\nname = {lane:?}\nledger = {lane:?}\nrpc_port = {}\n",
            scene.ports.port(port)
        );
        let truth =
            "slots_per_second = 20\nfirst_load_us = 0\nfirst_calls_per_slot = 640\nfile_mib = 8\n";
        scene.write(&format!("{lane}.truth"), truth);
        let made = std::process::Command::new(scene.path("faultline"))
            .args(["experiment", "init"])
            .arg(scene.path(lane))
            .output()
            .expect("faultline can be run");
        assert_eq!(made.status.code(), Some(0), "{}", said(&made));
    }
    scene.plan(
        &format!("name = {EXPERIMENT:?}\nreplicates = 1"),
        "command = [\"./agave-validator\", \"--ledger\", \"{ledger}\", \"--rpc-port\", \"{rpc_port}\", \"--truth\", \
         \"{ledger}.truth\"]",
        "duration = \"1h\"\nfirst_transaction_within = \"60s\"",
        &format!(
            "{lanes}[[arm]]\nname = \"plain\"\nmemory_max = \"256M\"\ncache_entries = 512\n[concurrent]\nshared_device = \"ignore\"\n"
        ),
    );
    Some(scene)
}

fn begin(scene: &Scene, what: &str) -> Running {
    let plan = if what == "run" {
        "plan.toml"
    } else {
        "experiment"
    };
    let mut arguments = vec![
        "experiment".to_owned(),
        what.to_owned(),
        scene.path(plan).display().to_string(),
    ];
    if what == "run" {
        arguments.extend(["--launcher", "direct"].map(str::to_owned));
    }
    let output = scene.path(&format!("{what}.out"));
    Running::start(&Program {
        path: scene.path("faultline"),
        arguments,
        environment: Vec::new(),
        output,
    })
    .expect("faultline can be run")
}

/// What the file says now.
fn from_experiment(scene: &Scene) -> Value {
    let text = fs::read_to_string(scene.path("experiment/targets.json")).unwrap_or_default();
    if text.is_empty() {
        Value::Null
    } else {
        serde_json::from_str(&text).expect("whole JSON at any moment")
    }
}

fn wait_for_targets(scene: &Scene, count: usize) {
    eventually_ok(PATIENCE, "the file names the recorders", || {
        let from_experiment = from_experiment(scene);
        let said = || {
            ["run.out", "resume.out"]
                .map(|file| tail(&scene.path(file), 20))
                .concat()
        };
        if from_experiment
            .as_array()
            .is_some_and(|all| all.len() == count)
        {
            Ok(())
        } else {
            Err(format!("{from_experiment} {}", said()))
        }
    });
}

/// The queries of the dashboard of experiments, by panel and letter, each with whether it is asked over a time.
fn queries() -> BTreeMap<String, (String, bool)> {
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../grafana/dashboards/experiment.json");
    let page: Value =
        serde_json::from_str(&fs::read_to_string(file).expect("the dashboard")).expect("JSON");
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let mut all = BTreeMap::new();
    // Only a search has dwells.
    let shown = |panel: &&Value| panel["title"] != "Verdicts of dwells";
    for panel in page["panels"]
        .as_array()
        .expect("panels")
        .iter()
        .filter(shown)
    {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let mut query = text(&target["expr"]);
            for variable in page["templating"]["list"].as_array().expect("variables") {
                let name = text(&variable["name"]);
                let value = match name.as_str() {
                    "job" => "faultline-experiment",
                    "experiment" => EXPERIMENT,
                    "earlier" => "5s",
                    _ => ".*",
                };
                query = query.replace(&format!("${name}"), value);
            }
            let query = query
                .replace("$__rate_interval", "20s")
                .replace("$__range", "1m");
            let who = format!("{} {}", text(&panel["title"]), text(&target["refId"]));
            all.insert(who, (query, target["range"] == true));
        }
    }
    all
}

/// Queries of the dashboard that show nothing.
fn empty(prometheus: &Prometheus) -> Vec<String> {
    let now = prometheus.query("time()").expect("the time")[0].1;
    let shows = |(query, over_time): &(String, bool)| match over_time {
        true => {
            prometheus
                .count_series(query, (now - 60.0, now), 2)
                .expect("an answer")
                > 0
        }
        false => !prometheus.query(query).expect("an answer").is_empty(),
    };
    queries()
        .iter()
        .filter(|(_, query)| !shows(query))
        .map(|(who, _)| who.clone())
        .collect()
}

/// The processes of this scene's recorders: the CPUs that each may use.
fn cpus_of_recorders(scene: &Scene) -> Vec<String> {
    let program = scene.path("faultlined").display().to_string();
    let processes = fs::read_dir("/proc").expect("processes").flatten();
    let of = |path: &Path| {
        let line = fs::read(path.join("cmdline")).ok()?;
        String::from_utf8_lossy(&line)
            .starts_with(&program)
            .then_some(())?;
        let status = fs::read_to_string(path.join("status")).ok()?;
        Some(
            status
                .lines()
                .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?
                .trim()
                .to_owned(),
        )
    };
    processes.filter_map(|entry| of(&entry.path())).collect()
}

/// No recorder shares the CPU on which the validators' proof of history is, where there is another one.
fn recorders_keep_off(scene: &Scene) {
    let own = fs::read_to_string("/proc/self/status").expect("this process");
    let own = own
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
        .expect("CPUs")
        .trim()
        .to_owned();
    let cpus = cpus_of_recorders(scene);
    assert_eq!(cpus.len(), LANES.len(), "{cpus:?}");
    assert_eq!(
        cpus.iter().collect::<BTreeSet<_>>().len(),
        1,
        "the same in every run: {cpus:?}"
    );
    if own == "0" || !own.starts_with("0") {
        eprintln!("SKIPPED: of CPUs {own} none is to be left out");
        return;
    }
    assert!(!cpus[0].starts_with('0'), "{cpus:?} of {own}");
    let runs = fs::read_dir(scene.path("experiment/runs"))
        .expect("runs")
        .flatten();
    for log in runs.map(|run| run.path().join("a1/recorder.log")) {
        let log = fs::read_to_string(log).expect("a log");
        assert!(
            log.contains("following") && !log.contains("proof-of-history"),
            "{log}"
        );
    }
}

fn is_found(prometheus: &Prometheus) {
    let expected: BTreeSet<(String, String)> =
        [("001-plain-r1/a1", "1"), ("002-plain-r1/a1", "1, second")]
            .map(|(instance, run)| (format!("{EXPERIMENT}/{instance}"), run.to_owned()))
            .into();
    eventually_ok(PATIENCE, "both runs are scraped", || {
        let up = prometheus.query(&format!(
            "agave_up{{experiment={EXPERIMENT:?}, arm=\"plain\"}} == 1"
        ));
        let up = up.map_err(|error| error.to_string())?;
        let found: BTreeSet<_> = up
            .iter()
            .map(|(labels, _)| (labels["instance"].clone(), labels["run"].clone()))
            .collect();
        if found == expected {
            Ok(())
        } else {
            Err(format!("{up:?} {:?}", prometheus.targets()))
        }
    });
}

#[test]
fn prometheus_discovers_runs_by_file_and_the_experiment_dashboard_shows_them() {
    let Some(scene) = scene() else { return };
    if !Prometheus::is_installed() {
        eprintln!("{SKIP_MESSAGE}");
        return;
    }
    let target_files = vec![scene.path("experiment/targets.json")];
    let prometheus = Prometheus::start(&PrometheusOptions {
        target_files,
        ..PrometheusOptions::default()
    });
    let prometheus = prometheus.expect("a Prometheus");
    let mut runner = begin(&scene, "run");
    wait_for_targets(&scene, LANES.len());
    is_found(&prometheus);
    recorders_keep_off(&scene);
    eventually_ok(
        PATIENCE,
        "every query of the dashboard shows something",
        || {
            let empty = empty(&prometheus);
            if empty.is_empty() { Ok(()) } else { Err(empty) }
        },
    );
    // Killed, it cannot take back what it told; whoever sweeps behind it does.
    runner.kill().expect("a signal");
    let stopped = scene.experiment(&["stop"]);
    assert_eq!(stopped.status.code(), Some(0), "{}", said(&stopped));
    assert_eq!(from_experiment(&scene), serde_json::json!([]));
    eventually_ok(PATIENCE, "nothing is scraped any more", || {
        let targets = prometheus.targets().expect("targets");
        if targets.is_empty() {
            Ok(())
        } else {
            Err(targets)
        }
    });
    // Another life tells of its own runs, and takes them back at their end.
    let mut runner = begin(&scene, "resume");
    wait_for_targets(&scene, LANES.len());
    assert!(
        from_experiment(&scene).to_string().contains("attempt 2"),
        "{}",
        from_experiment(&scene)
    );
    signal(runner.pid(), "INT").expect("a signal");
    eventually_ok(PATIENCE, "it ends", || {
        runner.exit_status().expect("a status").map(drop).ok_or(())
    });
    assert_eq!(from_experiment(&scene), serde_json::json!([]));
    scene.nothing_is_left();
}
