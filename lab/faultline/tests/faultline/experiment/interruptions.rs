//! What interrupts a runner, and what becomes of the experiment then.

use super::scene::{PATIENCE, Scene, said};
use crate::support::small_disk::SmallDisk;
use faultline_experiments::{
    folder::RECORDER_LOG,
    journal::{Entry, JournalLine, Step},
    outcome::{Outcome, Validity},
};
use faultline_testkit::{
    eventually::{eventually, eventually_ok},
    process::signal,
};
use std::{fs, io::Write, path::Path, time::Duration};

/// Ends when asked, and has a child that left its session and a grandchild that nobody waits for.
const SCRIPT: &str = "setsid sleep 1000 &\n(sleep 1000 &)\nsleep 1000";
const SHORT: &str = "[stop]\nduration = \"1s\"\ncounted_from = \"start\"\ngrace = \"5s\"\n[[arm]]\nname = \"a\"\nmemory_max = \"64M\"\n";
const LONG: &str = "[stop]\nduration = \"1h\"\ncounted_from = \"start\"\ngrace = \"5s\"\n[[arm]]\nname = \"a\"\nmemory_max = \"64M\"\n";

fn watches(run: u32) -> impl Fn(&Entry) -> bool {
    move |entry| matches!(entry, Entry::Step { run: number, step: Step::Watch, .. } if *number == run)
}

/// Kills the runner once the journal has this many lines, then resumes.
fn killed_at(lines: usize) {
    let Some(scene) = Scene::new("killed", SCRIPT, 2, SHORT) else {
        return;
    };
    let mut runner = scene.start(&["run", "plan.toml"]);
    eventually(PATIENCE, "so many lines", || {
        let enough = scene.lines().len() >= lines;
        (enough || runner.exit_status().unwrap().is_some()).then_some(())
    });
    runner.kill().unwrap();
    // A line that was being written when the power was cut.
    let journal = scene.folder().journal();
    if let Ok(mut file) = fs::OpenOptions::new().append(true).open(journal) {
        file.write_all(b"{\"unix_ns\":1,\"entry\":\"fini").unwrap();
    }
    let words = if scene.standing().planned.is_some() {
        "resume"
    } else {
        "run"
    };
    let output = scene.faultline(&[words, "plan.toml"]);
    assert!(
        output.status.success(),
        "killed at {lines}: {}",
        said(&output)
    );
    scene.assert_every_run_counts_once();
    scene.assert_nothing_is_left();
    assert!(
        scene
            .ends()
            .iter()
            .all(|(_, end)| end.outcome == Outcome::Completed),
        "{:?}",
        scene.ends()
    );
}

#[test]
fn a_runner_killed_during_preparation_resumes_counting_every_run_once() {
    (1..=7).for_each(killed_at);
}

#[test]
fn a_runner_killed_during_a_run_resumes_counting_every_run_once() {
    (8..=13).for_each(killed_at);
}

#[test]
fn a_runner_killed_between_runs_resumes_counting_every_run_once() {
    [14, 18, 22, 23].into_iter().for_each(killed_at);
}

