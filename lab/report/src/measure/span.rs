/// Seconds since the run's origin.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Span {
    pub from: f64,
    pub to: f64,
}

impl Span {
    pub const ALWAYS: Span = Span {
        from: f64::NEG_INFINITY,
        to: f64::INFINITY,
    };

    pub fn seconds(self) -> f64 {
        (self.to - self.from).max(0.0)
    }

    /// Both ends are included.
    pub fn includes(self, at: f64) -> bool {
        at >= self.from && at <= self.to
    }
}
