//! The ring: a recording that drops its oldest rows, written by the recorder's thread.

use super::{
    FlightContext, SaveJob, SaveOrigin, SaveReason,
    folder::{RING_FILE, prepare, remove_interrupted_saves, set_aside},
};
use crate::recorder::{
    FollowedProcess, MAX_RETRY_DELAY, MIN_RETRY_DELAY, RecordingEntry, RecordingFile, RecordingSink,
};
use faultline_metrics::{Problem, Stamp};
use faultline_recording::{Error, Event, EventKind, NewRecording};
use serde_json::json;
use std::{
    path::Path,
    sync::{
        Arc,
        mpsc::{SyncSender, TrySendError},
    },
    time::Duration,
};

const LAST_SAVES_TIMEOUT: Duration = Duration::from_secs(5);

pub struct Ring {
    context: FlightContext,
    new_recording: NewRecording,
    jobs: SyncSender<SaveJob>,
    file: Option<RecordingFile>,
    next_attempt: Duration,
    /// The delay before `next_attempt`; zero without a failure.
    retry_delay: Duration,
    process: Option<Arc<FollowedProcess>>,
    save_scheduler: SaveScheduler,
    last_prune: Stamp,
    prune_failed: bool,
}

impl Ring {
    pub(super) fn new(
        context: FlightContext,
        new_recording: NewRecording,
        jobs: SyncSender<SaveJob>,
    ) -> Self {
        Self {
            save_scheduler: SaveScheduler::new(context.config.after, context.config.pause),
            context,
            last_prune: new_recording.session.started,
            new_recording,
            jobs,
            file: None,
            next_attempt: Duration::ZERO,
            retry_delay: Duration::ZERO,
            process: None,
            prune_failed: false,
        }
    }

    /// Opens the ring of an earlier run, or a new one. A ring that cannot be continued is kept as a
    /// saved recording under another name.
    fn open(&mut self, now: Stamp) -> Option<RecordingFile> {
        let path = self.context.folder.join(RING_FILE);
        match prepare(&self.context.folder)
            .map_err(|error| error.to_string())
            .and_then(|()| self.open_file(&path, now))
        {
            Ok(mut file) => {
                tracing::info!(path = %path.display(), "flight recorder started");
                self.retry_delay = Duration::ZERO;
                // On a full disk the file has no writer, and has reported the problem.
                if file.writer().is_some() {
                    self.context.status.set_problem(None);
                }
                // A save in progress writes to a file of the kind that this removes.
                if self.context.handle.0.state.lock().saves_in_progress == 0 {
                    remove_interrupted_saves(&self.context.folder);
                }
                Some(file)
            }
            Err(why) => {
                if self.retry_delay.is_zero() {
                    tracing::error!(why, "the flight recorder cannot write; retrying");
                }
                self.retry_delay = (self.retry_delay * 2).clamp(MIN_RETRY_DELAY, MAX_RETRY_DELAY);
                self.context
                    .status
                    .set_problem(Some(Problem::broken(format!(
                        "the flight recorder cannot write and will retry: {why}"
                    ))));
                self.next_attempt = now.uptime + self.retry_delay;
                None
            }
        }
    }

    fn open_file(&self, path: &Path, now: Stamp) -> Result<RecordingFile, String> {
        let status = &self.context.status;
        let open = || RecordingFile::open(path, &self.new_recording, Arc::clone(status));
        let mut opened = open();
        if let Err(error) = &opened
            && error.is_permanent()
            // Missing rights are no fault of the ring.
            && !matches!(error, Error::Io { .. } | Error::Sqlite { .. })
        {
            let to = set_aside(&self.context.folder, &self.context.host_name, now)
                .map_err(|why| format!("{error}; it cannot be set aside: {why}"))?;
            tracing::warn!(
                why = error.to_string(),
                to = %to.display(),
                "the flight recorder's ring cannot be continued and was set aside"
            );
            opened = open();
        }
        opened.map_err(|error| error.to_string())
    }

    /// Prunes at intervals of a tenth of the configured length (1 s to 60 s).
    fn prune_if_due(&mut self, now: Stamp) {
        let interval = self.context.config.history / 10;
        if now.since(self.last_prune)
            >= interval.clamp(Duration::from_secs(1), Duration::from_secs(60))
        {
            self.prune(now);
        }
    }

    /// Deletes old rows, as [`faultline_recording::Writer::prune`] does. Between two deletions the
    /// ring is longer than configured.
    fn prune(&mut self, now: Stamp) {
        self.last_prune = now;
        let before = now.unix.saturating_sub(self.context.config.history);
        let Some(writer) = self.file.as_mut().and_then(RecordingFile::writer) else {
            // On a full disk or after the file was removed or replaced. `open` renames a
            // replacement that is no ring.
            if let Some(mut file) = self.file.take() {
                if let Some(opened) = self.open(now) {
                    file.continue_in(opened);
                }
                self.file = Some(file);
            }
            return;
        };
        let error = writer.prune(before).err();
        if let Some(error) = &error {
            writer.rollback();
            if !self.prune_failed {
                tracing::warn!(
                    %error,
                    "cannot remove old rows from the flight recorder's ring; retrying"
                );
            }
        }
        self.prune_failed = error.is_some();
    }

