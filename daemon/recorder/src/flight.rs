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
pub use handle::{Handle, SaveOrigin, SaveReason, SaveRequest, readings};
pub use ring::Ring;
pub use saver::Saver;
pub use triggers::{TriggerDelays, Triggers};

use crate::recorder::RecorderStatus;
use faultline_core::clock::Clock;
use faultline_core::config;
use faultline_kernel::HostRoot;
use faultline_recording::NewRecording;
use folder::PrepareError;
use std::path::PathBuf;
use std::sync::Arc;

pub struct Parts {
    pub clock: Clock,
    pub folder: PathBuf,
    pub config: config::Flight,
    pub name: String,
    pub status: Arc<RecorderStatus>,
}

/// Creates the folder if it is missing. On a full disk, the ring tries again later.
///
/// # Errors
/// The folder cannot be created or marked.
pub fn build(
    parts: Parts,
    handle: &Handle,
    new_recording: NewRecording,
) -> Result<(Ring, Saver), String> {
    if let Err(PrepareError::Unusable(why)) = folder::prepare(&parts.folder) {
        return Err(why);
    }
    handle.set_last_save(folder::last_save(&parts.folder));
    let (jobs, queued_jobs) = saver::channel();
    let saver = Saver::new(&parts, handle.clone(), queued_jobs);
    Ok((Ring::new(parts, handle.clone(), new_recording, jobs), saver))
}

/// The host name as a part of file names.
pub fn name(root: &HostRoot) -> String {
    let read = root.read_proc("sys/kernel/hostname", |text| {
        Ok(String::from_utf8_lossy(text).into_owned())
    });
    match folder::file_name_word(&read.unwrap_or_default()).as_str() {
        "" => "host".to_owned(),
        name => name.to_owned(),
    }
}

#[cfg(test)]
mod tests;
