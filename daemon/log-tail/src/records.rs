use faultline_agave::log::{LogLine, LogSplitter, Progress};
use faultline_metrics::{Problem, Stamp};
use std::{
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// A longer poll is a problem. Polls normally take milliseconds.
const POLL_TIMEOUT: Duration = Duration::from_secs(5);

pub trait RecordSink: Send {
    fn begin(&mut self, now: Stamp);
    /// A line, or a datapoint joined from several lines.
    fn record(&mut self, record: &str);
    fn count_bad_record(&mut self);
    fn commit(&mut self, at: Stamp);
}

pub struct RecordWriter {
    sink: Box<dyn RecordSink>,
    pub status: StatusHandle,
}

impl RecordWriter {
    pub fn new(sink: Box<dyn RecordSink>) -> Self {
        Self {
            sink,
            status: StatusHandle::default(),
        }
    }

    /// The sink gets each record at once. [`RecordBatch::commit`] updates the status.
    pub fn begin(&mut self, now: Stamp) -> RecordBatch<'_> {
        self.sink.begin(now);
        RecordBatch {
            writer: self,
            now,
            bytes: 0,
            records: 0,
            bad_records: 0,
            last_step: None,
        }
    }
}

#[must_use = "commit it"]
pub struct RecordBatch<'a> {
    writer: &'a mut RecordWriter,
    now: Stamp,
    bytes: u64,
    records: u64,
    bad_records: u64,
    last_step: Option<StartupStep>,
}

impl RecordBatch<'_> {
    pub fn add_text(&mut self, splitter: &mut LogSplitter, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        splitter.feed(bytes, |record| match record {
            Ok(record) => self.record(record),
            Err(_) => self.count_bad_record(),
        });
    }

    /// Ends the text. A last line without newline counts as bad, as its last number may be cut.
    pub fn end_text(&mut self, splitter: &mut LogSplitter) {
        splitter.finish(|_| self.count_bad_record());
    }

    pub fn count_bad_record(&mut self) {
        self.bad_records += 1;
        self.writer.sink.count_bad_record();
    }

    fn record(&mut self, record: &[u8]) {
        let record = String::from_utf8_lossy(record);
        self.records += 1;
        self.writer.sink.record(&record);
        if let Some(progress) = LogLine::parse(&record).progress() {
            let at = self.now;
            self.last_step = Some(StartupStep { at, progress });
        }
    }

    pub fn commit(self) {
        self.writer.sink.commit(self.now);
        let mut status = self.writer.status.lock();
        status.bytes += self.bytes;
        status.records += self.records;
        status.bad_records += self.bad_records;
        if self.records > 0 {
            status.last_record_at = Some(self.now);
        }
        status.last_step = self.last_step.or(status.last_step);
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StartupStep {
    /// When the line was read.
    pub at: Stamp,
    pub progress: Progress,
}

#[derive(Clone, Default)]
pub struct LogStatus {
    /// False until the log was opened or polled, and while there is a problem.
    pub up: bool,
    pub problem: Option<Problem>,
    pub bytes: u64,
    /// Records passed to the sink.
    pub records: u64,
    /// Records over 64 KiB, cut off or with an unclosed string, and malformed journal entries.
    pub bad_records: u64,
    pub last_record_at: Option<Stamp>,
    /// The last reported step of a start; `None` if there was none since the daemon started.
    pub last_step: Option<StartupStep>,
    /// The file being polled, and the start of the poll.
    polling: Option<(Arc<Path>, Stamp)>,
}

impl LogStatus {
    /// A problem if the current poll takes too long: the file system may never answer.
    pub fn poll_timeout_problem(&self, now: Stamp) -> Option<Problem> {
        let (path, since) = self.polling.as_ref()?;
        (now.since(*since) > POLL_TIMEOUT).then(|| {
            let path = faultline_text::path(path);
            let message = format!("{path}: its file system does not answer; is its mount dead?");
            Problem::broken(message)
        })
    }
}

#[derive(Clone, Default)]
pub struct StatusHandle(Arc<Mutex<LogStatus>>);

impl StatusHandle {
    pub fn snapshot(&self) -> LogStatus {
        self.lock().clone()
    }

    pub fn begin_poll(&self, path: &Arc<Path>, now: Stamp) {
        self.lock().polling = Some((Arc::clone(path), now));
    }

    /// Ends the poll. `None`: the log is readable. Logs a change.
    pub fn set_problem(&self, problem: Option<Problem>) {
        let mut status = self.lock();
        let is_up = problem.is_none();
        let has_changed = status.up != is_up || status.problem != problem;
        status.up = is_up;
        status.polling = None;
        status.problem.clone_from(&problem);
        drop(status);
        match problem {
            Some(problem) if has_changed => {
                tracing::warn!(%problem, "the validator's log cannot be read");
            }
            None if has_changed => tracing::info!("the validator's log is being read"),
            _ => {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, LogStatus> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
