use super::Parts;
use super::folder::{RING, free_name, free_space};
use super::handle::{Outcome, SaveJob};
use std::fs;
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// Pause after each copied MiB: the disk may be the validator's.
const COPY_PAUSE: Duration = Duration::from_millis(5);

pub struct Saver {
    pub(super) parts: Parts,
    pub(super) jobs: Receiver<SaveJob>,
}

impl Saver {
    /// Returns when the ring is closed, after its last saves.
    pub fn run(self) {
        while let Ok(job) = self.jobs.recv() {
            let (began, reason) = (self.parts.clock.now(), job.file_name_word());
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
        let Parts {
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
        free_space(folder, config, bytes, job.origin)?;
        let path = free_name(folder, name, reason, job.at).ok_or("too many saves in one second")?;
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
