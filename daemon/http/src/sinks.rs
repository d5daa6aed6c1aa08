pub mod history;
pub mod prometheus;
