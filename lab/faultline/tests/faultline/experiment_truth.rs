//! What an experiment concludes of validators of which everything is known beforehand is what is true of them. The real
//! runner, the real daemon, real limits; only the validator is simulated.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot prepare its scene fails"
)]

use crate::support::simulated::{self, Ran, Scene};
use faultline_recording::{ProgramCachePoint, Recording};
use faultline_testkit::{
    daemon::Daemon,
    eventually::eventually,
    process::{Program, Running},
    simulated::{
        CACHE_VARIABLE, TRUTH_VARIABLE, Truth,
        chain::{Cache, contents, cost, steady},
    },
};
use std::{fs, time::Duration};

const PATIENCE: Duration = Duration::from_secs(60);

/// Compares every point of a recording with the truth: first the slots in which programs are called for the first time,
/// then all others, none missing in between. How many there are.
fn points_are_true(recording: &Recording, truth: &Truth, capacity: u64) -> usize {
    let points = recording.program_cache_points().expect("points");
    let replayed = recording.replay_slot_points().expect("points");
    let costs = recording.cost_tracker_points().expect("points");
    // A validator that is killed while it pushes leaves its last slot incomplete.
    let counts = [points.len(), replayed.len(), costs.len()];
    let (least, most) = (counts.into_iter().min(), counts.into_iter().max());
    assert!(
        least
            .zip(most)
            .is_some_and(|(least, most)| most - least <= 1),
        "{counts:?}"
    );
    let slots: Vec<u64> = points.iter().filter_map(|point| point.slot).collect();
    assert!(
        slots.windows(2).all(|pair| pair[0] + 1 == pair[1]),
        "slots are missing: {slots:?}"
    );
    let first_calls = truth.programs.div_ceil(truth.first_calls_per_slot) as usize;
    let sum = |of: fn(&ProgramCachePoint) -> Option<u64>| {
        points.iter().take(first_calls).filter_map(of).sum::<u64>()
    };
    assert_eq!(
        (sum(|point| point.insertions), sum(|point| point.misses)),
        (truth.programs, truth.programs)
    );
    for ((point, replay), executed) in points.iter().zip(&replayed).zip(&costs).skip(first_calls) {
        let slot = point.slot.expect("a slot");
        let cache = steady(truth, capacity, slot);
        let said = Cache {
            misses: point.misses.expect("misses"),
            evictions: point.evictions.expect("evictions"),
            reloads: point.reloads.expect("reloads"),
            insertions: point.insertions.expect("insertions"),
            water_level: point.water_level.expect("a water level"),
        };
        assert_eq!(said, cache, "slot {slot}");
        let cost = cost(truth, slot, cache);
        assert_eq!((replay.slot, executed.bank_slot), (Some(slot), Some(slot)));
        assert_eq!(
            (replay.program_cache_us, replay.replay_total_elapsed_us),
            (Some(cost.cache), Some(cost.total))
        );
        assert_eq!(
            executed.transaction_count,
            Some(contents(slot).transactions)
        );
    }
    points.len()
}

#[test]
fn the_daemon_recognises_the_simulated_validator_and_records_its_truth() {
    let Some(scene) = Scene::new() else { return };
    let (ledger, file, config) = (
        scene.path("ledger"),
        scene.path("run.fltl"),
        scene.path("faultlined.toml"),
    );
    let [ledger, file, config] =
        [ledger, file.clone(), config].map(|path| path.display().to_string());
    let words = [
        "--config",
        &config,
        "--ledger",
        &ledger,
        "--record",
        &file,
        "--interval",
        "200ms",
    ];
    let daemon = Daemon::start(
        &scene.path("faultlined").display().to_string(),
        &words,
        &scene.path(""),
    )
    .expect("a daemon");
    let text = "start_ms=2500,behind_at_start=60,exits_after_ms=5000,exit_code=7";
    let mut validator = validator(&scene, text, &daemon.ingest_url());
    let ended = eventually(PATIENCE, "it ends", || {
        validator.exit_status().expect("a status")
    });
    assert_eq!(ended.code(), Some(7));
    eventually(PATIENCE, "the end is seen", || {
        daemon
            .scrape()
            .ok()
            .filter(|page| page.get("agave_up", &[]) == Some(0.0))
            .map(drop)
    });
    assert_eq!(daemon.stop().expect("its end"), Some(0));
    let recording = Recording::open(file.as_ref()).expect("a recording");
    let mut truth = Truth::default();
    truth.read(text).expect("a truth");
    assert!(points_are_true(&recording, &truth, 512) > 100);
    let ticks = recording.ticks().expect("ticks");
    let phases: Vec<&str> = ticks
        .iter()
        .filter_map(|tick| tick.phase.as_deref())
        .collect();
    for phase in ["initializing", "catching_up", "at_tip", "gone"] {
        assert!(phases.contains(&phase), "{phase}: {phases:?}");
    }
}

