//! A search of the least memory over validators of which it is known: the real runner, the real daemon, limits of the kernel;
//! the validator reads a file in virtual time, so that neither disk nor CPUs decide what is enough.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot prepare its scene fails"
)]

use crate::support::simulated::{Scene, said};
use faultline_experiments::{
    folder::ExperimentFolder,
    journal::{self, Entry, JournalState, SearchLog},
    search::{DwellResult, HeadroomInterval, SearchAnswer, SearchEvent, SearchOutcome, Verdict},
};
use faultline_recording::EventKind;
use faultline_testkit::{
    eventually::eventually_ok,
    process::{Program, Running},
};
use std::{
    fs,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

const MIB: u64 = 1 << 20;
const PATIENCE: Duration = Duration::from_secs(120);

/// Half of its file is what it needs in memory beside what cannot be reclaimed: 48 MiB.
const KNEE: u64 = 48 * MIB;
const TRUTH: &str = "anonymous_mib = 64\nanonymous_ms = 500\nslots_per_second = 10\nslot_us = 50000\nfile_mib = 96\n\
                     file_mib_per_second = 0\nworking_set_percent = 50\npages_per_slot = 4000\nmiss_us = 300\n";
/// Its time is virtual, so nobody needs to see whether it waits for a CPU.
const UNSEEN: &str = "replays_unseen = true\n";

/// A plan with a search in a scene of its own; `None`, said, where there are no groups.
fn scene(truth: &str) -> Option<Scene> {
    scene_of("10m", truth)
}

/// The same of a search that lasts so long at most.
fn scene_of(most: &str, truth: &str) -> Option<Scene> {
    let scene = Scene::with_groups()?;
    scene.write("truth", &format!("{TRUTH}{truth}"));
    let command = format!(
        "command = [\"./agave-validator\", \"--ledger\", \"{{ledger}}\", \"--rpc-port\", \"{{rpc_port}}\", \"--truth\", {:?}]\n\
         ledger = \"ledger\"\nrpc_port = {}",
        scene.path("truth").display().to_string(),
        scene.ports.port(1)
    );
    let search = format!(
        "[search]\nwhat = \"memory\"\nfrom = \"52M\"\nsettle = \"1s\"\ndwell = \"2s\"\nmost = \"{most}\"\n"
    );
    scene.plan(
        "name = \"least\"\nreplicates = 1",
        &command,
        "first_transaction_within = \"1m\"",
        &search,
    );
    scene.write("faultlined.toml", DAEMON);
    Some(scene)
}

/// Dwells of two seconds need answers more often than once a second.
const DAEMON: &str = "[rpc]\ninterval = \"100ms\"\n[phase]\nat_tip_for = \"1s\"\nbehind_slots = 40\nbehind_for = \"1s\"\n";

fn standing(scene: &Scene) -> JournalState {
    let lines = journal::read(&ExperimentFolder::new(&scene.path("experiment")).journal())
        .unwrap_or_default();
    JournalState::of(&lines)
}

/// What the newest attempt at the one run has searched.
fn searched(scene: &Scene) -> SearchLog {
    let standing = standing(scene);
    let newest = standing
        .attempts
        .get(&1)
        .and_then(|attempts| attempts.last());
    newest
        .and_then(|newest| newest.runs.get(&1))
        .map(|run| run.search_log.clone())
        .unwrap_or_default()
}

fn found(answer: &SearchAnswer) -> (u64, u64) {
    match answer.outcome {
        SearchOutcome::Found(HeadroomInterval { low, high, .. }) => (low, high),
        _ => panic!("{answer:#?}"),
    }
}

#[track_caller]
fn holds_the_knee(searched: &SearchLog) {
    let answer = searched.answer.as_ref().expect("an answer");
    let said: Vec<String> = searched
        .events
        .iter()
        .map(|(line, at)| format!("{at} {line:?}"))
        .collect();
    let said = said.join("\n");
    assert!(
        matches!(answer.outcome, SearchOutcome::Found(_)),
        "{answer:#?}\n{said}"
    );
    let (low, high) = found(answer);
    assert!(
        low <= KNEE && KNEE <= high,
        "{} to {} KiB\n{said}",
        low >> 10,
        high >> 10
    );
    assert!(high as f64 <= 1.1 * low as f64, "{low} to {high}\n{said}");
    let failed = |line: &SearchEvent| {
        matches!(
            line,
            SearchEvent::Dwell(DwellResult {
                verdict: Verdict::Failed,
                ..
            })
        )
    };
    assert!(
        searched.events.iter().any(|(line, _)| failed(line)),
        "{said}"
    );
}

#[test]
fn the_minimum_memory_is_found_in_one_run_without_a_kill() {
    let Some(scene) = scene(UNSEEN) else { return };
    let searched = ran(&scene);
    holds_the_knee(&searched);
    // Whoever scrapes the recorder, or reads its recording, knows the verdicts too.
    let events = scene.recording(&scene.ran()[0]).events().expect("events");
    let marks = events
        .iter()
        .filter(|event| event.kind == EventKind::Mark)
        .count();
    let dwells = searched
        .events
        .iter()
        .filter(|(line, _)| matches!(line, SearchEvent::Dwell(DwellResult { .. })))
        .count();
    assert_eq!(marks, dwells, "{events:#?}");
    let status = said(&scene.experiment(&["status"]));
    assert!(
        status.contains("the least headroom is ") && status.contains(" kept up, "),
        "{status}"
    );
}

/// Runs a plan to its end; what it has searched.
fn ran(scene: &Scene) -> SearchLog {
    scene.run(&["ledger"]);
    scene.nothing_is_left();
    let ran = scene.ran();
    assert_eq!(
        (ran[0].outcome.as_str(), ran[0].attempt),
        ("completed", 1),
        "{ran:#?}"
    );
    assert_eq!(
        ran[0].ending["evidence"]["memory_events"]["oom_kill"]
            .as_u64()
            .unwrap_or(0),
        0,
        "{ran:#?}"
    );
    searched(scene)
}

#[test]
#[ignore = "takes twenty minutes: .ci/run --long; search::tests has the same without a kernel in the short run"]
fn all_five_searches_find_the_minimum_memory() {
    for _ in 0..5 {
        let Some(scene) = scene(UNSEEN) else { return };
        holds_the_knee(&ran(&scene));
    }
}

#[test]
#[ignore = "takes three minutes: .ci/run --long; search::tests has the same without a kernel in the short run"]
fn a_search_of_leaking_memory_finds_its_headroom() {
    let Some(scene) = scene(&format!("{UNSEEN}leak_mib_per_minute = 300\n")) else {
        return;
    };
    let searched = ran(&scene);
    let answer = searched.answer.as_ref().expect("an answer");
    assert_eq!(answer.is_stable, Some(false), "{answer:#?}");
    assert_eq!(
        answer
            .sufficient_sizes
            .iter()
            .map(|size| size.hours)
            .collect::<Vec<_>>(),
        [1.0, 12.0, 24.0]
    );
    let (low, high) = found(answer);
    assert!(
        low as f64 >= KNEE as f64 * 0.85 && high as f64 <= KNEE as f64 * 1.15,
        "{answer:#?}"
    );
    let grows = answer.growth_bytes_per_hour.expect("it grows") / (5 * 3600 * MIB) as f64;
    assert!((0.9..1.1).contains(&grows), "{answer:#?}");
}

#[test]
#[ignore = "takes five minutes and all CPUs: .ci/run --long; search::tests has the same without a kernel in the short run"]
fn external_load_voids_failed_dwells_without_changing_the_result() {
    let Some(scene) = scene("") else { return };
    let journal = ExperimentFolder::new(&scene.path("experiment")).journal();
    let (over, loaded) = (AtomicBool::new(false), AtomicBool::new(false));
    let searched = std::thread::scope(|scope| {
        let cpus = std::thread::available_parallelism().map_or(2, usize::from);
        for _ in 0..4 * cpus {
            scope.spawn(|| burn(&over, &loaded));
        }
        scope.spawn(|| load_every_second_dwell(&journal, &over, &loaded));
        let searched = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| ran(&scene)));
        over.store(true, Ordering::Relaxed);
        searched.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    holds_the_knee(&searched);
    let void = |line: &SearchEvent| match line {
        SearchEvent::Dwell(DwellResult {
            verdict: Verdict::Void,
            evidence,
            ..
        }) => evidence.why.iter().any(|why| why.contains("for a CPU")),
        _ => false,
    };
    assert!(
        searched.events.iter().any(|(line, _)| void(line)),
        "{:#?}",
        searched.events
    );
}

/// After the references until a dwell is void, and again after the next one that is not: half of the dwells. Void ones of a host that
/// is busy anyway are never five in a row for that.
fn load_every_second_dwell(journal: &Path, over: &AtomicBool, loaded: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        let text = fs::read_to_string(journal).unwrap_or_default();
        let dwells: Vec<&str> = text
            .lines()
            .filter(|line| line.contains(r#""search":"dwell""#))
            .collect();
        let void = dwells
            .last()
            .is_some_and(|line| line.contains(r#""verdict":"void""#));
        loaded.store(dwells.len() > 2 && !void, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Uses a CPU while it is to.
fn burn(over: &AtomicBool, loaded: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        if loaded.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        } else {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// The runner, killed while its run is squeezed.
#[test]
fn a_search_killed_under_a_limit_leaves_no_limit_and_restarts() {
    // It need not come to an end of its own twice.
    let Some(scene) = scene_of("1m", UNSEEN) else {
        return;
    };
    let made = scene.init(&["ledger"]);
    assert_eq!(made.status.code(), Some(0), "{}", said(&made));
    let mut runner = run_until_it_squeezes(&scene);
    let status = said(&scene.experiment(&["status"]));
    assert!(status.contains("kept up, "), "{status}");
    runner.kill().expect("killed");
    let before = searched(&scene);
    assert_eq!(before.answer, None);
    // The first thing that `resume` does, alone.
    let stopped = scene.experiment(&["stop"]);
    assert_eq!(stopped.status.code(), Some(0), "{}", said(&stopped));
    scene.nothing_is_left();
    let resumed = scene.experiment(&["resume"]);
    assert_eq!(resumed.status.code(), Some(0), "{}", said(&resumed));
    scene.nothing_is_left();
    assert!(
        said(&resumed).contains("the search before was cut off, and this one began anew"),
        "{}",
        said(&resumed)
    );
    let standing = standing(&scene);
    assert_eq!(standing.searches_unanswered(1), 1);
    let ran = scene.ran();
    assert_eq!(
        (ran[0].outcome.as_str(), ran[0].attempt),
        ("completed", 2),
        "{ran:#?}"
    );
    assert!(
        ran[0].ending["notes"].to_string().contains("began anew"),
        "{ran:#?}"
    );
    let again = searched(&scene);
    assert!(again.answer.is_some());
    assert!(
        matches!(
            again.events.first(),
            Some((SearchEvent::Dwell(DwellResult { headroom: None, .. }), _))
        ),
        "references come first"
    );
    let newest = Entry::TurnBegun {
        turn: 1,
        attempt: 2,
    };
    let lines = journal::read(&ExperimentFolder::new(&scene.path("experiment")).journal())
        .expect("a journal");
    assert!(lines.iter().any(|line| line.entry == newest));
}

fn run_until_it_squeezes(scene: &Scene) -> Running {
    let words = ["experiment", "run", "--launcher", "direct"].map(str::to_owned);
    let arguments = words
        .into_iter()
        .chain([scene.path("plan.toml").display().to_string()])
        .collect();
    let program = Program {
        path: scene.path("faultline"),
        arguments,
        environment: vec![("SOLANA_METRICS_CONFIG".to_owned(), None)],
        output: scene.path("output"),
    };
    let mut runner = Running::start(&program).expect("a runner");
    let squeezed = |line: &SearchEvent| {
        matches!(
            line,
            SearchEvent::Dwell(DwellResult {
                headroom: Some(_),
                ..
            })
        )
    };
    eventually_ok(PATIENCE, "a dwell under a limit", || {
        let searched = searched(scene);
        let status = runner.exit_status().expect("a status");
        assert!(
            status.is_none(),
            "{}",
            fs::read_to_string(scene.path("output")).unwrap_or_default()
        );
        if searched.events.iter().any(|(line, _)| squeezed(line)) {
            Ok(())
        } else {
            Err(searched.events.len())
        }
    });
    runner
}
