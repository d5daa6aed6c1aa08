use super::*;
use crate::{
    args::ExperimentReportArgs,
    folder::ExperimentFolder,
    journal::{Entry, JournalLine, JournalState, Planned},
    outcome::{Ending, Outcome as Ended, Validity},
    report::report_command,
    schedule::Turn,
    search::{EndTrials, HeadroomInterval, SearchAnswer, SearchOutcome, SufficientSize},
};
use faultline_pages::render;
use std::{
    fs,
    path::{Path, PathBuf},
};

const GIB: u64 = 1 << 30;
const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/report/search/golden.txt");

fn dwell(headroom: Option<f64>, confirms: bool, verdict: Verdict) -> SearchEvent {
    let short = headroom.map_or(0.0, |gib| (24.0 - gib).max(0.0));
    let why = match verdict {
        Verdict::KeptUp => Vec::new(),
        Verdict::Failed => vec!["it was 45 slots behind".to_owned()],
        Verdict::Void => {
            vec!["the cluster made 1.20 slots a second, in the references 2.50".to_owned()]
        }
    };
    let evidence = DwellEvidence {
        replayed_slots: 0,
        seconds: if confirms { 960.0 } else { 480.0 },
        max_slots_behind: Some(if verdict == Verdict::Failed { 45 } else { 2 }),
        slots_behind_first_eighth: Some(0.5),
        slots_behind_last_eighth: Some(0.6),
        replay_p95_us: Some(210_000.0 + 9_000.0 * short),
        refaults_per_second: Some(4.0 + 150.0 * short),
        replay_cpu_wait_share: Some(0.012),
        cluster_slots_per_second: Some(2.5),
        max_stall_percent: None,
        unreclaimable: Some(388 * GIB),
        memory: headroom.map(|gib| 388 * GIB + (gib * GIB as f64) as u64),
        why,
    };
    let headroom = headroom.map(|gib| (gib * GIB as f64) as u64);
    SearchEvent::Dwell(DwellResult {
        headroom,
        confirms,
        verdict,
        evidence: Box::new(evidence),
    })
}

/// A short search as the journal has it.
fn lines() -> Vec<SearchEvent> {
    let probe = |headroom, verdict| dwell(Some(headroom), false, verdict);
    let mut lines = vec![
        dwell(None, false, Verdict::KeptUp),
        dwell(None, false, Verdict::KeptUp),
    ];
    lines.extend([48.0, 44.2, 40.6].map(|headroom| probe(headroom, Verdict::KeptUp)));
    lines.push(SearchEvent::Limit {
        headroom: Some(30 * GIB),
        why: "to try".to_owned(),
    });
    lines.extend([
        probe(30.0, Verdict::Void),
        probe(30.0, Verdict::KeptUp),
        probe(22.0, Verdict::Failed),
    ]);
    for _ in 0..3 {
        lines.push(dwell(Some(26.0), true, Verdict::KeptUp));
        lines.push(dwell(Some(24.0), true, Verdict::Failed));
    }
    lines
}

fn answer(outcome: SearchOutcome) -> SearchAnswer {
    SearchAnswer {
        outcome,
        confirmed: Some(EndTrials {
            high: 26 * GIB,
            low: 24 * GIB,
            high_kept_up: 3,
            high_failed: 0,
            low_kept_up: 0,
            low_failed: 3,
        }),
        startup_peak_bytes: 388 * GIB,
        unreclaimable: Some(397 * GIB),
        peak_unreclaimable_bytes: Some(398 * GIB),
        growth_bytes_per_hour: Some(1.9 * GIB as f64),
        is_stable: Some(false),
        sufficient_sizes: [1.0, 12.0, 24.0]
            .map(|hours| SufficientSize {
                hours,
                bytes: (414 * GIB) + (hours * 1.9) as u64 * GIB,
            })
            .to_vec(),
    }
}

fn found() -> SearchOutcome {
    SearchOutcome::Found(HeadroomInterval {
        low: 24 * GIB,
        middle: 25 * GIB,
        high: 26 * GIB,
    })
}

/// An experiment with the lines of a search, and `before` of them in an earlier, cut-off attempt.
fn experiment(folder: &Path, before: usize, answer: Option<SearchAnswer>) -> Experiment {
    written(folder, before, lines(), answer)
}

