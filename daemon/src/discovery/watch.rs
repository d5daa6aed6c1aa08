//! Noticing the end of a process.

use super::process::has_ended;
use crate::supervisor::Stop;
use faultline_kernel::{HostRoot, ProcessId};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// Between two looks without a descriptor.
const LOOK: Duration = Duration::from_millis(200);

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
    FoundGone,
}

impl Watch {
    /// `None` when the process has ended already. `own_procfs`: numbers in `procfs` are those of this daemon's own pid
    /// namespace.
    pub(super) fn begin(root: &HostRoot, id: ProcessId, own_procfs: bool) -> Option<Watch> {
        let pid = i32::try_from(id.pid).ok().and_then(Pid::from_raw);
        let watch = match pid
            .filter(|_| own_procfs)
            .map(|pid| pidfd_open(pid, PidfdFlags::empty()))
        {
            Some(Ok(descriptor)) => Watch::Told(descriptor),
            Some(Err(Errno::SRCH)) => return None,
            Some(Err(_)) | None => Watch::Looking,
        };
        // Only now is it known that the descriptor is not that of a later process with the same number.
        (!has_ended(root, id)).then_some(watch)
    }

    /// Waits for its end, for `most` at most, or until told to stop.
    pub(super) fn wait(
        &self,
        root: &HostRoot,
        id: ProcessId,
        stop: &Stop,
        most: Duration,
    ) -> Waited {
        if let Watch::Told(descriptor) = self {
            match stop.wait_readable(descriptor.as_fd(), most) {
                Ok(true) => return Waited::Told,
                Ok(false) => return Waited::Lives,
                Err(error) => {
                    tracing::debug!(pid = id.pid, %error, "the end of the process cannot be waited for")
                }
            }
        }
        if !stop.sleep(LOOK.min(most)) && has_ended(root, id) {
            Waited::FoundGone
        } else {
            Waited::Lives
        }
    }
}
