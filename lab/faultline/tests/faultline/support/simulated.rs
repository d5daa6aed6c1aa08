//! Experiments on validators of which everything is known beforehand.
#![allow(dead_code, unreachable_pub, reason = "each test uses a part of it")]

use faultline_recording::Recording;
use faultline_testkit::{
    ports::PortBlock,
    simulated::{CACHE_VARIABLE, PROGRAM_NAME},
};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

const FAULTLINE: &str = env!("CARGO_BIN_EXE_faultline");
/// At the tip after a second, behind after another: what takes minutes elsewhere.
const DAEMON: &str = "\
[rpc]
interval = \"200ms\"
[threads]
interval = \"1s\"
[phase]
at_tip_for = \"1s\"
behind_slots = 40
behind_for = \"1s\"
";
/// Nothing of the host matters here.
const HOST: &str = "\
[host]
cool_down = \"0s\"
busy_cpus = { at_most = 1000.0, otherwise = \"ignore\" }
free_disk = { at_least = \"1M\", otherwise = \"warn\" }
swap = \"ignore\"
huge_pages = \"ignore\"
governor = \"ignore\"
leftovers = \"refuse\"
";

/// A folder with everything that an experiment needs; what still runs at the end is stopped.
pub struct Scene {
    folder: tempfile::TempDir,
    pub ports: PortBlock,
}

/// How a run of an experiment ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Ran {
    pub run: u64,
    pub attempt: u64,
    pub turn: u64,
    pub arm: String,
    pub lane: String,
    pub is_second_aa_run: bool,
    pub replicate: u64,
    /// `what` of the outcome.
    pub outcome: String,
    /// `is` of the validity, and why.
    pub validity: (String, String),
    pub ending: Value,
}

impl Scene {
    /// `None`, with words, where an experiment cannot be run.
    pub fn new() -> Option<Self> {
        for needed in [daemon(), simulated()] {
            if !needed.is_file() {
                eprintln!(
                    "SKIPPED: no {}; cargo build -p faultlined -p faultline-testkit makes it",
                    needed.display()
                );
                return None;
            }
        }
        let folder = tempfile::tempdir().expect("a folder");
        let ports = PortBlock::claim(22_000).expect("free ports");
        let scene = Self { folder, ports };
        // Whoever builds meanwhile replaces the programs.
        for (from, to) in [
            (FAULTLINE.into(), "faultline"),
            (daemon(), "faultlined"),
            (simulated(), PROGRAM_NAME),
        ] {
            let to = scene.path(to);
            fs::hard_link(&from, &to)
                .or_else(|_| fs::copy(&from, &to).map(drop))
                .expect("a program");
        }
        scene.write("faultlined.toml", DAEMON);
        Some(scene)
    }

    /// [`Scene::new`] where groups can be made directly.
    pub fn with_groups() -> Option<Self> {
        // Other tests of this program look at the same time.
        let name = format!(
            "faultline_probe_{}_{:?}",
            std::process::id(),
            std::thread::current().id()
        );
        let probe = Path::new("/sys/fs/cgroup/memory").join(name);
        let made = fs::create_dir(&probe).and_then(|()| fs::remove_dir(&probe));
        if let Err(error) = made {
            eprintln!(
                "SKIPPED: memory groups cannot be made by hand here: {}: {error}",
                probe.display()
            );
            return None;
        }
        Self::new()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(&path, text).expect("a file");
        path
    }

    /// Gives the scene a simulated validator whose pages nobody else has in memory.
    pub fn own_program(&self) {
        let path = self.path(PROGRAM_NAME);
        fs::remove_file(&path).expect("a program");
        fs::copy(simulated(), &path).expect("a program");
    }

    /// The simulated validator as a stock one: there is no switch in its file.
    pub fn stock(&self) -> PathBuf {
        let mut bytes = fs::read(simulated()).expect("the program");
        let (name, other) = (CACHE_VARIABLE.as_bytes(), "X".repeat(CACHE_VARIABLE.len()));
        let places: Vec<usize> = (0..bytes.len() - name.len())
            .filter(|&at| bytes[at] == name[0] && bytes[at..].starts_with(name))
            .collect();
        assert!(!places.is_empty());
        places
            .into_iter()
            .for_each(|at| bytes[at..at + name.len()].copy_from_slice(other.as_bytes()));
        let path = self.path("stock").join(PROGRAM_NAME);
        fs::create_dir_all(self.path("stock")).expect("a folder");
        fs::write(&path, bytes).expect("a file");
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&path, executable).expect("rights");
        path
    }

    /// Writes `plan.toml`: what comes before the first section, how long a run lasts, the other sections. `workload` has
    /// further keys of that section.
    pub fn plan(&self, head: &str, workload: &str, stop: &str, rest: &str) {
        let text = format!(
            "folder = \"experiment\"\n{head}\n\
             [workload]\nkind = \"validator\"\ncluster = \"localnet\"\nbinary = \"{PROGRAM_NAME}\"\n{workload}\n\
             [begin]\nhow = \"download\"\npage_cache = \"drop-files\"\n\
             [stop]\n{stop}\ngrace = \"5s\"\n\
             {HOST}\n\
             [recorder]\nprogram = \"./faultlined\"\nconfig = \"faultlined.toml\"\ninterval = \"200ms\"\n\
             {rest}\n"
        );
        self.write("plan.toml", &text);
    }

    /// Puts other words into the plan.
    pub fn replan(&self, words: &str, others: &str) {
        let text = fs::read_to_string(self.path("plan.toml")).expect("a plan");
        assert!(text.contains(words), "{words} in {text}");
        self.write("plan.toml", &text.replace(words, others));
    }

    /// `faultline experiment WORDS... plan.toml`.
    pub fn experiment(&self, words: &[&str]) -> Output {
        let mut command = Command::new(self.path("faultline"));
        command
            .arg("experiment")
            .args(words)
            .arg(self.path("plan.toml"))
            .current_dir(self.folder.path());
        command
            .env_remove("SOLANA_METRICS_CONFIG")
            .output()
            .expect("faultline can be run")
    }

    /// Marks these ledgers as folders that may be cleared.
    pub fn init(&self, ledgers: &[&str]) -> Output {
        let folders = ledgers.iter().map(|ledger| self.path(ledger));
        let mut command = Command::new(self.path("faultline"));
        command
            .args(["experiment", "init"])
            .args(folders)
            .output()
            .expect("faultline can be run")
    }

    /// Runs the plan to its end, which must be a good one, in these ledgers.
    pub fn run(&self, ledgers: &[&str]) {
        let made = self.init(ledgers);
        assert_eq!(made.status.code(), Some(0), "{}", said(&made));
        let output = self.experiment(&["run", "--launcher", "direct"]);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{}\n{}",
            said(&output),
            self.logs()
        );
    }

    /// Writes the report; what its Markdown says before the chapters on the runs' numbers.
    pub fn report(&self) -> String {
        let output = self.experiment(&["report"]);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        let text = fs::read_to_string(self.path("experiment/report/report.md")).expect("a report");
        text.split("## What happened")
            .next()
            .unwrap_or_default()
            .to_owned()
    }

    /// A table of the report, row by row, by column.
    pub fn table(&self, name: &str) -> Vec<BTreeMap<String, String>> {
        let file = self.path(&format!("experiment/report/tables/{name}.csv"));
        table(&fs::read_to_string(file).unwrap_or_else(|error| panic!("table {name}: {error}")))
    }

    /// The runs that counted, by number, as the journal has them.
    pub fn ran(&self) -> Vec<Ran> {
        let text = fs::read_to_string(self.path("experiment/journal.jsonl")).expect("a journal");
        let lines: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect();
        let planned = lines
            .iter()
            .find(|line| line["entry"] == "planned")
            .expect("a schedule");
        let turns = planned["turns"].as_array().expect("turns");
        let all = turns.iter().flat_map(|turn| {
            turn["runs"]
                .as_array()
                .into_iter()
                .flatten()
                .map(move |run| (turn, run))
        });
        let scheduled: BTreeMap<u64, (&Value, &Value)> = all
            .map(|(turn, run)| (run["run"].as_u64().expect("a number"), (turn, run)))
            .collect();
        let mut ended: BTreeMap<u64, Ran> = BTreeMap::new();
        for line in lines.iter().filter(|line| line["entry"] == "run_ended") {
            let number = line["run"].as_u64().expect("a number");
            let (turn, run) = scheduled[&number];
            let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (outcome, validity) = (&line["ending"]["outcome"], &line["ending"]["validity"]);
            let ran = Ran {
                run: number,
                attempt: line["attempt"].as_u64().expect("a number"),
                turn: turn["number"].as_u64().expect("a number"),
                arm: word(&run["arm"]),
                lane: word(&run["lane"]),
                is_second_aa_run: run["second"] == true,
                replicate: run["replicate"].as_u64().expect("a number"),
                outcome: word(&outcome["what"]),
                validity: (word(&validity["is"]), word(&validity["why"])),
                ending: line["ending"].clone(),
            };
            ended.insert(number, ran);
        }
        assert_eq!(
            ended.len(),
            scheduled.len(),
            "every run has ended once: {text}"
        );
        ended.into_values().collect()
    }

    /// The recording of a run.
    pub fn recording(&self, ran: &Ran) -> Recording {
        let runs = fs::read_dir(self.path("experiment/runs"))
            .expect("runs")
            .flatten();
        let wanted = format!("{:03}-", ran.run);
        let folder = runs.map(|entry| entry.path()).find(|path| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with(&wanted))
        });
        let file = folder
            .expect("a folder of the run")
            .join(format!("a{}/run.fltl", ran.attempt));
        Recording::open(&file).expect("a recording")
    }

    /// Whatever the runs have written.
    fn logs(&self) -> String {
        let mut folders = vec![self.path("experiment")];
        let mut text = String::new();
        while let Some(folder) = folders.pop() {
            for path in fs::read_dir(folder)
                .into_iter()
                .flatten()
                .flatten()
                .map(|entry| entry.path())
            {
                let name = path
                    .file_name()
                    .map(|name| name.to_string_lossy().into_owned())
                    .unwrap_or_default();
                if path.is_dir() {
                    folders.push(path);
                } else if name.ends_with(".log") || name.ends_with(".jsonl") {
                    text += &format!(
                        "--- {}\n{}\n",
                        path.display(),
                        fs::read_to_string(&path).unwrap_or_default()
                    );
                }
            }
        }
        text
    }

    /// Asserts that nothing of the experiment is left: no process, no group.
    pub fn nothing_is_left(&self) {
        let folder = self.folder.path().display().to_string();
        let left: Vec<String> = fs::read_dir("/proc")
            .expect("processes")
            .flatten()
            .filter_map(|entry| {
                let line = fs::read(entry.path().join("cmdline")).ok()?;
                let line = String::from_utf8_lossy(&line).replace('\0', " ");
                line.contains(&folder)
                    .then(|| format!("{}: {line}", entry.path().display()))
            })
            .collect();
        assert!(left.is_empty(), "{left:#?}");
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if self.path("experiment/journal.jsonl").exists() {
            drop(self.experiment(&["stop"]));
        }
    }
}

fn daemon() -> PathBuf {
    Path::new(FAULTLINE).with_file_name("faultlined")
}

fn simulated() -> PathBuf {
    Path::new(FAULTLINE).with_file_name("faultline-simulated-validator")
}

/// Both outputs.
pub fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// A table of a report as rows by column.
pub fn table(text: &str) -> Vec<BTreeMap<String, String>> {
    let mut lines = text.lines().map(fields);
    let heads = lines.next().unwrap_or_default();
    lines
        .map(|line| heads.iter().cloned().zip(line).collect())
        .collect()
}

/// The fields of a line of CSV.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    for letter in line.chars() {
        match letter {
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            other => fields.last_mut().expect("a field").push(other),
        }
    }
    fields
}
