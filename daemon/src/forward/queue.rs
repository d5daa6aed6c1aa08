//! Pushes that wait for the upstream, oldest first, within a bound.

use super::{Handle, Precision};
use crate::clock::Clock;
use crate::push_memory::{Budget, Permit};
use hyper::body::Bytes;
use memmap2::MmapMut;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// A copy grows by pieces of this size, so that no reallocation moves megabytes and what it costs is what it is charged.
///
/// Each is a mapping of its own: it goes back to the kernel with the copy, while an allocator would keep megabytes of
/// holes between longer-lived allocations.
const PIECE: u32 = 64 * 1024;
/// A last piece shorter than this goes to the heap: mappings are counted, and small pushes may be many.
const SHORT: usize = 16 * 1024;

/// What became of a push.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Sent,
    Lost,
    Refused,
}

pub(super) const RESULTS: [Outcome; 3] = [Outcome::Sent, Outcome::Lost, Outcome::Refused];

impl Outcome {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Outcome::Sent => "sent",
            Outcome::Lost => "lost",
            Outcome::Refused => "refused",
        }
    }
}

/// A complete body. Its bytes are charged as long as anybody holds it, a request in progress included.
#[derive(Debug)]
pub(super) struct Parcel {
    pub(super) pieces: Vec<Bytes>,
    pub(super) bytes: u64,
    pub(super) precision: Precision,
    pub(super) gzip: bool,
    /// Uptime at which its last byte came.
    pub(super) arrived: Duration,
    _permit: Option<Permit>,
}

#[derive(Debug)]
pub(super) struct Queue {
    limit: u64,
    clock: Clock,
    budget: Budget,
    waiting: Mutex<Waiting>,
    arrived: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    parcels: VecDeque<Arc<Parcel>>,
    bytes: u64,
    /// The first parcel is being sent now: it may arrive, so it cannot be dropped and called lost.
    sending: bool,
    /// Requests and bytes with each outcome since the start.
    tally: [(u64, u64); RESULTS.len()],
}

impl Queue {
    pub(super) fn new(limit: u64, clock: Clock, budget: Budget) -> Self {
        Queue {
            limit,
            clock,
            budget,
            waiting: Mutex::default(),
            arrived: Notify::new(),
        }
    }

    /// How many wait, and their bytes; one that is being sent still waits.
    pub(super) fn waiting(&self) -> (u64, u64) {
        let waiting = self.waiting.lock();
        (waiting.parcels.len() as u64, waiting.bytes)
    }

    /// Requests and bytes with this outcome since the start.
    pub(super) fn counted(&self, outcome: Outcome) -> (u64, u64) {
        self.waiting.lock().tally[outcome as usize]
    }

    /// The oldest parcel, which from now on is being sent; waits until there is one.
    pub(super) async fn first(&self) -> Arc<Parcel> {
        loop {
            if let Some(parcel) = self.try_first() {
                return parcel;
            }
            self.arrived.notified().await;
        }
    }

    /// The oldest parcel, which from now on is being sent; `None` if none waits.
    pub(super) fn try_first(&self) -> Option<Arc<Parcel>> {
        let mut waiting = self.waiting.lock();
        let parcel = waiting.parcels.front().cloned();
        waiting.sending = parcel.is_some();
        parcel
    }

    /// The parcel that was being sent has an outcome.
    pub(super) fn done(&self, outcome: Outcome) {
        let mut waiting = self.waiting.lock();
        waiting.sending = false;
        waiting.drop_oldest(outcome);
    }

    /// The parcel that was being sent did not arrive and waits again. Parcels older than `give_up_after` are lost.
    pub(super) fn failed(&self, give_up_after: Duration) {
        let now = self.clock.now().uptime;
        let mut waiting = self.waiting.lock();
        waiting.sending = false;
        while waiting
            .parcels
            .front()
            .is_some_and(|parcel| now.saturating_sub(parcel.arrived) >= give_up_after)
        {
            waiting.drop_oldest(Outcome::Lost);
        }
    }

    /// Gives up everything; how many pushes and bytes that were.
    pub(super) fn clear(&self) -> (u64, u64) {
        let mut waiting = self.waiting.lock();
        waiting.sending = false;
        let left = (waiting.parcels.len() as u64, waiting.bytes);
        while waiting.drop_oldest(Outcome::Lost) {}
        left
    }