/// Like [`experiment`], with these lines in the newest attempt.
fn written(
    folder: &Path,
    before: usize,
    newest: Vec<SearchEvent>,
    answer: Option<SearchAnswer>,
) -> Experiment {
    let text = format!(
        "name = \"least\"\nfolder = {:?}\nreplicates = 1\n[workload]\ncommand = [\"/bin/true\"]\nledger = \"/x/ledger\"\n\
         cluster = \"testnet\"\n[begin]\nhow = \"as-is\"\n[search]\nwhat = \"memory\"\nfrom = \"48G\"\n",
        folder.display().to_string()
    );
    let plan = plan::parse(&text, &folder.join("plan.toml")).expect("a plan");
    let mut entries = vec![planned(1)];
    if before > 0 {
        entries.extend(attempt(1, 1, lines().into_iter().take(before).collect()));
    }
    entries.extend(attempt(1, 2, newest));
    if let Some(answer) = answer {
        entries.extend(completed(1, 2, answer, Ending::new(Ended::Completed)));
    }
    Experiment {
        folder: ExperimentFolder::new(folder),
        plan,
        journal_state: journal_state(entries),
    }
}

fn journal_state(entries: Vec<Entry>) -> JournalState {
    let lines: Vec<JournalLine> = (1_i64..)
        .zip(entries)
        .map(|(at, entry)| JournalLine {
            unix_ns: 1_800_000_000_000_000_000 + at * 1_440_000_000_000,
            entry,
        })
        .collect();
    JournalState::of(&lines)
}

fn planned(replicates: u32) -> Entry {
    let run = |number| ScheduledRun {
        run: number,
        arm: "search".to_owned(),
        replicate: number,
        lane: "here".to_owned(),
        is_second_aa_run: false,
    };
    let turns = (1..=replicates).map(|number| Turn {
        number,
        runs: vec![run(number)],
    });
    Entry::Planned(Planned {
        name: "least".to_owned(),
        plan_digest: "abc".to_owned(),
        file: PathBuf::new(),
        seed: 1,
        launcher: "cgroup v1".to_owned(),
        turns: turns.collect(),
    })
}

fn attempt(run: u32, attempt: u32, lines: Vec<SearchEvent>) -> impl Iterator<Item = Entry> {
    let begun = Entry::TurnBegun { turn: run, attempt };
    let search = move |event| Entry::Search {
        run,
        attempt,
        event,
    };
    std::iter::once(begun).chain(lines.into_iter().map(search))
}

fn completed(run: u32, attempt: u32, answer: SearchAnswer, ending: Ending) -> [Entry; 2] {
    [
        Entry::SearchAnswer {
            run,
            attempt,
            answer: Box::new(answer),
        },
        Entry::RunEnded {
            run,
            attempt,
            ending: Box::new(ending),
        },
    ]
}

#[track_caller]
fn first(outcome: SearchOutcome) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let experiment = experiment(folder.path(), 0, Some(answer(outcome)));
    headline(&searches(&experiment, &[])).expect("something was searched")
}

#[test]
fn only_a_confirmed_size_that_does_not_grow_is_evidence() {
    let folder = tempfile::tempdir().expect("a folder");
    let of = |answer: SearchAnswer| {
        let experiment = experiment(folder.path(), 0, Some(answer));
        ram_evidence(&searches(&experiment, &[]))
    };
    let settled = SearchAnswer {
        is_stable: Some(true),
        ..answer(found())
    };
    let proven = of(settled.clone()).expect("a size");
    let [low, high] = proven.interval_bytes.map(|bytes| bytes / GIB);
    assert_eq!((low, high, proven.proven_bytes / GIB), (422, 424, 424));
    assert_eq!(proven.measured, "2027-01-15");
    assert!(of(answer(found())).is_err_and(|why| why.contains("still grew")));
    let mut repeated = experiment(folder.path(), 0, Some(settled.clone()));
    repeated.journal_state.add(JournalLine {
        unix_ns: 0,
        entry: Entry::Void {
            run: 1,
            attempt: 2,
            why: String::new(),
        },
    });
    let evidence = ram_evidence(&searches(&repeated, &[]));
    assert!(evidence.is_err_and(|why| why.contains("no result that counts")));
    let headline = headline(&searches(&repeated, &[])).expect("a headline");
    assert!(
        headline.ends_with("388 GiB. The run of this search has no result that counts."),
        "{headline}"
    );
    let noisy = SearchAnswer {
        outcome: SearchOutcome::Noisy,
        ..settled
    };
    assert!(of(noisy).is_err_and(|why| why.contains("no confirmed size")));
    assert_eq!(
        ram_evidence(&[]),
        Err("the experiment has no search".to_owned())
    );
}