fn validator(scene: &Scene, truth: &str, ingest_url: &str) -> Running {
    let metrics = format!("host={},db=d,u=u,p=p", ingest_url);
    let port = scene.ports.port(1).to_string();
    let variables = [
        (TRUTH_VARIABLE, truth),
        (CACHE_VARIABLE, "512"),
        ("SOLANA_METRICS_CONFIG", &metrics),
    ];
    Running::start(&Program {
        path: scene.path(faultline_testkit::simulated::PROGRAM_NAME),
        arguments: [
            "--ledger",
            &scene.path("ledger").display().to_string(),
            "--rpc-port",
            &port,
        ]
        .map(str::to_owned)
        .to_vec(),
        environment: variables
            .map(|(name, value)| (name.to_owned(), Some(value.to_owned())))
            .to_vec(),
        output: scene.path("output"),
    })
    .expect("a validator")
}

/// What each arm's runs became, in the order of the arms.
fn outcomes<'r>(ran: &'r [Ran], arms: &[&str]) -> Vec<Vec<&'r str>> {
    let of = |arm: &&str| {
        ran.iter()
            .filter(|run| run.arm == *arm)
            .map(|run| run.outcome.as_str())
            .collect()
    };
    arms.iter().map(of).collect()
}

const COMMAND: &str = "command = [\"./agave-validator\", \"--ledger\", \"{ledger}\", \"--rpc-port\", \"{rpc_port}\", \"--truth\", \"truth\"]";

/// One lane in this scene.
fn workload(scene: &Scene) -> String {
    let command = COMMAND.replace(
        "\"truth\"",
        &format!("{:?}", scene.path("truth").display().to_string()),
    );
    format!(
        "{command}\nledger = \"ledger\"\nrpc_port = {}",
        scene.ports.port(1)
    )
}

#[test]
fn the_reported_limits_are_largest_failing_and_smallest_sufficient() {
    let Some(scene) = Scene::with_groups() else {
        return;
    };
    // It needs 80 MiB to live, some more of its own, and keeps up from 112 MiB on.
    let truth =
        "anonymous_mib = 80\nanonymous_ms = 2500\nkeeps_up_from_mib = 112\nslots_per_second = 50\n";
    scene.write("truth", truth);
    let arms = ["64M", "96M", "112M", "160M"];
    let limits: String = arms
        .iter()
        .map(|arm| format!("[[arm]]\nname = {arm:?}\nmemory_max = {arm:?}\n"))
        .collect();
    scene.plan(
        "name = \"ram\"\nreplicates = 1",
        &workload(&scene),
        "duration = \"7s\"\nfirst_transaction_within = \"30s\"\nno_progress_for = \"30s\"",
        &limits,
    );
    scene.run(&["ledger"]);
    scene.nothing_is_left();
    let ran = scene.ran();
    let expected =
        ["out_of_memory", "completed", "completed", "completed"].map(|outcome| vec![outcome]);
    assert_eq!(outcomes(&ran, &arms), expected, "{ran:#?}");
    let kills = |run: &Ran| run.ending["evidence"]["memory_events"]["oom_kill"].as_u64();
    assert!(
        ran.iter()
            .all(|run| kills(run).is_some_and(|kills| (kills > 0) == (run.arm == "64M"))),
        "{ran:#?}"
    );
    let report = scene.report();
    let headline = "OOM-killed: 64M (1 of 1 run). \
                    Ran its whole time: 96M (1 of 1 run), 112M (1 of 1 run), 160M (1 of 1 run).";
    assert!(report.contains(headline), "{report}");
    assert!(
        report.contains("The smallest limit with which every run kept up is 112 MiB."),
        "{report}"
    );
    assert!(
        report.contains("The largest limit with which a run failed is 96 MiB."),
        "{report}"
    );
}

