//! Asks for the status, on a thread of its own: a host that does not answer must not hold up keys.

mod client;

pub(crate) use client::{Access, Client};

use faultline_common::clock;
use faultline_status::Status;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// A status, or what came instead of it, in words.
pub(crate) type Answer = Result<Box<Status>, String>;

/// The thread ends once this is dropped, after the present request.
#[derive(Debug)]
pub(crate) struct Fetcher {
    answers: Receiver<Answer>,
    _stop: Sender<()>,
}

impl Fetcher {
    /// Requests at once and then once an interval, from request to request.
    pub(crate) fn start(client: Client, interval: Duration) -> std::io::Result<Self> {
        let (sender, answers) = channel();
        let (stop, stopped) = channel();
        let ask = move || {
            loop {
                let begun = clock::uptime();
                if sender.send(client.fetch()).is_err() {
                    return;
                }
                let rest = interval.saturating_sub(clock::uptime().saturating_sub(begun));
                if stopped.recv_timeout(rest) == Err(RecvTimeoutError::Disconnected) {
                    return;
                }
            }
        };
        std::thread::Builder::new()
            .name("fetch".to_owned())
            .spawn(ask)?;
        Ok(Fetcher {
            answers,
            _stop: stop,
        })
    }

    pub(crate) fn answer(&self) -> Option<Answer> {
        self.answers.try_recv().ok()
    }
}
