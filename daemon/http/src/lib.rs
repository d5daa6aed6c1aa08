//! Serves metrics and the landing page.

pub mod sinks;
pub mod web;
