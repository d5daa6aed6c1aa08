use super::{Clamp, Deployment, Eviction, Rule};
use crate::{
    cache::{Budget, Cache, Counts, SlotPosition},
    trace::{ChangeKind, Trace},
};
use fastrand::Rng;

/// Positions of entries that are not loaded; all others are indices of `loaded`.
const NEW: u32 = u32::MAX;
const UNLOADED: u32 = u32::MAX - 1;
const TOMBSTONE: u32 = u32::MAX - 2;
/// No entry, and no lookup ever asks for one.
const CLOSED: u32 = u32::MAX - 3;
const LOADED_BELOW: u32 = u32::MAX - 4;

/// Compile time in microseconds, and uses. The draws end at a score below that of an entry with
/// these values that is used now.
const DRAW_THRESHOLD: (u64, u64) = (500, 500);
/// Scores use compile times in thousandths of a microsecond.
const COMPILE_TIME_SCALE: u64 = 1_000;
/// The first slot of the trace. An unused entry has 0: so much older that neither halved uses nor a
/// score compensate.
const FIRST_SLOT: u32 = 200;

#[derive(Clone, Copy)]
struct Entry {
    uses: u32,
    /// Slot, counted from the first one of the trace. Small numbers keep all entries in the
    /// processor's cache.
    last: u32,
    position: u32,
}

/// Transactions run one after the other: threads that wait for one another are not simulated.
pub struct ProgramCache<'a> {
    rule: Rule,
    trace: &'a Trace,
    rng: Rng,
    /// By program, then the superseded versions that are not pruned yet.
    entries: Vec<Entry>,
    loaded: Vec<u32>,
    budget: Budget,
    compile_us: &'a [u64],
    weight: u64,
    /// Slot of each program's last deployment in this trace, counted like `Entry::last`, plus 1; 0
    /// for none.
    deployed: Vec<u32>,
    /// (superseded entry, slot of the deployment).
    superseded: Vec<(u32, u32)>,
    first_slot: u64,
    now: u32,
    root: u32,
    has_delayed: bool,
}

impl<'a> ProgramCache<'a> {
    pub fn new(
        rule: Rule,
        trace: &'a Trace,
        budget: Budget,
        compile_us: &'a [u64],
        seed: u64,
    ) -> Self {
        let programs = trace.programs().len();
        ProgramCache {
            rule,
            trace,
            rng: Rng::with_seed(seed),
            entries: vec![
                Entry {
                    uses: 0,
                    last: 0,
                    position: NEW
                };
                programs
            ],
            loaded: Vec::new(),
            budget,
            compile_us,
            weight: 0,
            deployed: vec![0; programs],
            superseded: Vec::new(),
            first_slot: trace.slots().first().map_or(0, |slot| slot.slot),
            now: FIRST_SLOT,
            root: FIRST_SLOT,
            has_delayed: false,
        }
    }

    /// Gives all programs these uses and loads the first ones until the cache is full.
    pub fn fill(&mut self, most_used: &[(u32, u32)]) {
        let mut is_full = false;
        for (program, uses) in most_used {
            is_full = is_full || self.weight + self.budget.weight_of(*program) > self.budget.target;
            let entry = &mut self.entries[*program as usize];
            *entry = Entry {
                uses: *uses,
                last: FIRST_SLOT,
                position: UNLOADED,
            };
            if !is_full {
                self.load(*program);
            }
        }
    }

    fn offset(&self, slot: u64) -> u32 {
        u32::try_from(slot.saturating_sub(self.first_slot))
            .unwrap_or(u32::MAX)
            .saturating_add(FIRST_SLOT)
            .min(u32::MAX - 1)
    }

    /// The slot in which a use counts, if it is later than the last one.
    fn use_slot(&self) -> u32 {
        match self.rule.eviction {
            Eviction::TwoDraws
            | Eviction::Score {
                clamp: Clamp::Nothing,
            } => self.now,
            Eviction::Score { .. } => self.now.min(self.root),
        }
    }

