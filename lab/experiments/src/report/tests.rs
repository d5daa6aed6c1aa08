use super::*;
use crate::{
    journal::{Entry, Journal, JournalLine, Planned, Step},
    outcome::{Ending, Outcome},
    plan,
    schedule::{ScheduledRun, Turn},
};
use faultline_pages::model::{Block, Cell, Report, Table};
use faultline_report::run::{OfflineReplay, OfflineReplaySlot};
use faultline_runner::isolation::CgroupState;
use std::collections::BTreeMap;

/// An experiment with two memory limits as arms, and its journal.
fn experiment(folder: &Path, lines: Vec<Entry>) -> Experiment {
    let text = format!(
        "name = \"ram\"\nfolder = {:?}\nreplicates = 2\norder = \"abba\"\n[workload]\nkind = \"validator\"\n\
         command = [\"/bin/true\"]\nledger = \"/x/ledger\"\n[begin]\nhow = \"as-is\"\n[stop]\nduration = \"1h\"\n\
         [[arm]]\nname = \"small\"\nmemory_max = \"1480M\"\n[[arm]]\nname = \"large\"\nmemory_max = \"1800M\"\n",
        folder.display().to_string()
    );
    let plan = plan::parse(&text, &folder.join("plan.toml"));
    let plan = plan.unwrap();
    let run = |run, arm: &str, replicate| ScheduledRun {
        run,
        arm: arm.to_owned(),
        replicate,
        lane: "here".to_owned(),
        is_second_aa_run: false,
    };
    let runs = [
        run(1, "small", 1),
        run(2, "large", 1),
        run(3, "large", 2),
        run(4, "small", 2),
    ];
    let turns = runs
        .into_iter()
        .zip(1..)
        .map(|(run, number)| Turn {
            number,
            runs: vec![run],
        })
        .collect();
    let planned = Entry::Planned(Planned {
        name: "ram".to_owned(),
        plan_digest: "abc".to_owned(),
        file: PathBuf::new(),
        seed: 1,
        launcher: "cgroup v1".to_owned(),
        turns,
    });
    let lines: Vec<JournalLine> = std::iter::once(planned)
        .chain([Entry::Runner {
            pid: 1,
            boot: "b".to_owned(),
            host: String::new(),
        }])
        .chain(lines)
        .zip(1_i64..)
        .map(|(entry, at)| JournalLine {
            unix_ns: 1_800_000_000_000_000_000 + at * 60_000_000_000,
            entry,
        })
        .collect();
    Experiment {
        folder: ExperimentFolder::new(folder),
        plan,
        journal_state: JournalState::of(&lines),
    }
}

/// The lines of one attempt.
fn tried(run: u32, attempt: u32, outcome: Outcome, validity: Validity) -> Vec<Entry> {
    let oom = outcome == Outcome::OutOfMemory;
    let cgroup_state = CgroupState {
        memory_events: BTreeMap::from([("oom_kill".to_owned(), u64::from(oom))]),
        memory_peak: Some(1480 << 20),
        ..CgroupState::default()
    };
    let notes = vec![
        "warning: swap is on".to_owned(),
        "0.2 % of the ledger was left in the page cache".to_owned(),
    ];
    let ending = Box::new(Ending {
        outcome,
        validity,
        cgroup_state,
        notes,
        stopped_unix_ns: None,
    });
    vec![
        Entry::TurnBegun { turn: run, attempt },
        Entry::Step {
            run,
            attempt,
            step: Step::Host,
        },
        Entry::RunEnded {
            run,
            attempt,
            ending,
        },
    ]
}

fn table<'r>(report: &'r model::Report, id: &str) -> Option<&'r Table> {
    report
        .sections
        .iter()
        .flat_map(|section| &section.blocks)
        .find_map(|block| match block {
            Block::Table(table) if table.id == id => Some(table),
            _ => None,
        })
}

