//! The validator's datapoints: received by push or read from the log, summed and forwarded.

pub mod forward;
pub mod ingest;
pub mod tail;
/// Sums of the followed validator's datapoints. Datapoints of other senders are not added to them.
pub mod validator;
