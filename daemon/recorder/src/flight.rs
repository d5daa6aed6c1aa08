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
pub use handle::{Handle, SaveOrigin};
pub use ring::Ring;
pub use saver::Saver;

use crate::recorder::RecorderStatus;
use faultline_core::clock::Clock;
use faultline_core::config;
use faultline_recording::NewRecording;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

const MAX_QUEUED_JOBS: usize = 8;

#[derive(Clone)]
pub struct Parts {
    pub clock: Clock,
    pub folder: PathBuf,
    pub config: config::Flight,
    pub name: String,
    pub status: Arc<RecorderStatus>,
    pub handle: Handle,
}

/// Creates the folder if it is missing. On a full disk, the ring tries again later.
///
/// # Errors
/// The folder cannot be created or marked.
pub fn build(parts: Parts, new_recording: NewRecording) -> Result<(Ring, Saver), String> {
    if let Err(error) = folder::prepare(&parts.folder)
        && !error.is_full
    {
        return Err(error.message);
    }
    parts.handle.set_last_save(folder::last_save(&parts.folder));
    let (jobs, queued_jobs) = sync_channel(MAX_QUEUED_JOBS);
    let saver = Saver {
        parts: parts.clone(),
        jobs: queued_jobs,
    };
    Ok((Ring::new(parts, new_recording, jobs), saver))
}

/// The host name as a part of file names.
pub fn name(host_name: &str) -> String {
    match folder::file_name_word(host_name).as_str() {
        "" => "host".to_owned(),
        name => name.to_owned(),
    }
}

#[cfg(test)]
mod tests;