/// The cells of a column, as words.
fn column(table: &Table, title: &str) -> Vec<String> {
    let found = table
        .columns
        .iter()
        .position(|column| column.title == title);
    let found = found.unwrap_or_else(|| panic!("{} has no column {title}", table.id));
    let word = |cell: &Cell| match cell.without_link() {
        Cell::Text(words) => words.clone(),
        Cell::Number { value, .. } => value.to_string(),
        Cell::Missing(why) => format!("({why})"),
        Cell::Estimate { value, .. } => value.to_string(),
        Cell::Linked { .. } => String::new(),
    };
    table.rows.iter().map(|row| word(&row[found])).collect()
}

#[test]
fn a_table_says_how_many_rows_it_leaves_out() {
    let listed = |rows| {
        let mut listed = faultline_pages::cells::table("t", "T", &["Run"], "Runs.");
        listed.rows = vec![Vec::new(); rows];
        let limited = section::limit_rows(listed);
        (limited.rows.len(), limited.note)
    };
    assert_eq!(listed(1000), (1000, "Runs.".to_owned()));
    let note = "Runs. The first 1000 of 1001.".to_owned();
    assert_eq!(listed(1001), (1000, note));
}

#[test]
fn always_killed_arms_appear_in_the_verdict_without_recordings() {
    let folder = tempfile::tempdir().unwrap();
    let lines = [
        tried(1, 1, Outcome::OutOfMemory, Validity::Valid),
        tried(2, 1, Outcome::Completed, Validity::Valid),
        tried(3, 1, Outcome::Completed, Validity::Valid),
        tried(4, 1, Outcome::OutOfMemory, Validity::Valid),
        vec![Entry::Finished],
    ];
    let experiment = experiment(folder.path(), lines.concat());
    let ExperimentReport { report, slots, .. } = experiment.report().unwrap();
    assert_eq!(
        report.verdict.headline,
        "OOM-killed: small (2 of 2 runs). Ran its whole time: large (2 of 2 runs)."
    );
    assert!(
        report.verdict.bullets[0]
            .starts_with("small did not run its whole time in any of its 2 runs"),
        "{:#?}",
        report.verdict
    );
    assert!(slots.is_empty());
    let limits = table(&report, "limits").unwrap();
    assert_eq!(column(limits, "Failed"), ["2", "0"], "{limits:#?}");
    let runs = table(&report, "runs").unwrap();
    // Its value is read after all processes have exited, so it is always 0.
    assert!(
        !runs
            .columns
            .iter()
            .any(|column| column.title.contains("nonymous")),
        "{:?}",
        runs.columns
    );
    assert_eq!(column(runs, "OOM kills"), ["1", "0", "0", "1"]);
    assert_eq!(column(runs, "Peak memory")[0], "1.4453125");
    let caveats: Vec<&str> = report
        .caveats
        .iter()
        .map(|caveat| caveat.what.as_str())
        .collect();
    assert!(
        caveats
            .iter()
            .any(|what| what.starts_with("Recordings or logs that cannot be read: run 1")),
        "{caveats:#?}"
    );
    assert!(
        caveats
            .iter()
            .any(|what| what.ends_with("large, run 2; small, run 2: swap is on")),
        "{caveats:#?}"
    );
    assert!(
        caveats
            .iter()
            .any(|what| what.starts_with("Ended before their time: small, run 1")),
        "{caveats:#?}"
    );
}

#[test]
fn a_missing_recording_is_to_be_copied_back() {
    let folder = tempfile::tempdir().unwrap();
    let lines = tried(1, 1, Outcome::Completed, Validity::Valid);
    let report = experiment(folder.path(), lines).report().unwrap().report;
    let missing = |what: &str| what.contains("no such file or folder. The report lacks");
    let mut caveats = report.caveats.iter();
    let caveat = caveats.find(|caveat| missing(&caveat.what)).unwrap();
    assert!(
        caveat.remedy.starts_with("Copy missing files back"),
        "{caveat:?}"
    );
}

