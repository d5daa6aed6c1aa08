//! Writes ticks and events to recordings.

pub mod flight;
pub mod manifest;
pub mod recorder;
