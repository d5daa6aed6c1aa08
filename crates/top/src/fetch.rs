//! Asks for the status, on a thread of its own: a host that does not answer must not hold up keys.

mod client;

pub(crate) use client::{Access, Client};

use faultline_command::clock;
use faultline_status::Status;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// A status, or what came instead of it, in words.
pub(crate) type Answer = Result<Box<Status>, String>;

/// The thread that asks; it ends by itself once this is dropped, after the question under way.
#[derive(Debug)]
pub(crate) struct Fetcher {
    answers: Receiver<Answer>,
    _stop: Sender<()>,
}

impl Fetcher {
    /// Asks now and then once an interval, counted from question to question.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(crate) fn start(client: Client, interval: Duration) -> std::io::Result<Self> {
        let (tell, answers) = channel();
        let (stop, stopped) = channel();
        let ask = move || {
            loop {
                let begun = clock::uptime();
                if tell.send(client.fetch()).is_err() {
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

    /// The next answer, if one has come.
    pub(crate) fn answer(&self) -> Option<Answer> {
        self.answers.try_recv().ok()
    }
}
