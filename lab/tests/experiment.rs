//! Experiments as their users run them: the program itself, real groups, real processes, the real daemon.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot prepare its scene fails"
)]
#![expect(clippy::disallowed_methods, reason = "a test starts programs itself")]

#[path = "experiment/scene.rs"]
mod scene;

#[path = "experiment/folders.rs"]
mod folders;
#[path = "experiment/interruptions.rs"]
mod interruptions;
#[path = "experiment/outcomes.rs"]
mod outcomes;