#[test]
fn a_page_cache_that_was_left_is_a_caveat() {
    let folder = tempfile::tempdir().unwrap();
    let lines = tried(1, 1, Outcome::Completed, Validity::Valid);
    let mut experiment = experiment(folder.path(), lines);
    let has_caveat = |experiment: &Experiment| {
        let report = experiment.report().unwrap().report;
        let what = "No run is proven to have begun cold, because begin.page_cache is \"leave\"";
        report
            .caveats
            .iter()
            .any(|caveat| caveat.what.starts_with(what))
    };
    assert!(!has_caveat(&experiment));
    experiment.plan.page_cache = plan::PageCache::Leave;
    assert!(has_caveat(&experiment));
}

#[test]
fn a_throttling_limit_is_shown_as_the_memory_limit() {
    let folder = tempfile::tempdir().unwrap();
    let lines = tried(1, 1, Outcome::Completed, Validity::Valid);
    let mut experiment = experiment(folder.path(), lines);
    let arm = &mut experiment.plan.arms[0];
    arm.memory_high = arm.memory_max.take();
    let report = experiment.report().unwrap().report;
    for id in ["arms", "runs"] {
        let table = table(&report, id).unwrap();
        assert_eq!(column(table, "Memory limit")[0], "1.4453125", "{id}");
    }
}

#[test]
fn an_unfinished_experiment_is_reported_with_its_missing_parts() {
    let folder = tempfile::tempdir().unwrap();
    let failed = Outcome::Failed {
        why: "no room".to_owned(),
    };
    let lines = [
        tried(1, 1, failed, Validity::Valid),
        tried(1, 2, Outcome::Completed, Validity::Valid),
        tried(
            2,
            1,
            Outcome::Interrupted {
                why: "ctrl-C".to_owned(),
            },
            Validity::Valid,
        ),
        vec![Entry::Stopped {
            why: "ctrl-C".to_owned(),
        }],
    ];
    let experiment = experiment(folder.path(), lines.concat());
    let report = experiment.report().unwrap().report;
    let schedule = table(&report, "schedule").unwrap();
    assert_eq!(
        column(schedule, "Outcome"),
        [
            "ran its whole time",
            "interrupted: ctrl-C",
            "not begun",
            "not begun"
        ],
        "{schedule:#?}"
    );
    assert_eq!(column(schedule, "Attempts"), ["2", "1", "0", "0"]);
    let attempts = table(&report, "attempts").unwrap();
    assert_eq!(
        column(attempts, "Why it does not count"),
        ["failed: no room", "interrupted: ctrl-C"]
    );
    let shown = &report.caveats[0].what;
    assert_eq!(
        shown,
        "The experiment is not finished: 1 of 4 runs count so far (small 1 of 2, large 0 of 2). It was stopped: ctrl-C."
    );
    assert!(
        report
            .verdict
            .bullets
            .iter()
            .any(|point| point == "large has no run that counts yet."),
        "{:#?}",
        report.verdict
    );
}

#[test]
fn invalid_runs_are_excluded_from_the_report_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let lines = [
        tried(
            1,
            1,
            Outcome::Completed,
            Validity::Invalid("the cache held 460 entries".to_owned()),
        ),
        tried(
            2,
            1,
            Outcome::Completed,
            Validity::Unproven("it never filled".to_owned()),
        ),
    ];
    let experiment = experiment(folder.path(), lines.concat());
    let report = experiment.report().unwrap().report;
    assert_eq!(report.runs.len(), 1);
    let caveats: Vec<&str> = report
        .caveats
        .iter()
        .map(|caveat| caveat.what.as_str())
        .collect();
    let left_out = "Left out, because the run did not have the settings of its arm: small, run 1: the cache held 460 entries.";
    assert!(caveats.contains(&left_out), "{caveats:#?}");
    assert!(
        caveats
            .iter()
            .any(|what| what.contains("large, run 1: it never filled")),
        "{caveats:#?}"
    );
    assert_eq!(
        column(table(&report, "arms").unwrap(), "Left out"),
        ["1", "0"]
    );
}

#[test]
fn an_experiment_without_valid_runs_states_it_in_its_chapter() {
    let folder = tempfile::tempdir().unwrap();
    let experiment = experiment(folder.path(), Vec::new());
    let report = experiment.report().unwrap().report;
    assert_eq!(
        report.verdict.headline,
        "Not finished: 0 of 4 runs count so far. There is no run to report."
    );
    assert_eq!(report.sections.len(), 1);
    assert_eq!(
        column(table(&report, "schedule").unwrap(), "Outcome"),
        ["not begun"; 4]
    );
    render::write(&report, &folder.path().join("out"), false).unwrap();
}

