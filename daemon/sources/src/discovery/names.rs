//! Lists the host's processes by name with three system calls for each.

use faultline_kernel::{Comm, HostRoot, ReadError};
use faultline_metrics::{Problem, Status};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;

use std::os::fd::OwnedFd;

/// Names of kernel workers have at most 63 bytes, those of programs 15.
const MAX_NAME_BYTES: usize = 64;

const HIDDEN_MESSAGE: &str = "processes of other users are hidden (hidepid): run the daemon as the validator's user, or as a \
     member of the group that /proc was mounted with (gid=)";

pub(super) fn hidden(root: &HostRoot, pid: u32) -> Option<Problem> {
    let forbidden = std::fs::read(root.procfs.join(format!("{pid}/stat")))
        .is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied);
    // Pid 1 exists on every host and in every pid namespace.
    let first_is_hidden = || root.pids().is_ok_and(|pids| !pids.contains(&1));
    (forbidden || first_is_hidden()).then(|| {
        let message = format!("process {pid} cannot be seen: {HIDDEN_MESSAGE}");
        Problem::new(Status::Forbidden, message)
    })
}

/// The processes with a wanted name, in pid order. Hidden ones are a problem: the wanted one may be
/// among them.
///
/// # Errors
/// `procfs` itself cannot be listed or opened.
pub(super) fn named(
    root: &HostRoot,
    wanted: impl Fn(Comm) -> bool,
    problems: &mut Vec<Problem>,
) -> Result<Vec<u32>, ReadError> {
    let mut pids = root.pids()?;
    pids.sort_unstable();
    let mut is_any_hidden = pids.first().is_some_and(|&first| first != 1);
    let folder = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let procfs = rustix::fs::openat(CWD, &root.procfs, folder, Mode::empty()).map_err(|errno| {
        ReadError::Broken {
            path: root.procfs.as_path().into(),
            line: 0,
            text: String::new(),
            what: errno.to_string().into(),
        }
    })?;
    pids.retain(|&pid| match comm(&procfs, pid) {
        Ok(name) => wanted(name),
        Err(errno) => {
            is_any_hidden |= matches!(errno, Errno::ACCESS | Errno::PERM);
            false
        }
    });
    if is_any_hidden {
        problems.push(Problem::new(Status::Forbidden, HIDDEN_MESSAGE));
    }
    Ok(pids)
}

fn comm(procfs: &OwnedFd, pid: u32) -> Result<Comm, Errno> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(procfs, format!("{pid}/comm"), flags, Mode::empty())?;
    let mut name = [0; MAX_NAME_BYTES];
    let length = rustix::io::read(&file, &mut name)?;
    let name = name.get(..length).unwrap_or_default();
    Ok(Comm::new(name.strip_suffix(b"\n").unwrap_or(name)))
}
