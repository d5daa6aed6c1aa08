//! What is told on the terminal. A reader that has gone away, as in `| head`, is no failure.

use anyhow::Context;
use std::io::{ErrorKind, Write};

/// Prints an answer on standard output.
///
/// # Errors
/// It cannot be written, but for a pipe whose reader has gone.
pub fn print(answer: &[u8]) -> anyhow::Result<()> {
    let mut out = std::io::stdout();
    match out.write_all(answer).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error).context("standard output"),
        _ => Ok(()),
    }
}

/// Says a line on standard error, to whoever still listens: standard output belongs to answers, and to a command that is
/// recorded.
pub fn say(words: &str) {
    let _ = writeln!(std::io::stderr(), "faultline: {words}");
}
