use crate::evidence::Phase;
use std::time::Duration;

/// Minimum share of time at the tip, since it was first there.
pub const KEPT_UP: f64 = 0.99;

/// Time since a process was first at the tip.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TipTime {
    pub at_tip: Duration,
    pub elsewhere: Duration,
    pub unknown: Duration,
}

impl TipTime {
    /// Whether it was at the tip for 99 % of the time; `None` without any time, and while time of
    /// unknown phase could decide it either way.
    pub fn kept_up(self) -> Option<bool> {
        let needed = KEPT_UP * (self.at_tip + self.elsewhere + self.unknown).as_secs_f64();
        if needed <= 0.0 {
            None
        } else if self.at_tip.as_secs_f64() >= needed {
            Some(true)
        } else if (self.at_tip + self.unknown).as_secs_f64() < needed {
            Some(false)
        } else {
            None
        }
    }

    pub fn add(&mut self, phase: Option<Phase>, time: Duration) {
        *match phase {
            Some(Phase::AtTip) => &mut self.at_tip,
            Some(_) => &mut self.elsewhere,
            None => &mut self.unknown,
        } += time;
    }
}
