//! What Agave's program cache does with the transactions of a run, at any size and under other policies.

mod error;
pub mod file;
pub mod trace;

pub use error::Error;
pub use trace::Trace;
