//! What several of these tests need.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test that cannot prepare its scene fails; programs are started by it"
)]

pub mod made;
pub mod sample;
pub mod simulated;
pub mod small_disk;