    fn load_slot(&self) -> u32 {
        match self.rule.eviction {
            Eviction::Score {
                clamp: Clamp::UsesAndLoads,
            } => self.use_slot(),
            _ => self.now,
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

    /// Handles a program that the first lookup found unusable. Returns whether an eviction pass
    /// follows.
    fn miss(&mut self, program: u32, counts: &mut Counts) -> bool {
        let stale = self.rule.stale_after;
        let load_slot = self.load_slot();
        let entry = &mut self.entries[program as usize];
        if matches!(entry.position, TOMBSTONE | CLOSED) {
            entry.uses = entry.uses.saturating_add(1);
            return false;
        }
        let too_old =
            |last: u32| stale.is_some_and(|after| u64::from(last) + after < u64::from(self.root));
        if too_old(entry.last) {
            *entry = Entry {
                uses: 0,
                last: 0,
                position: NEW,
            };
        }
        counts.misses += 1;
        let is_new = entry.position == NEW;
        entry.uses = entry.uses.saturating_add(self.rule.uses_of_a_load);
        entry.last = load_slot;
        if !self.trace.programs()[program as usize].has_code && self.deployed[program as usize] == 0
        {
            entry.position = TOMBSTONE;
            counts.insertions += 1;
            return true;
        }
        *(if is_new {
            &mut counts.insertions
        } else {
            &mut counts.reloads
        }) += 1;
        counts.load(program, self.trace, self.compile_us);
        self.load(program);
        true
    }

    fn evict(&mut self, counts: &mut Counts) {
        while self.weight > self.budget.target && !self.loaded.is_empty() {
            let position = match self.rule.eviction {
                Eviction::TwoDraws => self.fewer_uses_of_two(),
                Eviction::Score { .. } => self.least_score(),
            };
            let entry = self.unload(position);
            counts.evictions += 1;
            counts.one_hit_wonders += u64::from(self.entries[entry as usize].uses == 1);
        }
    }

    fn draw(&mut self) -> u32 {
        self.rng.u32(0..self.loaded.len() as u32)
    }

    fn entry_at(&self, position: u32) -> Entry {
        self.entries[self.loaded[position as usize] as usize]
    }

    fn fewer_uses_of_two(&mut self) -> u32 {
        let first = self.draw();
        let second = self.draw();
        let uses = |position: u32| {
            let entry = self.entry_at(position);
            u64::from(entry.uses) >> self.now.saturating_sub(entry.last).min(63)
        };
        if uses(first) < uses(second) {
            first
        } else {
            second
        }
    }

    fn least_score(&mut self) -> u32 {
        let threshold = score(self.now, DRAW_THRESHOLD.0, DRAW_THRESHOLD.1);
        let mut least = self.draw();
        let mut least_score = self.score_at(least);
        for _ in 0..3 {
            let other = self.draw();
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
            entry.last,
            self.compile_us.get(program as usize).copied().unwrap_or(0),
            u64::from(entry.uses),
        )
    }

    /// Whether the program was deployed in this slot: a lookup then finds an entry and nothing to
    /// run.
    fn is_delayed(&mut self, program: u32) -> bool {
        let entry = &mut self.entries[program as usize];
        let is_delayed = self.has_delayed
            && self.deployed[program as usize] == self.now + 1
            && entry.position != NEW;
        if is_delayed && self.rule.uses_while_delayed {
            entry.uses = entry.uses.saturating_add(1);
        }
        is_delayed
    }

    fn prune(&mut self) {
        let superseded = std::mem::take(&mut self.superseded);
        for (at, (entry, slot)) in superseded.iter().enumerate() {
            let position = self.entries[*entry as usize].position;
            if position >= LOADED_BELOW {
                continue; // evicted
            }
            let program = self.budget.program_of(*entry);
            let has_newer = !matches!(self.entries[program as usize].position, NEW | CLOSED)
                || superseded[at + 1..]
                    .iter()
                    .any(|(later, _)| self.budget.program_of(*later) == program);
            if *slot < self.root && has_newer {
                self.unload(position);
            } else {
                self.superseded.push((*entry, *slot));
            }
        }
    }

    /// The old version becomes an entry of its own until there is a newer one and the root passes
    /// the deployment.
    fn supersede(&mut self, program: u32) {
        let before = self.entries[program as usize];
        if before.position >= LOADED_BELOW || self.deployed[program as usize] == self.now + 1 {
            if before.position < LOADED_BELOW {
                self.unload(before.position);
            }
            return;
        }
        let number = self.entries.len() as u32;
        self.budget.supersede(program);
        self.entries.push(before);
        self.loaded[before.position as usize] = number;
        self.superseded.push((number, self.now));
    }
}

/// Score of Agave 4.1 and later: last slot plus the bit length of `compile time x uses`.
fn score(last: u32, compile_us: u64, uses: u64) -> u64 {
    let weight = u128::from(compile_us) * u128::from(COMPILE_TIME_SCALE) * u128::from(uses);
    u64::from(last) + u64::from(u128::BITS - weight.leading_zeros())
}

impl Cache for ProgramCache<'_> {
    fn slot(&mut self, at: SlotPosition) {
        self.now = self.offset(at.slot);
        self.root = self.offset(at.root);
        self.has_delayed = false;
        if !self.superseded.is_empty() {
            self.prune();
        }
    }

    #[inline]
    fn transaction(&mut self, programs: &[u32], counts: &mut Counts) {
        let use_slot = self.use_slot();
        let mut has_loaded = false;
        for program in programs {
            if self.is_delayed(*program) {
                continue;
            }
            let entry = &mut self.entries[*program as usize];
            if entry.position < LOADED_BELOW {
                entry.uses = entry.uses.saturating_add(1);
                entry.last = entry.last.max(use_slot);
            } else if self.rule.tombstones || self.trace.programs()[*program as usize].has_code {
                has_loaded |= self.miss(*program, counts);
            }
        }
        if has_loaded {
            self.evict(counts);
        }
    }

    fn change(&mut self, program: u32, kind: ChangeKind, counts: &mut Counts) {
        // A program that a transaction changed enters the cache after the eviction pass.
        self.evict(counts);
        self.supersede(program);
        let entry = &mut self.entries[program as usize];
        self.deployed[program as usize] = self.now + 1;
        self.has_delayed |= kind == ChangeKind::Deployed;
        let deployment = self.rule.deployment;
        if deployment == Deployment::Absent {
            let position = match kind {
                ChangeKind::Deployed => NEW,
                ChangeKind::Closed => CLOSED,
            };
            (entry.uses, entry.last, entry.position) = (0, 0, position);
            return;
        }
        counts.insertions += 1;
        // A compiled program has no use yet. One that is not may be checked for its age.
        entry.last = match deployment {
            Deployment::Loaded => 0,
            _ => self.now,
        };
        match kind {
            ChangeKind::Closed => entry.position = TOMBSTONE,
            // The deploying transaction compiles it, which is not a load of the cache.
            ChangeKind::Deployed if deployment == Deployment::Loaded => self.load(program),
            ChangeKind::Deployed => entry.position = UNLOADED,
        }
    }

    fn resident(&self, each: &mut dyn FnMut(u32)) {
        self.loaded
            .iter()
            .for_each(|entry| each(self.budget.program_of(*entry)));
    }
}
