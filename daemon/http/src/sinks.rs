//! Receivers of ticks: the metrics of the newest tick, and the history of the last minutes.

pub mod history;
pub mod prometheus;
