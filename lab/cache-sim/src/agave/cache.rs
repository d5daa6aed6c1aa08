use super::{CacheRules, Deployment, Eviction, RootClamp};
use crate::{
    cache::{Budget, Cache, Counts},
    trace::{ChangeKind, Trace},
};
use fastrand::Rng;

/// Values of [`Entry::position`] without compiled code. In Agave, programs with `NEW` or `CLOSED`
/// have no entry.
const NEW: u32 = u32::MAX;
const UNLOADED: u32 = u32::MAX - 1;
const TOMBSTONE: u32 = u32::MAX - 2;
const CLOSED: u32 = u32::MAX - 3;
const LOADED_BELOW: u32 = u32::MAX - 4;

/// Compile time in microseconds, and uses. No more entries are drawn once one has a lower score than
/// an entry with these values and the current slot.
const DRAW_THRESHOLD: (u64, u64) = (500, 500);
/// Scores use nanoseconds.
const NANOS_PER_MICRO: u64 = 1_000;
/// [`Entry::last_slot`] for the trace's first slot. An unused entry has 0, and a score adds at most
/// 128 to the slot, so unused entries have the lowest scores.
const FIRST_SLOT: u32 = 200;

#[derive(Clone, Copy)]
struct Entry {
    uses: u32,
    /// Counted from the first slot of the trace. Small numbers keep all entries in the processor's
    /// cache.
    last_slot: u32,
    /// Index in `loaded`, or one of the constants above.
    position: u32,
}

impl Entry {
    fn unused(position: u32) -> Self {
        Self {
            uses: 0,
            last_slot: 0,
            position,
        }
    }
}

/// Transactions run one after the other: waits between threads are not simulated.
pub struct ProgramCache<'a> {
    rules: CacheRules,
    trace: &'a Trace,
    rng: Rng,
    /// First all programs, by number, then their superseded versions.
    entries: Vec<Entry>,
    loaded: Vec<u32>,
    budget: Budget,
    compile_us: &'a [u64],
    /// Sum over all loaded entries, in entries or bytes as the capacity.
    weight: u64,
    /// By program: 1 plus the slot of its last change so far, counted like `Entry::last_slot`; 0
    /// before its first change.
    change_slots: Vec<u32>,
    /// (entry of an old version, slot of the change that superseded it).
    superseded: Vec<(u32, u32)>,
    first_slot: u64,
    current_slot: u32,
    root: u32,
    /// Whether a program was deployed in the current slot.
    has_delayed: bool,
}

impl<'a> ProgramCache<'a> {
    pub fn new(
        rules: CacheRules,
        trace: &'a Trace,
        budget: Budget,
        compile_us: &'a [u64],
        seed: u64,
    ) -> Self {
        let programs = trace.programs().len();
        ProgramCache {
            rules,
            trace,
            rng: Rng::with_seed(seed),
            entries: vec![Entry::unused(NEW); programs],
            loaded: Vec::new(),
            budget,
            compile_us,
            weight: 0,
            change_slots: vec![0; programs],
            superseded: Vec::new(),
            first_slot: trace.slots().first().map_or(0, |slot| slot.slot),
            current_slot: FIRST_SLOT,
            root: FIRST_SLOT,
            has_delayed: false,
        }
    }

    /// `most_used` are (program, uses). All get their uses. The first are loaded until the cache is
    /// full.
    pub fn fill(&mut self, most_used: &[(u32, u32)]) {
        let mut is_full = false;
        for (program, uses) in most_used {
            is_full =
                is_full || self.weight + self.budget.weight_of(*program) > self.budget.capacity;
            self.entries[*program as usize] = Entry {
                uses: *uses,
                last_slot: FIRST_SLOT,
                position: UNLOADED,
            };
            if !is_full {
                self.load(*program);
            }
        }
    }

    fn relative_slot(&self, slot: u64) -> u32 {
        u32::try_from(slot.saturating_sub(self.first_slot))
            .unwrap_or(u32::MAX)
            .saturating_add(FIRST_SLOT)
            .min(u32::MAX - 1)
    }

    /// The slot that a use gives to its entry, unless the entry has a later one.
    fn use_slot(&self) -> u32 {
        match self.rules.eviction {
            Eviction::TwoDraws
            | Eviction::Score {
                clamp: RootClamp::Nothing,
            } => self.current_slot,
            Eviction::Score { .. } => self.current_slot.min(self.root),
        }
    }

