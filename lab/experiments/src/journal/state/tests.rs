use super::*;
use crate::{
    journal::{self, Journal},
    outcome::{Outcome, Validity},
    search::{
        DwellEvidence, DwellResult, EndTrials, HeadroomInterval, SearchAnswer, SearchEvent,
        SufficientSize, Verdict,
    },
};
use std::path::PathBuf;

const GIB: u64 = 1 << 30;

/// Every kind of line that a search writes.
fn lines_of_a_search() -> Vec<SearchEvent> {
    let evidence = DwellEvidence {
        seconds: 480.25,
        max_slots_behind: Some(3),
        slots_behind_first_eighth: Some(0.5),
        replay_p95_us: Some(0.1 + 0.2),
        unreclaimable: Some(u64::MAX),
        why: vec!["it was 30 slots behind".to_owned()],
        ..DwellEvidence::default()
    };
    let dwell = |headroom, confirms, verdict| {
        SearchEvent::Dwell(DwellResult {
            headroom,
            confirms,
            verdict,
            evidence: Box::new(evidence.clone()),
        })
    };
    vec![
        dwell(None, false, Verdict::KeptUp),
        SearchEvent::Limit {
            headroom: Some(24 * GIB),
            why: "to try".to_owned(),
        },
        dwell(Some(24 * GIB), false, Verdict::Failed),
        SearchEvent::Limit {
            headroom: None,
            why: "to recover".to_owned(),
        },
        dwell(Some(25 * GIB), true, Verdict::Void),
    ]
}

fn answer() -> SearchAnswer {
    SearchAnswer {
        outcome: crate::search::SearchOutcome::Found(HeadroomInterval {
            low: 23 * GIB,
            middle: 24 * GIB,
            high: 25 * GIB,
        }),
        confirmed: Some(EndTrials {
            high: 25 * GIB,
            low: 23 * GIB,
            high_kept_up: 3,
            low_failed: 3,
            ..EndTrials::default()
        }),
        startup_peak_bytes: 388 * GIB,
        unreclaimable: None,
        peak_unreclaimable_bytes: None,
        growth_bytes_per_hour: Some(1.9e9),
        is_stable: Some(false),
        sufficient_sizes: vec![SufficientSize {
            hours: 1.0,
            bytes: 430 * GIB,
        }],
    }
}

fn line(unix_ns: i64, entry: Entry) -> JournalLine {
    JournalLine { unix_ns, entry }
}

fn planned() -> Entry {
    let run = ScheduledRun {
        run: 1,
        arm: "search".to_owned(),
        replicate: 1,
        lane: "lane".to_owned(),
        is_second_aa_run: false,
    };
    Entry::Planned(Planned {
        name: "ram".to_owned(),
        plan_digest: String::new(),
        file: PathBuf::new(),
        seed: 1,
        launcher: "cgroup v1".to_owned(),
        turns: vec![Turn {
            number: 1,
            runs: vec![run],
        }],
    })
}

fn ended(attempt: u32, outcome: Outcome) -> Entry {
    let ending = Ending {
        outcome,
        validity: Validity::Valid,
        cgroup_state: faultline_runner::isolation::CgroupState::default(),
        notes: Vec::new(),
        stopped_unix_ns: None,
    };
    Entry::RunEnded {
        run: 1,
        attempt,
        ending: Box::new(ending),
    }
}

/// A search that was cut off and began anew.
fn whole() -> Vec<JournalLine> {
    let runner = || Entry::Runner {
        pid: 1,
        boot: "b".to_owned(),
        host: String::new(),
    };
    let search = |attempt| {
        lines_of_a_search()
            .into_iter()
            .map(move |event| Entry::Search {
                run: 1,
                attempt,
                event,
            })
    };
    let mut entries = vec![
        planned(),
        runner(),
        Entry::TurnBegun {
            turn: 1,
            attempt: 1,
        },
    ];
    entries.extend(search(1).take(2));
    entries.extend([
        runner(),
        ended(
            1,
            Outcome::Interrupted {
                why: "killed".to_owned(),
            },
        ),
    ]);
    entries.push(Entry::TurnBegun {
        turn: 1,
        attempt: 2,
    });
    entries.extend(search(2));
    entries.push(Entry::SearchAnswer {
        run: 1,
        attempt: 2,
        answer: Box::new(answer()),
    });
    entries.push(ended(2, Outcome::Completed));
    (1..)
        .zip(entries)
        .map(|(at, entry)| line(at, entry))
        .collect()
}

#[test]
fn search_journal_lines_round_trip() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(crate::folder::JOURNAL);
    let mut journal = Journal::create(&path).unwrap();
    whole()
        .iter()
        .for_each(|line| journal.append(line).unwrap());
    assert_eq!(journal::read(&path).unwrap(), whole());
}

