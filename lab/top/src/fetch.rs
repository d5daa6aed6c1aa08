//! Requests the status on a separate thread, so that a host that does not answer delays no keys.

mod client;

pub(crate) use client::{Access, Client};

use faultline_common::clock;
use faultline_status::Status;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// A status, or a message why there is none.
pub(crate) type Answer = Result<Box<Status>, String>;

/// When it is dropped, the thread ends after its current request.
#[derive(Debug)]
pub(crate) struct Fetcher {
    answers: Receiver<Answer>,
    _stop: Sender<()>,
}

impl Fetcher {
    /// Sends a request at once, then one each interval. Intervals count from request to request.
    pub(crate) fn start(client: Client, interval: Duration) -> std::io::Result<Self> {
        let (sender, answers) = channel();
        let (stop, stopped) = channel();
        let poll = move || {
            loop {
                let started = clock::uptime();
                if sender.send(client.fetch()).is_err() {
                    return;
                }
                let rest = interval.saturating_sub(clock::uptime().saturating_sub(started));
                if stopped.recv_timeout(rest) == Err(RecvTimeoutError::Disconnected) {
                    return;
                }
            }
        };
        std::thread::Builder::new()
            .name("fetch".to_owned())
            .spawn(poll)?;
        Ok(Fetcher {
            answers,
            _stop: stop,
        })
    }

    pub(crate) fn answer(&self) -> Option<Answer> {
        self.answers.try_recv().ok()
    }
}
