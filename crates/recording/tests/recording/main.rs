//! Tests of recordings that are written, cut, pruned, merged, or read meanwhile, and of killed writers and full disks.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "what cannot go on fails the test; children are started and waited for"
)]

mod cuts;
mod document;
mod fixture;
mod foreign_wal;
mod full;
mod garbage;
mod hostile;
mod kill;
#[allow(dead_code, reason = "the generator is shared with the example")]
mod made_up;
mod merge;
mod progress;
mod readers;
mod ring;
mod round_trip;
