use super::Exposition;
use faultline_metrics::Reading;
use faultline_metrics::metrics::daemon::SERIES_DROPPED;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Debug, Clone, Default)]
pub struct DroppedSeries(Arc<Mutex<BTreeMap<&'static str, u64>>>);

impl DroppedSeries {
    pub fn count(&self, exposition: &Exposition) {
        let mut counts = self.0.lock();
        for (metric, dropped) in exposition.dropped() {
            *counts.entry(metric).or_default() += dropped as u64;
        }
    }

    pub fn readings(&self, out: &mut Vec<Reading>) {
        let counts = self.0.lock();
        let readings = counts
            .iter()
            .map(|(metric, count)| Reading::counter(&SERIES_DROPPED, [(*metric).into()], *count));
        out.extend(readings);
    }
}