#[test]
fn a_report_is_written_even_if_it_proves_no_size() {
    let folder = tempfile::tempdir().expect("a folder");
    let experiment = experiment(folder.path(), 0, None);
    fs::write(experiment.folder.plan(), &experiment.plan.text).expect("a plan");
    fs::write(experiment.folder.journal(), "").expect("a journal");
    let args = ExperimentReportArgs {
        experiment: folder.path().to_owned(),
        out: None,
        force: false,
        status_evidence: Some(folder.path().join("evidence.json")),
    };
    let error = report_command(&args).expect_err("no size is proven");
    assert!(error.to_string().contains("evidence.json is not written"));
    assert!(folder.path().join("report/report.html").exists());
}

#[test]
fn any_search_outcome_is_reported_as_one_sentence() {
    assert_eq!(
        first(found()),
        "Keeps up with 422 to 424 GiB after 5.7 h; needs 1.9 GiB more each hour; its start alone needs 388 GiB."
    );
    let SearchOutcome::Found(HeadroomInterval { low, middle, high }) = found() else {
        panic!("an interval")
    };
    assert_eq!(
        first(SearchOutcome::Unconfirmed(HeadroomInterval {
            low,
            middle,
            high
        })),
        "Keeps up with 422 to 424 GiB after 5.7 h; needs 1.9 GiB more each hour; its start alone needs 388 GiB. \
         Not confirmed: 8 h were over before both ends of the interval had been tried again."
    );
    let start = "Its start alone needs 388 GiB.";
    let cases = [
        (
            SearchOutcome::Noisy,
            "Noisy: the dwells gave no reliable interval, so there is no size.",
        ),
        (
            SearchOutcome::NeverFailed { lowest: 3 * GIB },
            "Never failed: the smallest headroom that was tried, 3.0 GiB, was enough, so the least headroom is not known.",
        ),
        (
            SearchOutcome::FirstHeadroomTooSmall,
            "The first headroom, 48.0 GiB, was too small to keep up: the least headroom is larger.",
        ),
        (
            SearchOutcome::OutOfTime,
            "Out of time: 8 h were over before the interval was narrow enough, so there is no size.",
        ),
        (
            SearchOutcome::Inconclusive {
                why: "5 dwells in a row show nothing".to_owned(),
            },
            "Inconclusive: 5 dwells in a row show nothing. There is no size.",
        ),
    ];
    for (outcome, expected) in cases {
        assert_eq!(first(outcome), format!("{expected} {start}"));
    }
}

#[test]
fn sizes_of_a_search_without_failure_name_the_smallest_headroom() {
    let folder = tempfile::tempdir().expect("a folder");
    for is_stable in [true, false] {
        let never_failed = SearchAnswer {
            is_stable: Some(is_stable),
            ..answer(SearchOutcome::NeverFailed { lowest: GIB })
        };
        let experiment = experiment(folder.path(), 0, Some(never_failed));
        let growth = searches(&experiment, &[])[0].paragraphs()[1].to_lowercase();
        assert!(
            growth.contains("with the smallest headroom that was tried, "),
            "{growth}"
        );
        assert!(!growth.contains("interval"), "{growth}");
    }
}

#[test]
fn an_interval_whose_ends_round_to_one_number_has_one_number() {
    let folder = tempfile::tempdir().expect("a folder");
    let [low, middle, high] = [150 * GIB, 150 * GIB + 1, 150 * GIB + 2];
    let narrow = SearchOutcome::Found(HeadroomInterval { low, middle, high });
    let experiment = experiment(folder.path(), 0, Some(answer(narrow)));
    let headroom = searches(&experiment, &[])[0].paragraphs()[1].clone();
    assert!(
        headroom.contains("reclaimed is 150 GiB with 90 % confidence"),
        "{headroom}"
    );
}

#[test]
fn an_unfinished_search_has_no_answer_and_a_restarted_one_is_noted() {
    let folder = tempfile::tempdir().expect("a folder");
    let unfinished = experiment(folder.path(), 4, None);
    let searches = searches(&unfinished, &[]);
    assert!(headline(&searches).is_some_and(|sentence| sentence.contains("there is no answer")));
    let Some(section) = section(&searches) else {
        panic!("no chapter")
    };
    let sentence = |words: &str| {
        section
            .blocks
            .iter()
            .any(|block| matches!(block, Block::Text(text) if text.contains(words)))
    };
    assert!(
        sentence(
            "An earlier search ended without an answer: it was stopped, or its attempt failed. This one began anew"
        ),
        "{section:#?}"
    );
    assert!(!sentence("The least headroom"), "{section:#?}");
}

#[test]
fn a_validator_exit_during_a_dwell_is_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut lines = lines();
    if let Some(SearchEvent::Dwell(DwellResult { evidence, .. })) = lines.last_mut() {
        evidence.why = vec![crate::search::VALIDATOR_ENDED.to_owned()];
    }
    let experiment = written(folder.path(), 0, lines, None);
    assert_eq!(
        headline(&searches(&experiment, &[])).as_deref(),
        Some(
            "The validator ended by itself in a dwell with a headroom of 24.0 GiB, before the search was over: there is no answer."
        )
    );
}

