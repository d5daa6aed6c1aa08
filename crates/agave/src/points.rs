//! Typed datapoints, from the push or the log.
//!
//! Every field is an `Option`, because the fields of a point depend on version, mode and moment. A
//! field with an unusable value (wrong type, or a wrapped `u64` that arrives as a negative number)
//! is `None`.

mod fields;
mod kinds;
mod recorded;
mod slot_peaks;

pub use kinds::*;
pub use slot_peaks::SlotPeaks;

#[cfg(test)]
mod tests;
