//! The metrics and their readings.
//!
//! This crate defines each metric once: name, kind, unit, labels, help and origin ([`metrics`]). It
//! also has the type of a [`Tick`] of the daemon: for each [`Source`], a [`Batch`] of [`Reading`]s
//! and [`Problem`]s.
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

pub use histogram::{Histogram, LATENESS_BOUNDS, SLOT_DELAY_BOUNDS, TIME_BOUNDS};

pub use metric::{Amount, Datapoint, Kind, Metric, Section, SeriesInput, Unit};
pub use native::NativeBuckets;
pub use reading::{AddReadings, LabelText, LabelValues, Reading, Value};
pub use tick::{AMBIGUOUS_PREFIX, Batch, Problem, ProblemKind, Source, Stamp, Tick};