#[test]
fn the_experiments_outcome_overrides_the_recordings_end() {
    let ending = |outcome| Ending {
        outcome,
        validity: Validity::Valid,
        cgroup_state: CgroupState::default(),
        notes: Vec::new(),
        stopped_unix_ns: None,
    };
    let kept_up =
        |outcome, kind| headline::experiment_outcome(&ending(outcome), None, kind).success;
    for outcome in [
        Outcome::OutOfMemory,
        Outcome::NeverExecuted,
        Outcome::NoProgress,
        Outcome::NotAtTip,
    ] {
        assert_eq!(
            kept_up(outcome.clone(), WorkloadKind::Validator),
            Some(false),
            "{outcome:?}"
        );
    }
    assert_eq!(
        kept_up(Outcome::Exited { code: 1 }, WorkloadKind::Validator),
        Some(false)
    );
    // A foreign signal proves nothing about the arm. For a run that lasted its whole time, the recording decides.
    assert_eq!(
        kept_up(Outcome::Killed { signal: 9 }, WorkloadKind::Validator),
        None
    );
    assert_eq!(kept_up(Outcome::Completed, WorkloadKind::Validator), None);
    assert_eq!(
        kept_up(Outcome::Completed, WorkloadKind::Replay),
        Some(true)
    );
}

#[test]
fn replays_are_paired_by_slot_with_the_other_arms_replicate() {
    let report = report_of_four_replays();
    let paired = table(&report, "paired").unwrap();
    assert_eq!(
        column(paired, "Runs"),
        [
            "1024, run 1 against 512, run 1",
            "1024, run 2 against 512, run 2"
        ],
        "{paired:#?}"
    );
    let differences = column(paired, "Mean difference");
    assert!(
        differences[0].starts_with("-2") && differences[1].starts_with("-3"),
        "{differences:?}"
    );
    assert_eq!(
        column(table(&report, "paired-counts").unwrap(), "Mean difference"),
        ["-19", "-20"]
    );
}

#[test]
fn the_pairs_of_replays_are_also_compared_together() {
    let report = report_of_four_replays();
    let together = table(&report, "paired-together").unwrap();
    assert_eq!(column(together, "What")[0], "Replay time");
    assert_eq!(
        (
            column(together, "Pairs")[0].as_str(),
            column(together, "Difference")[1].as_str()
        ),
        ("2", "-19.5")
    );
    let primary = table(&report, "primary").unwrap();
    assert_eq!(
        (
            column(primary, "Reference mean"),
            column(primary, "Other mean")
        ),
        (vec!["105".to_owned()], vec!["7.5".to_owned()])
    );
}

fn report_of_four_replays() -> Report {
    let replay = |arm: &str, replicate: u32, ms: f64, misses: u64| {
        let slots = (1..=200).map(|slot| OfflineReplaySlot {
            slot,
            elapsed_ms: (slot > 1).then(|| ms + f64::from((slot as u32 * 7919) % 13) / 10.0),
            bank_fingerprint: Some(slot * 31),
            misses: Some(misses + slot % 3),
            ..OfflineReplaySlot::default()
        });
        let labels = [
            ("arm", arm.to_owned()),
            ("run", replicate.to_string()),
            ("experiment", "e".to_owned()),
        ];
        Run {
            file: format!("{arm}-{replicate}.fltl"),
            labels: labels.map(|(key, value)| (key.to_owned(), value)).to_vec(),
            offline_replay: OfflineReplay {
                slots: slots.collect(),
                program_cache_us: Some(misses * 1000),
                left_out: 0,
            },
            ..Run::default()
        }
    };
    let runs = [
        replay("512", 1, 10.0, 20),
        replay("1024", 1, 8.0, 1),
        replay("512", 2, 12.0, 22),
        replay("1024", 2, 9.0, 2),
    ];
    let options = Options {
        primary: report::run_metric("cache-time").unwrap(),
        ..Options::default()
    };
    report::build(runs, &options)
}

