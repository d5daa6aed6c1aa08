//! What the validator reports about itself: received by push or from the log, summed, forwarded.

pub mod forward;
pub mod ingest;
pub mod tail;
pub mod validator;
