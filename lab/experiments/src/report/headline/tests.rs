use super::{super::Experiment, Outcome};
use crate::{
    folder::ExperimentFolder,
    journal::{Entry, JournalLine, JournalState, Planned, Step},
    outcome::{Ending, Validity},
    plan,
    schedule::{ScheduledRun, Turn},
};
use faultline_runner::isolation::CgroupState;
use std::path::{Path, PathBuf};

/// What became of a run: `-` not begun, `f` failed, `c` completed, `o` out of memory, `x` exited, `h` no progress, `n` never
/// executed, `k` a foreign signal, `i` completed and invalid.
fn ending(letter: char) -> Option<Ending> {
    let outcome = match letter {
        '-' => return None,
        'f' => Outcome::Failed {
            why: "no".to_owned(),
        },
        'c' | 'i' => Outcome::Completed,
        'o' => Outcome::OutOfMemory,
        'x' => Outcome::Exited { code: 3 },
        'h' => Outcome::NoProgress,
        'n' => Outcome::NeverExecuted,
        'k' => Outcome::Killed { signal: 11 },
        other => panic!("{other}"),
    };
    let validity = if letter == 'i' {
        Validity::Invalid("too small".to_owned())
    } else {
        Validity::Valid
    };
    Some(Ending {
        outcome,
        validity,
        cgroup_state: CgroupState::default(),
        notes: Vec::new(),
        stopped_unix_ns: None,
    })
}

/// An experiment by its arms: `NAME LIMIT RUNS`, the limit `none` or as in a plan, the runs as letters.
fn experiment(kind: &str, arms: &str) -> Experiment {
    let folder = Path::new("/nowhere/experiment");
    let (mut text, mut turns, mut lines) = (String::new(), Vec::new(), Vec::new());
    for arm in arms.split(", ") {
        let words: Vec<&str> = arm.split(' ').collect();
        let [name, limit, runs] = words[..] else {
            panic!("{arm}")
        };
        text += &format!("[[arm]]\nname = {name:?}\n");
        if limit != "none" {
            text += &format!("memory_max = {limit:?}\n");
        }
        for (letter, replicate) in runs.chars().zip(1..) {
            let run = turns.len() as u32 + 1;
            let (arm, lane) = (name.to_owned(), "main".to_owned());
            let scheduled = ScheduledRun {
                run,
                arm,
                replicate,
                lane,
                is_second_aa_run: false,
            };
            turns.push(Turn {
                number: run,
                runs: vec![scheduled],
            });
            lines.extend(ending(letter).into_iter().flat_map(|end| ended(run, end)));
        }
    }
    let head = format!(
        "name = \"e\"\nfolder = {folder:?}\n[workload]\nkind = {kind:?}\ncommand = [\"/bin/true\"]\nledger = \"/x/ledger\"\n\
         [begin]\nhow = \"as-is\"\n[stop]\nduration = \"1h\"\n"
    );
    let plan = plan::parse(&(head + &text), &folder.join("plan.toml"));
    let plan = plan.unwrap_or_else(|mistakes| panic!("{mistakes:?}"));
    Experiment {
        folder: ExperimentFolder::new(folder),
        plan,
        journal_state: journal(turns, lines),
    }
}

fn ended(run: u32, ending: Ending) -> [Entry; 3] {
    let attempt = 1;
    [
        Entry::TurnBegun { turn: run, attempt },
        Entry::Step {
            run,
            attempt,
            step: Step::Host,
        },
        Entry::RunEnded {
            run,
            attempt,
            ending: Box::new(ending),
        },
    ]
}

fn journal(turns: Vec<Turn>, lines: Vec<Entry>) -> JournalState {
    let planned = Entry::Planned(Planned {
        name: "e".to_owned(),
        plan_digest: String::new(),
        file: PathBuf::new(),
        seed: 1,
        launcher: "cgroup v1".to_owned(),
        turns,
    });
    let runner = Entry::Runner {
        pid: 1,
        boot: String::new(),
        host: String::new(),
    };
    let all = [planned, runner].into_iter().chain(lines).zip(1_i64..);
    let lines: Vec<JournalLine> = all
        .map(|(entry, unix_ns)| JournalLine { unix_ns, entry })
        .collect();
    JournalState::of(&lines)
}

