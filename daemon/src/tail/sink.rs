use crate::validator::intake::{Intake, Push};
use faultline_catalog::Stamp;
use faultline_follow::{RecordSink, RecordWriter};

struct IntakeSink {
    intake: Intake,
    push: Option<Push>,
}

impl RecordSink for IntakeSink {
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

pub(super) fn record_writer(intake: Intake) -> RecordWriter {
    RecordWriter::new(Box::new(IntakeSink { intake, push: None }))
}
