//! Where ticks go.

pub mod history;
pub mod prometheus;
