use std::time::Duration;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuTime {
    pub user: Duration,
    pub system: Duration,
}

impl CpuTime {
    pub fn total(&self) -> Duration {
        self.user + self.system
    }

    pub fn system_share(&self) -> Option<f64> {
        let total = self.total().as_secs_f64();
        (total > 0.0).then(|| self.system.as_secs_f64() / total)
    }

    /// Splits the growth so that the kernel's share approaches `system_share`; neither mode falls.
    pub fn grow_to(&mut self, total: Duration, system_share: f64) {
        let gained = total.saturating_sub(self.total());
        let wanted = total.mul_f64(system_share.clamp(0.0, 1.0));
        let system = wanted.saturating_sub(self.system).min(gained);
        self.system += system;
        self.user += gained - system;
    }
}
