use crate::status::{StartStep, StatusHandle};
use faultline_agave::log::{LogLine, LogSplitter};
use faultline_metrics::Stamp;

pub trait RecordSink: Send {
    fn begin(&mut self, now: Stamp);
    /// A line, or a datapoint joined from several lines.
    fn record(&mut self, record: &str);
    fn bad(&mut self);
    fn commit(&mut self, at: Stamp);
}

pub struct RecordWriter {
    sink: Box<dyn RecordSink>,
    status: StatusHandle,
}

impl RecordWriter {
    pub fn new(sink: Box<dyn RecordSink>) -> Self {
        RecordWriter {
            sink,
            status: StatusHandle::default(),
        }
    }

    pub fn status(&self) -> &StatusHandle {
        &self.status
    }

    /// The sink gets each record at once. The status is updated by [`RecordBatch::commit`].
    pub fn begin(&mut self, now: Stamp) -> RecordBatch<'_> {
        self.sink.begin(now);
        RecordBatch {
            writer: self,
            now,
            bytes: 0,
            records: 0,
            bad: 0,
            progress: None,
        }
    }
}

#[must_use = "commit it"]
pub struct RecordBatch<'a> {
    writer: &'a mut RecordWriter,
    now: Stamp,
    bytes: usize,
    records: u64,
    bad: u64,
    progress: Option<StartStep>,
}

impl RecordBatch<'_> {
    pub fn text(&mut self, splitter: &mut LogSplitter, bytes: &[u8]) {
        self.bytes += bytes.len();
        splitter.feed(bytes, |record| match record {
            Ok(record) => self.record(record),
            Err(_) => self.bad(),
        });
    }

    /// Ends the text. A last line without newline counts as bad, as its last number may be cut.
    pub fn cut(&mut self, splitter: &mut LogSplitter) {
        splitter.finish(|_| self.bad());
    }

    pub fn bad(&mut self) {
        self.bad += 1;
        self.writer.sink.bad();
    }

    fn record(&mut self, record: &[u8]) {
        let record = String::from_utf8_lossy(record);
        self.records += 1;
        self.writer.sink.record(&record);
        if let Some(progress) = LogLine::parse(&record).progress() {
            let at = self.now;
            self.progress = Some(StartStep { at, progress });
        }
    }

    pub fn commit(self) {
        self.writer.sink.commit(self.now);
        let mut status = self.writer.status.lock();
        status.bytes += u64::try_from(self.bytes).unwrap_or(u64::MAX);
        status.records += self.records;
        status.bad += self.bad;
        if self.records > 0 {
            status.last_line = Some(self.now);
        }
        status.progress = self.progress.or(status.progress.take());
    }
}
