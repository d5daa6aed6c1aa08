//! From bytes of the log to whoever takes its records.

use crate::view::{StartStep, View};
use faultline_agave::log::{LogLine, LogSplitter};
use faultline_catalog::Stamp;
use std::fmt;

/// Who takes the log's records.
pub trait Inlet: Send {
    /// A stretch of the log begins.
    fn begin(&mut self, now: Stamp);
    /// One record: a line, or a datapoint joined from several.
    fn record(&mut self, record: &str);
    /// A line that cannot be used.
    fn bad(&mut self);
    /// The stretch has ended.
    fn commit(&mut self, at: Stamp);
}

/// The way out of a follower: records to the inlet, progress and counts to the view.
pub struct Records {
    inlet: Box<dyn Inlet>,
    view: View,
}

impl fmt::Debug for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Records")
            .field("view", &self.view)
            .finish_non_exhaustive()
    }
}

impl Records {
    /// The way to this inlet, with a view of its own.
    pub fn new(inlet: Box<dyn Inlet>) -> Self {
        Records {
            inlet,
            view: View::default(),
        }
    }

    /// What others see of it.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// One stretch of the log, read at `now`: what `give` gives is committed together.
    pub fn stretch(&mut self, now: Stamp, give: impl FnOnce(&mut Stretch<'_>)) {
        self.inlet.begin(now);
        let mut stretch = Stretch {
            inlet: self.inlet.as_mut(),
            view: &self.view,
            now,
            records: 0,
            bad: 0,
        };
        give(&mut stretch);
        let (records, bad) = (stretch.records, stretch.bad);
        self.inlet.commit(now);
        self.view.count(records, bad, now);
    }
}

/// Open while bytes of one read are handed on.
pub struct Stretch<'a> {
    inlet: &'a mut dyn Inlet,
    view: &'a View,
    now: Stamp,
    records: u64,
    bad: u64,
}

impl Stretch<'_> {
    /// Log text, cut anywhere.
    pub fn text(&mut self, splitter: &mut LogSplitter, bytes: &[u8]) {
        self.view.read(bytes.len());
        splitter.feed(bytes, |record| match record {
            Ok(record) => self.record(record),
            Err(_) => self.bad(),
        });
    }

    /// The log broke off. What is left has no newline, so that its last number may be cut: it is bad, whatever it says.
    pub fn cut(&mut self, splitter: &mut LogSplitter) {
        splitter.finish(|_| self.bad());
    }

    /// A line that cannot be used.
    pub fn bad(&mut self) {
        self.bad += 1;
        self.inlet.bad();
    }

    fn record(&mut self, record: &[u8]) {
        let record = String::from_utf8_lossy(record);
        self.records += 1;
        self.inlet.record(&record);
        if let Some(progress) = LogLine::parse(&record).progress() {
            self.view.tell(StartStep {
                at: self.now,
                progress,
            });
        }
    }
}
