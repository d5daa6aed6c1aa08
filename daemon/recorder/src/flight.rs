//! The flight recorder keeps the last minutes in a bounded ring on disk. It saves them as a
//! recording if the validator is killed, exits, stalls or falls behind, or on request.
//!
//! The recorder's thread writes the ring and decides when to save it. A second thread copies in
//! small steps, so that a save delays neither a tick nor a row. Nothing is deleted in a folder
//! without our marker file.

mod folder;
mod ring;

pub use folder::{MARKER_FILE, RING_FILE, check_folder, check_writable};
pub use ring::Ring;

use crate::recorder::RecorderStatus;
use faultline_core::{clock::Clock, config};
use faultline_metrics::{AddReadings, Problem, Stamp, metrics::daemon as d};
use faultline_recording::{Error, EventKind, NewRecording, length, with_suffix};
use faultline_sources::tick::SourceOutput;
use parking_lot::{Condvar, Mutex};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        mpsc::{Receiver, sync_channel},
    },
    time::{Duration, SystemTime},
};
use tokio::sync::oneshot;

const MAX_QUEUED_JOBS: usize = 8;

/// Pause after each copied 256 KiB: the disk may be the validator's.
const COPY_PAUSE: Duration = Duration::from_millis(5);

#[derive(Clone)]
pub struct FlightContext {
    pub clock: Clock,
    pub folder: PathBuf,
    pub config: config::Flight,
    pub host_name: String,
    pub status: Arc<RecorderStatus>,
    pub handle: FlightRecorderHandle,
}

/// Creates the folder if it is missing. On a full disk, the ring tries again later.
///
/// # Errors
/// The folder has files but no marker, or cannot be created or marked.
pub fn build(context: FlightContext, new_recording: NewRecording) -> Result<(Ring, Saver), Error> {
    if let Err(error) = folder::prepare(&context.folder)
        && !error.is_full()
    {
        return Err(error);
    }
    context.handle.0.state.lock().last_saved_at = folder::last_saved_at(&context.folder);
    let (jobs, queued_jobs) = sync_channel(MAX_QUEUED_JOBS);
    let saver = Saver {
        context: context.clone(),
        jobs: queued_jobs,
    };
    Ok((Ring::new(context, new_recording, jobs), saver))
}

fn reason_with_text(job: &SaveJob) -> String {
    match folder::file_name_part(&job.request_text).as_str() {
        "" => job.reason.name().to_owned(),
        text => format!("{}_{text}", job.reason.name()),
    }
}

pub fn host_name_in_file_names(host_name: &str) -> String {
    match folder::file_name_part(host_name).as_str() {
        "" => "host".to_owned(),
        name => name.to_owned(),
    }
}

pub struct Saver {
    context: FlightContext,
    jobs: Receiver<SaveJob>,
}

impl Saver {
    /// Returns after the ring is dropped and the queued saves are done.
    pub fn run(self) {
        while let Ok(job) = self.jobs.recv() {
            let (started, reason) = (self.context.clock.now(), reason_with_text(&job));
            let result = self.save(&job, &reason);
            let took = self.context.clock.now().since(started);
            match &result {
                Ok(path) => {
                    tracing::info!(reason, path = %path.display(), ?took, "flight recording saved")
                }
                Err(why) => tracing::error!(reason, why, "cannot save the flight recording"),
            }
            self.context.handle.end_save(job, result);
        }
    }

    fn save(&self, job: &SaveJob, reason_with_text: &str) -> SaveResult {
        let FlightContext {
            folder,
            host_name,
            config,
            ..
        } = &self.context;
        let ring = folder.join(RING_FILE);
        let bytes = length(&ring) + length(&with_suffix(&ring, "-wal"));
        folder::make_space(folder, config, bytes, job.origin)?;
        let path = folder::unused_path(folder, host_name, reason_with_text, job.queued_at)
            .ok_or("too many saves in one second")?;
        let at = job.queued_at.unix.as_nanos().to_string();
        let meta = [
            ("saved_reason", reason_with_text),
            ("saved_text", job.request_text.as_str()),
            ("saved_unix_ns", at.as_str()),
        ];
        let pause = |_, _| std::thread::sleep(COPY_PAUSE);
        faultline_recording::backup(&ring, &path, &meta, pause)
            .map_err(|error| error.to_string())?;
        Ok(path)
    }
}

