//! Writes ticks and events to recordings: [`recorder`] to a file, [`flight`] those of the last
//! minutes to a ring that is saved when a validator fails.

pub mod flight;
pub mod manifest;
pub mod recorder;
