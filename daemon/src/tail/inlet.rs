//! The daemon's intake, as a follower's inlet.

use crate::validator::intake::{Intake, Push};
use faultline_catalog::Stamp;
use faultline_follow::{Inlet, Records};

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

/// A follower's way into the intake.
pub(super) fn records(intake: Intake) -> Records {
    Records::new(Box::new(ToIntake { intake, push: None }))
}
