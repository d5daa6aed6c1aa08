//! Noticing the end of a process.

use super::process::has_ended;
use crate::supervisor::Stop;
use faultline_kernel::{HostRoot, ProcessId};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Longest time until a stop is noticed, and between two looks without a descriptor.
const WAIT: Duration = Duration::from_millis(200);

/// How the end is noticed.
#[derive(Debug)]
pub(super) enum Watch {
    /// The kernel tells at once (Linux 5.3).
    Told(OwnedFd),
    /// An older kernel, a sandbox that forbids it, or a `procfs` of other processes than this daemon's: `stat` is read
    /// again and again.
    Looking,
}

/// What a wait gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waited {
    /// It lives, or a stop was asked for.
    Lives,
    /// The kernel told of its end.
    Told,
    /// It was found gone.
    FoundGone,
}

impl Watch {
    /// `None` when the process has ended already. `own_procfs`: numbers in `procfs` are those of this daemon's own pid
    /// namespace.
    pub(super) fn begin(root: &HostRoot, id: ProcessId, own_procfs: bool) -> Option<Watch> {
        let pid = i32::try_from(id.pid).ok().and_then(Pid::from_raw);
        let watch = match pid.filter(|_| own_procfs).map(|pid| pidfd_open(pid, PidfdFlags::empty())) {
            Some(Ok(descriptor)) => Watch::Told(descriptor),
            Some(Err(Errno::SRCH)) => return None,
            Some(Err(_)) | None => Watch::Looking,
        };
        // Only now is it known that the descriptor is not that of a later process with the same number.
        (!has_ended(root, id)).then_some(watch)
    }

    /// Waits a moment.
    pub(super) fn wait(&self, root: &HostRoot, id: ProcessId, stop: &Stop) -> Waited {
        if let Watch::Told(descriptor) = self {
            let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(WAIT.subsec_nanos()) };
            match poll(&mut [PollFd::new(descriptor, PollFlags::IN)], Some(&timeout)) {
                Ok(0) | Err(Errno::INTR) => return Waited::Lives,
                Ok(_) => return Waited::Told,
                Err(_) => {}
            }
        }
        if !stop.sleep(WAIT) && has_ended(root, id) { Waited::FoundGone } else { Waited::Lives }
    }
}
