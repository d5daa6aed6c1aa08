//! What an experiment left behind: its journal as JSON, without the program's types, and its recordings.

use faultline_recording::{EventKind, PerTickTable, Recording, ReplaySlotPoint};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs,
    ops::Range,
    path::{Path, PathBuf},
};

/// A run that has ended.
pub struct Run {
    pub arm: String,
    /// Whether it is the second of the A/A pair.
    pub is_second_aa_run: bool,
    /// `outcome`, `validity`, `evidence`, `notes`.
    pub ending: Value,
    /// Its recording.
    pub path: PathBuf,
    pub recording: Recording,
}

/// The runs of an experiment that has finished, in the order of their ends: each planned one once.
pub fn runs(experiment: &Path) -> Vec<Run> {
    let journal = fs::read_to_string(experiment.join("journal.jsonl")).expect("a journal");
    let lines: Vec<Value> = journal
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line of JSON"))
        .collect();
    let of = |kind: &'static str| lines.iter().filter(move |line| line["entry"] == kind);
    assert_eq!(of("finished").count(), 1, "{journal}");
    let planned = of("planned").flat_map(|line| line["turns"].as_array().into_iter().flatten());
    let planned: Vec<&Value> = planned
        .flat_map(|turn| turn["runs"].as_array().into_iter().flatten())
        .collect();
    let ended: Vec<Run> = of("run_ended")
        .map(|line| ended(experiment, &planned, line))
        .collect();
    assert_eq!(ended.len(), planned.len(), "each run ends once:\n{journal}");
    ended
}

fn ended(experiment: &Path, planned: &[&Value], line: &Value) -> Run {
    let number = line["run"].as_u64().expect("a number of a run");
    let scheduled = planned
        .iter()
        .find(|run| run["run"] == number)
        .expect("a planned run");
    let folders = fs::read_dir(experiment.join("runs"))
        .expect("folders of runs")
        .flatten()
        .map(|entry| entry.path());
    let start = format!("{number:03}-");
    let folder = { folders }.find(|path| {
        path.file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with(&start))
    });
    let path = folder
        .expect("a folder of the run")
        .join(format!("a{}", line["attempt"]))
        .join("run.fltl");
    let recording = Recording::open(&path).expect("a recording");
    assert!(
        recording.info().expect("its description").finished,
        "{}",
        path.display()
    );
    let arm = scheduled["arm"].as_str().expect("an arm").to_owned();
    Run {
        arm,
        is_second_aa_run: scheduled["second"] == true,
        ending: line["ending"].clone(),
        path,
        recording,
    }
}

impl Run {
    /// Its outcome by name.
    pub fn outcome(&self) -> &str {
        self.ending["outcome"]["what"].as_str().unwrap_or_default()
    }

    /// A number of its evidence.
    pub fn evidence(&self, pointer: &str) -> Option<u64> {
        self.ending["evidence"].pointer(pointer)?.as_u64()
    }

    /// From the daemon's start to its end, in nanoseconds since 1970.
    pub fn times(&self) -> Range<u128> {
        let sessions = self.recording.sessions().expect("sessions");
        let [session] = sessions.as_slice() else {
            panic!("{} sessions", sessions.len())
        };
        session.started.as_nanos()..session.ended.expect("a finished recording").as_nanos()
    }

    /// The validator's public key.
    pub fn identity(&self) -> String {
        let processes = self.recording.processes().expect("processes");
        let [process] = processes.as_slice() else {
            panic!("{} processes", processes.len())
        };
        let found = process
            .manifest
            .pointer("/validator/identity")
            .and_then(Value::as_str);
        found.expect("a validator's identity").to_owned()
    }

    /// How often this happened.
    pub fn happened(&self, kind: EventKind) -> usize {
        self.recording
            .events()
            .expect("events")
            .iter()
            .filter(|event| event.kind == kind)
            .count()
    }

    /// Major faults of the process at its last ticks: the newest count, and that of `seconds` ticks before it.
    pub fn major_faults(&self, seconds: usize) -> (f64, f64) {
        let columns = self
            .recording
            .columns(PerTickTable::Process, &["major_faults"])
            .expect("a column");
        let known: Vec<f64> = columns.values.concat().into_iter().flatten().collect();
        let last = known.last().expect("a count of major faults");
        (*last, known[known.len().saturating_sub(seconds + 1)])
    }

    /// Entries of the program cache, as the recorder was told or knows of the version.
    pub fn configured_capacity(&self) -> Option<f64> {
        let columns = self
            .recording
            .columns(PerTickTable::Validator, &["cache_capacity_configured"])
            .expect("a column");
        columns.values.concat().into_iter().flatten().last()
    }

    /// Slots that were replayed.
    pub fn slots(&self) -> BTreeMap<u64, Replayed> {
        let points = self.recording.replay_slot_points().expect("points");
        let slot = |point: &ReplaySlotPoint| {
            Some((
                point.slot?,
                Replayed {
                    transactions: point.total_transactions?,
                    time_us: point.replay_total_elapsed_us?,
                },
            ))
        };
        points.iter().filter_map(slot).collect()
    }
}

/// What a slot's replay was.
#[derive(Debug)]
pub struct Replayed {
    pub transactions: u64,
    pub time_us: u64,
}
