//! The daemon: a target is found and followed; sources are asked on a tick; a hub hands each tick to the sinks.
//!
//! ```text
//! discovery -> sources -> tick -> hub -> sinks, recorder -> web
//!              ^
//!   ingest, tail, rpc, admin publish their newest state; validator sums what they bring; forward passes bodies on
//! ```

pub mod cli;

pub mod app;
pub mod demo;
pub mod once;

pub mod sinks;
pub mod web;

pub mod ready_file;
