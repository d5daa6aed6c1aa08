//! The daemon: target, sources, tick, hub, sinks.

pub mod clock;
pub mod config;
pub mod hub;
pub mod sinks;
pub mod supervisor;
pub mod validator;
