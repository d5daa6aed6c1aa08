//! How many bytes pushes may occupy in the daemon, however many arrive and however long the upstream is down.
//!
//! Three shares that never lend to each other, 34 MiB together:
//!
//! * **pushes** (8 MiB): what it takes to parse a body from the stream. A push takes its share once, before the first
//!   byte of its body is read, and gives it back with its answer. When there is none it waits, and so does the sender,
//!   whose bytes stay in the socket.
//! * **decoders** (2 MiB): what a packed body takes beyond that, taken before it. Packed bodies wait for each other here,
//!   so that no plain one waits for them, however slowly they come: a validator's are plain.
//! * **copies** (24 MiB): bodies kept for the upstream Influx server. Taking from it never waits: a copy that finds no
//!   room drops older ones, and if that is not enough it is given up and counted as lost.
//!
//! Why this cannot deadlock: copies do not wait at all; a push waits only at its beginning, for a decoder with empty
//! hands and for the rest with at most a decoder, which those who have the rest do not wait for; and whoever holds
//! parsing memory gives it back in bounded time, because a body has a deadline and its answer waits for no sink.
//!
//! Not charged: the connections' read buffers (2 MiB for all, see `ingest`), and what the allocator rounds up.

use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub const PUSHES: u32 = 8 * 1024 * 1024;
pub const DECODERS: u32 = 2 * 1024 * 1024;
/// Bytes for copies. The configuration allows a queue of 24,000,000 bytes, which fits.
pub const COPIES: u32 = 24 * 1024 * 1024;

/// The shares. Clones share them.
#[derive(Debug, Clone)]
pub struct Budget {
    pushes: Share,
    decoders: Share,
    copies: Share,
}

/// Bytes taken from a share; given back when dropped.
pub type Permit = OwnedSemaphorePermit;

#[derive(Debug, Clone)]
struct Share {
    bytes: u32,
    free: Arc<Semaphore>,
}

impl Default for Budget {
    fn default() -> Self {
        Self::new(PUSHES, COPIES)
    }
}

impl Budget {
    /// A budget with shares of these sizes, and the usual one for decoders.
    pub fn new(pushes: u32, copies: u32) -> Self {
        Budget {
            pushes: Share::new(pushes),
            decoders: Share::new(DECODERS),
            copies: Share::new(copies),
        }
    }

    /// Bytes for parsing a push; waits until they are free. Asking for more than the whole share gets the whole share.
    pub async fn push(&self, bytes: u32) -> Option<Permit> {
        self.pushes.take(bytes).await
    }

    /// The same for the decoder of a packed one, which is asked for first.
    pub async fn decoder(&self, bytes: u32) -> Option<Permit> {
        self.decoders.take(bytes).await
    }

    /// Bytes for a copy; `None` if they are not free now.
    pub fn copy(&self, bytes: u32) -> Option<Permit> {
        Arc::clone(&self.copies.free)
            .try_acquire_many_owned(bytes)
            .ok()
    }

    /// Bytes taken from all shares.
    pub fn in_use(&self) -> u64 {
        self.pushes.taken() + self.decoders.taken() + self.copies.taken()
    }
}

impl Share {
    fn new(bytes: u32) -> Self {
        Share {
            bytes,
            free: Arc::new(Semaphore::new(bytes as usize)),
        }
    }

    /// `None` only of a closed semaphore, and nobody closes this one.
    async fn take(&self, bytes: u32) -> Option<Permit> {
        let bytes = bytes.min(self.bytes);
        Arc::clone(&self.free).acquire_many_owned(bytes).await.ok()
    }

    fn taken(&self) -> u64 {
        u64::from(self.bytes).saturating_sub(self.free.available_permits() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn a_push_waits_for_another_push_but_not_for_copies() {
        let budget = Budget::new(100, 50);
        let copy = budget.copy(50);
        let first = budget.push(80).now_or_never();
        assert!(first.is_some());
        assert!(budget.push(80).now_or_never().is_none());
        drop(first);
        assert!(budget.push(80).now_or_never().is_some());
        drop(copy);
        assert_eq!(budget.in_use(), 0);
    }

    #[test]
    fn packed_pushes_wait_for_each_other_and_plain_ones_do_not_wait_for_them() {
        let budget = Budget::new(100, 50);
        let all = budget.decoder(DECODERS).now_or_never();
        assert!(all.is_some() && budget.decoder(1).now_or_never().is_none());
        assert!(budget.push(100).now_or_never().is_some());
        drop(all);
        assert_eq!(budget.in_use(), 0);
    }

    #[test]
    fn a_copy_is_refused_at_once_when_its_share_is_taken() {
        let budget = Budget::new(100, 50);
        let held = budget.copy(40);
        assert!(budget.copy(11).is_none());
        drop(held);
        assert!(budget.copy(11).is_some());
    }

    #[test]
    fn a_request_for_more_than_there_is_gets_everything_instead_of_waiting_forever() {
        let budget = Budget::new(100, 50);
        let permit = budget.push(101).now_or_never().flatten();
        assert_eq!(permit.unwrap().num_permits(), 100);
    }
}
