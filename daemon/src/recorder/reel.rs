//! One file being recorded: a transaction for what a turn brings, and what happens when the disk does not take it.

use super::account::Account;
use super::{Entry, Followed, Tape};
use crate::manifest::Described;
use faultline_catalog::{Problem, Stamp, Status};
use faultline_recording::{Error, EventKind, NewProcess, Opening, Writer};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// From checkpoint to checkpoint: what a power cut may cost.
const CHECKPOINT_EVERY: Duration = Duration::from_secs(60);

/// The first pause after a failure; each further one doubles it.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// No pause is longer.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// A recording being written. While it cannot be, what comes is dropped and counted, it is tried again after growing
/// pauses, and once it works again an event says what is missing.
pub struct Reel {
    path: PathBuf,
    writer: Writer,
    account: Arc<Account>,
    /// Who is followed.
    process: Option<Arc<Followed>>,
    /// Whether the file knows.
    told: bool,
    /// Whether the file has all that is known about it.
    described: bool,
    trouble: Option<Trouble>,
    checkpointed: Stamp,
}

/// Since when nothing is written.
#[derive(Debug)]
struct Trouble {
    since: Stamp,
    pause: Duration,
    next: Duration,
    entries: u64,
    why: String,
}

impl Reel {
    /// Creates the file, or goes on with a recording of the same labels, and writes that the daemon has started.
    ///
    /// # Errors
    /// The file cannot be made or written, or is not what can be gone on with.
    pub fn open(path: &Path, opening: &Opening, account: Arc<Account>) -> Result<Reel, Error> {
        let mut reel = Reel::over(Writer::append(path, opening)?, path, opening.session.started, account);
        let detail = json!({ "version": opening.session.version, "pid": std::process::id() });
        reel.put(&Entry::event(opening.session.started, EventKind::DaemonStart, &detail))?;
        let rows = reel.writer.commit()?;
        reel.account.wrote(rows);
        Ok(reel)
    }

    /// Over a writer that is open already.
    pub fn over(writer: Writer, path: &Path, opened: Stamp, account: Arc<Account>) -> Reel {
        let path = path.to_owned();
        Reel { path, writer, account, process: None, told: true, described: true, trouble: None, checkpointed: opened }
    }

    /// For what else can be done with the file, between two turns.
    pub fn writer(&mut self) -> &mut Writer {
        &mut self.writer
    }

    fn put(&mut self, entry: &Entry) -> Result<(), Error> {
        match entry {
            Entry::Tick(tick) => self.writer.tick(tick),
            Entry::Point(point) => self.writer.point(point),
            Entry::Event(event) => self.writer.event(event),
            Entry::Process(process) => self.follow(process.as_deref()),
            Entry::Known(described) => self.writer.describe_process(&described.manifest),
        }
    }

    fn follow(&mut self, process: Option<&Followed>) -> Result<(), Error> {
        let Some(followed) = process else {
            self.writer.no_process();
            return Ok(());
        };
        self.writer.process(&NewProcess {
            pid: followed.target.process.pid,
            started_unix: followed.started_unix,
            seen: followed.seen,
            manifest: followed.manifest.clone(),
        })
    }

    /// More is known of the process, whether it can be written or not.
    fn know(&mut self, described: &Described) {
        let Some(followed) = self.process.as_deref().filter(|one| one.target.process == described.process) else {
            return;
        };
        let (target, manifest) = (Arc::clone(&followed.target), described.manifest.clone());
        let (started_unix, seen) = (followed.started_unix, followed.seen);
        self.process = Some(Arc::new(Followed { target, started_unix, seen, manifest }));
        self.described = false;
    }

    /// One transaction.
    fn transact(&mut self, entries: &[Entry], now: Stamp) -> Result<u64, Error> {
        if let Some(trouble) = &self.trouble {
            let seconds = now.since(trouble.since).as_secs_f64();
            let detail = json!({ "why": trouble.why, "entries": trouble.entries, "seconds": seconds });
            self.put(&Entry::event(now, EventKind::Gap, &detail))?;
        }
        if !self.told {
            let process = self.process.clone();
            self.follow(process.as_deref())?;
        } else if let (false, Some(followed)) = (self.described, self.process.clone()) {
            self.writer.describe_process(&followed.manifest)?;
        }
        for entry in entries {
            self.put(entry)?;
        }
        self.writer.commit()
    }

