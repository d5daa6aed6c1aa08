//! Limits the memory of pushes, however many arrive and however long the upstream is down. Three
//! separate shares, 34 MiB together:
//!
//! **pushes** (8 MiB): memory to parse a body. A push acquires the memory before it reads its body
//! and releases it when the body is read. Without free memory the push waits. The sender waits too,
//! because its bytes stay in the socket.
//!
//! **decoders** (2 MiB): extra memory of a gzip body, acquired first. Gzip bodies wait for slow gzip
//! bodies. Plain bodies, which validators send, do not.
//!
//! **copies** (24 MiB): bodies for the upstream Influx server. A copy never waits: without free
//! memory older copies are dropped. If too little is free then, the copy is lost and counted.
//!
//! No deadlock: copies never wait. A push waits only at its start, first for the decoder share and
//! then for the push share, never in the other order. Every push releases its memory in bounded
//! time: a body has a deadline.
//!
//! Not charged: read buffers of the connections (2 MiB, see `ingest`) and the allocator's rounding.

use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub const PUSH_SHARE_BYTES: u32 = 8 * 1024 * 1024;
pub const DECODER_SHARE_BYTES: u32 = 2 * 1024 * 1024;
/// The configuration allows a queue of 24,000,000 bytes, which fits.
pub const COPY_SHARE_BYTES: u32 = 24 * 1024 * 1024;

#[derive(Clone)]
pub struct PushMemoryBudget {
    pub pushes: Share,
    /// Acquire from it before `pushes`.
    pub decoders: Share,
    copies: Share,
}

/// Bytes of a share, returned on drop.
pub type Permit = OwnedSemaphorePermit;

#[derive(Clone)]
pub struct Share {
    bytes: u32,
    free: Arc<Semaphore>,
}

impl Default for PushMemoryBudget {
    fn default() -> Self {
        Self::new(PUSH_SHARE_BYTES, COPY_SHARE_BYTES)
    }
}

impl PushMemoryBudget {
    /// The share of decoders has its default size.
    pub fn new(pushes: u32, copies: u32) -> Self {
        Self {
            pushes: Share::new(pushes),
            decoders: Share::new(DECODER_SHARE_BYTES),
            copies: Share::new(copies),
        }
    }

    /// `None` if the bytes are not free now.
    pub fn try_acquire_copy(&self, bytes: u32) -> Option<Permit> {
        Arc::clone(&self.copies.free)
            .try_acquire_many_owned(bytes)
            .ok()
    }

    pub fn used_bytes(&self) -> u64 {
        self.pushes.used_bytes() + self.decoders.used_bytes() + self.copies.used_bytes()
    }
}

impl Share {
    fn new(bytes: u32) -> Self {
        Self {
            bytes,
            free: Arc::new(Semaphore::new(bytes as usize)),
        }
    }

    /// Waits for free bytes. A request above the share's size gets the whole share. Never `None`:
    /// only a closed semaphore returns it, and this one is never closed.
    pub async fn acquire(&self, bytes: u32) -> Option<Permit> {
        let bytes = bytes.min(self.bytes);
        Arc::clone(&self.free).acquire_many_owned(bytes).await.ok()
    }

    fn used_bytes(&self) -> u64 {
        u64::from(self.bytes).saturating_sub(self.free.available_permits() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn a_push_waits_for_another_push_but_not_for_copies() {
        let budget = PushMemoryBudget::new(100, 50);
        let copy = budget.try_acquire_copy(50);
        let first = budget.pushes.acquire(80).now_or_never();
        assert!(first.is_some());
        assert!(budget.pushes.acquire(80).now_or_never().is_none());
        drop(first);
        assert!(budget.pushes.acquire(80).now_or_never().is_some());
        drop(copy);
        assert_eq!(budget.used_bytes(), 0);
    }

    #[test]
    fn gzip_pushes_wait_only_for_other_gzip_pushes() {
        let budget = PushMemoryBudget::new(100, 50);
        let all = budget.decoders.acquire(DECODER_SHARE_BYTES).now_or_never();
        assert!(all.is_some() && budget.decoders.acquire(1).now_or_never().is_none());
        assert!(budget.pushes.acquire(100).now_or_never().is_some());
        drop(all);
        assert_eq!(budget.used_bytes(), 0);
    }

    #[test]
    fn a_push_copy_beyond_its_memory_share_is_refused_immediately() {
        let budget = PushMemoryBudget::new(100, 50);
        let held = budget.try_acquire_copy(40);
        assert!(budget.try_acquire_copy(11).is_none());
        drop(held);
        assert!(budget.try_acquire_copy(11).is_some());
    }

    #[test]
    fn a_request_above_the_memory_budget_gets_all_of_it() {
        let budget = PushMemoryBudget::new(100, 50);
        let permit = budget.pushes.acquire(101).now_or_never().flatten();
        assert_eq!(permit.unwrap().num_permits(), 100);
    }
}
