//! Writes a synthetic recording of a busy validator: by default twelve hours with a tick per second.
//!
//! ```sh
//! cargo run --release -p faultline-recording --example twelve_hours -- FILE [SECONDS] [--arm KEY=VALUE]...
//!     [--cache ENTRIES] [--squeeze FACTOR] [--seed N] [--killed-at SECOND] [--gap FROM,SECONDS] [--unfinished]
//! ```
//!
//! `--arm` adds a label. `--cache` below 640 entries makes the program cache thrash. `--squeeze` above 1 makes
//! memory scarce, with more major page faults. `--killed-at` adds an OOM kill of the validator.
#![allow(
    clippy::indexing_slicing,
    clippy::expect_used,
    reason = "a test tool may panic"
)]

#[path = "twelve_hours/random.rs"]
mod random;
#[path = "twelve_hours/series.rs"]
mod series;
#[path = "twelve_hours/synthetic_run.rs"]
mod synthetic_run;

use faultline_recording::{Error, Writer};
use std::{path::PathBuf, process::ExitCode};
use synthetic_run::{Arm, SyntheticRun};

const USAGE: &str = "twelve_hours FILE [SECONDS] [--arm KEY=VALUE]... [--cache ENTRIES] [--squeeze FACTOR] [--seed N] \
                     [--killed-at SECOND] [--gap FROM,SECONDS] [--unfinished]";

struct Options {
    file: PathBuf,
    arm: Arm,
    finish: bool,
}

fn main() -> ExitCode {
    let Some(options) = parse_options(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(64);
    };
    match write(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn parse_options(mut words: impl Iterator<Item = String>) -> Option<Options> {
    let mut options = Options {
        file: PathBuf::new(),
        arm: Arm::default(),
        finish: true,
    };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--unfinished" => options.finish = false,
            "--arm" => {
                let pair = words.next()?;
                let (key, value) = pair
                    .split_once('=')
                    .map_or(("arm", pair.as_str()), |pair| pair);
                options.arm.labels.push((key.to_owned(), value.to_owned()));
            }
            "--cache" => options.arm.cache = words.next()?.parse().ok()?,
            "--squeeze" => options.arm.memory_scarcity = words.next()?.parse().ok()?,
            "--seed" => options.arm.seed = words.next()?.parse().ok()?,
            "--killed-at" => options.arm.killed_at = Some(words.next()?.parse().ok()?),
            "--gap" => {
                let pair = words.next()?;
                let (from, seconds) = pair.split_once(',')?;
                options.arm.gap = Some((from.parse().ok()?, seconds.parse().ok()?));
            }
            _ if options.file.as_os_str().is_empty() => options.file = word.into(),
            _ => options.arm.seconds = word.parse().ok()?,
        }
    }
    (!options.file.as_os_str().is_empty()).then_some(options)
}

fn write(options: &Options) -> Result<(), Error> {
    let mut run = SyntheticRun::new(options.arm.clone());
    let mut writer = Writer::create(&options.file, &run.header())?;
    let mut seconds = 0u64;
    while let Some(second) = run.next() {
        if let Some(process) = &second.process {
            writer.begin_process(process)?;
        }
        second
            .events
            .iter()
            .try_for_each(|event| writer.event(event))?;
        if let Some(tick) = &second.tick {
            writer.tick(tick)?;
        }
        second
            .points
            .iter()
            .try_for_each(|point| writer.point(point))?;
        writer.commit()?;
        seconds += 1;
        if seconds.is_multiple_of(60) {
            writer.checkpoint()?;
        }
    }
    if options.finish {
        writer.finish(run.ended())
    } else {
        Ok(())
    }
}
