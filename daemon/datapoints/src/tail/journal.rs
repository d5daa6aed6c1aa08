//! A unit's journal, through `journalctl`.
//!
//! `--output=json` writes one entry per line, whatever bytes it has. A restarted `journalctl`
//! gets the last cursor as `--cursor`, and the daemon skips its entry. Before systemd 255,
//! `--after-cursor` loses the first entry if the cursor's entry is gone.
//! Without a cursor, `--since` is the daemon's start.
//!
//! Messages are missing if journald dropped them (`RateLimitBurst=`, 10,000 in 30 s by default) or
//! vacuumed them before they were read. journald splits longer messages at `LineMax=` (48 KiB). The
//! daemon reads a little history if the wall clock was set back just before its start.
//!
//! journald splits a service's output at newlines. A datapoint with newlines arrives as several
//! entries, which [`LogSplitter`] joins like the lines of a log file.

use super::record_writer;
use crate::validator::intake::Intake;
use faultline_agave::log::LogSplitter;
use faultline_core::{
    clock::Clock,
    supervisor::{Stop, async_command},
};
use faultline_log_tail::{RecordWriter, StatusHandle};
use faultline_metrics::{Problem, ProblemKind};
use itertools::Itertools;
use serde::Deserialize;
use std::{
    io::{self, ErrorKind},
    process::{ExitStatus, Stdio},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::Child,
    time::{sleep, timeout},
};
use tokio_util::{
    bytes::BytesMut,
    codec::{AnyDelimiterCodec, Decoder},
};

/// Longer JSON lines are skipped. The longest message has 48 KiB, and each byte may be written as a
/// number: 240 KiB.
const MAX_LINE_BYTES: usize = 1024 * 1024;

const CHUNK_BYTES: usize = 64 * 1024;

const MAX_STDERR_BYTES: usize = 400;

/// Once the output has ended: maximum wait for each read of the error output, and for the exit.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Clone, Copy)]
struct RestartTimes {
    /// Pause before the first restart, and after a run with new entries. Otherwise the pause
    /// doubles.
    first_pause: Duration,
    max_pause: Duration,
    /// A journalctl that still runs after this time is working.
    working_after: Duration,
}

const RESTART_TIMES: RestartTimes = RestartTimes {
    first_pause: Duration::from_secs(1),
    max_pause: Duration::from_secs(30),
    working_after: Duration::from_secs(2),
};

pub struct JournalTail {
    program: String,
    unit: String,
    clock: Clock,
    writer: RecordWriter,
    splitter: LogSplitter,
    /// Wall clock at the start: where the journal is read from before the first cursor.
    started_at_unix: Duration,
    cursor: Option<String>,
    restart_times: RestartTimes,
}

impl JournalTail {
    /// Starts at the current end. Does not start journalctl yet.
    pub fn new(unit: &str, intake: Intake, clock: Clock) -> Self {
        Self {
            program: "journalctl".to_owned(),
            unit: unit.to_owned(),
            clock,
            writer: record_writer(intake),
            splitter: LogSplitter::new(),
            started_at_unix: clock.now().unix,
            cursor: None,
            restart_times: RESTART_TIMES,
        }
    }

    pub fn status(&self) -> StatusHandle {
        self.writer.status.clone()
    }

    pub async fn run(mut self, stop: Stop) {
        let mut pause = self.restart_times.first_pause;
        loop {
            let previous_cursor = self.cursor.clone();
            let problem = tokio::select! {
                problem = self.run_journalctl() => problem,
                () = stop.wait() => return,
            };
            self.writer.status.set_problem(Some(problem));
            if self.cursor != previous_cursor {
                pause = self.restart_times.first_pause;
            }
            tokio::select! {
                () = sleep(pause) => {}
                () = stop.wait() => return,
            }
            pause = (pause * 2).min(self.restart_times.max_pause);
        }
    }

