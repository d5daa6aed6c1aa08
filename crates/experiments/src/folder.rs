//! The experiment's folder, and the names that follow from it.

use super::journal;
use super::schedule::Scheduled;
use faultline_isolation::GroupName;
use sha2::{Digest, Sha256};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Name of the copy of the plan.
pub const PLAN: &str = "plan.toml";
/// Name of the lock.
pub const LOCK: &str = "lock";
/// Name of the file by which a Prometheus finds recorders, unless the plan says where it is.
pub const TARGETS: &str = "targets.json";
/// Name of a run's recording.
pub const RECORDING: &str = "run.fltl";
/// Name of what a run's program printed.
pub const OUTPUT: &str = "output.log";
/// Name of what its recorder printed.
pub const RECORDER_LOG: &str = "recorder.log";
/// Name of the folder in a run's folder that its program may write into: `{run_folder}`.
pub const OWN: &str = "own";
/// Name of the pipe at which a run's program is held back.
pub const GATE: &str = "gate";

/// Longest arm's name in a folder's name, in bytes.
const LONGEST: usize = 60;

/// Where an experiment keeps what it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder(PathBuf);

impl Folder {
    /// The experiment in this folder, which is absolute.
    pub fn new(path: &Path) -> Self {
        Folder(path.to_owned())
    }

    /// The folder itself.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The copy of the plan.
    pub fn plan(&self) -> PathBuf {
        self.0.join(PLAN)
    }

    /// The journal.
    pub fn journal(&self) -> PathBuf {
        self.0.join(journal::FILE)
    }

    /// The lock that a living runner holds.
    pub fn lock(&self) -> PathBuf {
        self.0.join(LOCK)
    }

    /// The file by which a Prometheus finds recorders, unless the plan says where it is.
    pub fn targets(&self) -> PathBuf {
        self.0.join(TARGETS)
    }

    /// Where one attempt at a run keeps its files: `runs/003-512G-r2/a1`.
    pub fn run(&self, run: &Scheduled, attempt: u32) -> PathBuf {
        self.0.join("runs").join(name_of(run, attempt))
    }

    /// Its recording.
    pub fn recording(&self, run: &Scheduled, attempt: u32) -> PathBuf {
        self.run(run, attempt).join(RECORDING)
    }

    /// What the groups of the experiment are named after: its name, and the folder, so that two never share one.
    pub fn scope(&self, name: &str) -> String {
        let digest = hexadecimal(&Sha256::digest(self.0.as_os_str().as_bytes()));
        let name: String = name
            .chars()
            .map(|c| if c == '-' { '_' } else { c })
            .collect();
        format!("{name}_{}", digest.get(..8).unwrap_or(&digest))
    }
}

/// What one attempt at a run is called within its experiment: `003-512G-r2/a1`.
pub fn name_of(run: &Scheduled, attempt: u32) -> String {
    format!(
        "{:03}-{}-r{}/a{attempt}",
        run.run,
        in_a_path(&run.arm),
        run.replicate
    )
}

/// The group of one part of an attempt at a run.
pub fn group(scope: &str, run: u32, attempt: u32, part: &str) -> GroupName {
    GroupName {
        scope: scope.to_owned(),
        run: format!("r{run:03}_a{attempt}"),
        part: part.to_owned(),
    }
}

/// SHA-256 of a plan's text.
pub fn digest(text: &str) -> String {
    hexadecimal(&Sha256::digest(text.as_bytes()))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An arm's name as a part of a path.
fn in_a_path(name: &str) -> String {
    let safe = |c: char| {
        if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') {
            c
        } else {
            '_'
        }
    };
    name.chars().map(safe).take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_have_folders_that_tell_what_they_are_and_are_safe() {
        let run = Scheduled {
            run: 3,
            arm: "../512 G/ü".to_owned(),
            replicate: 2,
            lane: "a".to_owned(),
            second: false,
        };
        let folder = Folder::new(Path::new("/x"));
        assert_eq!(
            folder.recording(&run, 4),
            Path::new("/x/runs/003-.._512_G__-r2/a4/run.fltl")
        );
    }

    #[test]
    fn groups_of_two_folders_never_share_a_scope_and_have_no_dash() {
        let scopes = ["/x", "/y"].map(|path| Folder::new(Path::new(path)).scope("ram-mainnet"));
        assert_ne!(scopes[0], scopes[1]);
        assert!(
            scopes[0].starts_with("ram_mainnet_") && scopes[0].len() == 20,
            "{}",
            scopes[0]
        );
        assert_eq!(group("s", 12, 1, "validator").run, "r012_a1");
    }
}
