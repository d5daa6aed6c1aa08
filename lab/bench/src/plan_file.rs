//! `bench run`: requests from a plan file.

mod load;
mod tables;
#[cfg(test)]
mod tests;

use crate::args::RunArgs;
use crate::plan::Plan;
use crate::preset;
use faultline_common::args::UsageError;
use faultline_settings::{ConfigError, text};
use faultline_text::is_unsafe_char;
use std::path::{Path, PathBuf};
pub(crate) use tables::{all_requests_text as study, tables};
use toml::de::DeValue;

const MAX_FILE_BYTES: u64 = 64 << 20;

const ENCODING: &str = "encoding";

pub(crate) fn run(args: &RunArgs) -> anyhow::Result<(String, u8)> {
    let (mut plan, ca_file) = read(&args.plan)?;
    plan.max_failures = args.max_failures;
    preset::run("run", &plan, &args.output, ca_file.as_deref(), |session| {
        session.measure(&plan, &[], Vec::new())
    })
}

/// Also returns the file of trusted certificates.
fn read(file: &Path) -> anyhow::Result<(Plan, Option<PathBuf>)> {
    let refused = |mistakes: Vec<ConfigError>| {
        let lines: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
        let head = match lines.len() {
            1 => "the plan has a mistake".to_owned(),
            some => format!("the plan has {some} mistakes"),
        };
        UsageError(format!("{head}:\n{}", lines.join("\n")))
    };
    let text = read_file(file).map_err(|what| {
        refused(vec![ConfigError {
            file: Some(file.to_owned()),
            ..ConfigError::new(what)
        }])
    })?;
    Ok(load::parse(&text, file).map_err(refused)?)
}

/// Errors do not include the file's name.
fn read_file(file: &Path) -> Result<String, String> {
    match std::fs::metadata(file) {
        Ok(meta) if !meta.is_file() => return Err("is no file".to_owned()),
        Ok(meta) if meta.len() > MAX_FILE_BYTES => {
            return Err(format!("is larger than {} MiB", MAX_FILE_BYTES >> 20));
        }
        _ => {}
    }
    std::fs::read_to_string(file).map_err(|error| error.to_string())
}

fn printable_name(value: &DeValue<'_>) -> Result<String, String> {
    let name = text(value)?;
    let fits = name.chars().count() <= 80 && !name.chars().any(is_unsafe_char);
    if fits {
        Ok(name)
    } else {
        Err(format!(
            "{name:?}: a name has up to 80 letters, none of them a control character"
        ))
    }
}
