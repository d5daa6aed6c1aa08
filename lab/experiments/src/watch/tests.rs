use super::*;
use crate::plan::parse;
use faultline_recording::TickRow;
use std::path::Path;

fn plan(kind: &str, stop: &str) -> Plan {
    let text = format!(
        "name = \"p\"\nfolder = \"/state\"\n[workload]\nkind = \"{kind}\"\ncommand = [\"v\"]\nledger = \"/l\"\n\
         [begin]\nhow = \"as-is\"\n[stop]\n{stop}\n[[arm]]\nname = \"a\"\n[[arm]]\nname = \"b\"\n"
    );
    parse(&text, Path::new("/p.toml")).unwrap_or_else(|mistakes| panic!("{mistakes:?}"))
}

const BEGAN: u64 = 1_000;
const EPOCH: i64 = 1_800_000_000;

fn at(second: u64) -> Timestamp {
    Timestamp {
        uptime: Duration::from_secs(BEGAN + second),
        unix_ns: (EPOCH + second as i64) * 1_000_000_000,
    }
}

fn watch(plan: &Plan) -> Watch {
    Watch::begin(plan, at(0))
}

/// A recording whose newest tick is of this second.
fn seen(second: u64) -> Progress {
    let tick = TickRow {
        id: 1,
        session: 1,
        number: second,
        unix_ns: 0,
        uptime_ns: second as i64 * 1_000_000_000,
        process: Some(1),
        phase: Some("catching_up".into()),
    };
    Progress {
        last_tick: Some(tick),
        was_followed: true,
        ..Progress::default()
    }
}

fn executing(second: u64, since: u64, slot: u64) -> Progress {
    if second < since {
        return seen(second);
    }
    let first_transaction_unix_ns = Some((EPOCH + since as i64) * 1_000_000_000);
    Progress {
        first_transaction_unix_ns,
        newest_slot: Some(slot),
        ..seen(second)
    }
}

/// The first second with a decision, and the outcome. `of` returns the recording at each second.
fn decided(watch: &mut Watch, until: u64, of: impl Fn(u64) -> Progress) -> Option<(u64, Outcome)> {
    (1..=until).find_map(|second| Some((second, watch.sample(at(second), Some(&of(second)))?)))
}

#[test]
fn the_duration_counts_from_the_first_transaction_however_late_reported() {
    let plan = plan("validator", "duration = \"60s\"");
    // Executed in second 30, pushed ten seconds later.
    let of = |second| {
        if second < 40 {
            seen(second)
        } else {
            executing(second, 30, second)
        }
    };
    assert_eq!(
        decided(&mut watch(&plan), 200, of),
        Some((90, Outcome::Completed))
    );
}

#[test]
fn a_first_transaction_with_a_wrong_time_counts_from_its_observation() {
    let plan = plan("validator", "duration = \"60s\"");
    let old = |second| Progress {
        first_transaction_unix_ns: Some(5),
        ..executing(second, 0, second)
    };
    assert_eq!(
        decided(&mut watch(&plan), 200, old),
        Some((61, Outcome::Completed))
    );
    let ahead = |second| Progress {
        first_transaction_unix_ns: Some((EPOCH + 500) * 1_000_000_000),
        ..executing(second, 0, second)
    };
    assert_eq!(
        decided(&mut watch(&plan), 200, ahead),
        Some((61, Outcome::Completed))
    );
}

#[test]
fn one_sample_of_a_long_run_counts_from_its_first_transaction() {
    let plan = plan("validator", "duration = \"1h\"");
    let mut watch = watch(&plan);
    watch.sample(at(1000), Some(&executing(1000, 100, 7)));
    assert_eq!(
        watch.progress_text(),
        "25 % of 1 h, phase catching_up, slot 7"
    );
}

#[test]
fn each_stop_rule_ends_a_run_at_its_time() {
    let rules = "duration = \"1h\"\nfirst_transaction_within = \"100s\"\nno_progress_for = \"50s\"\nat_tip_within = \"200s\"";
    let plan = plan("validator", rules);
    assert_eq!(
        decided(&mut watch(&plan), 500, seen),
        Some((100, Outcome::NeverExecuted))
    );
    let stuck = |second: u64| executing(second, 10, second.min(70));
    assert_eq!(
        decided(&mut watch(&plan), 500, stuck),
        Some((120, Outcome::NoProgress))
    );
    let behind = |second: u64| executing(second, 10, second);
    assert_eq!(
        decided(&mut watch(&plan), 500, behind),
        Some((210, Outcome::NotAtTip))
    );
    let tip = |second: u64| Progress {
        has_reached_tip: second == 150,
        ..executing(second, 10, second)
    };
    assert_eq!(
        decided(&mut watch(&plan), 4000, tip),
        Some((3610, Outcome::Completed))
    );
}

