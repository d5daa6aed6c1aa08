use super::Parts;
use super::folder::{RING, free_name, free_space};
use super::handle::{Handle, Outcome, SaveOrigin, SaveReason};
use faultline_core::clock::Clock;
use faultline_core::config;
use faultline_metrics::Stamp;
use std::fs;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

const MAX_QUEUED_JOBS: usize = 8;

/// Pause after each copied MiB: the disk may be the validator's.
const COPY_PAUSE: Duration = Duration::from_millis(5);

pub(super) struct SaveJob {
    pub(super) reason: SaveReason,
    pub(super) origin: SaveOrigin,
    pub(super) file_name_word: String,
    pub(super) text: String,
    pub(super) at: Stamp,
    pub(super) answer: Box<dyn FnOnce(Outcome) + Send>,
}

pub(super) fn channel() -> (SyncSender<SaveJob>, Receiver<SaveJob>) {
    sync_channel(MAX_QUEUED_JOBS)
}

pub struct Saver {
    clock: Clock,
    folder: PathBuf,
    name: String,
    limits: config::Flight,
    handle: Handle,
    jobs: Receiver<SaveJob>,
}

impl Saver {
    pub(super) fn new(parts: &Parts, handle: Handle, jobs: Receiver<SaveJob>) -> Self {
        let (folder, name, limits) = (
            parts.folder.clone(),
            parts.name.clone(),
            parts.config.clone(),
        );
        Saver {
            clock: parts.clock,
            folder,
            name,
            limits,
            handle,
            jobs,
        }
    }

    /// Returns when the ring is closed, after its last saves.
    pub fn run(self) {
        while let Ok(job) = self.jobs.recv() {
            let began = self.clock.now();
            let outcome = self.save(&job);
            let took = self.clock.now().since(began);
            match &outcome {
                Ok(path) => {
                    tracing::info!(reason = job.file_name_word, path = %path.display(), ?took, "flight recording saved")
                }
                Err(why) => {
                    tracing::error!(
                        reason = job.file_name_word,
                        why,
                        "cannot save the flight recording"
                    )
                }
            }
            self.handle.save_ended(job.reason, &outcome);
            (job.answer)(outcome);
        }
    }

    fn save(&self, job: &SaveJob) -> Outcome {
        let ring = self.folder.join(RING);
        let length = |suffix: &str| {
            fs::metadata(format!("{}{suffix}", ring.display())).map_or(0, |meta| meta.len())
        };
        free_space(
            &self.folder,
            &self.limits,
            length("") + length("-wal"),
            job.origin,
        )?;
        let path = free_name(&self.folder, &self.name, &job.file_name_word, job.at)
            .ok_or("too many saves in one second")?;
        let at = job.at.unix.as_nanos().to_string();
        let meta = [
            ("saved_reason", job.file_name_word.as_str()),
            ("saved_text", job.text.as_str()),
            ("saved_unix_ns", at.as_str()),
        ];
        let pause = |_, _| std::thread::sleep(COPY_PAUSE);
        faultline_recording::backup(&ring, &path, &meta, pause)
            .map_err(|error| error.to_string())?;
        Ok(path)
    }
}