#[test]
fn two_real_replays_are_paired_slot_by_slot() {
    let replay = |entries: &str| {
        let log = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join(format!("../faultline/tests/fixtures/replay-{entries}.log"));
        let labels = [("experiment", "e"), ("arm", entries), ("run", "1")];
        Run {
            labels: labels
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .to_vec(),
            offline_replay: replay::read(&log).unwrap().offline_replay,
            ..Run::default()
        }
    };
    let report = report::build([replay("512"), replay("1024")], &Options::default());
    let counts = table(&report, "paired-counts").unwrap();
    // Of 40 slots the last has no counts; 1,378 misses against 637, 918 evictions against none.
    assert_eq!(column(counts, "Slots of both"), ["39"; 4]);
    assert_eq!(
        column(counts, "Mean difference")[0],
        (f64::from(637 - 1378) / 39.0).to_string()
    );
    assert_eq!(
        column(counts, "Mean difference")[2],
        (-918.0 / 39.0).to_string()
    );
    assert_eq!(
        column(table(&report, "paired").unwrap(), "Slots of both"),
        ["40"]
    );
}

#[test]
fn every_journal_prefix_can_be_reported_without_counting_runs_twice() {
    let folder = tempfile::tempdir().unwrap();
    let lines = [
        tried(
            1,
            1,
            Outcome::Interrupted {
                why: "power".to_owned(),
            },
            Validity::Valid,
        ),
        tried(1, 2, Outcome::OutOfMemory, Validity::Valid),
        tried(2, 1, Outcome::Completed, Validity::Valid),
        tried(
            3,
            1,
            Outcome::Exited { code: 1 },
            Validity::Unproven("few points".to_owned()),
        ),
        vec![
            Entry::Stopped {
                why: "stop".to_owned(),
            },
            Entry::Runner {
                pid: 2,
                boot: "c".to_owned(),
                host: String::new(),
            },
        ],
        tried(4, 1, Outcome::Killed { signal: 9 }, Validity::Valid),
        vec![Entry::Finished],
    ];
    let lines = lines.concat();
    for end in 0..=lines.len() {
        let experiment = experiment(folder.path(), lines[..end].to_vec());
        let report = experiment.report().unwrap().report;
        render::write(&report, &folder.path().join(format!("out-{end}")), false).unwrap();
        let listed = table(&report, "runs").map_or(0, |runs| runs.rows.len());
        assert_eq!(
            (report.runs.len(), listed),
            (
                experiment.journal_state.completed_runs().len(),
                experiment.journal_state.completed_runs().len()
            ),
            "{end}"
        );
        let missing = report
            .caveats
            .iter()
            .any(|caveat| caveat.what.starts_with("The experiment is not finished"));
        assert_eq!(
            missing,
            experiment.journal_state.completed_runs().len() < 4,
            "{end}"
        );
    }
}

#[test]
fn a_default_folder_that_is_a_link_is_not_written_through() {
    let root = tempfile::tempdir().unwrap();
    let [folder, other, out] = ["experiment", "other", "out"].map(|name| root.path().join(name));
    std::fs::create_dir_all(&other).unwrap();
    std::fs::create_dir_all(&folder).unwrap();
    let experiment = experiment(&folder, Vec::new());
    std::fs::write(experiment.folder.plan(), &experiment.plan.text).unwrap();
    Journal::create(&experiment.folder.journal()).unwrap();
    std::os::unix::fs::symlink(&other, folder.join(REPORT)).unwrap();
    let report = |out| {
        report_command(&ExperimentReportArgs {
            experiment: folder.clone(),
            out,
            force: false,
            status_evidence: None,
        })
    };
    let error = report(None).unwrap_err().to_string();
    let wanted =
        "experiment/report is a symbolic link: remove it, or choose another folder with --out";
    assert!(error.ends_with(wanted), "{error}");
    assert_eq!(std::fs::read_dir(&other).unwrap().count(), 0);
    report(Some(out)).unwrap();
}
