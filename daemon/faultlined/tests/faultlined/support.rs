#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test that cannot prepare its scene fails; programs are started by it"
)]

pub mod fake_daemon;
pub mod limited;
pub mod mounted;
pub mod small_disk;

use faultline_testkit::{
    Result,
    process::{Program, Running},
};
use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// Compiles a program in C, for calls that safe Rust lacks. `None` without a compiler.
pub fn compiled(folder: &Path, name: &str, source: &str) -> Option<PathBuf> {
    let (file, program) = (folder.join(format!("{name}.c")), folder.join(name));
    std::fs::write(&file, source).expect("a file");
    let status = Command::new("cc")
        .args(["-O0", "-pthread", "-o"])
        .args([&program, &file])
        .status()
        .ok()?;
    status.success().then_some(program)
}

/// Starts the program. Its output is in the file `output` in `folder`.
pub fn start(path: PathBuf, arguments: &[&str], folder: &Path) -> Result<Running> {
    let arguments = arguments.iter().map(ToString::to_string).collect();
    Running::start(&Program {
        path,
        arguments,
        environment: Vec::new(),
        output: folder.join("output"),
    })
}
