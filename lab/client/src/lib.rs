//! HTTP and JSON-RPC clients of the lab's commands.

#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

pub mod http;
pub mod rpc;
