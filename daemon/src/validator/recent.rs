//! Which lines were counted lately, so that a batch that arrives twice counts once.

use foldhash::{HashSet, quality};
use std::collections::VecDeque;
use std::hash::BuildHasher;

/// How many lines are remembered: with slots of 0.2 s and four kinds of deltas about seven minutes, over half a minute at
/// the pace of a catch-up. A repetition comes from a retrying proxy and follows within seconds.
const REMEMBERED: usize = 8192;

/// Hashes of the newest lines, with a seed that differs from run to run. Two different lines collide once in 2^51 at this
/// size. The hash takes a tenth of the time of the standard library's, which for a long line was more than all the rest.
#[derive(Debug, Clone, Default)]
pub struct Recent {
    hasher: quality::RandomState,
    known: HashSet<u64>,
    order: VecDeque<u64>,
}

impl Recent {
    /// Remembers the line; false if it was remembered already.
    pub fn insert(&mut self, line: &[u8]) -> bool {
        let hash = self.hasher.hash_one(line);
        if !self.known.insert(hash) {
            return false;
        }
        self.order.push_back(hash);
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_counts_once_and_memory_is_bounded() {
        let mut recent = Recent::default();
        assert!(recent.insert(b"a"));
        assert!(!recent.insert(b"a"));
        for i in 0..3 * REMEMBERED {
            assert!(recent.insert(format!("line {i}").as_bytes()));
        }
        assert_eq!(recent.known.len(), REMEMBERED);
        assert_eq!(recent.order.len(), REMEMBERED);
    }
}
