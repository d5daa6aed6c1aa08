//! Sums the validator's datapoints, pushed by it or read from its log. Forwards pushes.

pub mod forward;
pub mod ingest;
pub mod tail;
/// Sums the datapoints of the followed validator, without those of other senders.
pub mod validator;
