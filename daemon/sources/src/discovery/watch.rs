use super::EndReason;
use super::process::has_ended;
use faultline_core::supervisor::Stop;
use faultline_kernel::{HostRoot, ProcessId};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// Poll interval without a pidfd.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub(super) enum Watch {
    /// A pidfd (Linux 5.3).
    Notified(OwnedFd),
    /// Polls `stat`, if a pidfd is not available: older kernel, sandbox, other pid namespace.
    Polling,
}

impl Watch {
    /// `None` if the process has ended already.
    /// `shares_pid_namespace`: `procfs` shows this daemon's own pid namespace.
    pub(super) fn begin(
        root: &HostRoot,
        id: ProcessId,
        shares_pid_namespace: bool,
    ) -> Option<Watch> {
        let pid = i32::try_from(id.pid).ok().and_then(Pid::from_raw);
        let watch = match pid
            .filter(|_| shares_pid_namespace)
            .map(|pid| pidfd_open(pid, PidfdFlags::empty()))
        {
            Some(Ok(descriptor)) => Watch::Notified(descriptor),
            Some(Err(Errno::SRCH)) => return None,
            Some(Err(_)) | None => Watch::Polling,
        };
        // Only this check proves that the pidfd is not that of a later process with the same pid.
        (!has_ended(root, id)).then_some(watch)
    }

    /// `None` while the process runs.
    pub(super) fn wait(
        &self,
        root: &HostRoot,
        id: ProcessId,
        stop: &Stop,
        timeout: Duration,
    ) -> Option<EndReason> {
        if let Watch::Notified(descriptor) = self {
            match stop.wait_readable(descriptor.as_fd(), timeout) {
                Ok(has_ended) => return has_ended.then_some(EndReason::Exit),
                Err(error) => {
                    tracing::debug!(pid = id.pid, %error, "cannot wait for the end of the process")
                }
            }
        }
        let may_have_ended = !stop.sleep(POLL_INTERVAL.min(timeout));
        (may_have_ended && has_ended(root, id)).then_some(EndReason::Unknown)
    }
}