    fn save_on_request(&mut self, now: Stamp) {
        let requests = std::mem::take(&mut self.context.handle.0.state.lock().requests);
        for request in requests {
            let detail = json!({ "name": "saved on request", "text": request.request_text });
            self.write(&[RecordingEntry::event(now, EventKind::Mark, detail)], now);
            self.save(SaveJob {
                queued_at: now,
                ..request
            });
        }
    }

    fn save_automatically(&mut self, reason: SaveReason, now: Stamp) {
        self.save(SaveJob {
            reason,
            origin: SaveOrigin::Automatic,
            request_text: String::new(),
            queued_at: now,
            reply: None,
        });
    }

    fn save(&mut self, job: SaveJob) {
        // After a restart, the ring may have rows of long ago.
        self.prune(job.queued_at);
        self.context.handle.0.state.lock().saves_in_progress += 1;
        let (job, why) = if self.file.is_none() {
            let why = "there is no ring; see faultline_source_up{source=\"recorder\"}";
            (job, why)
        } else {
            match self.jobs.try_send(job) {
                Ok(()) => return,
                Err(TrySendError::Full(job) | TrySendError::Disconnected(job)) => {
                    (job, "too many saves are under way")
                }
            }
        };
        self.context.handle.end_save(job, Err(why.to_owned()));
    }

    fn write(&mut self, entries: &[RecordingEntry], now: Stamp) {
        match &mut self.file {
            Some(file) => {
                if file.writer().is_none() {
                    // The folder may have been removed. If this fails, so does the write below.
                    drop(prepare(&self.context.folder));
                }
                file.write_entries(entries, now)
            }
            None => {
                let rows = entries.iter().filter(|entry| {
                    !matches!(
                        entry,
                        RecordingEntry::ProcessChange(_) | RecordingEntry::Manifest(_)
                    )
                });
                self.context.status.count_dropped(rows.count() as u64)
            }
        }
    }
}

impl RecordingSink for Ring {
    fn write_entries(&mut self, entries: &[RecordingEntry], now: Stamp) {
        if self.file.is_none() && self.next_attempt <= now.uptime {
            self.file = self.open(now);
            self.write(&[RecordingEntry::ProcessChange(self.process.clone())], now);
        }
        self.write(entries, now);
        for entry in entries {
            entry.update_process(&mut self.process);
            if let RecordingEntry::Event(Event { at, kind, .. }) = entry
                && let Some(reason) = SaveReason::for_event(*kind)
            {
                self.save_scheduler.add_event(reason, at.uptime);
            }
        }
        self.save_on_request(now);
        if let Some(reason) = self.save_scheduler.take_due(now.uptime) {
            self.save_automatically(reason, now);
        }
        self.prune_if_due(now);
    }

    fn finish(mut self: Box<Self>, now: Stamp) {
        self.save_on_request(now);
        if let Some(reason) = self.save_scheduler.take_pending() {
            self.save_automatically(reason, now);
        }
        // The ring stays open until the last save has copied it.
        self.context.handle.wait_for_saves(LAST_SAVES_TIMEOUT);
        if let Some(file) = self.file.take() {
            Box::new(file).finish(now);
        }
    }
}

/// Decides when to save the ring automatically, from events. Times are uptimes.
pub struct SaveScheduler {
    /// Delay from the event to the save, so that the save includes what follows the event.
    delay: Duration,
    min_interval: Duration,
    pending_save: Option<(SaveReason, Duration)>,
    last_save: Option<Duration>,
}

impl SaveScheduler {
    pub fn new(delay: Duration, min_interval: Duration) -> Self {
        Self {
            delay,
            min_interval,
            pending_save: None,
            last_save: None,
        }
    }

    /// Plans a save for the event. If a save is pending, it covers the event, and the most severe
    /// reason counts. A more severe reason restarts the delay. The next save begins at least
    /// `min_interval` after the last one. The ring is longer, so it still contains the event.
    pub fn add_event(&mut self, reason: SaveReason, at: Duration) {
        let earliest = self.last_save.map_or(Duration::ZERO, |last| {
            last.saturating_add(self.min_interval)
        });
        let due = at.saturating_add(self.delay).max(earliest);
        self.pending_save = Some(match self.pending_save {
            Some((pending_reason, planned)) if pending_reason <= reason => {
                (pending_reason, planned)
            }
            Some((_, planned)) => (reason, planned.max(due)),
            None => (reason, due),
        });
    }

