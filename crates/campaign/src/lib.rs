//! `faultline campaign`: release after release against a pinned baseline, by one plan, in one table that keeps itself.

#![allow(dead_code, reason = "the command follows")]

mod compare;
mod programs;
mod settings;
mod store;
mod watch;
