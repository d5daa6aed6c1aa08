//! The flight recorder: the last minutes are always on disk, in a ring that stays bounded, and are saved as a recording
//! when the followed validator is killed, ends, stalls or falls behind, or on request.
//!
//! The recorder's thread writes the ring and decides ([`Triggers`]); a thread of its own copies, in small steps, so that
//! a save delays neither a tick nor a row. What is deleted is deleted only in the folder with our marker file.

mod folder;
mod handle;
mod ring;
mod saver;
mod triggers;

pub use folder::{MARKER, RING, check};
pub use handle::{Asked, Handle, Reason, Wish, readings};
pub use ring::Ring;
pub use saver::Saver;
pub use triggers::{Timing, Trigger, Triggers};

use crate::clock::Clock;
use crate::config;
use crate::recorder::Account;
use faultline_kernel::HostRoot;
use faultline_recording::Opening;
use folder::Unprepared;
use std::path::PathBuf;
use std::sync::Arc;

/// What a flight recorder is made of.
pub struct Parts {
    pub clock: Clock,
    /// Where it keeps what it keeps.
    pub folder: PathBuf,
    /// How long, how much, how often.
    pub config: config::Flight,
    /// What saved recordings are called first: the host's name.
    pub name: String,
    /// Its rows and losses.
    pub account: Arc<Account>,
}

/// The flight recorder's two halves and what others hold of it. Makes the folder if it is missing; on a full disk that is
/// tried again later, with the ring.
///
/// # Errors
/// The folder cannot be made or marked; in words for the operator.
pub fn build(parts: Parts, handle: &Handle, opening: Opening) -> Result<(Ring, Saver), String> {
    if let Err(Unprepared::Unusable(why)) = folder::prepare(&parts.folder) {
        return Err(why);
    }
    let (jobs, waiting) = saver::channel();
    let saver = Saver::new(&parts, handle.clone(), waiting);
    Ok((Ring::new(parts, handle.clone(), opening, jobs), saver))
}

/// What saved recordings are called first: the host's name, as far as it fits into a file's.
pub fn name(root: &HostRoot) -> String {
    let read = root.read_proc("sys/kernel/hostname", |text| {
        Ok(String::from_utf8_lossy(text).into_owned())
    });
    match folder::word(&read.unwrap_or_default()).as_str() {
        "" => "host".to_owned(),
        name => name.to_owned(),
    }
}

#[cfg(test)]
mod tests;
