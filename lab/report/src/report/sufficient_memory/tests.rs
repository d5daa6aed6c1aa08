use super::*;
use crate::{
    report::cells::GIB,
    run::{Session, Tick},
};
use faultline_stats::block_bootstrap::IntervalPlan;

const LARGE: u64 = 512 << 30;

const SECONDS: u32 = 670;

/// Ten minutes at the tip, recorded from the start on: unreclaimable memory grows to 300 GiB, page cache fills up to 120 GiB.
fn recording() -> Run {
    let tick = |second: u32| Tick {
        at: f64::from(second),
        session: 1,
        process: Some(1),
        phase: Some(if second < 60 { "replaying" } else { "at_tip" }.into()),
    };
    let mut recording = Run {
        ticks: (0..SECONDS).map(tick).collect(),
        sessions: vec![Session {
            id: 1,
            interval_seconds: 1.0,
            ..Session::default()
        }],
        processes: vec![Process {
            first_seen_at: 2.0,
            started_at: Some(0.0),
            ..Process::default()
        }],
        signals: vec![vec![None; SECONDS as usize]; Signal::ALL.len()],
        ..Run::default()
    };
    recording.facts.memory_bytes = Some(LARGE);
    set(&mut recording, Signal::Unreclaimable, |second| {
        (200.0 + second / 6.0).min(300.0) * GIB
    });
    set(&mut recording, Signal::CgroupFile, |second| {
        (20.0 + second).min(130.0) * GIB
    });
    set(&mut recording, Signal::CgroupShmem, |_| 10.0 * GIB);
    set(&mut recording, Signal::Limit, |_| 500.0 * GIB);
    set(&mut recording, Signal::RefaultFile, |_| 7.0);
    set(&mut recording, Signal::RefaultAnon, |_| 0.0);
    recording
}

fn set(recording: &mut Run, signal: Signal, of: impl Fn(f64) -> f64) {
    recording.signals[signal as usize] = (0..SECONDS)
        .map(|second| Some(of(f64::from(second))))
        .collect();
}

#[track_caller]
fn sentences(recording: Run) -> String {
    let runs = MeasuredRuns::new([recording], &IntervalPlan::default(), &[]);
    let blocks = blocks(&runs);
    let [Block::Text(text), Block::Table(table)] = blocks.as_slice() else {
        panic!("{blocks:#?}")
    };
    assert!(
        table
            .rows
            .iter()
            .all(|row| row.len() == table.columns.len())
    );
    text.clone()
}

#[test]
fn without_refaults_memory_use_is_proven_sufficient_but_not_minimal() {
    let expected = "420 GiB of memory are proven enough for what was recorded, 92 GiB (18 %) less than the 512 GiB that are installed. \
                    Less was not tried, and may be enough.";
    assert_eq!(sentences(recording()), expected);
}

#[test]
fn a_proven_size_is_not_rounded_down() {
    let mut recording = recording();
    set(&mut recording, Signal::Unreclaimable, |_| 300.4 * GIB);
    let text = sentences(recording);
    assert!(
        text.starts_with(
            "421 GiB of memory are proven enough for what was recorded, 91 GiB (18 %)"
        ),
        "{text}"
    );
}

#[test]
fn with_refaults_only_the_limit_is_proven_sufficient() {
    let mut refaulting = recording();
    set(&mut refaulting, Signal::RefaultFile, |second| {
        7.0 + 3.0 * (second / 100.0).floor()
    });
    let text = sentences(refaulting);
    assert!(
        text.starts_with("500 GiB of memory are proven enough"),
        "{text}"
    );
    assert!(
        text.contains("It cannot be said that less than the limit is enough: 18 pages came back"),
        "{text}"
    );
    let mut unknown = recording();
    unknown.signals[Signal::RefaultFile as usize] = vec![None; SECONDS as usize];
    assert!(sentences(unknown.clone()).contains("refaults were not recorded"));
    unknown.signals[Signal::Limit as usize] = vec![None; SECONDS as usize];
    assert!(sentences(unknown).contains("the limit of the run was not recorded"));
}

