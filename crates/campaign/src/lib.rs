//! `faultline campaign`: release after release against a pinned baseline, by one plan, in one table that keeps itself.
//!
//! In reading order: [`args`]; `settings` (what `campaign.toml` says), `store` (`results.db`), `programs` (built or found once),
//! `watch` (which versions there are), `round` (the plans of a version), `work` (runs what has no result), `mark` (when a difference is marked), `compare` (what differs, and how sure that is),
//! `changes`, `page` and `feed` (what is published), `shown` (status, export), `command` (what is asked for).

pub mod args;
mod changes;
pub mod command;
mod compare;
mod feed;
mod mark;
mod page;
mod programs;
mod round;
mod settings;
mod shown;
mod store;
mod watch;
mod work;
