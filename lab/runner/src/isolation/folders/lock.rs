use crate::isolation::launch::at;
use crate::isolation::tree::canonical_or_same;
use anyhow::Result;
use faultline_common::lock::flock_with_retries;
use faultline_kernel::HostRoot;
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use std::fs::File;
use std::path::Path;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Exclusive: to clear, fill and run in the folder.
    Work,
    /// Shared: to copy from the folder.
    Source,
}

/// Held until it is dropped or the process ends. Executed programs do not inherit it.
#[derive(Debug)]
pub struct FolderLock(#[expect(dead_code, reason = "held, not used")] File);

/// Another process has the lock.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct InUse(pub String);

/// Locks a folder, marked or not, under any of its paths. The error names the holder if it can be
/// seen.
pub fn lock_folder(folder: &Path, purpose: Purpose, root: &HostRoot) -> Result<FolderLock> {
    let file = File::open(folder).map_err(at(folder))?;
    let operation = match purpose {
        Purpose::Work => FlockOperation::NonBlockingLockExclusive,
        Purpose::Source => FlockOperation::NonBlockingLockShared,
    };
    match flock_with_retries(&file, operation) {
        Ok(()) => Ok(FolderLock(file)),
        Err(Errno::WOULDBLOCK) => {
            let who = holder(root, folder)
                .unwrap_or_else(|| "a process that cannot be seen from here".to_owned());
            let folder = folder.display();
            let what = format!("{folder} is in use by another experiment: {who}; wait for it");
            Err(InUse(what).into())
        }
        Err(errno) => Err(at(folder)(errno)),
    }
}

fn holder(root: &HostRoot, folder: &Path) -> Option<String> {
    let folder = canonical_or_same(folder);
    let holds = |process: &Path| {
        let open = std::fs::read_dir(process.join("fd"))
            .into_iter()
            .flatten()
            .flatten();
        open.filter(|entry| std::fs::read_link(entry.path()).is_ok_and(|to| to == folder))
            .any(|entry| {
                let info = std::fs::read_to_string(process.join("fdinfo").join(entry.file_name()));
                info.is_ok_and(|info| {
                    info.lines()
                        .any(|line| line.starts_with("lock:") && line.contains("FLOCK"))
                })
            })
    };
    let pid = root
        .pids()
        .ok()?
        .into_iter()
        .find(|pid| holds(&root.procfs.join(pid.to_string())))?;
    let words = std::fs::read(root.procfs.join(format!("{pid}/cmdline"))).unwrap_or_default();
    let words =
        String::from_utf8_lossy(words.trim_ascii_end().strip_suffix(b"\0").unwrap_or(&words))
            .replace('\0', " ");
    Some(if words.is_empty() {
        format!("process {pid}")
    } else {
        format!("process {pid} (`{words}`)")
    })
}