#[test]
fn refaults_during_startup_are_attributed_to_startup() {
    let mut starting = recording();
    set(&mut starting, Signal::RefaultFile, |second| {
        if second < 50.0 { second } else { 50.0 }
    });
    assert!(!sentences(starting).contains("cannot be said"));
}

#[test]
fn a_recording_begun_later_makes_no_claim_about_the_start() {
    for started in [Some(-3600.0), None] {
        let mut late = recording();
        late.processes[0].started_at = started;
        set(&mut late, Signal::Unreclaimable, |second| {
            if second < 60.0 {
                480.0 * GIB
            } else {
                300.0 * GIB
            }
        });
        let text = sentences(late);
        assert!(
            text.starts_with("420 GiB of memory are proven enough"),
            "{text}"
        );
        assert!(
            text.contains(
                "It cannot be said what the start of the process needs: the recording does not cover it."
            ),
            "{text}"
        );
    }
    let mut whole = recording();
    set(&mut whole, Signal::Unreclaimable, |second| {
        if second < 50.0 {
            480.0 * GIB
        } else {
            300.0 * GIB
        }
    });
    let text = sentences(whole);
    assert!(!text.starts_with("420 GiB"), "its start counts: {text}");
}

#[test]
fn a_run_that_did_not_keep_up_or_swapped_proves_nothing() {
    let mut behind = recording();
    for tick in behind.ticks.iter_mut().skip(100) {
        tick.phase = Some("behind".into());
    }
    assert!(sentences(behind).starts_with(
        "No size of memory is proven enough by this recording. It cannot be said that the memory of the run"
    ));
    let mut searched = recording();
    set(&mut searched, Signal::Limit, |second| {
        (500.0 - second / 10.0) * GIB
    });
    assert!(sentences(searched).contains("its limit changed"));
    let mut swapped = recording();
    set(&mut swapped, Signal::Swap, |second| second);
    assert!(sentences(swapped).contains("memory was swapped out"));
}

#[test]
fn a_run_never_at_the_tip_gets_no_conclusions() {
    let mut recording = recording();
    recording
        .ticks
        .iter_mut()
        .for_each(|tick| tick.phase = None);
    let runs = MeasuredRuns::new([recording], &IntervalPlan::default(), &[]);
    assert!(blocks(&runs).is_empty());
}

fn proven_of(recording: Run) -> Option<f64> {
    let runs = MeasuredRuns::new([recording], &IntervalPlan::default(), &[]);
    proven_bytes(&runs.all[0])
}

#[test]
fn an_answer_needs_ten_minutes_at_the_tip_and_less_than_the_machine() {
    assert_eq!(proven_of(recording()), Some(420.0 * GIB));
    let mut short = recording();
    for tick in short.ticks.iter_mut().take(500) {
        tick.phase = Some("replaying".into());
    }
    assert_eq!(proven_of(short), None, "160 s at the tip");
    let mut whole = recording();
    whole.signals[Signal::RefaultFile as usize] = vec![None; SECONDS as usize];
    assert_eq!(proven_of(whole.clone()), Some(500.0 * GIB));
    set(&mut whole, Signal::Limit, |_| LARGE as f64);
    assert_eq!(proven_of(whole), None, "the machine's size");
}

#[test]
fn one_page_is_singular() {
    let mut refaulting = recording();
    set(&mut refaulting, Signal::RefaultFile, |second| {
        if second < 300.0 { 7.0 } else { 8.0 }
    });
    let text = sentences(refaulting);
    assert!(
        text.contains("1 page came back after it was reclaimed"),
        "{text}"
    );
}

#[test]
fn refaults_in_a_gap_count() {
    let mut refaulting = recording();
    set(&mut refaulting, Signal::RefaultFile, |second| {
        if second < 305.0 { 7.0 } else { 10.0 }
    });
    refaulting.signals[Signal::RefaultFile as usize][300..310].fill(None);
    let text = sentences(refaulting);
    assert!(text.contains("3 pages came back"), "{text}");
}
