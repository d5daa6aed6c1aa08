//! `faultline experiment report` over folders of experiments that nobody ran: journals and logs are written here, the
//! recordings are made up with known arms.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failed expectation is a failed test"
)]

use crate::support::{
    made::{self, busy, faultline, said, synthetic_run::Arm},
    simulated::table,
};
use faultline_experiments::{
    folder::{ExperimentFolder, digest},
    journal::{Entry, JournalLine, Planned, Step},
    outcome::{Ending, Outcome, Validity},
    schedule::{ScheduledRun, Turn},
};
use faultline_runner::isolation::{CgroupState, Pressure};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::Path,
};

const BEGAN: i64 = 1_789_970_400_000_000_000;
const MINUTE: i64 = 60_000_000_000;

/// An experiment's folder, step by step.
struct Made {
    folder: ExperimentFolder,
    lines: Vec<JournalLine>,
}

impl Made {
    fn new(folder: &Path, plan: &str, turns: Vec<Turn>) -> Self {
        fs::create_dir_all(folder).unwrap();
        fs::write(folder.join("plan.toml"), plan).unwrap();
        let planned = Entry::Planned(Planned {
            name: "made".to_owned(),
            plan_digest: digest(plan),
            file: folder.join("plan.toml"),
            seed: 7,
            launcher: "cgroup v2".to_owned(),
            turns,
        });
        let mut made = Self {
            folder: ExperimentFolder::new(folder),
            lines: Vec::new(),
        };
        made.write(planned);
        made.write(Entry::Runner {
            pid: 1,
            boot: "boot".to_owned(),
            host: String::new(),
        });
        made
    }

    fn write(&mut self, entry: Entry) {
        let unix_ns = BEGAN + MINUTE * self.lines.len() as i64;
        self.lines.push(JournalLine { unix_ns, entry });
    }

    fn run(&mut self, scheduled: &ScheduledRun, outcome: Outcome, io_us: u64) {
        let run = scheduled.run;
        self.write(Entry::Step {
            run,
            attempt: 1,
            step: Step::Host,
        });
        let cgroup_state = CgroupState {
            memory_events: BTreeMap::from([(
                "oom_kill".to_owned(),
                u64::from(outcome == Outcome::OutOfMemory),
            )]),
            memory_peak: Some(3 << 30),
            pressure: BTreeMap::from([(
                "io".to_owned(),
                Pressure {
                    some_us: io_us,
                    full_us: 0,
                },
            )]),
            ..CgroupState::default()
        };
        let ending = Ending {
            outcome,
            validity: Validity::Valid,
            cgroup_state,
            notes: Vec::new(),
            stopped_unix_ns: None,
        };
        self.write(Entry::RunEnded {
            run,
            attempt: 1,
            ending: Box::new(ending),
        });
    }

    /// Where a run keeps its files.
    fn place(&self, scheduled: &ScheduledRun) -> std::path::PathBuf {
        let place = self.folder.run(scheduled, 1);
        fs::create_dir_all(&place).unwrap();
        place
    }

    fn scheduled(&self) -> Vec<ScheduledRun> {
        let Entry::Planned(planned) = &self.lines[0].entry else {
            panic!("the first line is the plan");
        };
        let turns = planned.turns.iter();
        turns.flat_map(|turn| turn.runs.clone()).collect()
    }

    /// The same runs as blocks below `folder`, without recordings. A block's host is `n` and its number.
    fn as_blocks(&self, folder: &Path) -> Vec<Self> {
        let text = fs::read_to_string(self.folder.plan()).unwrap();
        Self::new(folder, &text, self.turns(|_| true)).keep();
        let block = |number| {
            let runs = self.turns(|run| run.replicate == number);
            let is_of_block = |of: u32| runs.iter().any(|turn| turn.number == of);
            let attempt = folder.join(format!("blocks/{number:03}/n{number}-0"));
            let mut block = Self::new(&attempt, &text, runs.clone());
            if let Entry::Runner { host, .. } = &mut block.lines[1].entry {
                *host = format!("n{number}");
            }
            let lines = self.lines.iter().filter(|line| match &line.entry {
                Entry::TurnBegun { turn, .. } => is_of_block(*turn),
                Entry::Step { run, .. } | Entry::RunEnded { run, .. } => is_of_block(*run),
                _ => false,
            });
            block.lines.extend(lines.cloned());
            block.keep();
            block
        };
        (1..=3).map(block).collect()
    }

    /// Each run is a turn with the same number.
    fn turns(&self, is_wanted: impl Fn(&ScheduledRun) -> bool) -> Vec<Turn> {
        let runs = self.scheduled().into_iter().filter(is_wanted);
        let turn = |run: ScheduledRun| Turn {
            number: run.run,
            runs: vec![run],
        };
        runs.map(turn).collect()
    }

