//! Paths in the folder of an experiment, and names made from them.

use super::schedule::ScheduledRun;
use faultline_runner::isolation::CgroupName;
use faultline_text::shell_quoted;
use sha2::{Digest, Sha256};
use std::{
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

pub const PLAN: &str = "plan.toml";
pub const JOURNAL: &str = "journal.jsonl";
pub const LOCK: &str = "lock";
pub const RECORDING: &str = "run.fltl";
pub const OUTPUT: &str = "output.log";
pub const RECORDER_LOG: &str = "recorder.log";
/// The placeholder `{run_folder}`: the only folder of a run in which a program of another user may
/// write.
pub const PROGRAM_FOLDER: &str = "own";
/// FIFO at which the exec shim (`faultline hold`) waits before it executes the program of a run.
pub const EXEC_GATE: &str = "gate";

const MAX_NAME_CHARS: usize = 60;

#[derive(Debug, Clone)]
pub struct ExperimentFolder(PathBuf);

/// `{:#}` is quoted for a shell.
impl std::fmt::Display for ExperimentFolder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if f.alternate() {
            return f.write_str(&shell_quoted(&self.0));
        }
        self.0.display().fmt(f)
    }
}

impl ExperimentFolder {
    pub fn new(path: &Path) -> Self {
        Self(path.to_owned())
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn plan(&self) -> PathBuf {
        self.0.join(PLAN)
    }

    pub fn journal(&self) -> PathBuf {
        self.0.join(JOURNAL)
    }

    pub fn lock(&self) -> PathBuf {
        self.0.join(LOCK)
    }

    /// Exists if the experiment was prepared for several hosts. Each host executes whole blocks.
    pub fn host_blocks(&self) -> PathBuf {
        self.0.join("blocks")
    }

    pub fn has_host_blocks(&self) -> bool {
        self.host_blocks().is_dir()
    }

    /// A block has all runs of a replicate.
    pub fn host_block(&self, replicate: u32) -> PathBuf {
        self.host_blocks().join(format!("{replicate:03}"))
    }

    /// Prometheus target file, unless the plan sets another path.
    pub fn targets(&self) -> PathBuf {
        self.0.join("targets.json")
    }

    pub fn run(&self, run: &ScheduledRun, attempt: u32) -> PathBuf {
        self.0.join("runs").join(relative_run_folder(run, attempt))
    }

    pub fn recording(&self, run: &ScheduledRun, attempt: u32) -> PathBuf {
        self.run(run, attempt).join(RECORDING)
    }

    /// For cgroups and Slurm jobs. Two experiments with the same name differ in the digest of their
    /// folder.
    pub fn unique_name(&self, name: &str) -> String {
        let path = self.0.canonicalize().unwrap_or_else(|_| self.0.clone());
        let digest = to_hexadecimal(&Sha256::digest(path.as_os_str().as_bytes()));
        format!("{}_{}", name.replace('-', "_"), &digest[..8])
    }
}

/// In the folder `runs`, such as `003-512G-r2/a1`: attempt 1 at run 3, of arm 512G and replicate 2.
pub fn relative_run_folder(run: &ScheduledRun, attempt: u32) -> String {
    format!(
        "{:03}-{}-r{}/a{attempt}",
        run.run,
        path_safe(&run.arm),
        run.replicate
    )
}

/// `experiment` is a unique name, and `role` is `validator` or `recorder`. `r012_a1` is attempt 1
/// at run (not replicate) 12.
pub fn cgroup_name(experiment: &str, run: u32, attempt: u32, role: &str) -> CgroupName {
    CgroupName {
        experiment: experiment.to_owned(),
        run: format!("r{run:03}_a{attempt}"),
        role: role.to_owned(),
    }
}

pub fn digest(text: &str) -> String {
    to_hexadecimal(&Sha256::digest(text.as_bytes()))
}

pub fn to_hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn path_safe(name: &str) -> String {
    let safe = |c| match c {
        '.' | '_' | '-' => c,
        c if c.is_ascii_alphanumeric() => c,
        _ => '_',
    };
    name.chars().map(safe).take(MAX_NAME_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_folders_have_descriptive_safe_names() {
        let run = ScheduledRun {
            run: 3,
            arm: "../512 G/ü".to_owned(),
            replicate: 2,
            lane: "a".to_owned(),
            is_second_aa_run: false,
        };
        let folder = ExperimentFolder::new(Path::new("/x"));
        assert_eq!(
            folder.recording(&run, 4),
            Path::new("/x/runs/003-.._512_G__-r2/a4/run.fltl")
        );
    }

    #[test]
    fn a_folder_in_a_command_is_quoted_if_a_shell_would_split_it() {
        for (path, expected) in [
            ("/x/ram-mainnet_1.2", "/x/ram-mainnet_1.2"),
            ("/x/ä b/x y", "'/x/ä b/x y'"),
            ("/x/it's", "'/x/it'\\''s'"),
            ("/x/$HOME", "'/x/$HOME'"),
        ] {
            let folder = ExperimentFolder::new(Path::new(path));
            assert_eq!(
                (format!("{folder:#}").as_str(), folder.to_string().as_str()),
                (expected, path)
            );
        }
    }

    #[test]
    fn unique_names_of_two_experiment_folders_differ_and_have_no_dash() {
        let unique_names = ["/x", "/y"]
            .map(|path| ExperimentFolder::new(Path::new(path)).unique_name("ram-mainnet"));
        assert_ne!(unique_names[0], unique_names[1]);
        assert!(
            unique_names[0].starts_with("ram_mainnet_") && unique_names[0].len() == 20,
            "{}",
            unique_names[0]
        );
        assert_eq!(cgroup_name("s", 12, 1, "validator").run, "r012_a1");
    }

    #[test]
    fn all_paths_of_a_folder_have_the_same_unique_name() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("ram");
        std::fs::create_dir(&folder).unwrap();
        std::os::unix::fs::symlink(&folder, root.path().join("link")).unwrap();
        let expected = ExperimentFolder::new(&folder).unique_name("ram");
        for path in ["ram/", "ram/../ram", "link"] {
            let unique_name = ExperimentFolder::new(&root.path().join(path)).unique_name("ram");
            assert_eq!(unique_name, expected, "{path}");
        }
    }
}
