//! [`sinks`] receive each tick and keep what pages need; [`web`] serves the pages: metrics, landing
//! page, status.

pub mod sinks;
pub mod web;