const MAX_REQUESTS: usize = 8;

faultline_metrics::named_enum! {
    /// Why a recording is saved, the most severe first.
    enum SaveReason {
        OomKill = "oom_kill",
        Exit = "exit",
        Behind = "behind",
        Stall = "stall",
        Request = "request",
    }
}

impl SaveReason {
    /// `None` if events of this kind do not save the ring.
    fn for_event(kind: EventKind) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|reason| reason.name() == kind.name())
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SaveOrigin {
    Automatic,
    Signal,
    Http,
}

type SaveResult = Result<PathBuf, String>;

#[derive(Debug)]
struct SaveJob {
    reason: SaveReason,
    origin: SaveOrigin,
    /// The text of a request; otherwise empty.
    request_text: String,
    /// Zero until the recorder's thread queues the job.
    queued_at: Stamp,
    reply: Option<oneshot::Sender<SaveResult>>,
}

#[derive(Debug, Clone, Default)]
pub struct FlightRecorderHandle(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    save_ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    requests: Vec<SaveJob>,
    save_counts: [u64; SaveReason::ALL.len()],
    failures: u64,
    /// Unix time.
    last_saved_at: Option<Duration>,
    problem: Option<String>,
    saves_in_progress: usize,
}

impl FlightRecorderHandle {
    /// Requests a save; its result arrives seconds later. `None`: too many requests wait already.
    pub fn request_save(
        &self,
        text: &str,
        origin: SaveOrigin,
    ) -> Option<oneshot::Receiver<SaveResult>> {
        let mut state = self.0.state.lock();
        if state.requests.len() >= MAX_REQUESTS {
            return None;
        }
        let (reply, result) = oneshot::channel();
        state.requests.push(SaveJob {
            reason: SaveReason::Request,
            origin,
            request_text: text.to_owned(),
            queued_at: Stamp::default(),
            reply: Some(reply),
        });
        Some(result)
    }

    fn wait_for_saves(&self, timeout: Duration) {
        let mut state = self.0.state.lock();
        let in_progress = |state: &mut State| state.saves_in_progress > 0;
        let waited = self
            .0
            .save_ended
            .wait_while_for(&mut state, in_progress, timeout);
        if waited.timed_out() {
            tracing::warn!("the flight recorder's last save is still running");
        }
    }

    fn end_save(&self, job: SaveJob, result: SaveResult) {
        // A tick waits for the lock, so the disk is read before.
        let saved_at = result.as_ref().ok().and_then(|path| modified_at(path));
        let mut state = self.0.state.lock();
        state.problem = None;
        match &result {
            Ok(_) => {
                state.save_counts[job.reason as usize] += 1;
                state.last_saved_at = saved_at;
            }
            Err(why) => {
                state.failures += 1;
                state.problem = Some(format!("the flight recorder could not save: {why}"));
            }
        }
        state.saves_in_progress = state.saves_in_progress.saturating_sub(1);
        self.0.save_ended.notify_all();
        drop(state);
        if let Some(reply) = job.reply {
            drop(reply.send(result));
        }
    }

    pub fn report(&self, output: &mut SourceOutput) {
        let state = self.0.state.lock();
        for reason in SaveReason::ALL {
            let count = state.save_counts[reason as usize];
            let labels = [reason.name().into()];
            output.readings.integer(&d::FLIGHT_SAVES, labels, count);
        }
        output
            .readings
            .integer(&d::FLIGHT_FAILURES, [], state.failures);
        let at = state.last_saved_at.map(|at| at.as_secs_f64());
        output.readings.real(&d::FLIGHT_LAST_SAVE, [], at);
        let problem = state.problem.clone();
        output.problems.extend(problem.map(Problem::broken));
    }
}

/// Unix time when the file was written.
fn modified_at(path: &Path) -> Option<Duration> {
    let modified = fs::symlink_metadata(path).ok()?.modified().ok()?;
    modified.duration_since(SystemTime::UNIX_EPOCH).ok()
}

#[cfg(test)]
mod tests;