    fn load_slot(&self) -> u32 {
        match self.rules.eviction {
            Eviction::Score {
                clamp: RootClamp::UsesAndLoads,
            } => self.use_slot(),
            _ => self.current_slot,
        }
    }

    fn load(&mut self, entry: u32) {
        self.entries[entry as usize].position = self.loaded.len() as u32;
        self.loaded.push(entry);
        self.weight += self.budget.weight_of(entry);
    }

    fn unload(&mut self, position: u32) -> u32 {
        let entry = self.loaded.swap_remove(position as usize);
        if let Some(moved) = self.loaded.get(position as usize) {
            self.entries[*moved as usize].position = position;
        }
        self.entries[entry as usize].position = UNLOADED;
        self.weight -= self.budget.weight_of(entry);
        entry
    }

    /// Handles a lookup that found no compiled code. Returns whether an eviction pass follows.
    fn miss(&mut self, program: u32, counts: &mut Counts) -> bool {
        let stale_after = self.rules.stale_after_slots;
        let load_slot = self.load_slot();
        let entry = &mut self.entries[program as usize];
        if matches!(entry.position, TOMBSTONE | CLOSED) {
            entry.uses = entry.uses.saturating_add(1);
            return false;
        }
        let is_stale = stale_after
            .is_some_and(|slots| u64::from(entry.last_slot) + slots < u64::from(self.root));
        if is_stale {
            *entry = Entry::unused(NEW);
        }
        counts.misses += 1;
        let is_new = entry.position == NEW;
        entry.uses = entry.uses.saturating_add(self.rules.uses_per_load);
        entry.last_slot = load_slot;
        if !self.trace.ever_had_code(program) && self.change_slots[program as usize] == 0 {
            entry.position = TOMBSTONE;
            counts.insertions += 1;
            return true;
        }
        *(if is_new {
            &mut counts.insertions
        } else {
            &mut counts.reloads
        }) += 1;
        counts.add_load(program, self.trace, self.compile_us);
        self.load(program);
        true
    }

    fn evict(&mut self, counts: &mut Counts) {
        while self.weight > self.budget.capacity && !self.loaded.is_empty() {
            let position = match self.rules.eviction {
                Eviction::TwoDraws => self.position_of_fewer_uses(),
                Eviction::Score { .. } => self.position_of_least_score(),
            };
            let entry = self.unload(position);
            counts.evictions += 1;
            counts.one_hit_wonders += u64::from(self.entries[entry as usize].uses == 1);
        }
    }

    fn draw_position(&mut self) -> u32 {
        self.rng.u32(0..self.loaded.len() as u32)
    }

    fn entry_at(&self, position: u32) -> Entry {
        self.entries[self.loaded[position as usize] as usize]
    }

    fn position_of_fewer_uses(&mut self) -> u32 {
        let first = self.draw_position();
        let second = self.draw_position();
        let uses = |position: u32| {
            let entry = self.entry_at(position);
            u64::from(entry.uses) >> self.current_slot.saturating_sub(entry.last_slot).min(63)
        };
        if uses(first) < uses(second) {
            first
        } else {
            second
        }
    }

    fn position_of_least_score(&mut self) -> u32 {
        let threshold = score(self.current_slot, DRAW_THRESHOLD.0, DRAW_THRESHOLD.1);
        let mut least = self.draw_position();
        let mut least_score = self.score_at(least);
        for _ in 0..3 {
            let other = self.draw_position();
            let other_score = self.score_at(other);
            if other_score < least_score {
                (least, least_score) = (other, other_score);
            }
            if least_score < threshold {
                break;
            }
        }
        least
    }

    fn score_at(&self, position: u32) -> u64 {
        let entry = self.entry_at(position);
        let program = self.budget.program_of(self.loaded[position as usize]);
        score(
            entry.last_slot,
            self.compile_us.get(program as usize).copied().unwrap_or(0),
            u64::from(entry.uses),
        )
    }