    fn keep(&self) {
        let lines = self
            .lines
            .iter()
            .map(|line| serde_json::to_string(line).unwrap() + "\n");
        fs::write(self.folder.journal(), lines.collect::<String>()).unwrap();
    }
}

fn scheduled(run: u32, arm: &str, replicate: u32) -> ScheduledRun {
    ScheduledRun {
        run,
        arm: arm.to_owned(),
        replicate,
        lane: "here".to_owned(),
        is_second_aa_run: false,
    }
}

fn plan(folder: &Path, more: &str) -> String {
    format!(
        "name = \"made\"\nfolder = {:?}\nreplicates = 3\n{more}",
        folder.display().to_string()
    )
}

/// What a program cache of two sizes does, three replicates each, forwards and backwards.
fn cache(folder: &Path) -> Made {
    let made = cache_journal(folder);
    for run in made.scheduled() {
        record(&made.place(&run).join("run.fltl"), &run, &[]);
    }
    made
}

fn record(path: &Path, run: &ScheduledRun, labels: &[(&str, &str)]) {
    // The report takes the arm from the journal, not from this label.
    let labels = [("arm", "wrong")].iter().chain(labels);
    let arm = Arm {
        seconds: 200,
        cache: run.arm.parse().unwrap(),
        seed: u64::from(run.run),
        labels: labels
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect(),
        ..Arm::default()
    };
    busy(path, arm);
}

fn cache_journal(folder: &Path) -> Made {
    let text = plan(
        folder,
        "order = \"abba\"\n[workload]\nkind = \"validator\"\ncommand = [\"/bin/true\"]\nbinary = \"/bin/true\"\nledger = \"/x/ledger\"\n\
         [begin]\nhow = \"as-is\"\n[stop]\nduration = \"1h\"\n[report]\nprimary = \"cache-misses\"\nmargin = 10\n\
         [[arm]]\nname = \"512\"\ncache_entries = 512\n[[arm]]\nname = \"1024\"\ncache_entries = 1024\n",
    );
    let order = [
        ("512", 1),
        ("1024", 1),
        ("1024", 2),
        ("512", 2),
        ("512", 3),
        ("1024", 3),
    ];
    let runs: Vec<ScheduledRun> = order
        .iter()
        .zip(1..)
        .map(|((arm, replicate), run)| scheduled(run, arm, *replicate))
        .collect();
    let turns = runs
        .iter()
        .zip(1..)
        .map(|(run, number)| Turn {
            number,
            runs: vec![run.clone()],
        })
        .collect();
    let mut made = Made::new(folder, &text, turns);
    for run in &runs {
        made.write(Entry::TurnBegun {
            turn: run.run,
            attempt: 1,
        });
        made.run(run, Outcome::Completed, 0);
    }
    made
}

