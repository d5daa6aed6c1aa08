//! `faultline campaign`: release after release against a pinned baseline, by one plan, in one table that keeps itself.
//!
//! In reading order: [`args`]; `settings` (what `campaign.toml` says), `store` (`results.db`), `programs` (built or found once),
//! `watch` (which versions there are), `round` (the plans of a version), `work` (runs what has no result), `collected` (its rows), `mark` (when a difference is marked), `compare` (what differs, and how sure that is),
//! `verify` (recordings against their digests), `changes`, `page` and `feed` (what is published), `power` and `plan` (what marks can show), `shown` (status, export), `command` (what is asked for).

pub mod args;
mod changes;
mod collected;
pub mod command;
mod compare;
mod feed;
mod mark;
mod page;
mod plan;
mod power;
mod programs;
mod round;
mod settings;
mod shown;
mod store;
mod verify;
mod watch;
mod work;
