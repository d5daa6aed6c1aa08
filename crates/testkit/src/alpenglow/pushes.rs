//! The node's pushes.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant, SystemTime},
};

use super::{answers::Answers, lock, text};
use crate::http;

const STEP: Duration = Duration::from_millis(100);
/// A number less than this far from the newest slot of a file is a slot.
const NEAR_SLOTS: u64 = 1_000;

/// A thread that pushes. It ends when dropped.
#[derive(Debug)]
pub struct Pusher {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Pusher {
    pub fn start(address: String, answers: Arc<Mutex<Answers>>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let thread_stop = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut repetitions = Repetitions::default();
            while !thread_stop.load(Ordering::Relaxed) {
                std::thread::sleep(STEP);
                let lines = repetitions.due_lines(&lock(&answers));
                let pushed = lines
                    .map(|lines| http::post(&address, "/write?db=x&precision=n", lines.as_bytes()));
                if let Some(Err(error)) = pushed {
                    eprintln!("the node cannot push: {error}");
                }
            }
        });
        Self {
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Pusher {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if self
            .thread
            .take()
            .is_some_and(|thread| thread.join().is_err())
        {
            eprintln!("the thread that pushes panicked");
        }
    }
}

/// Counts the pushes of the file since slots began to advance.
#[derive(Default)]
struct Repetitions {
    since: Option<Instant>,
    pushed: u64,
}

impl Repetitions {
    /// The file's lines if its number of slots has passed since the last push.
    fn due_lines(&mut self, answers: &Answers) -> Option<String> {
        let pace = answers.pace?;
        if self.since != Some(pace.since) {
            *self = Self {
                since: Some(pace.since),
                pushed: 0,
            };
        }
        let file = text(&format!("{}/pushed.lp", answers.phase)).ok()?;
        let (first, last) = frozen_range(&file)?;
        let slots = last - first + 1;
        if pace.slots() < (self.pushed + 1) * slots {
            return None;
        }
        let begin = pace.begin + self.pushed * slots;
        self.pushed += 1;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let by = now.ok()?.as_nanos() as i64 - file.lines().filter_map(timestamp).max()?;
        let shifted_lines = file
            .lines()
            .filter_map(|line| shifted(line, last, begin as i64 - first as i64, by));
        Some(shifted_lines.collect())
    }
}

/// The first and the last frozen slot in the file's lines.
fn frozen_range(file: &str) -> Option<(u64, u64)> {
    let lines = file.lines().filter(|line| line.starts_with("bank_frozen,"));
    let slots = lines.filter_map(|line| {
        let (_, rest) = line.split_once(" slot=")?;
        rest.split_once('i')?.0.parse().ok()
    });
    slots.fold(None, |all, slot: u64| {
        let (first, last) = all.unwrap_or((slot, slot));
        Some((first.min(slot), last.max(slot)))
    })
}

fn timestamp(line: &str) -> Option<i64> {
    line.rsplit_once(' ')?.1.parse().ok()
}

/// The line with its slots and time shifted. Its strings must not contain commas or spaces.
fn shifted(line: &str, newest: u64, slots: i64, nanos: i64) -> Option<String> {
    let (name, rest) = line.split_once(' ')?;
    let (fields, _) = rest.split_once(' ')?;
    let field = |field: &str| {
        let slot = field.split_once('=').and_then(|(name, value)| {
            let slot: u64 = value.strip_suffix('i')?.parse().ok()?;
            let is_slot = slot.abs_diff(newest) < NEAR_SLOTS;
            is_slot.then(|| format!("{name}={}i", slot.saturating_add_signed(slots)))
        });
        slot.unwrap_or_else(|| field.to_owned())
    };
    let fields: Vec<String> = fields.split(',').map(field).collect();
    Some(format!(
        "{name} {} {}\n",
        fields.join(","),
        timestamp(line)? + nanos
    ))
}

#[test]
fn only_slots_and_timestamp_of_a_line_are_shifted() {
    let line = "a,host_id=x slot=1000i,count=7i,hash=\"1000i\",new_finalized_slot=999i 5000";
    assert_eq!(
        shifted(line, 1_010, -100, 50).as_deref(),
        Some("a,host_id=x slot=900i,count=7i,hash=\"1000i\",new_finalized_slot=899i 5050\n")
    );
}