    pub fn take_due(&mut self, now: Duration) -> Option<SaveReason> {
        let (reason, _) = self.pending_save.take_if(|(_, due)| *due <= now)?;
        self.last_save = Some(now);
        Some(reason)
    }

    pub fn take_pending(&mut self) -> Option<SaveReason> {
        self.pending_save.take().map(|(reason, _)| reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use faultline_recording::EventKind;
    use proptest::prelude::*;

    fn save_scheduler() -> SaveScheduler {
        SaveScheduler::new(s(10), s(300))
    }

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn only_oom_kills_exits_stalls_and_falling_behind_trigger_a_save() {
        let save_reasons = EventKind::ALL
            .iter()
            .filter_map(|kind| Some((*kind, SaveReason::for_event(*kind)?)))
            .collect::<Vec<_>>();
        let expected = [
            (EventKind::Exit, SaveReason::Exit),
            (EventKind::OomKill, SaveReason::OomKill),
            (EventKind::Behind, SaveReason::Behind),
            (EventKind::Stall, SaveReason::Stall),
        ];
        assert_eq!(save_reasons, expected);
    }

    #[test]
    fn a_save_waits_for_the_aftermath_and_occurs_once() {
        let mut save_scheduler = save_scheduler();
        assert_eq!(save_scheduler.take_due(s(100)), None);
        save_scheduler.add_event(SaveReason::Exit, s(100));
        assert_eq!(save_scheduler.take_due(s(109)), None);
        assert_eq!(save_scheduler.take_due(s(110)), Some(SaveReason::Exit));
        assert_eq!(
            (
                save_scheduler.take_due(s(111)),
                save_scheduler.take_pending()
            ),
            (None, None)
        );
    }

    #[test]
    fn simultaneous_triggers_save_once_named_after_the_most_severe() {
        let mut save_scheduler = save_scheduler();
        save_scheduler.add_event(SaveReason::Behind, s(100));
        save_scheduler.add_event(SaveReason::OomKill, s(105));
        save_scheduler.add_event(SaveReason::Exit, s(107));
        assert_eq!(
            save_scheduler.take_due(s(114)),
            None,
            "the kill has an aftermath of its own"
        );
        assert_eq!(save_scheduler.take_due(s(115)), Some(SaveReason::OomKill));
        assert_eq!(save_scheduler.take_due(s(1000)), None);
    }

    #[test]
    fn a_trigger_soon_after_a_save_is_delayed_not_lost() {
        let mut save_scheduler = save_scheduler();
        save_scheduler.add_event(SaveReason::Exit, s(100));
        assert_eq!(save_scheduler.take_due(s(110)), Some(SaveReason::Exit));
        save_scheduler.add_event(SaveReason::Exit, s(150));
        assert_eq!(save_scheduler.take_due(s(160)), None);
        assert_eq!(save_scheduler.take_due(s(410)), Some(SaveReason::Exit));
    }

    #[test]
    fn pending_triggers_are_returned_at_shutdown() {
        let mut save_scheduler = save_scheduler();
        save_scheduler.add_event(SaveReason::OomKill, s(100));
        assert_eq!(
            (
                save_scheduler.take_pending(),
                save_scheduler.take_due(s(200))
            ),
            (Some(SaveReason::OomKill), None)
        );
    }

    #[test]
    fn repeated_triggers_are_saved_once_per_pause() {
        let mut save_scheduler = save_scheduler();
        let mut saves = Vec::new();
        for now in 0..1000 {
            if [146, 157, 457, 756].contains(&now) {
                save_scheduler.add_event(SaveReason::Behind, s(now));
            }
            saves.extend(save_scheduler.take_due(s(now)).map(|_| now));
        }
        assert_eq!(saves, [156, 456, 756]);
    }

    proptest! {
        /// For any events: two saves are at least the pause apart, no save comes before its delay
        /// is over, and every event has a save.
        #[test]
        fn no_trigger_event_is_lost_and_the_save_pause_is_kept(events in proptest::collection::vec((0_u64..2000, 0..4_usize), 1..40)) {
            let all = [SaveReason::Stall, SaveReason::Behind, SaveReason::Exit, SaveReason::OomKill];
            let mut save_scheduler = save_scheduler();
            let mut saves: Vec<u64> = Vec::new();
            for now in 0..3000 {
                for (_, which) in events.iter().filter(|(at, _)| *at == now) {
                    save_scheduler.add_event(all[*which], s(now));
                }
                saves.extend(save_scheduler.take_due(s(now)).map(|_| now));
            }
            prop_assert!(saves.windows(2).all(|pair| pair[1] - pair[0] >= 300), "{saves:?}");
            for (at, _) in &events {
                // The delay of ten seconds, which more severe events may restart three times, after
                // the pause.
                let saved = saves.iter().find(|save| *save >= at);
                prop_assert!(saved.is_some_and(|save| save - at <= 340), "{at}: {saves:?}");
            }
        }
    }
}