#[test]
fn an_interrupt_ends_the_run_cleanly_and_resume_repeats_it() {
    let Some(scene) = Scene::new("interrupted", SCRIPT, 1, LONG) else {
        return;
    };
    let mut runner = scene.start(&["run", "plan.toml"]);
    scene.wait_for("the first run", watches(1));
    signal(runner.pid(), "INT").unwrap();
    let status = eventually(PATIENCE, "it ends", || runner.exit_status().unwrap());
    assert_eq!(status.code(), Some(1));
    let words = fs::read_to_string(scene.path("output-of-run")).unwrap();
    assert!(
        words.contains("stopped by SIGINT") && words.contains("experiment resume"),
        "{words}"
    );
    let ended = scene.lines().iter().any(|line| {
        matches!(&line.entry, Entry::RunEnded { run: 1, attempt: 1, ending }
            if ending.outcome == Outcome::Interrupted { why: "stopped by SIGINT".to_owned() })
    });
    assert!(ended && scene.standing().stopped.is_some());
    scene.assert_nothing_is_left();
    let page = said(&scene.faultline(&["status", "plan.toml"]));
    assert!(
        page.contains("stopped: stopped by SIGINT") && page.contains("to be repeated"),
        "{page}"
    );
    let mut runner = scene.start(&["resume", "plan.toml"]);
    scene.wait_for("a second attempt", |entry| {
        matches!(
            entry,
            Entry::Step {
                run: 1,
                attempt: 2,
                step: Step::Watch
            }
        )
    });
    let json = said(&scene.faultline(&["status", "--json", "plan.toml"]));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&json["state"]["is"], &json["runs"][0]["step"]),
        (&"running".into(), &"watch".into()),
        "{json}"
    );
    assert_eq!(json["state"]["pid"], runner.pid());
    // From another terminal.
    let output = scene.faultline(&["stop", "plan.toml"]);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(
        eventually(PATIENCE, "it ends", || runner.exit_status().unwrap()).code(),
        Some(1)
    );
    scene.assert_nothing_is_left();
}

#[test]
fn a_second_interrupt_does_not_wait_for_the_program() {
    let script = "trap '' TERM INT\nwhile :; do sleep 1; done";
    let plan = LONG.replace("grace = \"5s\"", "grace = \"1h\"");
    let Some(scene) = Scene::new("forced", script, 1, &plan) else {
        return;
    };
    let mut runner = scene.start(&["run", "plan.toml"]);
    scene.wait_for("the first run", watches(1));
    signal(runner.pid(), "INT").unwrap();
    scene.wait_for("the end begins", |entry| {
        matches!(
            entry,
            Entry::Step {
                step: Step::End,
                ..
            }
        )
    });
    signal(runner.pid(), "INT").unwrap();
    assert_eq!(
        eventually(PATIENCE, "it ends", || runner.exit_status().unwrap()).code(),
        Some(1)
    );
    scene.assert_nothing_is_left();
}

#[test]
fn a_stalled_runner_is_reported_and_stop_prints_a_remedy() {
    let Some(scene) = Scene::new("frozen", SCRIPT, 1, LONG) else {
        return;
    };
    let mut runner = scene.start(&["run", "plan.toml"]);
    scene.wait_for("the first run", watches(1));
    signal(runner.pid(), "STOP").unwrap();
    let cont = format!("`kill -CONT {}`", runner.pid());
    eventually_ok(PATIENCE, "status says so", || {
        let page = said(&scene.faultline(&["status", "plan.toml"]));
        if page.contains("is stopped (SIGSTOP") && page.contains(&cont) && !page.contains(" left ")
        {
            Ok(())
        } else {
            Err(page)
        }
    });
    let json = said(&scene.faultline(&["status", "--json", "plan.toml"]));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&json["state"]["is"], &json["seconds_left"]),
        (&"suspended".into(), &serde_json::Value::Null),
        "{json}"
    );
    let mut stop = scene.start(&["stop", "plan.toml"]);
    eventually_ok(PATIENCE, "stop says so", || {
        let words = fs::read_to_string(scene.path("output-of-stop")).unwrap();
        if words.contains("is stopped (SIGSTOP") && words.contains(&cont) {
            Ok(())
        } else {
            Err(words)
        }
    });
    signal(runner.pid(), "CONT").unwrap();
    assert_eq!(
        eventually(PATIENCE, "it ends", || runner.exit_status().unwrap()).code(),
        Some(1)
    );
    assert_eq!(
        eventually(PATIENCE, "stop ends", || stop.exit_status().unwrap()).code(),
        Some(0)
    );
    scene.assert_nothing_is_left();
}

