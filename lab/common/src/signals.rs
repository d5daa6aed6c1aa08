//! Receives signals as events, and waits for them and for a descriptor at the same time.
//!
//! A signal that was ignored at the start stays ignored, for this program and its children: `nohup`
//! and shells without job control rely on this.

use faultline_kernel::HostRoot;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};
use signal_hook::{
    consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2},
    flag::register_conditional_default,
    iterator::{backend::SignalDelivery, exfiltrator::WithOrigin},
    low_level::siginfo::Cause,
};
use std::{
    io::{self, Read},
    os::{fd::BorrowedFd, unix::net::UnixStream},
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

/// Signals that would end this program or are forwarded to a command, and SIGCHLD.
const HANDLED: [i32; 7] = [SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2];

#[derive(Clone, Copy)]
pub struct ReceivedSignal {
    pub number: i32,
    /// Sent by the kernel to all foreground processes, after a key or a hang-up of the terminal.
    pub from_terminal: bool,
}

impl ReceivedSignal {
    pub fn is_end_request(self) -> bool {
        [SIGHUP, SIGINT, SIGQUIT, SIGTERM].contains(&self.number)
    }

    /// The name, if the signal stops a command that may run for days, such as `experiment`. A
    /// closed terminal (SIGHUP) does not stop it.
    pub fn stop_signal_name(self) -> Option<&'static str> {
        match self.number {
            SIGINT => Some("SIGINT"),
            SIGTERM => Some("SIGTERM"),
            SIGQUIT => Some("SIGQUIT"),
            _ => None,
        }
    }
}

/// The listener. Once it exists, no signal of `HANDLED` ends the process.
pub struct Signals(SignalDelivery<UnixStream, WithOrigin>);

impl Signals {
    pub fn listen() -> io::Result<Self> {
        let (read, write) = UnixStream::pair()?;
        read.set_nonblocking(true)?;
        let signals = not_ignored(&HANDLED);
        #[expect(
            clippy::disallowed_methods,
            reason = "the lab's only listener: without ignored signals"
        )]
        let delivery = SignalDelivery::with_pipe(read, write, WithOrigin::default(), signals)?;
        Ok(Self(delivery))
    }

    /// Stops handling signals for good: from now on a termination signal ends this process.
    pub fn restore_defaults(self) -> io::Result<()> {
        drop(self);
        for signal in not_ignored(&[SIGHUP, SIGINT, SIGQUIT, SIGTERM]) {
            #[expect(
                clippy::disallowed_methods,
                reason = "the lab's only listener: without ignored signals"
            )]
            register_conditional_default(signal, Arc::new(AtomicBool::new(true)))?;
        }
        Ok(())
    }

    /// Whether [`Signals::wait`] returns a signal that asks to end.
    pub fn wait_for_end_request(
        &mut self,
        descriptor: Option<BorrowedFd<'_>>,
        timeout: Duration,
    ) -> io::Result<bool> {
        Ok(self
            .wait(descriptor, timeout)?
            .into_iter()
            .any(ReceivedSignal::is_end_request))
    }

    /// Received signals except SIGCHLD. The wait ends with the first signal (including SIGCHLD),
    /// when `descriptor` is readable, or after `timeout`, which is below 1 s.
    pub fn wait(
        &mut self,
        descriptor: Option<BorrowedFd<'_>>,
        timeout: Duration,
    ) -> io::Result<Vec<ReceivedSignal>> {
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: i64::from(timeout.subsec_nanos()),
        };
        let read = self.0.get_read();
        let mut polled = vec![PollFd::new(read, PollFlags::IN)];
        polled.extend(descriptor.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        match poll(&mut polled, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut discarded = [0; 64];
        while self
            .0
            .get_read_mut()
            .read(&mut discarded)
            .is_ok_and(|read| read > 0)
        {}
        Ok(self
            .0
            .pending()
            .filter(|origin| origin.signal != SIGCHLD)
            .map(|origin| ReceivedSignal {
                number: origin.signal,
                from_terminal: origin.cause == Cause::Kernel,
            })
            .collect())
    }
}

/// `signals` without those that this process ignores. Always has SIGCHLD: a process that ignores it
/// cannot learn how its children ended. Without `/proc`, no signal counts as ignored.
fn not_ignored(signals: &[i32]) -> Vec<i32> {
    let ignored = HostRoot::default().ignored_signals().unwrap_or_default();
    signals
        .iter()
        .copied()
        .filter(|signal| *signal == SIGCHLD || !ignored.contains(*signal))
        .collect()
}
