//! Recordings made for tests.
#![allow(dead_code, unreachable_pub, reason = "each test uses a part of it")]

#[path = "../../../../../crates/recording/examples/twelve_hours/random.rs"]
mod random;
#[path = "../../../../../crates/recording/examples/twelve_hours/series.rs"]
mod series;
#[path = "../../../../../crates/recording/examples/twelve_hours/synthetic_run.rs"]
pub mod synthetic_run;

use faultline_metrics::{
    Batch, Reading, Source, Stamp, Tick,
    metrics::{process, validator},
};
use faultline_recording::{Event, EventKind, NewProcess, NewRecording, NewSession, Writer};
use std::{
    path::Path,
    process::{Command, Output},
    sync::Arc,
    time::Duration,
};
use synthetic_run::{Arm, SyntheticRun};

/// Runs `faultline` with these words.
#[expect(clippy::disallowed_methods, reason = "a test starts programs itself")]
pub fn faultline<A: AsRef<std::ffi::OsStr>>(words: impl IntoIterator<Item = A>) -> Output {
    Command::new(env!("CARGO_BIN_EXE_faultline"))
        .args(words)
        .output()
        .expect("faultline can be run")
}

/// Both outputs, for messages and for looking into.
pub fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// A made-up run with every table filled.
pub fn busy(path: &Path, arm: Arm) {
    let mut synthetic = SyntheticRun::new(arm);
    let mut writer = Writer::create(path, &synthetic.header()).unwrap();
    while let Some(second) = synthetic.next() {
        second
            .process
            .iter()
            .for_each(|process| writer.begin_process(process).unwrap());
        second
            .events
            .iter()
            .for_each(|event| writer.event(event).unwrap());
        second
            .tick
            .iter()
            .for_each(|tick| writer.tick(tick).unwrap());
        second
            .points
            .iter()
            .for_each(|point| writer.point(point).unwrap());
    }
    writer.finish(synthetic.ended()).unwrap();
}

/// A run of which every number is known.
#[derive(Debug, Clone)]
pub struct Plain {
    /// When it began, in seconds since 1970.
    pub began: u64,
    /// Numbers of its ticks, one a second.
    pub ticks: Vec<u64>,
    /// The phase from this tick on.
    pub phases: Vec<(u64, &'static str)>,
    pub labels: Vec<(&'static str, &'static str)>,
    /// Whether it was ended in order.
    pub finished: bool,
    /// Whether a process was followed.
    pub process: bool,
}

impl Default for Plain {
    fn default() -> Self {
        Self {
            began: 1_800_000_000,
            ticks: (1..=10).collect(),
            phases: Vec::new(),
            labels: Vec::new(),
            finished: true,
            process: true,
        }
    }
}

impl Plain {
    fn at(&self, number: u64) -> Stamp {
        Stamp {
            uptime: Duration::from_secs(number),
            unix: Duration::from_secs(self.began + number),
        }
    }

    /// Writes it: one process, one value of it a tick (1000 times the tick's number), `start` and `exit`.
    pub fn write(&self, path: &Path) {
        let labels = self
            .labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        let manifest = serde_json::json!({"host": {"name": "sol-1", "kernel": {"release": "6.8.0"}, "disks": ["sda"]}});
        let (started, interval) = (self.at(0), Duration::from_secs(1));
        let session = NewSession {
            started,
            interval,
            version: "0.1.0".to_owned(),
            manifest,
        };
        let mut writer = Writer::create(path, &NewRecording { labels, session }).unwrap();
        let manifest =
            serde_json::json!({"arguments": ["agave-validator", "--ledger", "/mnt/ledger"]});
        let process = NewProcess {
            pid: 4711,
            started_unix: Some(Duration::from_secs(self.began)),
            seen: started,
            manifest,
        };
        if self.process {
            writer.begin_process(&process).unwrap();
        }
        let event = |kind, at, detail: &str| Event {
            at,
            kind,
            detail: detail.to_owned(),
        };
        writer.event(&event(EventKind::Start, started, "")).unwrap();
        for number in &self.ticks {
            writer.tick(&self.tick(*number)).unwrap();
        }
        let end = self.at(self.ticks.last().copied().unwrap_or(0));
        writer
            .event(&event(
                EventKind::Exit,
                end,
                r#"{"code": 1, "text": "a,\"b\"\nc"}"#,
            ))
            .unwrap();
        writer.commit().unwrap();
        if self.finished {
            writer.finish(end).unwrap();
        }
    }

    fn tick(&self, number: u64) -> Tick {
        let at = self.at(number);
        let process = vec![Reading::integer(&process::VIRTUAL, [], number * 1000)];
        // A fraction, in a column of whole numbers.
        let mut from_experiment =
            vec![Reading::real(&validator::STORAGES, [], number as f64 / 2.0)];
        let phase = self.phases.iter().rev().find(|(from, _)| *from <= number);
        from_experiment.extend(
            phase.map(|(_, phase)| Reading::integer(&validator::PHASE, [(*phase).into()], 1)),
        );
        let batch = |source, readings| {
            Arc::new(Batch {
                readings,
                up: true,
                ..Batch::empty(source, at)
            })
        };
        let batches = vec![
            batch(Source::Process, process),
            batch(Source::Conclusions, from_experiment),
        ];
        Tick {
            number,
            at,
            batches,
        }
    }
}
