use super::*;
use faultline_agave::identify;
use faultline_kernel::ProcessId;
use faultline_metrics::{Batch, Source};

fn target(pid: u32, exe: &str) -> Arc<Target> {
    Arc::new(Target {
        process: ProcessId {
            pid,
            start_ticks: 7,
        },
        comm: "agave-validator".to_owned(),
        exe: Some(exe.into()),
        validator: None,
        ledger: None,
        found_by: "pid",
    })
}

fn current_target(target: Option<&Arc<Target>>, ended: Option<EndReason>) -> CurrentTarget {
    CurrentTarget {
        target: target.cloned(),
        end_reason: ended,
    }
}

/// A tick whose wall clock is `set` seconds ahead, with a total of `steps` clock steps.
fn tick_after_steps(number: u64, set: i64, steps: u64) -> Arc<Tick> {
    let mut tick = (*tick(number, None, 0)).clone();
    tick.at.unix = Duration::from_secs((1_000_000 + number).checked_add_signed(set).unwrap());
    let readings = vec![Reading::integer(&d::CLOCK_STEPS, [], steps)];
    tick.batches.push(Arc::new(Batch {
        readings,
        ..Batch::empty(Source::Daemon, tick.at)
    }));
    Arc::new(tick)
}

fn tick(number: u64, phase: Option<&'static str>, restarts: u64) -> Arc<Tick> {
    let at = Stamp {
        uptime: Duration::from_secs(number),
        unix: Duration::from_secs(1_000_000 + number),
    };
    let mut readings = vec![Reading::integer(
        &p::RESTARTS,
        ["oom_kill".into()],
        restarts,
    )];
    let phases = ["catching_up", "at_tip", "behind"].map(|name| (name, Some(name) == phase));
    readings.extend(phases.map(|(name, on)| Reading::flag(&v::PHASE, [name.into()], on)));
    readings.push(Reading::real(&p::START_TIME, [], 999_000.5));
    let batch = Batch {
        readings,
        ..Batch::empty(Source::Conclusions, at)
    };
    Arc::new(Tick {
        number,
        at,
        batches: vec![Arc::new(batch)],
    })
}

/// One line for each entry that the ticks produce.
fn entry_lines(ticks: &[(Arc<Tick>, CurrentTarget)]) -> Vec<String> {
    let (mut events, mut out) = (EventDetector::default(), Vec::new());
    let describe: DescribeProcess = Box::new(|target| json!({ "exe": target.exe }));
    for (tick, current) in ticks {
        events.add_tick(tick, current, &describe, &mut out);
    }
    out.iter()
        .map(|entry| match entry {
            RecordingEntry::ProcessChange(None) => "nobody".to_owned(),
            RecordingEntry::ProcessChange(Some(followed)) => {
                format!(
                    "process {} {} {:?}",
                    followed.target.process.pid, followed.manifest, followed.started_unix
                )
            }
            RecordingEntry::Tick(tick) => format!("tick {}", tick.number),
            RecordingEntry::Point(_) => "point".to_owned(),
            RecordingEntry::Manifest(more) => {
                format!("known {} {}", more.target.process.pid, more.manifest)
            }
            RecordingEntry::Event(event) => format!(
                "{} {} {}",
                event.at.uptime.as_secs(),
                event.kind.name(),
                event.detail
            ),
        })
        .collect()
}

#[test]
fn a_killed_and_replaced_process_yields_exit_start_and_restart_events() {
    let (one, two) = (target(1, "/v"), target(2, "/v"));
    let lines = entry_lines(&[
        (tick(1, None, 0), current_target(Some(&one), None)),
        (
            tick(2, None, 0),
            current_target(None, Some(EndReason::OomKill)),
        ),
        (tick(3, None, 1), current_target(Some(&two), None)),
    ]);
    assert_eq!(
        lines,
        [
            "process 1 {\"exe\":\"/v\"} Some(999000.5s)",
            "1 start {\"comm\":\"agave-validator\",\"found_by\":\"pid\",\"pid\":1}",
            "tick 1",
            "2 oom_kill {\"comm\":\"agave-validator\",\"pid\":1,\"reason\":\"oom_kill\"}",
            "nobody",
            "tick 2",
            "process 2 {\"exe\":\"/v\"} Some(999000.5s)",
            "3 start {\"comm\":\"agave-validator\",\"found_by\":\"pid\",\"pid\":2}",
            "3 restart {\"reason\":\"oom_kill\"}",
            "tick 3",
        ]
    );
}

#[test]
fn a_clock_step_is_recorded_as_an_event_without_a_gap() {
    let lines = entry_lines(&[
        (tick_after_steps(1, 0, 0), current_target(None, None)),
        (tick_after_steps(2, 3600, 1), current_target(None, None)),
        (tick_after_steps(3, 3600, 1), current_target(None, None)),
        (tick_after_steps(4, 0, 2), current_target(None, None)),
    ]);
    assert_eq!(
        lines,
        [
            "tick 1",
            "2 clock_step {\"seconds\":3600.0}",
            "tick 2",
            "tick 3",
            "4 clock_step {\"seconds\":-3600.0}",
            "tick 4",
        ]
    );
}

#[test]
fn an_exec_updates_the_description_without_exit_or_start_events() {
    let (shell, validator) = (target(1, "/bin/sh"), target(1, "/v"));
    let lines = entry_lines(&[
        (tick(1, None, 0), current_target(Some(&shell), None)),
        (tick(2, None, 0), current_target(Some(&validator), None)),
        (tick(3, None, 0), current_target(Some(&validator), None)),
        // An upgrade replaces the program's file.
        (
            tick(4, None, 0),
            current_target(Some(&target(1, "/v (deleted)")), None),
        ),
    ]);
    assert_eq!(
        lines,
        [
            "process 1 {\"exe\":\"/bin/sh\"} Some(999000.5s)",
            "1 start {\"comm\":\"agave-validator\",\"found_by\":\"pid\",\"pid\":1}",
            "tick 1",
            "known 1 {\"exe\":\"/v\"}",
            "tick 2",
            "tick 3",
            "tick 4",
        ]
    );
}

