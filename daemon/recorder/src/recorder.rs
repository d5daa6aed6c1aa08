//! Records ticks, events and points in files for the lab. A point is a datapoint of the validator,
//! with the time that the validator gave it.
//!
//! Ticks, points and marks enter a bounded queue. Once a second, one thread takes them and derives
//! the events. It passes everything to each [`RecordingSink`], which writes one transaction.
//! Producers never wait: a full queue drops entries and counts them.

pub mod disks;
mod events;
mod recording_file;
mod status;

pub use recording_file::{MAX_RETRY_DELAY, MIN_RETRY_DELAY, RecordingFile};
pub use status::RecorderStatus;

use crate::manifest::ProcessManifest;
use events::{DescribeProcess, EventDetector};
use faultline_core::{
    clock::Clock,
    publish::{Latest, Sink},
    supervisor::Stop,
};
use faultline_datapoints::validator::point_recorder::{PointMessage, PointRecorder};
use faultline_metrics::{Stamp, Tick};
use faultline_recording::{Event, EventKind, Point};
use faultline_sources::{
    discovery::{EndReason, Target, TargetHandle},
    tick::{Sampler, SourceOutput},
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use status::{MarkCounts, PROBLEM_SHOWN_FOR, RecorderSampler};
use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// Transaction interval, and the maximum loss if the daemon is killed.
const COMMIT_INTERVAL: Duration = Duration::from_secs(1);

/// Time from the full second, when the tick comes, to the transaction.
const DELAY_AFTER_TICK: Duration = Duration::from_millis(250);

/// Covers a disk stall of a minute at the default interval.
const MAX_TICKS: usize = 64;

/// A point has about 350 bytes. A push every ten seconds has some hundreds of points.
const MAX_POINTS: usize = 8192;

const MAX_MARKS: usize = 64;

const GAP_REASON: &str =
    "the recorder did not keep up, or too many datapoints waited for the validator's identity";

#[derive(Clone)]
pub enum RecordingEntry {
    /// The next entries belong to this process. `None`: to no process.
    ProcessChange(Option<Arc<FollowedProcess>>),
    Tick(Arc<Tick>),
    Point(Box<Point>),
    Event(Event),
    /// New facts about the followed process, or an exec in place.
    Manifest(Arc<ProcessManifest>),
}

pub struct FollowedProcess {
    pub target: Arc<Target>,
    /// Unix time; `None` if the kernel did not report it.
    pub started_unix: Option<Duration>,
    pub first_seen: Stamp,
    pub manifest: Value,
}

impl RecordingEntry {
    /// Updates the followed process. A manifest of another process changes nothing.
    pub fn update_process(&self, process: &mut Option<Arc<FollowedProcess>>) {
        match self {
            Self::ProcessChange(followed) => process.clone_from(followed),
            Self::Manifest(new) => {
                if let Some(followed) = process
                    && followed.target.process == new.target.process
                {
                    *followed = Arc::new(FollowedProcess {
                        target: Arc::clone(&new.target),
                        manifest: new.manifest.clone(),
                        ..**followed
                    });
                }
            }
            _ => {}
        }
    }
}

/// Called on the recorder's thread once a second, also without entries.
pub trait RecordingSink: Send {
    /// Writes the entries since the last call, in order. The sink counts its own losses.
    fn write_entries(&mut self, entries: &[RecordingEntry], now: Stamp);

    fn finish(self: Box<Self>, now: Stamp);
}

#[derive(Debug)]
enum QueueMessage {
    Tick(Arc<Tick>, CurrentTarget),
    Point(Box<Point>),
    Mark(Stamp, String),
}

/// At the time of a tick.
#[derive(Debug, Clone, Default)]
struct CurrentTarget {
    target: Option<Arc<Target>>,
    /// End reason of the previous process; `None` if none has ended.
    end_reason: Option<EndReason>,
}

/// One bounded queue for all kinds of messages, with a limit for each, so that their order stays.
#[derive(Debug, Default)]
struct Queue {
    queued: Mutex<QueuedMessages>,
    dropped: AtomicU64,
}

#[derive(Debug, Default)]
struct QueuedMessages {
    messages: VecDeque<QueueMessage>,
    ticks: usize,
    points: usize,
    marks: usize,
}

impl Queue {
    /// Returns false if the queue is full. Counts the loss, except of marks, whose sender gets an
    /// error.
    fn push(&self, message: QueueMessage) -> bool {
        let mut queued = self.queued.lock();
        let (count, max, counts_loss) = match message {
            QueueMessage::Tick(..) => (&mut queued.ticks, MAX_TICKS, true),
            QueueMessage::Point(_) => (&mut queued.points, MAX_POINTS, true),
            QueueMessage::Mark(..) => (&mut queued.marks, MAX_MARKS, false),
        };
        let has_capacity = *count < max;
        if has_capacity {
            *count += 1;
            queued.messages.push_back(message);
        } else if counts_loss {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        has_capacity
    }

    fn drain(&self) -> VecDeque<QueueMessage> {
        std::mem::take(&mut *self.queued.lock()).messages
    }

    fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

#[derive(Debug, Clone)]
pub struct RecorderHandle {
    queue: Arc<Queue>,
    current: Arc<Mutex<CurrentTarget>>,
    statuses: Vec<Arc<RecorderStatus>>,
    mark_counts: Arc<MarkCounts>,
}

impl RecorderHandle {
    pub fn sink(&self) -> Box<dyn Sink> {
        Box::new(self.clone())
    }

    pub fn point_recorder(&self) -> PointRecorder {
        let queue = Arc::clone(&self.queue);
        PointRecorder::new(move |message| match message {
            PointMessage::Point(point) => drop(queue.push(QueueMessage::Point(point))),
            PointMessage::Dropped(count) => drop(queue.dropped.fetch_add(count, Ordering::Relaxed)),
        })
    }

    /// Returns a sampler that stores the tick's target in `current`, before the sinks get the tick.
    pub fn sampler(
        &self,
        target_handle: TargetHandle,
        report_flight_recorder: impl Fn(&mut SourceOutput) + Send + 'static,
    ) -> Box<dyn Sampler> {
        Box::new(RecorderSampler {
            handle: self.clone(),
            target_handle,
            report_flight_recorder: Box::new(report_flight_recorder),
            reported_dropped: 0,
            show_drops_until: Duration::ZERO,
        })
    }

    /// Queues the mark and counts it by kind. False if the queue is full.
    pub fn mark(&self, at: Stamp, name: String, kind: Option<&str>) -> bool {
        let is_queued = self.queue.push(QueueMessage::Mark(at, name));
        if is_queued {
            self.mark_counts.add(kind);
        }
        is_queued
    }
}

impl Sink for RecorderHandle {
    fn receive(&mut self, tick: &Arc<Tick>) {
        let current = self.current.lock().clone();
        self.queue
            .push(QueueMessage::Tick(Arc::clone(tick), current));
    }
}

pub struct Recorder {
    clock: Clock,
    queue: Arc<Queue>,
    event_detector: EventDetector,
    describe: DescribeProcess,
    /// The newest manifest from `describe`, completed with the facts that came later.
    completed_manifest: Latest<ProcessManifest>,
    last_manifest: Option<Arc<ProcessManifest>>,
    reported_dropped: u64,
    sinks: Vec<Box<dyn RecordingSink>>,
}

impl Recorder {
    /// `statuses` are those of the sinks that are added later. `describe` returns the manifest of a
    /// process. It runs on the recorder's thread, once per process and exec.
    pub fn new(
        clock: Clock,
        statuses: Vec<Arc<RecorderStatus>>,
        describe: impl Fn(&Target) -> Value + Send + 'static,
    ) -> (RecorderHandle, Self) {
        let queue = Arc::new(Queue::default());
        let handle = RecorderHandle {
            queue: Arc::clone(&queue),
            current: Arc::default(),
            statuses,
            mark_counts: Arc::default(),
        };
        (
            handle,
            Self {
                clock,
                queue,
                event_detector: EventDetector::default(),
                describe: Box::new(describe),
                completed_manifest: Latest::default(),
                last_manifest: None,
                reported_dropped: 0,
                sinks: Vec::new(),
            },
        )
    }

    pub fn with_completed_manifest(mut self, completed_manifest: Latest<ProcessManifest>) -> Self {
        self.completed_manifest = completed_manifest;
        self
    }

    pub fn with_sink(mut self, sink: Box<dyn RecordingSink>) -> Self {
        self.sinks.push(sink);
        self
    }

    /// Runs until `stop`, then finishes every sink. All producers must be stopped before.
    pub fn run(mut self, stop: Stop) {
        while !stop.sleep(time_until_commit(self.clock.now().uptime)) {
            self.process_queue();
        }
        self.process_queue();
        let now = self.clock.now();
        self.sinks.into_iter().for_each(|sink| sink.finish(now));
    }

    fn next_manifest(&mut self) -> Option<RecordingEntry> {
        let target = self.event_detector.target.as_ref()?;
        let manifest = self
            .completed_manifest
            .get()
            .filter(|manifest| manifest.target == *target)?;
        if self
            .last_manifest
            .as_ref()
            .is_some_and(|last| Arc::ptr_eq(last, &manifest))
        {
            return None;
        }
        self.last_manifest = Some(Arc::clone(&manifest));
        Some(RecordingEntry::Manifest(manifest))
    }

    fn process_queue(&mut self) {
        let mut entries = Vec::new();
        for message in self.queue.drain() {
            match message {
                QueueMessage::Tick(tick, current) => {
                    self.event_detector
                        .add_tick(&tick, &current, &self.describe, &mut entries)
                }
                QueueMessage::Point(point) => entries.push(RecordingEntry::Point(point)),
                QueueMessage::Mark(at, name) => {
                    entries.push(RecordingEntry::event(
                        at,
                        EventKind::Mark,
                        json!({ "name": name }),
                    ));
                }
            }
        }
        entries.extend(self.next_manifest());
        let now = self.clock.now();
        let before = std::mem::replace(&mut self.reported_dropped, self.queue.dropped());
        if self.reported_dropped > before {
            let detail = json!({ "why": GAP_REASON, "entries": self.reported_dropped - before });
            entries.push(RecordingEntry::event(now, EventKind::Gap, detail));
        }
        self.sinks
            .iter_mut()
            .for_each(|sink| sink.write_entries(&entries, now));
    }
}

fn time_until_commit(uptime: Duration) -> Duration {
    let since_second = Duration::from_nanos(uptime.subsec_nanos().into());
    let remaining = COMMIT_INTERVAL + DELAY_AFTER_TICK - since_second;
    if remaining > COMMIT_INTERVAL {
        remaining - COMMIT_INTERVAL
    } else {
        remaining
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stores the entries.
    struct Memory(Arc<Mutex<Vec<RecordingEntry>>>);

    impl RecordingSink for Memory {
        fn write_entries(&mut self, entries: &[RecordingEntry], _: Stamp) {
            self.0.lock().extend_from_slice(entries);
        }

        fn finish(self: Box<Self>, _: Stamp) {}
    }

    #[test]
    fn dropped_ticks_leave_a_gap_recorded_once() {
        let (handle, recorder) = Recorder::new(Clock::start(), Vec::new(), |_| Value::Null);
        let saved_entries = Arc::default();
        let mut recorder = recorder.with_sink(Box::new(Memory(Arc::clone(&saved_entries))));
        let mut sink = handle.sink();
        for number in 0..1000 {
            sink.receive(&Arc::new(Tick {
                number,
                at: Stamp::default(),
                batches: Vec::new(),
            }));
        }
        let dropped = handle.queue.dropped();
        assert!(dropped > 0);
        recorder.process_queue();
        recorder.process_queue();
        let saved_entries = saved_entries.lock();
        let gaps: Vec<&Event> = saved_entries
            .iter()
            .filter_map(|entry| match entry {
                RecordingEntry::Event(event) if event.kind == EventKind::Gap => Some(event),
                _ => None,
            })
            .collect();
        assert_eq!(gaps.len(), 1);
        assert!(
            gaps[0].detail.contains(&format!("\"entries\":{dropped}")),
            "{}",
            gaps[0].detail
        );
    }

    #[test]
    fn a_late_description_of_the_previous_program_is_ignored() {
        let target = |comm: &str| Target {
            process: faultline_kernel::ProcessId {
                pid: 7,
                start_ticks: 1,
            },
            comm: comm.to_owned(),
            exe: None,
            validator: None,
            ledger: None,
            found_by: "pid",
        };
        let (handle, recorder) =
            Recorder::new(Clock::start(), Vec::new(), |target| json!(target.comm));
        let (saved_entries, completed_manifest) = (Arc::default(), Latest::default());
        let mut recorder = recorder
            .with_completed_manifest(completed_manifest.clone())
            .with_sink(Box::new(Memory(Arc::clone(&saved_entries))));
        for (number, comm, late) in [(1, "sh", "sh"), (2, "v", "sh"), (3, "v", "v")] {
            *handle.current.lock() = CurrentTarget {
                target: Some(Arc::new(target(comm))),
                end_reason: None,
            };
            handle.clone().receive(&Arc::new(Tick {
                number,
                at: Stamp::default(),
                batches: Vec::new(),
            }));
            let described = ProcessManifest {
                target: Arc::new(target(late)),
                manifest: json!(format!("late {late}")),
            };
            completed_manifest.set(Some(Arc::new(described)));
            recorder.process_queue();
        }
        let saved_entries = saved_entries.lock();
        let texts = saved_entries.iter().filter_map(|entry| match entry {
            RecordingEntry::Manifest(more) => more.manifest.as_str().map(str::to_owned),
            _ => None,
        });
        assert_eq!(texts.collect::<Vec<_>>(), ["late sh", "v", "late v"]);
    }

    #[test]
    fn the_recorder_wakes_every_second_250_ms_after_the_tick() {
        let ms = Duration::from_millis;
        for (uptime, wait) in [
            (0, 250),
            (5_100, 150),
            (5_250, 1000),
            (5_300, 950),
            (5_999, 251),
        ] {
            assert_eq!(time_until_commit(ms(uptime)), ms(wait), "{uptime}");
        }
    }

    fn mark(name: &str) -> QueueMessage {
        QueueMessage::Mark(Stamp::default(), name.to_owned())
    }

    fn tick(number: u64) -> QueueMessage {
        let tick = Tick {
            number,
            at: Stamp::default(),
            batches: Vec::new(),
        };
        QueueMessage::Tick(Arc::new(tick), CurrentTarget::default())
    }

    #[test]
    fn a_full_recorder_queue_counts_dropped_ticks_but_accepts_other_kinds() {
        let queue = Queue::default();
        let taken = (0..MAX_TICKS as u64 + 5)
            .filter(|number| queue.push(tick(*number)))
            .count();
        assert_eq!((taken, queue.dropped()), (MAX_TICKS, 5));
        assert!(queue.push(mark("a")));
        let all = queue.drain();
        assert_eq!(all.len(), MAX_TICKS + 1);
        assert!(matches!(all.back(), Some(QueueMessage::Mark(_, name)) if name == "a"));
        assert!(queue.push(tick(99)), "what was taken has made room");
        assert!((0..=MAX_MARKS).any(|_| !queue.push(mark("a"))));
        assert_eq!(
            queue.dropped(),
            5,
            "the sender of a mark gets an error instead"
        );
    }
}