    fn start(&self) -> io::Result<Child> {
        let start_option = match &self.cursor {
            Some(cursor) => format!("--cursor={cursor}"),
            None => format!(
                "--since=@{}.{:06}",
                self.started_at_unix.as_secs(),
                self.started_at_unix.subsec_micros()
            ),
        };
        // Without --all, a message of more than 4 KiB is null. Without --no-tail, only the last ten
        // entries are shown.
        async_command(&self.program)
            .args([
                "--follow",
                "--no-tail",
                "--no-pager",
                "--all",
                "--output=json",
                "--output-fields=MESSAGE",
            ])
            .args([format!("--unit={}", self.unit), start_option])
            .env("LC_ALL", "C")
            .env("SYSTEMD_COLORS", "0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
    }

    /// One run of journalctl; returns why it ended.
    async fn run_journalctl(&mut self) -> Problem {
        let mut child = match self.start() {
            Ok(child) => child,
            Err(error) => return self.not_started(&error),
        };
        let (Some(mut output), Some(mut stderr)) = (child.stdout.take(), child.stderr.take())
        else {
            return Problem::broken(format!("{} has no output", self.program));
        };
        let mut stderr_tail = StderrTail::default();
        let mut lines =
            AnyDelimiterCodec::new_with_max_length(b"\n".to_vec(), Vec::new(), MAX_LINE_BYTES);
        let mut buffer = BytesMut::with_capacity(CHUNK_BYTES);
        let (mut stderr_open, mut is_working, mut has_entries) = (true, false, false);
        let mut permission_problem = None;
        let working_timer = sleep(self.restart_times.working_after);
        tokio::pin!(working_timer);
        loop {
            tokio::select! {
                count = output.read_buf(&mut buffer) => match count {
                    Ok(count) if count > 0 => {
                        has_entries |= self.read_entries(&mut lines, &mut buffer);
                        buffer.reserve(CHUNK_BYTES);
                    }
                    _ => break,
                },
                is_open = stderr_tail.read(&mut stderr), if stderr_open => {
                    stderr_open = is_open;
                    permission_problem = permission_problem
                        .or_else(|| stderr_tail.permission_problem(&self.unit));
                }
                () = &mut working_timer, if !is_working => is_working = true,
            }
            if is_working && !has_entries {
                self.writer.status.set_problem(permission_problem.clone());
            }
        }
        while let Ok(true) = timeout(EXIT_TIMEOUT, stderr_tail.read(&mut stderr)).await {}
        let status = timeout(EXIT_TIMEOUT, child.wait())
            .await
            .ok()
            .and_then(Result::ok);
        permission_problem
            .or_else(|| stderr_tail.permission_problem(&self.unit))
            .filter(|_| !has_entries)
            .unwrap_or_else(|| self.problem_at_exit(status, &stderr_tail))
    }

    /// Returns true if the output has an entry. Does not await: a stop signal cannot separate the
    /// commit of the records from the update of the cursor.
    fn read_entries(&mut self, lines: &mut AnyDelimiterCodec, output: &mut BytesMut) -> bool {
        let Self {
            writer,
            splitter,
            cursor,
            clock,
            ..
        } = self;
        let mut has_entries = false;
        let mut batch = writer.begin(clock.now());
        while let Some(line) = lines.decode(output).transpose() {
            // The line is too long. The decoder skips its rest.
            let Ok(line) = line else {
                batch.count_bad_record();
                continue;
            };
            // "-- Journal begins at ...", "-- Reboot --"
            if line.is_empty() || line.starts_with(b"-- ") {
                continue;
            }
            let Some(entry) = Entry::parse(&line) else {
                batch.count_bad_record();
                continue;
            };
            has_entries = true;
            if cursor.as_ref() != Some(&entry.cursor) {
                for message in entry.messages() {
                    batch.add_text(splitter, message);
                    batch.add_text(splitter, b"\n");
                }
                *cursor = Some(entry.cursor);
            }
        }
        batch.commit();
        if has_entries {
            writer.status.set_problem(None);
        }
        has_entries
    }

    fn not_started(&self, error: &io::Error) -> Problem {
        let (kind, reason) = match error.kind() {
            ErrorKind::NotFound => (ProblemKind::Absent, "is not installed here".to_owned()),
            ErrorKind::PermissionDenied => (
                ProblemKind::Forbidden,
                format!("may not be started: {error}"),
            ),
            _ => (ProblemKind::Broken, format!("cannot be started: {error}")),
        };
        Problem::new(kind, format!("{} {reason}", self.program))
    }

    fn problem_at_exit(&self, status: Option<ExitStatus>, stderr_tail: &StderrTail) -> Problem {
        let ending = status.map_or_else(
            || "closed its output".to_owned(),
            |status| format!("ended ({status})"),
        );
        Problem::broken(format!(
            "{} for {} {ending}: {}",
            self.program,
            self.unit,
            stderr_tail.text()
        ))
    }
}

#[derive(Default)]
struct StderrTail(Vec<u8>);

impl StderrTail {
    /// Reads no more than the tail keeps. False at the end and after an error. Cancel-safe.
    async fn read(&mut self, stderr: &mut (impl AsyncRead + Unpin)) -> bool {
        self.0.reserve(MAX_STDERR_BYTES);
        let mut chunk = stderr.take(MAX_STDERR_BYTES as u64);
        let count = chunk.read_buf(&mut self.0).await;
        self.0
            .drain(..self.0.len().saturating_sub(MAX_STDERR_BYTES));
        count.is_ok_and(|count| count > 0)
    }

    fn text(&self) -> String {
        let line = String::from_utf8_lossy(&self.0)
            .split_whitespace()
            .join(" ");
        if line.is_empty() {
            "no error output".to_owned()
        } else {
            line
        }
    }

    /// Returns a problem if the daemon lacks a right. journalctl then prints a hint and continues
    /// with the entries that it may read.
    fn permission_problem(&self, unit: &str) -> Option<Problem> {
        let text = self.text();
        let phrases = [
            "not seeing messages from other users",
            "insufficient permissions",
            "Permission denied",
        ];
        phrases.iter().any(|phrase| text.contains(phrase)).then(|| {
            let advice = "add the daemon's user to the group systemd-journal";
            Problem::new(
                ProblemKind::Forbidden,
                format!("the journal of {unit} may not be read; {advice}"),
            )
        })
    }
}

#[derive(Deserialize)]
struct Entry {
    #[serde(rename = "__CURSOR")]
    cursor: String,
    #[serde(rename = "MESSAGE")]
    message: Option<Message>,
}

/// The value of a field in journalctl's JSON.
#[derive(Deserialize)]
#[serde(untagged)]
enum Message {
    Text(String),
    Bytes(Vec<u8>),
    Several(Vec<Option<Self>>),
}

impl Entry {
    fn parse(line: &[u8]) -> Option<Self> {
        serde_json::from_slice(line).ok()
    }

    fn messages(&self) -> Vec<&[u8]> {
        let mut texts = Vec::new();
        if let Some(message) = &self.message {
            message.collect(&mut texts);
        }
        texts
    }
}

impl Message {
    fn collect<'a>(&'a self, into: &mut Vec<&'a [u8]>) {
        match self {
            Self::Text(text) => into.push(text.as_bytes()),
            Self::Bytes(bytes) => into.push(bytes),
            Self::Several(several) => several
                .iter()
                .flatten()
                .for_each(|message| message.collect(into)),
        }
    }
}

#[cfg(test)]
mod tests;
