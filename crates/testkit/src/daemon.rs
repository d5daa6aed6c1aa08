//! The daemon under test, as its users run it: a program with arguments, addresses and an exit code.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{
    Error, Result,
    eventually::{Condition, wait_for},
    expose::{self, Page},
    http,
    process::{Program, Running},
};

const STARTS_WITHIN: Duration = Duration::from_secs(60);
const ENDS_WITHIN: Duration = Duration::from_secs(60);

/// A running `faultlined`; killed when dropped.
#[derive(Debug)]
pub struct Daemon {
    running: Running,
    log: PathBuf,
    metrics: String,
    ingest: Option<String>,
}

impl Daemon {
    /// Starts `program run` with these arguments, by default on free ports, and waits until it listens. The daemon does not
    /// get the argument `--no-ingest`, which only leaves out the default `--ingest`. Its log goes to a file in `folder`.
    ///
    /// # Errors
    /// [`Error::Ended`] with its log if it does not start; [`Error::Late`] if it does not log its addresses.
    pub fn start(program: &str, arguments: &[&str], folder: &Path) -> Result<Self> {
        let mut all: Vec<String> = vec!["run".to_owned()];
        for (option, needed) in [
            ("--listen", true),
            ("--ingest", !arguments.contains(&"--no-ingest")),
        ] {
            if needed && !arguments.contains(&option) {
                all.extend([option.to_owned(), "127.0.0.1:0".to_owned()]);
            }
        }
        all.extend(
            arguments
                .iter()
                .filter(|argument| **argument != "--no-ingest")
                .map(ToString::to_string),
        );
        let log = folder.join("faultlined.log");
        let mut running = Running::start(&Program {
            path: program.into(),
            arguments: all,
            environment: Vec::new(),
            output: log.clone(),
        })?;
        let (metrics, ingest) =
            wait_for(STARTS_WITHIN, "faultlined says where it listens", || {
                running.check()?;
                let text = fs::read_to_string(&log).unwrap_or_default();
                let line = text
                    .lines()
                    .find(|line| line.contains("listening metrics="));
                Ok(
                    match line
                        .and_then(|line| Some((word(line, "metrics=")?, word(line, "ingest="))))
                    {
                        Some(found) => Condition::Ready(found),
                        None => Condition::NotYet(text),
                    },
                )
            })?;
        Ok(Self {
            running,
            log,
            metrics,
            ingest,
        })
    }

    /// `host:port` of `/metrics`.
    pub fn metrics(&self) -> &str {
        &self.metrics
    }

    /// The value for a validator's `host=`; empty if the daemon accepts no pushes.
    pub fn ingest_url(&self) -> String {
        self.ingest
            .as_ref()
            .map(|address| format!("http://{address}"))
            .unwrap_or_default()
    }

    /// `host:port` of the ingest listener; empty if there is none.
    pub fn ingest(&self) -> &str {
        self.ingest.as_deref().unwrap_or_default()
    }

    pub fn pid(&self) -> u32 {
        self.running.pid()
    }

    /// Its log so far.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// The classic page, strictly parsed.
    ///
    /// # Errors
    /// No answer, or a page that breaks the format.
    pub fn scrape(&self) -> Result<Page> {
        expose::parse_text(&self.page()?)
    }

    /// The classic page.
    ///
    /// # Errors
    /// No answer, or a status other than 200.
    pub fn page(&self) -> Result<String> {
        let response = http::get(&self.metrics, "/metrics")?;
        match response.status {
            200 => Ok(response.text()),
            status => Err(Error::malformed("status of the page", &status.to_string())),
        }
    }

    /// Sends a signal by name (`TERM`, `HUP`).
    ///
    /// # Errors
    /// [`Error::Start`] without the program `kill`.
    pub fn signal(&self, name: &str) -> Result<()> {
        crate::process::signal(self.pid(), name)
    }

    /// Sends SIGTERM and waits. Returns the exit code; `None` if a signal ended it.
    ///
    /// # Errors
    /// [`Error::Late`] if it does not end.
    pub fn stop(mut self) -> Result<Option<i32>> {
        self.signal("TERM")?;
        wait_for(ENDS_WITHIN, "faultlined ends", || {
            Ok(match self.running.exit_status()? {
                Some(status) => Condition::Ready(status.code()),
                None => Condition::NotYet(self.log()),
            })
        })
    }
}

fn word(line: &str, key: &str) -> Option<String> {
    let rest = line.split_once(key)?.1;
    rest.split_whitespace().next().map(str::to_owned)
}

/// The value of the series with exactly these labels.
///
/// # Errors
/// [`Error::Missing`] names the series.
pub fn value(page: &Page, name: &str, labels: &[(&str, &str)]) -> Result<f64> {
    page.get(name, labels)
        .ok_or_else(|| Error::Missing(format!("{name}{labels:?} is not on the page")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::{ResponseMode, Sink};

    #[test]
    fn an_answer_with_an_error_status_is_no_page() {
        let folder = tempfile::tempdir().unwrap();
        let sink = Sink::start().unwrap();
        sink.set_response_mode(ResponseMode::Answer(503));
        let log = folder.path().join("log");
        let sleep = Program {
            path: "sleep".into(),
            arguments: vec!["100".to_owned()],
            environment: Vec::new(),
            output: log.clone(),
        };
        let daemon = Daemon {
            running: Running::start(&sleep).unwrap(),
            log,
            metrics: sink.address().to_string(),
            ingest: None,
        };
        assert!(daemon.page().is_err() && daemon.scrape().is_err());
    }
}