/// Kind of workload, arms, and the expected headline. There are no recordings, only the journal.
const STANDINGS: [(&str, &str, &str); 14] = [
    (
        "validator",
        "small 64M oo, large 1G cc",
        "OOM-killed: small (2 of 2 runs). Ran its whole time: large (2 of 2 runs).",
    ),
    (
        "validator",
        "64M 64M o-, 96M 96M --, 128M 128M --",
        "Not finished: 1 of 6 runs count so far. OOM-killed: 64M (1 of 1 run). \
         Without a run that counts: 96M, 128M.",
    ),
    (
        "validator",
        "64M 64M oc, 96M 96M c-",
        "Not finished: 3 of 4 runs count so far. OOM-killed: 64M (1 of 2 runs). \
         Ran its whole time: 64M (1 of 2 runs), 96M (1 of 1 run).",
    ),
    (
        "validator",
        "oom 64M o, exits 64M x, hangs 64M h, never 64M n, segv 64M k, fine none c",
        "OOM-killed: oom (1 of 1 run). Ended by itself: exits (1 of 1 run). \
         Ended by a rule of the plan: hangs (1 of 1 run), never (1 of 1 run). \
         Ended by a foreign signal: segv (1 of 1 run). Ran its whole time: fine (1 of 1 run).",
    ),
    (
        "validator",
        "a none hx, b none xx",
        "Ended by itself: a (1 of 2 runs), b (2 of 2 runs). Ended by a rule of the plan: a (1 of 2 runs). \
         No run ran its whole time.",
    ),
    (
        "validator",
        "a 64M oo, b 1G oo",
        "OOM-killed: a (2 of 2 runs), b (2 of 2 runs). No run ran its whole time.",
    ),
    // A later run may still run its whole time, so nothing is concluded.
    (
        "validator",
        "a 64M oo, b 1G o-",
        "Not finished: 3 of 4 runs count so far. OOM-killed: a (2 of 2 runs), b (1 of 1 run).",
    ),
    (
        "validator",
        "a 64M o, b 1G f",
        "Not finished: 1 of 2 runs count so far. OOM-killed: a (1 of 1 run). Without a run that counts: b.",
    ),
    // An invalid run is no result of its arm, but it is mentioned.
    (
        "validator",
        "a 64M oi, b 1G ii",
        "OOM-killed: a (1 of 1 run). Left out as invalid: a (1 of 2 runs), b (2 of 2 runs).",
    ),
    (
        "validator",
        "a 64M --, b 1G --",
        "Not finished: 0 of 4 runs count so far. There is no run to report.",
    ),
    (
        "validator",
        "a 64M ff, b 1G --",
        "Not finished: 0 of 4 runs count so far. There is no run to report.",
    ),
    (
        "replay",
        "small 64M oo, large 1G cc, all none cc",
        "OOM-killed: small (2 of 2 runs). Did all of its work: large (2 of 2 runs), all (2 of 2 runs).",
    ),
    (
        "replay",
        "small 1G cc, large 2G cc, all none cc",
        "The smallest limit with which every run did all of its work is 1 GiB. No run with a limit failed.",
    ),
    (
        "replay",
        "small 1G cc, large 2G c-, all none --",
        "Not finished: 3 of 6 runs count so far. The smallest limit with which every run did all of its work is 1 GiB. \
         No run with a limit failed.",
    ),
];

#[test]
fn the_headline_is_correct_for_every_experiment_state() {
    for (kind, arms, expected) in STANDINGS {
        let report = experiment(kind, arms).report().unwrap().report;
        assert_eq!(report.verdict.headline, expected, "{kind}: {arms}");
    }
}

#[test]
fn numbers_of_runs_have_grouped_digits() {
    let arms = format!("a 64M {}{}", "o".repeat(1000), "-".repeat(1000));
    let report = experiment("validator", &arms).report().unwrap().report;
    assert_eq!(
        report.verdict.headline,
        "Not finished: 1,000 of 2,000 runs count so far. OOM-killed: a (1,000 of 1,000 runs)."
    );
    let unfinished =
        "The experiment is not finished: 1,000 of 2,000 runs count so far (a 1,000 of 2,000).";
    assert!(
        report
            .caveats
            .iter()
            .any(|caveat| caveat.what.starts_with(unfinished))
    );
}

/// All sentences on the first screen of the report.
fn sentences(kind: &str, arms: &str) -> Vec<String> {
    let report = experiment(kind, arms).report().unwrap().report;
    report.verdict.bullets
}

#[test]
fn an_unlimited_arm_is_excluded_from_the_bracket_and_named_separately() {
    let points = sentences("replay", "small 1G o, large 2G c, all none x");
    let expected = [
        "The smallest limit with which every run did all of its work is 2 GiB. The largest limit with which a run failed is 1 GiB.",
        "all had no limit, so it is not part of this: 0 of 1 run did all of its work.",
        "Did not do all of it (was killed by the kernel's OOM killer): small, run 1.",
    ];
    assert!(
        expected
            .iter()
            .all(|sentence| points.iter().any(|point| point == sentence)),
        "{points:#?}"
    );
    // One arm with a limit gives no bracket, whatever the outcomes of the arms without a limit.
    let points = sentences(
        "validator",
        "small 1G o, fine none c, hangs none h, exits none x",
    );
    assert!(
        !points.iter().any(|point| point.contains(" limit that ")),
        "{points:#?}"
    );
}

#[test]
fn each_arm_without_complete_runs_states_the_reason() {
    let points = sentences(
        "validator",
        "fine 1G cx, hangs 1G hh, mixed 1G ox, one 2G x, new 2G --, failed 2G f-, invalid 2G ii",
    );
    let expected = [
        "hangs did not run its whole time in any of its 2 runs: ended by the plan: no new slot for too long.",
        "mixed did not run its whole time in any of its 2 runs: killed by the kernel's OOM killer; ended by itself with code 3.",
        "one did not run its whole time: ended by itself with code 3.",
        "new has not been run yet.",
        "failed has no run that counts yet.",
        "invalid is not compared: 2 runs left out as invalid.",
    ];
    assert_eq!(points[..expected.len()], expected);
}
