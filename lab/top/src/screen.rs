//! The terminal as a screen. Whatever ends it, the terminal is restored.

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// Alternate screen, cleared, without a cursor.
const ENTER_SEQUENCE: &[u8] = b"\x1b[?1049h\x1b[2J\x1b[?25l";
/// Plain colours, the cursor, the primary screen.
const LEAVE_SEQUENCE: &[u8] = b"\x1b[0m\x1b[?25h\x1b[?1049l";

/// Until it is dropped: the alternate screen, and keys one by one without echo.
#[derive(Debug)]
pub struct Screen(Arc<SavedTerminal>);

#[derive(Debug)]
struct SavedTerminal {
    input: OwnedFd,
    output: OwnedFd,
    settings: Termios,
    is_restored: AtomicBool,
}

impl Screen {
    /// Uses the terminal that `input` reads from and `output` writes to. A panic restores it before
    /// it prints.
    pub fn enter(input: impl AsFd, output: impl AsFd) -> io::Result<Self> {
        let settings = tcgetattr(&input)?;
        let (input, output) = (
            input.as_fd().try_clone_to_owned()?,
            output.as_fd().try_clone_to_owned()?,
        );
        let mut raw = settings.clone();
        raw.make_raw();
        tcsetattr(&input, OptionalActions::Now, &raw)?;
        let screen = Screen(Arc::new(SavedTerminal {
            input,
            output,
            settings,
            is_restored: AtomicBool::new(false),
        }));
        let saved = Arc::downgrade(&screen.0);
        let default_hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if let Some(saved) = saved.upgrade() {
                saved.restore();
            }
            default_hook(panic);
        }));
        write_all(&screen.0.output, ENTER_SEQUENCE)?;
        Ok(screen)
    }
}

impl SavedTerminal {
    fn restore(&self) {
        if !self.is_restored.swap(true, Ordering::Relaxed) {
            let _ = write_all(&self.output, LEAVE_SEQUENCE);
            let _ = tcsetattr(&self.input, OptionalActions::Flush, &self.settings);
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.0.restore();
    }
}

fn write_all(output: &OwnedFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = rustix::io::retry_on_intr(|| rustix::io::write(output, bytes))?;
        bytes = bytes.get(written..).unwrap_or_default();
    }
    Ok(())
}

#[cfg(test)]
mod tests;
