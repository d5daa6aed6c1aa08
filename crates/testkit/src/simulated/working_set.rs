//! The part of a file that replay needs. A slot takes a fixed virtual time, plus some for each page that is not in memory.
//! Disk and CPUs do not change this time, so the minimum memory is known beforehand.

use super::Truth;
use rustix::{
    fs::{Advice, fadvise},
    io::{Errno, ReadWriteFlags, pread, preadv2},
};
use std::{
    fs::File,
    io::{self, IoSliceMut},
    path::Path,
    time::Duration,
};

const PAGE: u64 = 4096;

/// Replays slots by reading pages of a file.
#[derive(Debug)]
pub struct WorkingSet {
    file: File,
    pages: u64,
    random: u64,
    /// Virtual time that is not yet used.
    budget: Duration,
    /// The slot that is being replayed, and its time.
    current: Option<(u64, Duration)>,
}

impl WorkingSet {
    /// The first `percent` percent of an existing file.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open(path: &Path, percent: u64) -> io::Result<Self> {
        let file = File::open(path)?;
        // With readahead, a missing page would load others.
        fadvise(&file, 0, None, Advice::Random)?;
        let pages = (file.metadata()?.len() / PAGE * percent / 100).max(1);
        Ok(Self {
            file,
            pages,
            random: 1,
            budget: Duration::ZERO,
            current: None,
        })
    }

    /// Replays slots up to `tip` for the time `passed`. Returns each with its time in µs.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn advance(
        &mut self,
        truth: &Truth,
        replayed: u64,
        tip: u64,
        passed: Duration,
    ) -> io::Result<Vec<(u64, u64)>> {
        self.budget += passed;
        let mut done = Vec::new();
        let mut next = replayed + 1;
        while next <= tip {
            let (slot, cost) = match self.current {
                Some(current) => current,
                None => (next, self.replay(truth)?),
            };
            self.current = Some((slot, cost));
            let Some(left) = self.budget.checked_sub(cost) else {
                return Ok(done);
            };
            (self.budget, self.current) = (left, None);
            done.push((slot, u64::try_from(cost.as_micros()).unwrap_or(u64::MAX)));
            next = slot + 1;
        }
        // At the tip, unused time is lost.
        self.budget = Duration::ZERO;
        Ok(done)
    }

    /// Virtual time of the next slot.
    fn replay(&mut self, truth: &Truth) -> io::Result<Duration> {
        let mut missing = 0;
        for _ in 0..truth.pages_per_slot {
            self.random = self
                .random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            missing += u64::from(!self.touch((self.random >> 33) % self.pages)?);
        }
        Ok(Duration::from_micros(
            truth.slot_us + missing * truth.miss_us,
        ))
    }

    /// Reads from a page. Returns whether it was in memory.
    fn touch(&self, page: u64) -> io::Result<bool> {
        let (mut byte, at) = ([0], page * PAGE);
        match preadv2(
            &self.file,
            &mut [IoSliceMut::new(&mut byte)],
            at,
            ReadWriteFlags::NOWAIT,
        ) {
            Ok(_) => Ok(true),
            Err(Errno::AGAIN) => pread(&self.file, &mut byte, at)
                .map(|_| false)
                .map_err(io::Error::from),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Duration = Duration::from_millis(20);

    fn set(folder: &Path) -> WorkingSet {
        let path = folder.join("file");
        std::fs::write(&path, vec![1; 1 << 20]).unwrap();
        WorkingSet::open(&path, 50).unwrap()
    }

    #[test]
    fn cached_programs_cost_their_fixed_time_and_the_tip_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let mut set = set(folder.path());
        assert_eq!(set.pages, 128);
        let truth = Truth {
            slots_per_second: 10,
            slot_us: 40_000,
            pages_per_slot: 50,
            ..Truth::default()
        };
        let mut replayed = 100;
        for step in 1..=500 {
            let tip = 100 + step / 5;
            for (slot, us) in set.advance(&truth, replayed, tip, STEP).unwrap() {
                assert_eq!((slot, us), (replayed + 1, 40_000));
                replayed = slot;
            }
            assert!(tip - replayed <= 1, "{step}");
        }
    }

    #[test]
    fn slots_exceeding_their_time_budget_fall_behind_by_the_excess() {
        let folder = tempfile::tempdir().unwrap();
        let mut set = set(folder.path());
        // Twice the time that a slot of the cluster takes.
        let truth = Truth {
            slots_per_second: 10,
            slot_us: 200_000,
            pages_per_slot: 1,
            ..Truth::default()
        };
        let mut replayed = 100;
        for step in 1..=500 {
            let done = set.advance(&truth, replayed, 100 + step / 5, STEP).unwrap();
            replayed = done.last().map_or(replayed, |(slot, _)| *slot);
        }
        assert!((149..=150).contains(&replayed), "{replayed}");
    }
}