#[test]
fn a_run_that_continued_during_a_runner_stall_is_not_valid() {
    let Some(scene) = Scene::new("overlong", SCRIPT, 1, SHORT) else {
        return;
    };
    let mut runner = scene.start(&["run", "plan.toml"]);
    scene.wait_for("the first run", watches(1));
    let watching = scene.lines().last().unwrap().unix_ns;
    signal(runner.pid(), "STOP").unwrap();
    let recording = scene
        .folder()
        .recording(&scene.standing().turns[0].runs[0], 1);
    eventually_ok(
        PATIENCE,
        "the recording goes on for longer than is forgiven",
        || {
            let recording = faultline_recording::Recording::open(&recording)
                .map_err(|error| error.to_string())?;
            let newest = recording
                .ticks()
                .map_err(|error| error.to_string())?
                .last()
                .map_or(0, |tick| tick.unix_ns);
            if newest - watching > 13_000_000_000 {
                Ok(())
            } else {
                Err(newest.to_string())
            }
        },
    );
    signal(runner.pid(), "CONT").unwrap();
    assert_eq!(
        eventually(PATIENCE, "it ends", || runner.exit_status().unwrap()).code(),
        Some(0)
    );
    let (_, end) = &scene.ends()[0];
    let why = "longer than planned: this program or the host was suspended";
    assert_eq!(end.outcome, Outcome::Completed);
    assert!(
        matches!(&end.validity, Validity::Unproven(said) if said.contains(why)),
        "{end:?}"
    );
    scene.assert_nothing_is_left();
}

#[test]
fn stop_ends_processes_left_by_a_killed_runner() {
    let Some(scene) = Scene::new("orphans", SCRIPT, 1, LONG) else {
        return;
    };
    let mut runner = scene.start(&["run", "plan.toml"]);
    scene.wait_for("the first run", watches(1));
    let second = scene.faultline(&["resume", "plan.toml"]);
    assert_eq!(second.status.code(), Some(1));
    assert!(
        said(&second).contains(&format!("process {}", runner.pid())),
        "{}",
        said(&second)
    );
    runner.kill().unwrap();
    let page = said(&scene.faultline(&["status", "plan.toml"]));
    assert!(page.contains("cut off"), "{page}");
    let output = scene.faultline(&["stop", "plan.toml"]);
    assert!(
        output.status.success() && said(&output).contains("left behind"),
        "{}",
        said(&output)
    );
    scene.assert_nothing_is_left();
}

#[test]
fn a_killed_recorder_fails_the_run_and_finally_the_experiment() {
    let Some(scene) = Scene::new("deaf", SCRIPT, 1, LONG) else {
        return;
    };
    let mut runner = scene.start(&["run", "plan.toml"]);
    for attempt in 1..=2 {
        scene.wait_for(
            "an attempt",
            |entry| matches!(entry, Entry::Step { attempt: number, step: Step::Watch, .. } if *number == attempt),
        );
        let log = scene
            .folder()
            .run(&scene.standing().turns[0].runs[0], attempt)
            .join(RECORDER_LOG);
        let recorder = eventually_ok(PATIENCE, "the recorder", || writer_of(&log).ok_or("nobody"));
        signal(recorder, "KILL").unwrap();
    }
    assert_eq!(
        eventually(PATIENCE, "it gives up", || runner.exit_status().unwrap()).code(),
        Some(1)
    );
    let words = fs::read_to_string(scene.path("output-of-run")).unwrap();
    let why = "faultlined ended in the middle of the run, by signal 9";
    assert!(
        words.contains("failed 2 times") && words.contains(why) && !words.contains(" INFO "),
        "{words}"
    );
    scene.assert_nothing_is_left();
    // Whoever mends what was wrong has all attempts again.
    let mut runner = scene.start(&["resume", "plan.toml"]);
    scene.wait_for("a third attempt", |entry| {
        matches!(
            entry,
            Entry::Step {
                attempt: 3,
                step: Step::Watch,
                ..
            }
        )
    });
    signal(runner.pid(), "TERM").unwrap();
    eventually(PATIENCE, "it ends", || runner.exit_status().unwrap());
    scene.assert_nothing_is_left();
}