    fn failed(&mut self, error: &Error, lost: u64, now: Stamp) {
        let (path, why) = (self.path.display(), error.to_string());
        let pause = match &self.trouble {
            None => {
                tracing::error!(recorder = self.account.name(), %path, why, "cannot be written; exporting goes on");
                FIRST_PAUSE
            }
            Some(trouble) => (trouble.pause * 2).min(LONGEST_PAUSE),
        };
        self.account.say(Some(Problem::new(Status::Broken, format!("not recorded, tried again: {why}"))));
        let trouble = self.trouble.get_or_insert(Trouble { since: now, pause, next: now.uptime, entries: 0, why });
        (trouble.pause, trouble.next) = (pause, now.uptime + pause);
        self.drop_entries(lost);
    }

    fn drop_entries(&mut self, count: u64) {
        self.account.dropped(count);
        if let Some(trouble) = &mut self.trouble {
            trouble.entries += count;
        }
    }

    /// Moves what was written from the log into the file, from time to time.
    fn checkpoint(&mut self, now: Stamp) {
        if now.since(self.checkpointed) < CHECKPOINT_EVERY || self.trouble.is_some() {
            return;
        }
        self.checkpointed = now;
        if !self.path.exists() {
            let what =
                format!("{} was removed or moved: what is recorded now ends with the daemon", self.path.display());
            self.account.say(Some(Problem::new(Status::Gone, what)));
        }
        if let Err(error) = self.writer.checkpoint() {
            // What is in the log is safe there; the next turn shows whether it takes more.
            self.writer.rollback();
            tracing::warn!(recorder = self.account.name(), %error, "the recording's log could not be moved into it");
        }
    }
}

/// What the entries without rows of their own are not.
fn counted(entries: &[Entry]) -> u64 {
    entries.iter().filter(|entry| !matches!(entry, Entry::Process(_) | Entry::Known(_))).count() as u64
}

impl Tape for Reel {
    fn take(&mut self, entries: &[Entry], now: Stamp) {
        let newest = entries.iter().rev().find_map(|entry| match entry {
            Entry::Process(process) => Some(process.clone()),
            _ => None,
        });
        let pausing = self.trouble.as_ref().is_some_and(|trouble| now.uptime < trouble.next);
        let nothing = entries.is_empty() && self.trouble.is_none();
        let written = if pausing || nothing { None } else { Some(self.transact(entries, now)) };
        if let Some(process) = newest {
            self.process = process;
            self.told = false;
        }
        for described in
            entries.iter().filter_map(|entry| if let Entry::Known(more) = entry { Some(more) } else { None })
        {
            self.know(described);
        }
        match written {
            None => self.drop_entries(counted(entries)),
            Some(Ok(rows)) => {
                (self.told, self.described) = (true, true);
                self.account.wrote(rows);
                if let Some(trouble) = self.trouble.take() {
                    let seconds = now.since(trouble.since).as_secs();
                    tracing::info!(recorder = self.account.name(), seconds, lost = trouble.entries, "is written again");
                    self.account.say(None);
                }
            }
            Some(Err(error)) => {
                self.writer.rollback();
                self.failed(&error, counted(entries), now);
            }
        }
        self.checkpoint(now);
    }

    fn finish(mut self: Box<Self>, now: Stamp) {
        // The last try, whatever the pause.
        if let Some(trouble) = &mut self.trouble {
            trouble.next = now.uptime;
        }
        self.take(&[Entry::event(now, EventKind::DaemonStop, &json!({}))], now);
        let (path, writer) = (self.path, self.writer);
        match writer.finish(now) {
            Ok(()) => tracing::info!(path = %path.display(), "the recording is finished"),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "the recording can be read, but is not finished")
            }
        }
    }
}

#[cfg(test)]
mod tests;
