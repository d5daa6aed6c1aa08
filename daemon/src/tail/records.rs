//! From bytes of the log to the intake.

use super::view::{Told, View};
use crate::validator::intake::{Intake, Push};
use faultline_agave::log::{LogLine, LogSplitter};
use faultline_catalog::Stamp;
use std::fmt;

/// Who takes the log's records.
pub(super) trait Inlet: Send {
    /// A stretch of the log begins.
    fn begin(&mut self, now: Stamp);
    /// One record: a line, or a datapoint joined from several.
    fn record(&mut self, record: &str);
    /// A line that cannot be used.
    fn bad(&mut self);
    /// The stretch has ended.
    fn commit(&mut self, at: Stamp);
}

/// The daemon's intake as an inlet.
struct ToIntake {
    intake: Intake,
    push: Option<Push>,
}

impl Inlet for ToIntake {
    fn begin(&mut self, now: Stamp) {
        self.push = Some(self.intake.begin(now));
    }

    fn record(&mut self, record: &str) {
        if let Some(push) = &mut self.push {
            push.log_line(record);
        }
    }

    fn bad(&mut self) {
        if let Some(push) = &mut self.push {
            push.bad_line();
        }
    }

    fn commit(&mut self, at: Stamp) {
        if let Some(push) = self.push.take() {
            self.intake.commit(push, at);
        }
    }
}

/// The way out of a follower: records to the inlet, progress and counts to the view.
pub(super) struct Records {
    inlet: Box<dyn Inlet>,
    view: View,
}

impl fmt::Debug for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Records").field("view", &self.view).finish_non_exhaustive()
    }
}

impl Records {
    pub(super) fn into_intake(intake: Intake) -> Self {
        Self::into_inlet(Box::new(ToIntake { intake, push: None }))
    }

    pub(super) fn into_inlet(inlet: Box<dyn Inlet>) -> Self {
        Records { inlet, view: View::default() }
    }

    pub(super) fn view(&self) -> &View {
        &self.view
    }

    /// One stretch of the log, read at `now`: what `give` gives is committed together.
    pub(super) fn stretch(&mut self, now: Stamp, give: impl FnOnce(&mut Stretch<'_>)) {
        self.inlet.begin(now);
        let mut stretch = Stretch { inlet: self.inlet.as_mut(), view: &self.view, now, records: 0, bad: 0 };
        give(&mut stretch);
        let (records, bad) = (stretch.records, stretch.bad);
        self.inlet.commit(now);
        self.view.count(records, bad, now);
    }
}

/// Open while bytes of one read are handed on.
pub(super) struct Stretch<'a> {
    inlet: &'a mut dyn Inlet,
    view: &'a View,
    now: Stamp,
    records: u64,
    bad: u64,
}

impl Stretch<'_> {
    /// Log text, cut anywhere.
    pub(super) fn text(&mut self, splitter: &mut LogSplitter, bytes: &[u8]) {
        self.view.read(bytes.len());
        splitter.feed(bytes, |record| match record {
            Ok(record) => self.record(record),
            Err(_) => self.bad(),
        });
    }

    /// The log broke off. What is left has no newline, so that its last number may be cut: it is bad, whatever it says.
    pub(super) fn cut(&mut self, splitter: &mut LogSplitter) {
        splitter.finish(|_| self.bad());
    }

    pub(super) fn bad(&mut self) {
        self.bad += 1;
        self.inlet.bad();
    }

    fn record(&mut self, record: &[u8]) {
        let record = String::from_utf8_lossy(record);
        self.records += 1;
        self.inlet.record(&record);
        if let Some(progress) = LogLine::parse(&record).progress() {
            self.view.tell(Told { at: self.now, progress });
        }
    }
}