    /// Whether the program was deployed in this slot. A lookup then finds an entry that cannot run
    /// yet.
    fn is_delayed(&mut self, program: u32) -> bool {
        let entry = &mut self.entries[program as usize];
        let is_delayed = self.has_delayed
            && self.change_slots[program as usize] == self.current_slot + 1
            && entry.position != NEW;
        if is_delayed && self.rules.counts_delayed_uses {
            entry.uses = entry.uses.saturating_add(1);
        }
        is_delayed
    }

    /// Unloads old versions that a change before the root superseded, if a newer version exists.
    fn prune(&mut self) {
        let superseded = std::mem::take(&mut self.superseded);
        for (index, (entry, slot)) in superseded.iter().enumerate() {
            let position = self.entries[*entry as usize].position;
            if position >= LOADED_BELOW {
                continue; // evicted
            }
            let program = self.budget.program_of(*entry);
            let has_newer = !matches!(self.entries[program as usize].position, NEW | CLOSED)
                || superseded[index + 1..]
                    .iter()
                    .any(|(later, _)| self.budget.program_of(*later) == program);
            if *slot < self.root && has_newer {
                self.unload(position);
            } else {
                self.superseded.push((*entry, *slot));
            }
        }
    }

    /// Makes a loaded old version a separate entry, which [`Self::prune`] unloads later.
    fn supersede(&mut self, program: u32) {
        let old_version = self.entries[program as usize];
        if old_version.position >= LOADED_BELOW {
            return;
        }
        if self.change_slots[program as usize] == self.current_slot + 1 {
            self.unload(old_version.position);
            return;
        }
        let number = self.entries.len() as u32;
        self.budget.supersede(program);
        self.entries.push(old_version);
        self.loaded[old_version.position as usize] = number;
        self.superseded.push((number, self.current_slot));
    }
}

/// Score in Agave since 4.1: the last slot plus the number of bits of `compile time x uses`.
fn score(last_slot: u32, compile_us: u64, uses: u64) -> u64 {
    let weight = u128::from(compile_us) * u128::from(NANOS_PER_MICRO) * u128::from(uses);
    u64::from(last_slot) + u64::from(u128::BITS - weight.leading_zeros())
}

impl Cache for ProgramCache<'_> {
    fn begin_slot(&mut self, slot: u64, root: u64) {
        self.current_slot = self.relative_slot(slot);
        self.root = self.relative_slot(root);
        self.has_delayed = false;
        if !self.superseded.is_empty() {
            self.prune();
        }
    }

    #[inline]
    fn request_programs(&mut self, programs: &[u32], counts: &mut Counts) {
        let use_slot = self.use_slot();
        let mut evicts = false;
        for program in programs {
            if self.is_delayed(*program) {
                continue;
            }
            let entry = &mut self.entries[*program as usize];
            if entry.position < LOADED_BELOW {
                entry.uses = entry.uses.saturating_add(1);
                entry.last_slot = entry.last_slot.max(use_slot);
            } else if self.rules.has_tombstones || self.trace.ever_had_code(*program) {
                evicts |= self.miss(*program, counts);
            }
        }
        if evicts {
            self.evict(counts);
        }
    }

    fn change(&mut self, program: u32, kind: ChangeKind, counts: &mut Counts) {
        // A program that a transaction changed enters the cache after the eviction pass.
        self.evict(counts);
        self.supersede(program);
        let entry = &mut self.entries[program as usize];
        self.change_slots[program as usize] = self.current_slot + 1;
        self.has_delayed |= kind == ChangeKind::Deployed;
        let deployment = self.rules.deployment;
        if deployment == Deployment::Absent {
            *entry = Entry::unused(match kind {
                ChangeKind::Deployed => NEW,
                ChangeKind::Closed => CLOSED,
            });
            return;
        }
        counts.insertions += 1;
        // A compiled entry is unused, so its last slot is 0. Other entries have the current slot.
        entry.last_slot = match deployment {
            Deployment::Loaded => 0,
            _ => self.current_slot,
        };
        match kind {
            ChangeKind::Closed => entry.position = TOMBSTONE,
            // The deploying transaction compiles the program: this is not counted as a load.
            ChangeKind::Deployed if deployment == Deployment::Loaded => self.load(program),
            ChangeKind::Deployed => entry.position = UNLOADED,
        }
    }

    fn for_each_resident_program(&self, each: &mut dyn FnMut(u32)) {
        self.loaded
            .iter()
            .for_each(|entry| each(self.budget.program_of(*entry)));
    }
}
