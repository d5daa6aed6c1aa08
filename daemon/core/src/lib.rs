//! Modules that several crates of the daemon use.

pub mod auth_failures;
pub mod clock;
pub mod config;
pub mod connection_limit;
pub mod connector;
pub mod publish;
pub mod push_memory;
pub mod rate_limit;
pub mod resource_limits;
pub mod socket;
pub mod supervisor;
