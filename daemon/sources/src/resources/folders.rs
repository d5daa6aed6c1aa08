//! The folders that a validator writes to.

use crate::discovery::Target;
use faultline_agave::arguments;
use faultline_kernel::{HostRoot, ProcessFiles, ReadError};
use std::ops::RangeInclusive;
use std::path::PathBuf;

pub(super) const MAX_FOLDERS: usize = 12;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder {
    /// `accounts`, `ledger`, `log` or `snapshots`.
    pub what: &'static str,
    /// Absolute, in the process's own file system.
    pub path: PathBuf,
}

#[derive(Debug, Clone, Default)]
pub(super) struct FolderPaths {
    pub(super) folders: Vec<Folder>,
    pub(super) udp_ports: Option<Vec<RangeInclusive<u16>>>,
}

impl FolderPaths {
    /// # Errors
    /// The arguments are unreadable, as after the process's end.
    pub(super) fn of(root: &HostRoot, target: &Target) -> Result<FolderPaths, ReadError> {
        let Some(validator) = &target.validator else {
            return Ok(FolderPaths::default());
        };
        let pid = target.process.pid;
        let files = ProcessFiles::open(root, pid)?;
        let words = files.cmdline()?;
        let link = |name: &str| std::fs::read_link(root.procfs.join(format!("{pid}/{name}"))).ok();
        let mut found = arguments::folders(validator, target.ledger.as_deref(), &words);
        if !found.iter().any(|(what, _)| *what == "snapshots") {
            found.extend(target.ledger.clone().map(|ledger| ("snapshots", ledger)));
        }
        if !found.iter().any(|(what, _)| *what == "log") {
            // Without --log the validator redirects standard error to a file, visible only to its
            // user and root.
            let file = link("fd/2").filter(|file| file.is_absolute() && !file.starts_with("/dev"));
            found.extend(file.map(|file| ("log", file)));
        }
        let working = files.cwd().unwrap_or_default();
        let all = found.into_iter().map(|(what, path)| Folder {
            what: purpose(what),
            path: working.join(path),
        });
        let folders = all.filter(|folder| folder.path.is_absolute());
        Ok(FolderPaths {
            folders: folders.take(MAX_FOLDERS).collect(),
            udp_ports: arguments::udp_ports(validator, &words),
        })
    }
}

/// Maps kinds of folders to few label values.
fn purpose(what: &'static str) -> &'static str {
    match what {
        "incremental_snapshots" => "snapshots",
        "accounts_index" | "accounts_hash_cache" => "accounts",
        other => other,
    }
}
