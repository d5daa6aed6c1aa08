//! The flight recorder keeps the last minutes in a bounded ring on disk. It saves them as a
//! recording if the validator is killed, exits, stalls or falls behind, or on request.
//!
//! The recorder's thread writes the ring and decides when to save it. A second thread copies in
//! small steps, so that a save delays neither a tick nor a row. Only files in the folder with our
//! marker file are ever deleted.

mod folder;
mod handle;
mod ring;

pub use folder::{MARKER, RING, check};
pub use handle::{Handle, SaveOrigin};
pub use ring::Ring;

use crate::recorder::RecorderStatus;
use faultline_core::{clock::Clock, config};
use faultline_recording::NewRecording;
use handle::{Outcome, SaveJob};
use std::{
    fs,
    path::PathBuf,
    sync::{
        Arc,
        mpsc::{Receiver, sync_channel},
    },
    time::Duration,
};

const MAX_QUEUED_JOBS: usize = 8;

/// Pause after each copied MiB: the disk may be the validator's.
const COPY_PAUSE: Duration = Duration::from_millis(5);

#[derive(Clone)]
pub struct FlightContext {
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
pub fn build(parts: FlightContext, new_recording: NewRecording) -> Result<(Ring, Saver), String> {
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

/// The reason and the request's text, as a part of the file's name.
fn file_name_word(job: &SaveJob) -> String {
    match folder::file_name_word(&job.text).as_str() {
        "" => job.reason.name().to_owned(),
        text => format!("{}_{text}", job.reason.name()),
    }
}

/// The host name as a part of file names.
pub fn name(host_name: &str) -> String {
    match folder::file_name_word(host_name).as_str() {
        "" => "host".to_owned(),
        name => name.to_owned(),
    }
}

pub struct Saver {
    parts: FlightContext,
    jobs: Receiver<SaveJob>,
}

impl Saver {
    /// Returns when the ring is closed, after its last saves.
    pub fn run(self) {
        while let Ok(job) = self.jobs.recv() {
            let (began, reason) = (self.parts.clock.now(), file_name_word(&job));
            let outcome = self.save(&job, &reason);
            let took = self.parts.clock.now().since(began);
            match &outcome {
                Ok(path) => {
                    tracing::info!(reason, path = %path.display(), ?took, "flight recording saved")
                }
                Err(why) => tracing::error!(reason, why, "cannot save the flight recording"),
            }
            self.parts.handle.save_ended(job, outcome);
        }
    }

    fn save(&self, job: &SaveJob, reason: &str) -> Outcome {
        let FlightContext {
            folder,
            name,
            config,
            ..
        } = &self.parts;
        let ring = folder.join(RING);
        let length = |suffix: &str| {
            fs::metadata(format!("{}{suffix}", ring.display())).map_or(0, |meta| meta.len())
        };
        let bytes = length("") + length("-wal");
        folder::make_space(folder, config, bytes, job.origin)?;
        let path = folder::free_name(folder, name, reason, job.at)
            .ok_or("too many saves in one second")?;
        let at = job.at.unix.as_nanos().to_string();
        let meta = [
            ("saved_reason", reason),
            ("saved_text", job.text.as_str()),
            ("saved_unix_ns", at.as_str()),
        ];
        let pause = |_, _| std::thread::sleep(COPY_PAUSE);
        faultline_recording::backup(&ring, &path, &meta, pause)
            .map_err(|error| error.to_string())?;
        Ok(path)
    }
}

#[cfg(test)]
mod tests;
