//! Recently counted lines, so that a push that arrives twice counts once.

use foldhash::{HashSet, quality};
use std::{collections::VecDeque, hash::BuildHasher};

/// Covers about seven minutes at slots of 0.2 s with four lines each, and over half a minute of a
/// catch-up. Repetitions come within seconds, from a retrying proxy.
const MAX_HASHES: usize = 8192;

/// Hashes of the newest lines with a random seed. A new line is mistaken for one of them once in
/// 2^51.
#[derive(Default)]
pub struct RecentLines {
    hasher: quality::RandomState,
    hashes: HashSet<u64>,
    order: VecDeque<u64>,
}

impl RecentLines {
    pub fn insert(&mut self, line: &[u8]) -> bool {
        let hash = self.hasher.hash_one(line);
        if !self.hashes.insert(hash) {
            return false;
        }
        self.order.push_back(hash);
        if self.order.len() > MAX_HASHES
            && let Some(oldest) = self.order.pop_front()
        {
            self.hashes.remove(&oldest);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_line_counts_once_with_bounded_memory() {
        let mut recent = RecentLines::default();
        assert!(recent.insert(b"a"));
        assert!(!recent.insert(b"a"));
        for i in 0..3 * MAX_HASHES {
            assert!(recent.insert(format!("line {i}").as_bytes()));
        }
        assert_eq!(recent.hashes.len(), MAX_HASHES);
        assert_eq!(recent.order.len(), MAX_HASHES);
    }
}
