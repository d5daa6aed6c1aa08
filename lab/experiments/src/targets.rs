//! The Prometheus target file (`file_sd_configs`).

use super::{
    folder::{self, ExperimentFolder},
    plan::Plan,
    schedule::ScheduledRun,
};
use faultline_common::files::{AtPath, TempFile};
use serde::Serialize;
use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// Prometheus may run as another user.
const FILE_MODE: u32 = 0o644;

#[derive(Clone, Serialize)]
pub struct ScrapeTarget {
    /// One `HOST:PORT`.
    targets: [String; 1],
    labels: BTreeMap<&'static str, String>,
}

impl ScrapeTarget {
    /// The label `instance` is unique to each attempt at a run, because ports are reused. The label
    /// `run` is unique within an arm, because sums must not mix runs. The replicate alone is not
    /// unique: the A/A pair is two runs of one arm and replicate.
    pub fn new(experiment: &str, run: &ScheduledRun, attempt: u32, address: String) -> Self {
        let mut run_label = run.replicate.to_string();
        if run.is_second_aa_run {
            run_label += ", second";
        }
        if attempt > 1 {
            run_label += &format!(", attempt {attempt}");
        }
        let instance = format!("{experiment}/{}", folder::relative_run_folder(run, attempt));
        Self {
            targets: [address],
            labels: BTreeMap::from([
                ("instance", instance),
                ("experiment", experiment.to_owned()),
                ("arm", run.arm.clone()),
                ("run", run_label),
            ]),
        }
    }
}

/// Replaces the file atomically. Without targets, does not create a file.
pub fn write(file: &Path, targets: &[ScrapeTarget]) -> anyhow::Result<()> {
    if targets.is_empty() && !file.exists() {
        return Ok(());
    }
    let text = serde_json::to_string_pretty(targets)? + "\n";
    let replace = || {
        // The pattern `*.json` in a configuration of Prometheus does not match the temporary file.
        let part = TempFile::create(file)?;
        part.file()
            .set_permissions(fs::Permissions::from_mode(FILE_MODE))?;
        part.file().write_all(text.as_bytes())?;
        part.finish(file)
    };
    replace().at(file)
}

pub fn path(plan: &Plan, folder: &ExperimentFolder) -> PathBuf {
    plan.recorder
        .targets
        .clone()
        .unwrap_or_else(|| folder.targets())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn run(is_second_aa_run: bool) -> ScheduledRun {
        ScheduledRun {
            run: 3,
            arm: "512 \"G\"".to_owned(),
            replicate: 2,
            lane: "main".to_owned(),
            is_second_aa_run,
        }
    }

    fn read(file: &Path) -> Value {
        serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap()
    }

    #[test]
    fn a_recorder_is_added_to_and_removed_from_the_prometheus_targets_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("targets.json");
        write(&file, &[]).unwrap();
        assert!(!file.exists(), "without targets no file is created");
        write(
            &file,
            &[ScrapeTarget::new(
                "ram",
                &run(false),
                1,
                "127.0.0.1:4711".to_owned(),
            )],
        )
        .unwrap();
        let labels = json!({ "instance": "ram/003-512__G_-r2/a1", "experiment": "ram", "arm": "512 \"G\"", "run": "2" });
        assert_eq!(
            read(&file),
            json!([{ "targets": ["127.0.0.1:4711"], "labels": labels }])
        );
        assert_eq!(
            fs::metadata(&file).unwrap().permissions().mode() & 0o777,
            0o644
        );
        write(&file, &[]).unwrap();
        assert_eq!(read(&file), json!([]));
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            1,
            "no temporary file is left"
        );
    }

    #[test]
    fn the_run_label_tells_second_runs_and_attempts_apart() {
        let written = [(false, 1), (true, 1), (false, 2), (true, 2)].map(|(second, attempt)| {
            ScrapeTarget::new("x", &run(second), attempt, String::new()).labels["run"].clone()
        });
        assert_eq!(
            written,
            ["2", "2, second", "2, attempt 2", "2, second, attempt 2"]
        );
    }

    #[test]
    fn an_unwritable_folder_is_named_in_the_error() {
        let target = ScrapeTarget::new("x", &run(false), 1, String::new());
        let error = write(Path::new("/nonexistent/targets.json"), &[target]).unwrap_err();
        assert!(
            format!("{error:#}").contains("/nonexistent/targets.json"),
            "{error:#}"
        );
    }
}