#[test]
fn cache_cost_is_measured_exactly_and_equal_arms_do_not_differ() {
    let Some(scene) = Scene::with_groups() else {
        return;
    };
    let truth = "slots_per_second = 50\nfirst_load_us = 0\nfirst_calls_per_slot = 640\nnoise_permille = 50\n";
    scene.write("truth", truth);
    let arms = [("512", 512), ("512 again", 512), ("1024", 1024)];
    let text = arms
        .map(|(name, entries)| format!("[[arm]]\nname = {name:?}\ncache_entries = {entries}\n"))
        .concat();
    scene.plan(
        "name = \"cache\"\nreplicates = 3",
        &workload(&scene),
        "duration = \"2s\"\nfirst_transaction_within = \"30s\"",
        &format!("{text}[report]\nprimary = \"cache-time\"\nmargin = 5\n"),
    );
    scene.run(&["ledger"]);
    scene.nothing_is_left();
    let mut known = Truth::default();
    known.read(truth).expect("a truth");
    let ran = scene.ran();
    assert_eq!(ran.len(), 9);
    for run in &ran {
        let capacity = arms
            .iter()
            .find(|(name, _)| *name == run.arm)
            .expect("an arm")
            .1;
        assert_eq!(
            (run.outcome.as_str(), run.validity.0.as_str()),
            ("completed", "valid"),
            "{run:#?}"
        );
        assert!(
            points_are_true(&scene.recording(run), &known, capacity) >= 50,
            "{run:#?}"
        );
    }
    let report = scene.report();
    assert!(
        report.contains("%) with 1024 than with 512; equivalent within 5 % with 512 again and 512"),
        "{report}"
    );
    let primary = scene.table("primary");
    let about = |arm: &str| {
        primary
            .iter()
            .find(|row| row["Arms"].starts_with(&format!("{arm} against")))
            .expect("a row")
    };
    assert!(
        about("1024")["Conclusion"].starts_with("lower, which is better"),
        "{primary:#?}"
    );
    assert!(
        about("512 again")["Conclusion"].starts_with("equivalent within the margin"),
        "{primary:#?}"
    );
}