#[test]
fn a_run_with_a_stalled_recorder_is_repeated() {
    let plan = SHORT.replace("duration = \"1s\"", "duration = \"6s\"");
    let Some(scene) = Scene::new("stopped", SCRIPT, 1, &plan) else {
        return;
    };
    let mut runner = scene.start(&["run", "plan.toml"]);
    scene.wait_for("the first run", watches(1));
    let log = scene
        .folder()
        .run(&scene.standing().turns[0].runs[0], 1)
        .join(RECORDER_LOG);
    let recorder = eventually_ok(PATIENCE, "the recorder", || writer_of(&log).ok_or("nobody"));
    signal(recorder, "STOP").unwrap();
    scene.wait_for("its end", |entry| {
        matches!(
            entry,
            Entry::Step {
                attempt: 1,
                step: Step::End,
                ..
            }
        )
    });
    eventually(
        PATIENCE,
        "whoever looks on is told for what it waits",
        || {
            let words = fs::read_to_string(scene.path("output-of-run")).unwrap_or_default();
            words
                .contains("waiting for faultlined to end, for ")
                .then_some(())
        },
    );
    signal(recorder, "CONT").unwrap();
    assert_eq!(
        eventually(PATIENCE, "it ends", || runner.exit_status().unwrap()).code(),
        Some(0)
    );
    let ended = |line: &JournalLine| match &line.entry {
        Entry::RunEnded {
            attempt: 1, ending, ..
        } => Some(ending.outcome.clone()),
        _ => None,
    };
    let first = scene.lines().iter().find_map(ended);
    let why = "its recorder stalled";
    assert!(
        matches!(&first, Some(Outcome::Failed { why: said }) if said.starts_with(why)),
        "{first:?}"
    );
    assert_eq!(scene.ends()[0].1.outcome, Outcome::Completed);
    scene.assert_every_run_counts_once();
    scene.assert_nothing_is_left();
}

/// The process that has this file open for writing, but for this one.
fn writer_of(file: &Path) -> Option<u32> {
    let file = file.canonicalize().ok()?;
    let pids = fs::read_dir("/proc")
        .ok()?
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut others = pids.filter(|pid| *pid != std::process::id());
    others.find(|pid| fs::read_link(format!("/proc/{pid}/fd/2")).is_ok_and(|open| open == file))
}

#[test]
fn a_full_disk_stops_the_experiment_and_it_resumes_with_free_space() {
    let Some(small) = SmallDisk::mount("128m") else {
        return;
    };
    let state = small.path().join("state");
    let Some(scene) = Scene::new("full", SCRIPT, 1, LONG) else {
        return;
    };
    let scene = scene.in_folder(&state);
    let mut runner = scene.start(&["run", "plan.toml"]);
    scene.wait_for("the first run", watches(1));
    let ballast = small.path().join("ballast");
    let mut file = fs::File::create(&ballast).unwrap();
    while file.write_all(&[1; 1 << 16]).is_ok() {}
    while file.write_all(&[1]).is_ok() {}
    let status = eventually(PATIENCE, "it stops", || runner.exit_status().unwrap());
    let words = fs::read_to_string(scene.path("output-of-run")).unwrap();
    assert_eq!(status.code(), Some(1), "{words}");
    assert!(
        words.contains("the disk is full") && words.contains("experiment resume"),
        "{words}"
    );
    scene.assert_nothing_is_left();
    // The room is free once nobody has the file open any more.
    drop(file);
    fs::remove_file(&ballast).unwrap();
    let mut runner = scene.start(&["resume", "plan.toml"]);
    scene.wait_for("a second attempt", |entry| {
        matches!(
            entry,
            Entry::Step {
                run: 1,
                attempt: 2,
                step: Step::Watch
            }
        )
    });
    signal(runner.pid(), "TERM").unwrap();
    eventually(Duration::from_secs(60), "it ends", || {
        runner.exit_status().unwrap()
    });
    scene.assert_nothing_is_left();
    drop(scene);
}
