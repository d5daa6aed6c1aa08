//! The flight recorder keeps the last minutes in a bounded ring on disk. It saves them as a
//! recording if the validator is killed, exits, stalls or falls behind, or on request.
//!
//! The recorder's thread writes the ring and decides ([`Triggers`]). A second thread copies in
//! small steps, so that a save delays neither a tick nor a row. Only files in the folder with our
//! marker file are ever deleted.

mod folder;
mod handle;
mod ring;
mod saver;
mod triggers;

pub use folder::{MARKER, RING, check};
pub use handle::{Handle, Reason, SaveOrigin, SaveRequest, readings};
pub use ring::Ring;
pub use saver::Saver;
pub use triggers::{Timing, Trigger, Triggers};

use crate::recorder::Account;
use faultline_core::clock::Clock;
use faultline_core::config;
use faultline_kernel::HostRoot;
use faultline_recording::Opening;
use folder::Unprepared;
use std::path::PathBuf;
use std::sync::Arc;

pub struct Parts {
    pub clock: Clock,
    pub folder: PathBuf,
    pub config: config::Flight,
    pub name: String,
    pub account: Arc<Account>,
}

/// Creates the folder if it is missing. On a full disk it tries again later, with the ring.
///
/// # Errors
/// The folder cannot be created or marked.
pub fn build(parts: Parts, handle: &Handle, opening: Opening) -> Result<(Ring, Saver), String> {
    if let Err(Unprepared::Unusable(why)) = folder::prepare(&parts.folder) {
        return Err(why);
    }
    let (jobs, waiting) = saver::channel();
    let saver = Saver::new(&parts, handle.clone(), waiting);
    Ok((Ring::new(parts, handle.clone(), opening, jobs), saver))
}

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