#[test]
fn a_stock_binary_is_refused_and_an_ignored_cache_option_invalidates_runs() {
    let Some(scene) = Scene::with_groups() else {
        return;
    };
    scene.write(
        "truth",
        "ignores_cache_switch = true\nslots_per_second = 50\nfirst_calls_per_slot = 640\n",
    );
    let stop = "duration = \"3s\"\nfirst_transaction_within = \"30s\"";
    let arms = |binary: &str| {
        let binary = if binary.is_empty() {
            String::new()
        } else {
            format!("binary = {binary:?}\n")
        };
        format!(
            "[[arm]]\nname = \"512\"\ncache_entries = 512\n[[arm]]\nname = \"1024\"\ncache_entries = 1024\n{binary}"
        )
    };
    let head = "name = \"switch\"\nreplicates = 1";
    scene.plan(
        head,
        &workload(&scene),
        stop,
        &arms(&scene.stock().display().to_string()),
    );
    for words in [&["plan"][..], &["run", "--launcher", "direct"]] {
        let output = scene.experiment(words);
        let said = simulated::said(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(
            said.contains("AGAVE_PROGRAM_CACHE_ENTRIES") && said.contains("stock/agave-validator"),
            "{said}"
        );
        assert!(!scene.path("experiment/runs").exists(), "{words:?}");
    }
    scene.plan(head, &workload(&scene), stop, &arms(""));
    scene.run(&["ledger"]);
    scene.nothing_is_left();
    let ran = scene.ran();
    let validity = |arm: &str| {
        ran.iter()
            .find(|run| run.arm == arm)
            .map(|run| run.validity.clone())
            .expect("a run")
    };
    assert_eq!(validity("512").0, "valid");
    let (is, why) = validity("1024");
    assert_eq!(is, "invalid", "{why}");
    assert!(
        scene.report().contains(&why),
        "the report says why a run is left out"
    );
}

#[test]
fn every_run_ending_has_its_own_outcome_and_leaves_no_process() {
    let Some(scene) = Scene::with_groups() else {
        return;
    };
    scene.write("truth", "slots_per_second = 50\n");
    let arms = [
        ("exits", "exits_after_ms=1500,exit_code=7", "exited"),
        ("hangs", "hangs_after_ms=1500", "no_progress"),
        ("never", "executes=false", "never_executed"),
        (
            "behind",
            "behind_at_start=1000,catch_up_percent=100",
            "not_at_tip",
        ),
        ("deaf", "ignores_term=true,forks=true", "completed"),
    ];
    let text = arms.map(|(name, truth, _)| {
        format!("[[arm]]\nname = {name:?}\nmemory_max = \"256M\"\nenvironment = {{ FAULTLINE_TRUTH = {truth:?} }}\n")
    });
    scene.plan(
        "name = \"ends\"\nreplicates = 1",
        &workload(&scene),
        "duration = \"6s\"\nfirst_transaction_within = \"3s\"\nno_progress_for = \"2s\"\nat_tip_within = \"5s\"",
        &text.concat(),
    );
    scene.run(&["ledger"]);
    scene.nothing_is_left();
    let ran = scene.ran();
    let expected = arms.map(|(.., outcome)| vec![outcome]);
    assert_eq!(
        outcomes(&ran, &arms.map(|(name, ..)| name)),
        expected,
        "{ran:#?}"
    );
    assert_eq!(ran[0].ending["outcome"]["code"], 7);
    let child: u32 = fs::read_to_string(scene.path("ledger/child.pid"))
        .expect("a note")
        .parse()
        .expect("a number");
    assert!(!faultline_testkit::proc::is_alive(child), "{child}");
    let report = scene.report();
    let headline = "Ended by itself: exits (1 of 1 run). \
                    Ended by a rule of the plan: hangs (1 of 1 run), never (1 of 1 run), behind (1 of 1 run). \
                    Ran its whole time: deaf (1 of 1 run).";
    assert!(report.contains(headline), "{report}");
}

/// File cache that is charged to each run, in bytes, by arm and replicate: a file of 256 MiB is restored and then read by
/// every run, again and again, lest a host that reclaims what is idle takes it away.
fn charged(page_cache: &str, replicates: u32) -> Option<Vec<(String, u64)>> {
    let scene = Scene::with_groups()?;
    scene.own_program();
    scene.write(
        "truth",
        "file_mib = 256\nfile_mib_per_second = 512\nslots_per_second = 50\n",
    );
    fs::create_dir(scene.path("kept")).expect("a folder");
    fs::write(scene.path("kept/simulated-accounts"), vec![7; 256 << 20]).expect("a file");
    let arms =
        ["one", "other"].map(|arm| format!("[[arm]]\nname = {arm:?}\nmemory_max = \"512M\"\n"));
    let head = format!("name = \"cold\"\nreplicates = {replicates}");
    let stop = "duration = \"4s\"\nfirst_transaction_within = \"30s\"";
    scene.plan(&head, &workload(&scene), stop, &arms.concat());
    scene.replan("how = \"download\"", "how = \"restore\"\nfrom = \"kept\"");
    scene.replan(
        "page_cache = \"drop-files\"",
        &format!("page_cache = {page_cache:?}"),
    );
    scene.run(&["ledger"]);
    scene.nothing_is_left();
    let file = |run: &Ran| {
        run.ending["evidence"]["file"]
            .as_u64()
            .expect("what is charged")
    };
    Some(
        scene
            .ran()
            .iter()
            .map(|run| (format!("{} {}", run.arm, run.replicate), file(run)))
            .collect(),
    )
}

#[test]
fn every_run_is_charged_for_page_cache_it_reads() {
    let Some(cold) = charged("drop-files", 2) else {
        return;
    };
    assert_eq!(cold.len(), 4);
    let files = cold.iter().map(|(_, file)| *file as f64);
    let (least, most) = files.fold((f64::MAX, 0_f64), |(least, most), file| {
        (least.min(file), most.max(file))
    });
    assert!(least > 0.95 * f64::from(256 << 20), "{cold:?}");
    assert!(most / least < 1.05, "{cold:?}");
    // What was copied belongs to whoever copied it: without the dropping it escapes every limit.
    let Some(warm) = charged("leave", 1) else {
        return;
    };
    assert!(warm.iter().all(|(_, file)| *file < 8 << 20), "{warm:?}");
}