#[test]
fn an_untried_range_end_is_not_reported_as_failed() {
    let folder = tempfile::tempdir().expect("a folder");
    let sentence = |untried: usize| {
        let mut lines = lines();
        let low = lines.iter_mut().filter_map(|line| match line {
            SearchEvent::Dwell(DwellResult {
                confirms: true,
                verdict: Verdict::Failed,
                evidence,
                ..
            }) => Some(evidence),
            _ => None,
        });
        low.take(untried)
            .for_each(|evidence| evidence.seconds = 0.0);
        let experiment = written(folder.path(), 0, lines, Some(answer(found())));
        let searches = searches(&experiment, &[]);
        searches[0].paragraphs()[1].clone()
    };
    let high = "Tried again at double length, 26.0 GiB kept up 3 of 3 times";
    let low = "24.0 GiB could not be tried again, and counts as too small";
    assert!(
        sentence(0).contains(&format!("{high}, and 24.0 GiB failed 3 of 3 times.")),
        "{}",
        sentence(0)
    );
    assert!(
        sentence(1).contains(&format!("{high}, and 24.0 GiB failed 2 of 2 times. {low}")),
        "{}",
        sentence(1)
    );
    assert!(
        sentence(3).contains(&format!("{high}. {low}")),
        "{}",
        sentence(3)
    );
}

#[test]
fn the_ram_is_enough_if_each_search_that_counts_proves_a_size() {
    let proven = SearchAnswer {
        is_stable: Some(true),
        ..answer(found())
    };
    let small = answer(SearchOutcome::FirstHeadroomTooSmall);
    let valid = Ending::new(Ended::Completed);
    let mut invalid = Ending::new(Ended::OutOfMemory);
    invalid.validity = Validity::Invalid("another limit".to_owned());
    for (searches, verdict) in [
        (vec![(&proven, &valid)], "fine"),
        (vec![(&answer(found()), &valid)], "unknown"),
        (vec![(&proven, &valid), (&proven, &valid)], "fine"),
        (vec![(&proven, &valid), (&small, &valid)], "unknown"),
        (vec![(&proven, &valid), (&small, &invalid)], "fine"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut experiment = experiment(folder.path(), 0, None);
        let mut entries = vec![planned(searches.len() as u32)];
        for (run, (answer, ending)) in (1..).zip(searches) {
            entries.extend(attempt(run, 1, lines()));
            entries.extend(completed(run, 1, answer.clone(), ending.clone()));
        }
        experiment.journal_state = journal_state(entries);
        let report = experiment.report().expect("a report").report;
        let ram = &report.answers[0].findings[0];
        let is_answer = ram.text.starts_with("RAM: ") && ram.text.contains("Keeps up with 422");
        assert!(is_answer && ram.verdict == verdict, "{ram:?}");
    }
}

#[test]
fn a_plan_without_a_search_has_no_search_chapter() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut experiment = experiment(folder.path(), 0, Some(answer(found())));
    experiment.plan.memory_search = None;
    assert!(section(&searches(&experiment, &[])).is_none());
    assert!(headline(&searches(&experiment, &[])).is_none());
}

/// `FAULTLINE_RENEW=1` writes the expected text anew; review the difference.
#[test]
fn the_search_chapter_matches_the_stored_text() {
    let folder = tempfile::tempdir().expect("a folder");
    let experiment = experiment(folder.path(), 4, Some(answer(found())));
    let report = experiment.report().expect("a report").report;
    let out = folder.path().join("page");
    let page = render::write(&report, &out, true).expect("a page").page;
    let text = fs::read_to_string(out.join("report.md")).expect("its text");
    let (_, after) = text
        .split_once("## The least memory")
        .unwrap_or_else(|| panic!("no chapter: {text}"));
    let chapter = format!(
        "## The least memory{}\n",
        after.split("\n## ").next().unwrap_or(after).trim_end()
    );
    if std::env::var_os("FAULTLINE_RENEW").is_some() {
        fs::write(GOLDEN, &chapter).expect("written");
        // For a review in a browser.
        let page_file =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/report-search.html");
        fs::copy(page, page_file).expect("copied");
    }
    assert_eq!(chapter, fs::read_to_string(GOLDEN).unwrap_or_default());
    assert!(
        report
            .verdict
            .headline
            .starts_with("Keeps up with 422 to 424 GiB"),
        "{}",
        report.verdict.headline
    );
}