#[test]
fn an_exit_with_unknown_reason_is_recorded_as_such() {
    let (one, two) = (target(1, "/v"), target(2, "/v"));
    let lines = entry_lines(&[
        (tick(1, None, 0), current_target(Some(&one), None)),
        (tick(2, None, 0), current_target(Some(&two), None)),
    ]);
    assert!(
        lines
            .iter()
            .any(|line| line.starts_with("2 exit ") && line.contains("\"reason\":\"unknown\"")),
        "{lines:?}"
    );
}

#[test]
fn phase_changes_are_recorded_and_the_tip_has_its_own_event() {
    let ticks = [
        Some("catching_up"),
        Some("catching_up"),
        Some("at_tip"),
        None,
        Some("behind"),
        Some("at_tip"),
    ];
    let ticks: Vec<(Arc<Tick>, CurrentTarget)> = (1..)
        .zip(ticks)
        .map(|(number, phase)| (tick(number, phase, 0), current_target(None, None)))
        .collect();
    let lines: Vec<String> = entry_lines(&ticks)
        .into_iter()
        .filter(|line| !line.starts_with("tick"))
        .collect();
    assert_eq!(
        lines,
        [
            "1 phase {\"from\":null,\"to\":\"catching_up\"}",
            "3 phase {\"from\":\"catching_up\",\"to\":\"at_tip\"}",
            "3 at_tip {\"slots_behind\":null}",
            "4 phase {\"from\":\"at_tip\",\"to\":null}",
            "5 phase {\"from\":null,\"to\":\"behind\"}",
            "5 behind {\"slots_behind\":null}",
            "6 phase {\"from\":\"behind\",\"to\":\"at_tip\"}",
            "6 at_tip {\"slots_behind\":null}",
        ]
    );
}

#[test]
fn a_temporarily_unknown_phase_is_not_recorded_as_a_new_phase() {
    let ticks = [None, Some("behind"), None, None, Some("behind")];
    let ticks: Vec<(Arc<Tick>, CurrentTarget)> = (1..)
        .zip(ticks)
        .map(|(number, phase)| (tick(number, phase, 0), current_target(None, None)))
        .collect();
    let lines: Vec<String> = entry_lines(&ticks)
        .into_iter()
        .filter(|line| !line.starts_with("tick"))
        .collect();
    assert_eq!(
        lines,
        [
            "2 phase {\"from\":null,\"to\":\"behind\"}",
            "2 behind {\"slots_behind\":null}",
            "3 phase {\"from\":\"behind\",\"to\":null}",
            "5 phase {\"from\":null,\"to\":\"behind\"}",
        ]
    );
}

#[test]
fn a_stalled_slot_at_the_tip_is_reported_once_until_it_advances() {
    let stalls = [Some(0.0), Some(1.0), Some(1.0), None, Some(1.0)];
    let ticks: Vec<(Arc<Tick>, CurrentTarget)> = (1..)
        .zip(stalls)
        .map(|(number, stalled)| {
            let mut tick = (*tick(number, None, 0)).clone();
            let stalled = stalled.map(|stalled| Reading::flag(&v::STALLED, [], stalled == 1.0));
            // A stopped process reports no slot.
            let slot = (number == 1).then(|| Reading::integer(&v::SLOT, ["processed".into()], 7));
            let readings = stalled.into_iter().chain(slot).collect();
            tick.batches.push(Arc::new(Batch {
                readings,
                ..Batch::empty(Source::Conclusions, tick.at)
            }));
            (Arc::new(tick), current_target(None, None))
        })
        .collect();
    let lines: Vec<String> = entry_lines(&ticks)
        .into_iter()
        .filter(|line| !line.starts_with("tick"))
        .collect();
    assert_eq!(lines, ["2 stall {\"slot\":7.0}", "5 stall {\"slot\":7.0}"]);
}

#[test]
fn skipped_ticks_are_a_gap_event() {
    let lines = entry_lines(&[
        (tick(3, None, 0), current_target(None, None)),
        (tick(7, None, 0), current_target(None, None)),
    ]);
    assert_eq!(
        lines[1],
        "7 gap {\"seconds\":4.0,\"ticks\":3,\"why\":\"ticks were missed\"}"
    );
    assert_eq!(
        lines.len(),
        3,
        "the first tick of all has none before it: {lines:?}"
    );
}

#[test]
fn a_wrapper_replaced_by_its_validator_has_no_exit_event() {
    let wrapper = target(1, "/usr/bin/timeout");
    let arguments = ["agave-validator", "--ledger", "/l"].map(str::to_owned);
    let identify::Process::Validator(validator) = identify::identify("agave-validator", &arguments)
    else {
        unreachable!("a validator")
    };
    let found = Arc::new(Target {
        validator: Some(validator),
        found_by: "descendant",
        ..(*target(2, "/v")).clone()
    });
    let lines = entry_lines(&[
        (tick(1, None, 0), current_target(Some(&wrapper), None)),
        (tick(2, None, 0), current_target(Some(&found), None)),
        (
            tick(3, None, 0),
            current_target(None, Some(EndReason::Exit)),
        ),
    ]);
    let exits: Vec<&String> = lines
        .iter()
        .filter(|line| line.contains(" exit "))
        .collect();
    assert!(
        exits.len() == 1 && exits[0].contains("\"pid\":2"),
        "{lines:?}"
    );
}
