//! What the lab's commands share: terminal output, replaced files, signals, the clock, common arguments, questions to a JSON-RPC node.

// They panic when their reader has gone; see `output`.
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

pub mod args;
pub mod clock;
pub mod files;
pub mod http;
pub mod output;
pub mod progress;
pub mod rpc;
pub mod signals;
pub mod tls;
