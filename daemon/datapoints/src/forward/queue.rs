//! The queue of pushes that the daemon forwards to another InfluxDB.

use super::{Handle, Precision};
use faultline_core::{
    clock::Clock,
    push_memory::{Permit, PushMemoryBudget},
};
use hyper::body::Bytes;
use memmap2::MmapMut;
use parking_lot::Mutex;
use std::{collections::VecDeque, mem, sync::Arc, time::Duration};
use tokio::sync::Notify;

/// A [`PushCopy`] grows by pieces of this size: no reallocation moves megabytes, and the used
/// memory equals the memory charged to the [`PushMemoryBudget`].
///
/// Each piece is a memory mapping of its own, unmapped with the copy. An allocator would keep
/// megabytes of holes between longer-lived allocations.
const PIECE_BYTES: u32 = 64 * 1024;
/// A shorter last piece is copied to the heap: the number of mappings is limited, and there may be
/// many small pushes.
const MIN_MAPPED_BYTES: usize = 16 * 1024;

faultline_metrics::named_enum! {
    pub enum Outcome {
        Sent = "sent",
        Lost = "lost",
        Refused = "refused",
    }
}

/// A complete body in the queue. Its memory stays charged while any reference exists, including a
/// running request.
pub struct QueuedPush {
    pub pieces: Vec<Bytes>,
    pub bytes: u64,
    pub precision: Precision,
    pub is_gzip: bool,
    /// Uptime of its last byte.
    pub arrived_at: Duration,
    _permit: Option<Permit>,
}

pub struct Queue {
    max_bytes: u64,
    clock: Clock,
    push_memory: PushMemoryBudget,
    state: Mutex<QueueState>,
    push_added: Notify,
}

#[derive(Default)]
struct QueueState {
    queued_pushes: VecDeque<Arc<QueuedPush>>,
    bytes: u64,
    /// The first push is being sent. Until the attempt ends, only [`Queue::clear`] drops it.
    is_sending_first: bool,
    /// Requests and bytes by outcome, since the start.
    totals: [(u64, u64); Outcome::ALL.len()],
}

impl Queue {
    pub fn new(max_bytes: u64, clock: Clock, push_memory: PushMemoryBudget) -> Self {
        Self {
            max_bytes,
            clock,
            push_memory,
            state: Mutex::default(),
            push_added: Notify::new(),
        }
    }

    /// Includes the push that is being sent.
    pub fn bytes(&self) -> u64 {
        self.state.lock().bytes
    }

    pub fn totals(&self, outcome: Outcome) -> (u64, u64) {
        self.state.lock().totals[outcome as usize]
    }

    /// Waits for the oldest push and marks it as being sent.
    pub async fn begin_first(&self) -> Arc<QueuedPush> {
        loop {
            if let Some(queued_push) = self.try_begin_first() {
                return queued_push;
            }
            self.push_added.notified().await;
        }
    }

    pub fn try_begin_first(&self) -> Option<Arc<QueuedPush>> {
        let mut state = self.state.lock();
        let queued_push = state.queued_pushes.front().cloned();
        state.is_sending_first = queued_push.is_some();
        queued_push
    }

    pub fn finish_first(&self, outcome: Outcome) {
        let mut state = self.state.lock();
        state.is_sending_first = false;
        state.remove_oldest(outcome);
    }

    /// Ends a failed attempt. The first push stays for a retry, unless it is `give_up_after` old:
    /// pushes of that age are lost.
    pub fn fail_first(&self, give_up_after: Duration) {
        let now = self.clock.now().uptime;
        let mut state = self.state.lock();
        state.is_sending_first = false;
        while state
            .queued_pushes
            .front()
            .is_some_and(|queued_push| now.saturating_sub(queued_push.arrived_at) >= give_up_after)
        {
            state.remove_oldest(Outcome::Lost);
        }
    }

    /// Drops all pushes as lost and returns their count and bytes.
    pub fn clear(&self) -> (u64, u64) {
        let mut state = self.state.lock();
        state.is_sending_first = false;
        let dropped = (state.queued_pushes.len() as u64, state.bytes);
        while state.remove_oldest(Outcome::Lost) {}
        dropped
    }

    fn add(&self, queued_push: QueuedPush) {
        let mut state = self.state.lock();
        let first = state.queued_pushes.front();
        let sending_bytes =
            first.map_or(0, |first| first.bytes * u64::from(state.is_sending_first));
        if sending_bytes + queued_push.bytes > self.max_bytes {
            return state.count(Outcome::Lost, queued_push.bytes);
        }
        while state.bytes + queued_push.bytes > self.max_bytes && state.remove_oldest(Outcome::Lost)
        {
        }
        state.bytes += queued_push.bytes;
        state.queued_pushes.push_back(Arc::new(queued_push));
        drop(state);
        self.push_added.notify_one();
    }

