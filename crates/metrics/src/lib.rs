//! The metrics and their readings.
//!
//! Every metric of the product exists once, here: its name, kind, unit, labels, help and origin
//! ([`metrics`]). What one tick of the daemon yields is here too: readings of those metrics,
//! grouped by the source that took them, with the problems it met ([`Tick`], [`Batch`],
//! [`Reading`], [`Problem`]).
//!
//! Plain data: no files, no network, no clock.
//!
//! ```
//! use faultline_metrics::{Reading, metrics::process};
//!
//! let faults = Reading::integer(&process::PAGE_FAULTS, ["major".into()], 12);
//! assert_eq!(faults.metric.name, "agave_process_page_faults_total");
//! ```

mod histogram;

mod metric;
pub mod metrics;
mod names;
mod native;
mod reading;
mod tick;

pub use histogram::{Histogram, LATENESS_BOUNDS, SLOT_BOUNDS, TIME_BOUNDS};

pub use metric::{Amount, Datapoint, Kind, Metric, Section, SeriesInput, Unit};
pub use native::NativeBuckets;
pub use reading::{LabelText, LabelValues, Reading, ReadingList, Value};
pub use tick::{AMBIGUOUS_PREFIX, Batch, Problem, ProblemKind, Source, Stamp, Tick};
