use crate::plan::Plan;
use faultline_runner::record::output_of;
use faultline_text::{counted, parse_time};
use itertools::Itertools;
use std::{fs, path::Path, time::Duration};
use toml::{Table, Value};

/// The daemon's default.
const DEFAULT_AT_TIP_FOR: Duration = Duration::from_secs(60);
const MAX_CONFIG_BYTES: u64 = 1 << 20;
const MAX_LINES: usize = 2;
const MAX_LINE_CHARS: usize = 120;

/// The daemon's verdict on `recorder.config`. `None` without a daemon or readable file.
pub fn daemon_verdict(plan: &Plan, daemon: Option<&Path>) -> Option<Result<(), String>> {
    let (daemon, file) = (daemon?, plan.recorder.config.as_deref()?);
    fs::File::open(file).ok()?;
    let output = output_of(
        daemon,
        &[
            "check-config".as_ref(),
            "--config".as_ref(),
            file.as_os_str(),
        ],
    );
    Some(match output {
        Ok((true, _)) => Ok(()),
        Ok((false, messages)) => {
            let lines: Vec<&str> = messages.lines().collect();
            let first_lines = lines
                .iter()
                .take(MAX_LINES)
                .map(|line| short(line))
                .join("; ");
            match lines.len().saturating_sub(MAX_LINES) {
                0 => Err(first_lines),
                more => Err(format!(
                    "{first_lines}; and {}",
                    counted(more as f64, "more line")
                )),
            }
        }
        Err(error) => Err(format!(
            "{} cannot be asked about it: {error}",
            daemon.display()
        )),
    })
}

fn short(line: &str) -> String {
    let line = line.strip_prefix("configuration: ").unwrap_or(line);
    let truncated: String = line.chars().take(MAX_LINE_CHARS).collect();
    if truncated.len() < line.len() {
        truncated + "..."
    } else {
        truncated
    }
}

pub fn at_tip_for(plan: &Plan) -> Option<Duration> {
    match phase(plan)?.get("at_tip_for") {
        Some(time) => parse_time(time.as_str()?).ok(),
        None => Some(DEFAULT_AT_TIP_FOR),
    }
}

/// `[phase]` of the recorder's configuration; empty without one, `None` if it is unreadable.
pub fn phase(plan: &Plan) -> Option<Table> {
    let Some(file) = &plan.recorder.config else {
        return Some(Table::new());
    };
    fs::metadata(file)
        .ok()
        .filter(|meta| meta.is_file() && meta.len() <= MAX_CONFIG_BYTES)?;
    let mut config: Table = fs::read_to_string(file).ok()?.parse().ok()?;
    match config.remove("phase") {
        Some(Value::Table(phase)) => Some(phase),
        _ => Some(Table::new()),
    }
}