#[test]
fn an_interrupted_searchs_journal_lines_stay_separate_from_its_restart() {
    let lines = whole();
    let journal_state = JournalState::of(&lines);
    let searched = |attempt: usize| &journal_state.attempts[&1][attempt].runs[&1].search_log;
    assert_eq!(searched(0).events.len(), 2);
    assert_eq!(searched(0).answer, None);
    let second: Vec<SearchEvent> = searched(1)
        .events
        .iter()
        .map(|(line, _)| line.clone())
        .collect();
    assert_eq!(second, lines_of_a_search());
    assert!(searched(1).events.is_sorted_by_key(|(_, at)| *at));
    assert_eq!(searched(1).answer, Some(answer()));
    assert_eq!(journal_state.searches_unanswered(1), 1);
    assert!(journal_state.next_attempt().is_none());
}

#[test]
fn a_running_search_or_a_plain_run_is_not_reported_interrupted() {
    let lines = whole();
    for (length, line) in (1..).zip(&lines) {
        let journal_state = JournalState::of(&lines[..length]);
        let again = length
            > lines
                .iter()
                .position(|line| matches!(line.entry, Entry::TurnBegun { attempt: 2, .. }))
                .unwrap();
        assert_eq!(
            journal_state.searches_unanswered(1),
            usize::from(again),
            "{line:?}"
        );
    }
    let without: Vec<JournalLine> = lines
        .into_iter()
        .filter(|line| !matches!(line.entry, Entry::Search { .. }))
        .collect();
    assert_eq!(JournalState::of(&without).searches_unanswered(1), 0);
}

#[test]
fn a_journal_written_before_searches_existed_is_read() {
    let old = concat!(
        r#"{"unix_ns":1,"entry":"turn_begun","turn":1,"attempt":1}"#,
        "\n",
        r#"{"unix_ns":2,"entry":"step","run":1,"attempt":1,"step":"watch"}"#,
        "\n",
        r#"{"unix_ns":3,"entry":"run_ended","run":1,"attempt":1,"ending":{"outcome":{"what":"completed"},"#,
        r#""validity":{"is":"valid"},"evidence":{"end":null,"result":null,"memory_peak":null,"memory_current":null,"#,
        r#""file":null,"anon":null}}}"#,
        "\n",
    );
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(crate::folder::JOURNAL);
    std::fs::write(&path, old).unwrap();
    let mut lines = vec![line(0, planned())];
    lines.extend(journal::read(&path).unwrap());
    let journal_state = JournalState::of(&lines);
    assert!(journal_state.next_attempt().is_none());
    assert_eq!(
        journal_state.attempts[&1][0].runs[&1].search_log,
        SearchLog::default()
    );
}

#[test]
fn a_void_result_does_not_count_and_its_run_is_next_again() {
    let mut lines = whole();
    let finished = line(100, Entry::Finished);
    lines.push(finished);
    let before = JournalState::of(&lines);
    assert!(before.finished && before.next_attempt().is_none());
    assert_eq!(before.completed_runs().len(), 1);
    let void = Entry::Void {
        run: 1,
        attempt: 2,
        why: "its recording is damaged".to_owned(),
    };
    let text = serde_json::to_string(&line(101, void)).unwrap();
    lines.push(serde_json::from_str(&text).unwrap());
    let after = JournalState::of(&lines);
    assert!(!after.finished && after.completed_runs().is_empty());
    assert_eq!(after.next_attempt().map(|next| next.attempt), Some(3));
    assert!(after.unfinished_runs().is_empty(), "nothing runs");
}

#[test]
fn lines_of_older_versions_are_read_and_written_as_before() {
    let whole = [
        r#"{"unix_ns":1,"entry":"planned","name":"a","plan":"b","file":"/p","seed":1,"launcher":"direct","turns":[]}"#,
        r#"{"unix_ns":2,"entry":"search","run":1,"attempt":1,"line":{"search":"limit","headroom":null,"why":"w"}}"#,
    ];
    for text in whole {
        let line: JournalLine = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&line).unwrap(), text);
    }
    let without_file = whole[0].replace(r#""file":"/p","#, "");
    assert!(serde_json::from_str::<JournalLine>(&without_file).is_ok());
    let dwell = r#"{"unix_ns":3,"entry":"search","run":1,"attempt":1,"line":{"search":"dwell","headroom":7,
        "confirms":true,"verdict":"kept_up","evidence":{"seconds":1.5,"why":[]}}}"#;
    let line: JournalLine = serde_json::from_str(dwell).unwrap();
    let written = serde_json::to_string(&line).unwrap();
    assert!(
        written.contains(r#""search":"dwell","headroom":7,"confirms":true,"verdict":"kept_up","#),
        "{written}"
    );
}
