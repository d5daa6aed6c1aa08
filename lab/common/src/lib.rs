// Print macros panic if the pipe is closed; see `output`.
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

pub mod args;
pub mod clock;
pub mod evidence;
pub mod files;
pub mod lock;
pub mod output;
pub mod progress;
pub mod signals;