    fn add(&self, parcel: Parcel) {
        let mut waiting = self.waiting.lock();
        while waiting.bytes.saturating_add(parcel.bytes) > self.limit {
            if !waiting.drop_oldest(Outcome::Lost) {
                return waiting.count(Outcome::Lost, parcel.bytes);
            }
        }
        waiting.bytes += parcel.bytes;
        waiting.parcels.push_back(Arc::new(parcel));
        drop(waiting);
        self.arrived.notify_one();
    }

    /// Bytes for a copy that grows; older parcels give way.
    fn room(&self, bytes: u32) -> Option<Permit> {
        loop {
            if let Some(permit) = self.budget.copy(bytes) {
                return Some(permit);
            }
            if !self.waiting.lock().drop_oldest(Outcome::Lost) {
                return None;
            }
        }
    }
}

impl Waiting {
    /// Drops the oldest parcel that is not being sent and counts it; false if there is none.
    fn drop_oldest(&mut self, outcome: Outcome) -> bool {
        let Some(parcel) = self.parcels.remove(usize::from(self.sending)) else {
            return false;
        };
        self.bytes = self.bytes.saturating_sub(parcel.bytes);
        self.count(outcome, parcel.bytes);
        true
    }

    fn count(&mut self, outcome: Outcome, bytes: u64) {
        let (requests, total) = &mut self.tally[outcome as usize];
        *requests += 1;
        *total += bytes;
    }
}

/// The copy of a body that is still arriving.
#[derive(Debug)]
pub struct Copy {
    handle: Handle,
    precision: Precision,
    gzip: bool,
    pieces: Vec<Bytes>,
    /// The piece being filled, and how far it is.
    last: Option<MmapMut>,
    filled: usize,
    bytes: u64,
    permit: Option<Permit>,
    given_up: bool,
}

impl Copy {
    pub(super) fn new(handle: Handle, precision: Precision, gzip: bool) -> Self {
        let (pieces, last) = (Vec::new(), None);
        Copy {
            handle,
            precision,
            gzip,
            pieces,
            last,
            filled: 0,
            bytes: 0,
            permit: None,
            given_up: false,
        }
    }

    /// Takes the next bytes as they came. Never waits: without room the copy is given up.
    pub fn add(&mut self, mut chunk: &[u8]) {
        self.bytes = self.bytes.saturating_add(chunk.len() as u64);
        if self.bytes > self.handle.0.queue.limit {
            self.give_up();
        }
        while !self.given_up && !chunk.is_empty() {
            let free = self
                .last
                .as_mut()
                .and_then(|last| last.get_mut(self.filled..))
                .unwrap_or_default();
            if free.is_empty() {
                self.next_piece();
                continue;
            }
            let (now, later) = chunk.split_at(free.len().min(chunk.len()));
            if let Some(place) = free.get_mut(..now.len()) {
                place.copy_from_slice(now);
            }
            self.filled += now.len();
            chunk = later;
        }
    }

    /// The body is complete: it joins the queue, or counts as lost if it was given up. An empty one is forgotten.
    pub fn complete(mut self) {
        if self.given_up {
            let mut waiting = self.handle.0.queue.waiting.lock();
            return waiting.count(Outcome::Lost, self.bytes);
        }
        if self.bytes == 0 {
            return;
        }
        self.keep_last();
        let queue = &self.handle.0.queue;
        if let Some(permit) = &mut self.permit {
            let used = usize::try_from(self.bytes).unwrap_or(usize::MAX);
            drop(permit.split(permit.num_permits().saturating_sub(used)));
        }
        queue.add(Parcel {
            pieces: std::mem::take(&mut self.pieces),
            bytes: self.bytes,
            precision: self.precision,
            gzip: self.gzip,
            arrived: queue.clock.now().uptime,
            _permit: self.permit.take(),
        });
    }

    fn next_piece(&mut self) {
        let Some(permit) = self.handle.0.queue.room(PIECE) else {
            return self.give_up();
        };
        match &mut self.permit {
            Some(mine) => mine.merge(permit),
            None => self.permit = Some(permit),
        }
        self.keep_last();
        match MmapMut::map_anon(PIECE as usize) {
            Ok(map) => self.last = Some(map),
            Err(_) => self.give_up(),
        }
    }

    /// The piece being filled is done: its untouched pages cost nothing.
    fn keep_last(&mut self) {
        let Some(last) = self.last.take() else { return };
        let filled = std::mem::take(&mut self.filled);
        self.pieces.push(match last.get(..filled) {
            Some(short) if filled < SHORT => Bytes::copy_from_slice(short),
            _ => Bytes::from_owner(last).slice(..filled),
        });
    }

    fn give_up(&mut self) {
        self.given_up = true;
        self.pieces = Vec::new();
        self.last = None;
        self.permit = None;
    }
}
