//! The program: command line, `once`, the demo, start and stop.

pub mod app;
pub mod cli;
pub mod demo;
pub mod once;
pub mod ready_file;

/// Also in metrics and recordings.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Environment variable that says where a validator pushes.
const METRICS_CONFIG: &str = "SOLANA_METRICS_CONFIG";
