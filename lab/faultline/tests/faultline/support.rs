//! What several of these tests need.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test that cannot prepare its scene fails; programs are started by it"
)]

pub(crate) mod made;
pub(crate) mod sample;
pub(crate) mod simulated;
pub(crate) mod small_disk;