    /// Charges bytes for a growing copy. Drops older pushes if necessary.
    fn reserve(&self, bytes: u32) -> Option<Permit> {
        loop {
            if let Some(permit) = self.push_memory.try_acquire_copy(bytes) {
                return Some(permit);
            }
            if !self.state.lock().remove_oldest(Outcome::Lost) {
                return None;
            }
        }
    }
}

impl QueueState {
    /// Removes and counts the oldest push that is not being sent; false if there is none.
    fn remove_oldest(&mut self, outcome: Outcome) -> bool {
        let Some(queued_push) = self
            .queued_pushes
            .remove(usize::from(self.is_sending_first))
        else {
            return false;
        };
        self.bytes = self.bytes.saturating_sub(queued_push.bytes);
        self.count(outcome, queued_push.bytes);
        true
    }

    fn count(&mut self, outcome: Outcome, bytes: u64) {
        let (requests, total) = &mut self.totals[outcome as usize];
        *requests += 1;
        *total += bytes;
    }
}

pub struct PushCopy {
    handle: Handle,
    precision: Precision,
    is_gzip: bool,
    pieces: Vec<Bytes>,
    open_piece: Option<MmapMut>,
    open_piece_bytes: usize,
    bytes: u64,
    permit: Option<Permit>,
    is_given_up: bool,
}

impl Handle {
    /// Starts to copy a body. A complete copy is queued, an incomplete one is discarded on drop.
    pub fn copy(&self, precision: Precision, is_gzip: bool) -> PushCopy {
        PushCopy {
            handle: self.clone(),
            precision,
            is_gzip,
            pieces: Vec::new(),
            open_piece: None,
            open_piece_bytes: 0,
            bytes: 0,
            permit: None,
            is_given_up: false,
        }
    }
}

impl PushCopy {
    /// Never blocks: gives up the copy if memory is short.
    pub fn append(&mut self, mut chunk: &[u8]) {
        self.bytes = self.bytes.saturating_add(chunk.len() as u64);
        if self.bytes > self.handle.0.queue.max_bytes {
            self.give_up();
        }
        while !self.is_given_up && !chunk.is_empty() {
            let free = self
                .open_piece
                .as_mut()
                .and_then(|piece| piece.get_mut(self.open_piece_bytes..))
                .unwrap_or_default();
            if free.is_empty() {
                self.open_next_piece();
                continue;
            }
            let (fitting, later) = chunk.split_at(free.len().min(chunk.len()));
            if let Some(target) = free.get_mut(..fitting.len()) {
                target.copy_from_slice(fitting);
            }
            self.open_piece_bytes += fitting.len();
            chunk = later;
        }
    }

    /// Queues the complete body, or counts it as lost if it was given up. An empty body is
    /// discarded.
    pub fn finish(mut self) {
        if self.is_given_up {
            let mut state = self.handle.0.queue.state.lock();
            return state.count(Outcome::Lost, self.bytes);
        }
        if self.bytes == 0 {
            return;
        }
        self.store_open_piece();
        let queue = &self.handle.0.queue;
        if let Some(permit) = &mut self.permit {
            let used = usize::try_from(self.bytes).unwrap_or(usize::MAX);
            drop(permit.split(permit.num_permits().saturating_sub(used)));
        }
        queue.add(QueuedPush {
            pieces: mem::take(&mut self.pieces),
            bytes: self.bytes,
            precision: self.precision,
            is_gzip: self.is_gzip,
            arrived_at: queue.clock.now().uptime,
            _permit: self.permit.take(),
        });
    }

    fn open_next_piece(&mut self) {
        let Some(permit) = self.handle.0.queue.reserve(PIECE_BYTES) else {
            return self.give_up();
        };
        match &mut self.permit {
            Some(charged) => charged.merge(permit),
            None => self.permit = Some(permit),
        }
        self.store_open_piece();
        match MmapMut::map_anon(PIECE_BYTES as usize) {
            Ok(map) => self.open_piece = Some(map),
            Err(_) => self.give_up(),
        }
    }

    /// Stores the filled part of the open piece. Its untouched pages use no memory.
    fn store_open_piece(&mut self) {
        let Some(piece) = self.open_piece.take() else {
            return;
        };
        let filled = mem::take(&mut self.open_piece_bytes);
        self.pieces.push(match piece.get(..filled) {
            Some(short) if filled < MIN_MAPPED_BYTES => Bytes::copy_from_slice(short),
            _ => Bytes::from_owner(piece).slice(..filled),
        });
    }

    fn give_up(&mut self) {
        self.is_given_up = true;
        self.pieces = Vec::new();
        self.open_piece = None;
        self.permit = None;
    }
}