#[test]
fn an_experiment_report_uses_the_plans_metric_and_margin() {
    let temp = tempfile::tempdir().unwrap();
    let mut made = cache(&temp.path().join("e"));
    made.write(Entry::Finished);
    made.keep();
    let output = faultline([
        Path::new("experiment"),
        Path::new("report"),
        made.folder.path(),
    ]);
    assert!(output.status.success(), "{}", said(&output));
    let from_experiment = String::from_utf8(output.stdout).unwrap();
    let page = made.folder.path().join("report/report.html");
    assert!(
        from_experiment.starts_with("Program cache misses per batch are ")
            && from_experiment.contains("lower")
            && from_experiment.contains(" with 1024 than with 512: "),
        "{from_experiment}"
    );
    assert_eq!(
        from_experiment.lines().nth(1),
        Some(page.display().to_string().as_str())
    );
    assert!(
        fs::read_to_string(&page)
            .unwrap()
            .contains("The experiment")
    );
    let text = fs::read_to_string(made.folder.path().join("report/report.md")).unwrap();
    for part in [
        "# Experiment made",
        "The plan has 6 runs of 2 arms, order: forwards and backwards in turn.",
        "The launcher cgroup v2 made the cgroups; the plan's SHA-256 is ",
        ". It is finished.",
        "differences below 10 % of the reference's mean do not matter",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let csv = |id: &str| {
        fs::read_to_string(made.folder.path().join(format!("report/tables/{id}.csv"))).unwrap()
    };
    let schedule = csv("schedule");
    assert_eq!(schedule.lines().count(), 7, "{schedule}");
    assert!(
        schedule
            .lines()
            .nth(1)
            .unwrap()
            .starts_with("1,1,512,1,here,2026-09-21 06:03:00 UTC,"),
        "{schedule}"
    );
    assert!(
        csv("arms").contains("1024,1024,3,3,0,0,0,0,0"),
        "{}",
        csv("arms")
    );
    assert_eq!(csv("runs").lines().count(), 7);
}

#[test]
fn blocks_on_several_hosts_have_the_values_of_the_same_runs_on_one_host() {
    let temp = tempfile::tempdir().unwrap();
    let mut one = cache(&temp.path().join("one"));
    one.write(Entry::Finished);
    one.keep();
    let blocks = temp.path().join("blocks");
    for (block, number) in one.as_blocks(&blocks).iter().zip(1..) {
        for run in block.scheduled() {
            let (host, number) = (format!("n{number}"), number.to_string());
            let labels = [("host", &*host), ("block", &*number)];
            record(&block.place(&run).join("run.fltl"), &run, &labels);
        }
    }
    let [of_one, mut of_blocks] = [one.folder.path(), &blocks].map(report_tables);
    let hosts = of_blocks.remove("hosts.csv").unwrap();
    assert_eq!(hosts.lines().count(), 4, "{hosts}");
    for (name, text) in of_one {
        let other = of_blocks.remove(&name).unwrap();
        // A comparison within blocks has other intervals and p-values.
        if ["primary.csv", "other-metrics.csv"].contains(&&*name) {
            let expected = means_and_run_counts(&text);
            let has_mean = |(name, value): &(String, String)| {
                name.starts_with("Reference mean") && !value.is_empty()
            };
            assert!(
                expected.iter().flatten().any(has_mean),
                "{name}: {expected:?}"
            );
            assert_eq!(means_and_run_counts(&other), expected, "{name}");
        } else {
            assert_eq!(text, other, "{name}");
        }
    }
    assert!(of_blocks.is_empty(), "{:?}", of_blocks.keys());
}

/// By file.
fn report_tables(folder: &Path) -> BTreeMap<String, String> {
    let output = faultline([Path::new("experiment"), Path::new("report"), folder]);
    assert!(output.status.success(), "{}", said(&output));
    let files = fs::read_dir(folder.join("report/tables"))
        .unwrap()
        .flatten();
    let table = |file: fs::DirEntry| {
        let name = file.file_name().to_string_lossy().into_owned();
        (name, fs::read_to_string(file.path()).unwrap())
    };
    files.map(table).collect()
}

/// Arms' means and numbers of runs in a table of comparisons. A column may have a unit.
fn means_and_run_counts(text: &str) -> BTreeSet<Vec<(String, String)>> {
    let columns = [
        "Metric",
        "Arms",
        "Reference mean",
        "Other mean",
        "Runs",
        "Other runs",
    ];
    let is_compared = |name: &str| columns.contains(&name.split(" [").next().unwrap());
    let rows = table(text).into_iter();
    let cells = rows.map(|row| {
        row.into_iter()
            .filter(|(name, _)| is_compared(name))
            .collect()
    });
    cells.collect()
}

#[test]
fn a_report_overwrites_only_its_own_folder_unless_forced() {
    let temp = tempfile::tempdir().unwrap();
    let made = cache(&temp.path().join("e"));
    made.keep();
    let report = |more: &[&str]| {
        let words = [
            "experiment".to_owned(),
            "report".to_owned(),
            made.folder.path().display().to_string(),
        ];
        faultline(
            words
                .into_iter()
                .chain(more.iter().map(|word| (*word).to_owned())),
        )
    };
    assert!(report(&[]).status.success());
    assert!(report(&[]).status.success());
    let elsewhere = temp.path().join("elsewhere").display().to_string();
    assert!(report(&["--out", &elsewhere]).status.success());
    let refused = report(&["--out", &elsewhere]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(said(&refused).contains("--force"), "{}", said(&refused));
    assert!(report(&["--out", &elsewhere, "--force"]).status.success());
    let one = fs::read(made.folder.path().join("report/report.md")).unwrap();
    assert_eq!(
        one,
        fs::read(temp.path().join("elsewhere/report.md")).unwrap()
    );
}

#[test]
fn a_report_without_an_experiment_names_what_is_missing() {
    let temp = tempfile::tempdir().unwrap();
    let output = faultline([Path::new("experiment"), Path::new("report"), temp.path()]);
    assert_eq!(output.status.code(), Some(1));
    let said = said(&output);
    assert!(
        said.contains("no experiment was begun here") && said.contains("experiment run PLAN"),
        "{said}"
    );
}

/// The log of a replay of 300 slots that starts at slot 1000, with so many milliseconds and misses a slot.
fn log(ms: u64, misses: u64) -> String {
    let mut text = String::new();
    for slot in 1000..1300_u64 {
        let at = (slot - 1000) * ms + (slot * 7919) % 5;
        let head = |name: &str| {
            format!(
                "[2026-11-21T04:{:02}:{:02}.{:03}000000Z INFO  {name}]",
                at / 60_000,
                at / 1000 % 60,
                at % 1000
            )
        };
        writeln!(
            text,
            "{} bank frozen: {slot} hash: H{slot} accounts_delta: D signature_count: {} last_blockhash: L",
            head("solana_runtime::bank"),
            slot % 50
        )
        .unwrap();
        writeln!(
            text,
            "{} datapoint: loaded-programs-cache-stats slot={slot}i hits=9i misses={}i evictions={misses}i reloads={misses}i \
             insertions=1i water_level=460i",
            head("solana_metrics::metrics"),
            misses + slot % 3
        )
        .unwrap();
    }
    writeln!(
        text,
        "[2026-11-21T04:59:59.000000000Z INFO  solana_ledger::blockstore_processor] ledger processing timing: ExecuteTimings {{ \
         metrics: [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, {}, 1, 1], details: X }}",
        300_000 * misses
    )
    .unwrap();
    text
}

#[test]
fn replays_are_paired_by_slot_with_one_table_row_per_slot() {
    let temp = tempfile::tempdir().unwrap();
    let folder = temp.path().join("e");
    let made = six_replays(&folder);
    let output = faultline([
        Path::new("experiment"),
        Path::new("report"),
        made.folder.path(),
    ]);
    assert!(output.status.success(), "{}", said(&output));
    let from_experiment = String::from_utf8(output.stdout).unwrap();
    assert!(
        from_experiment.starts_with("Program cache time per slot is ")
            && from_experiment.contains("lower")
            && from_experiment.contains(" with 1024 than with 512: "),
        "{from_experiment}"
    );
    let csv = |path: &str| fs::read_to_string(folder.join("report").join(path)).unwrap();
    let slots = csv("slots/002-1024-r1.csv");
    assert_eq!(slots.lines().count(), 301);
    assert_eq!(slots.lines().nth(1), Some("1000,,0,2,1,1,1"));
    // Slot by slot 10 ms and 11 misses less, in the pair of the first replicates.
    let paired = csv("tables/paired.csv");
    let row = paired
        .lines()
        .find(|line| line.contains("1024, run 1 against 512, run 1"))
        .unwrap();
    assert!(row.contains("Replay time,-10"), "{row}");
    let counts = csv("tables/paired-counts.csv");
    assert!(
        counts.contains("\"1024, run 1 against 512, run 1\",Cache misses,-11"),
        "{counts}"
    );
    // Identical work: that the load differs is no caveat.
    let text = csv("report.md");
    assert!(!text.contains("did not process the same slots"), "{text}");
    assert!(
        text.contains("6 of 6 runs did their work to the end."),
        "{text}"
    );
}

fn six_replays(folder: &Path) -> Made {
    let text = plan(
        folder,
        "order = \"abba\"\n[workload]\nkind = \"replay\"\ncommand = [\"/bin/true\"]\nbinary = \"/bin/true\"\nledger = \"/x/ledger\"\n\
         [begin]\nhow = \"as-is\"\n[stop]\nduration = \"1h\"\n[report]\nprimary = \"cache-time\"\n\
         [[arm]]\nname = \"512\"\ncache_entries = 512\n[[arm]]\nname = \"1024\"\ncache_entries = 1024\n",
    );
    let order = [
        ("512", 1, 30, 12),
        ("1024", 1, 20, 1),
        ("1024", 2, 21, 1),
        ("512", 2, 31, 11),
        ("512", 3, 30, 12),
        ("1024", 3, 20, 2),
    ];
    let runs: Vec<ScheduledRun> = order
        .iter()
        .zip(1..)
        .map(|((arm, rep, ..), run)| scheduled(run, arm, *rep))
        .collect();
    let turns = runs
        .iter()
        .zip(1..)
        .map(|(run, number)| Turn {
            number,
            runs: vec![run.clone()],
        })
        .collect();
    let mut made = Made::new(folder, &text, turns);
    for (run, (.., ms, misses)) in runs.iter().zip(order) {
        made.write(Entry::TurnBegun {
            turn: run.run,
            attempt: 1,
        });
        let place = made.place(run);
        fs::write(place.join("output.log"), log(ms, misses)).unwrap();
        made::Plain {
            began: 1_800_000_000 + u64::from(run.run) * 100,
            ..made::Plain::default()
        }
        .write(&place.join("run.fltl"));
        made.run(run, Outcome::Completed, 0);
    }
    made.write(Entry::Finished);
    made.keep();
    made
}
