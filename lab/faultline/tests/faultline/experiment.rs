//! Experiments as their users run them: the program itself, real groups, real processes, the real daemon.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot prepare its scene fails"
)]
#![expect(clippy::disallowed_methods, reason = "a test starts programs itself")]

mod scene;

mod blocks;
mod folders;
mod interruptions;
mod outcomes;