#[test]
fn a_delayed_recorder_does_not_fail_the_run() {
    let rules = "duration = \"1h\"\nno_progress_for = \"50s\"";
    let plan = plan("validator", rules);
    // Nothing is written from second 70 to second 130.
    let held_up = |second: u64| {
        let known_tip = if (70..130).contains(&second) {
            70
        } else {
            second
        };
        executing(known_tip, 10, known_tip)
    };
    let mut watch = watch(&plan);
    assert_eq!(decided(&mut watch, 300, held_up), None);
    assert_eq!(watch.silence_of_dead_recorder(), None);
    let dead = |_| executing(300, 10, 300);
    assert_eq!(
        (301..500).find(
            |second| watch.sample(at(*second), Some(&dead(*second))).is_some()
                || watch.silence_of_dead_recorder().is_some()
        ),
        Some(420)
    );
}

#[test]
fn a_replay_ends_only_by_its_duration() {
    let plan = plan("replay", "duration = \"500s\"");
    assert_eq!(
        decided(&mut watch(&plan), 1000, seen),
        Some((500, Outcome::Completed))
    );
}

#[test]
fn run_progress_is_printed_as_a_sentence() {
    let plan = plan("validator", "duration = \"200s\"");
    let mut watch = watch(&plan);
    watch.sample(at(5), Some(&seen(5)));
    assert_eq!(
        watch.progress_text(),
        "no transaction executed yet, phase catching_up"
    );
    watch.sample(at(60), Some(&executing(60, 10, 1234)));
    assert_eq!(
        watch.progress_text(),
        "25 % of 3 min 20 s, phase catching_up, slot 1234"
    );
}

#[test]
fn an_unobserved_overrun_is_too_late_but_waiting_for_others_is_not() {
    let after = |duration: &str, seconds: &[u64]| {
        let plan = plan(
            "validator",
            &format!("duration = \"{duration}\"\ncounted_from = \"start\""),
        );
        let mut watch = watch(&plan);
        for second in seconds {
            watch.sample(at(*second), Some(&executing(*second, 1, *second)));
        }
        watch.excessive_delay()
    };
    let seconds = Duration::from_secs;
    assert_eq!(after("6s", &[1, 2, 34]), Some(seconds(28)));
    assert_eq!(after("6s", &[1, 2, 16]), None);
    // No sample was taken for a while, but the planned end was later.
    assert_eq!(after("60s", &[1, 2, 59, 60]), None);
    // The run's time is up, and it waits for the runs in other lanes.
    let waits: Vec<u64> = (1..90).collect();
    assert_eq!(after("6s", &waits), None);
    assert_eq!(after("6s", &[waits, vec![120]].concat()), Some(seconds(31)));
    // A delay that is a small share of a long run is accepted.
    assert_eq!(after("1h", &[3590, 3770]), None);
    assert_eq!(after("1h", &[3590, 3790]), Some(seconds(190)));
}

#[test]
fn a_late_first_transaction_does_not_prolong_the_run() {
    let plan = plan("validator", "duration = \"6s\"");
    let mut watch = watch(&plan);
    let of = |second| {
        if second < 40 {
            seen(second)
        } else {
            executing(second, 10, second)
        }
    };
    assert_eq!(decided(&mut watch, 200, of), Some((40, Outcome::Completed)));
    assert_eq!(watch.excessive_delay(), None);
}

#[test]
fn a_search_ends_by_itself_or_after_lack_of_progress() {
    let mut plan = plan("validator", "duration = \"60s\"\nno_progress_for = \"50s\"");
    let (first_headroom, second) = (1 << 30, Duration::from_secs(1));
    plan.memory_search = Some(crate::plan::MemorySearchRules {
        first_headroom,
        settle_time: second,
        dwell: second,
        max_interval_width: 0.1,
        max_duration: second,
        growth_horizon: second,
    });
    let of = |second: u64| executing(second, 5, second.min(100));
    assert_eq!(
        decided(&mut watch(&plan), 300, of),
        Some((150, Outcome::NoProgress))
    );
}
