//! Which transaction looked up which programs: the trace of a run, in block order.

mod coverage;
mod half;
mod text;

use crate::Error;
use std::collections::HashMap;

pub use coverage::{Coverage, LEAST_COVERAGE};

/// Sizes, transactions of a slot and times are below this, so that no sum of them overflows.
const LARGEST: u64 = 1 << 32;
/// Keys of a transaction: their numbers in it have one byte.
pub const MAX_KEYS: usize = 256;
/// Programs of a file, more than all loaders own on a public cluster. One takes a byte of the file, and memory of its own.
pub const MAX_PROGRAMS: usize = 1 << 20;
/// Lookups of a trace, more than those of a day of mainnet. A call takes a byte of the file, and up to [`MAX_KEYS`] lookups.
pub const MAX_LOOKUPS: u64 = 1 << 29;
/// Fees-only transactions have this bit beside the number of their set.
const FEES_ONLY: u32 = 1 << 31;

/// How the trace came to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Written by a validator as it ran.
    Validator,
    /// Written by a replay of the ledger.
    Replay,
    /// Concluded from public blocks.
    Blocks,
    /// A plain list of slots and programs.
    Plain,
}

/// What a trace says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meta {
    /// How it came to be.
    pub source: Source,
    /// Name or genesis hash of the cluster; empty if unknown.
    pub cluster: String,
    /// Version of the validator that ran; empty if unknown.
    pub version: String,
}

/// Which loader owns a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loader {
    V1,
    /// The loader of programs that cannot be upgraded.
    V2,
    V3,
    V4,
}

/// An account that is owned by a loader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Program {
    /// Public key; `None` in a plain trace.
    pub address: Option<[u8; 32]>,
    /// `None` in a plain trace.
    pub loader: Option<Loader>,
    /// Size of its code; `None` if unknown.
    pub bytes: Option<u64>,
    /// Whether a lookup finds code: not in program-data and buffer accounts, and not in closed programs.
    pub has_code: bool,
}

/// One transaction's lookups: the number of its set of programs, and whether it only paid fees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call(u32);

impl Call {
    /// Of a transaction that was executed, or failed before (`fees_only`). `None` beyond 2^31 sets.
    pub fn new(set: u32, fees_only: bool) -> Option<Self> {
        (set & FEES_ONLY == 0).then_some(Self(if fees_only { set | FEES_ONLY } else { set }))
    }

    /// Number of the set of programs.
    pub fn set(self) -> u32 {
        self.0 & !FEES_ONLY
    }

    /// Whether the transaction failed before it was executed and only paid its fees.
    pub fn fees_only(self) -> bool {
        self.0 & FEES_ONLY != 0
    }
}

/// Where a slot was executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotKind {
    /// Replayed, and rooted as far as is known.
    Replayed,
    /// Replayed, on a fork that was given up.
    Fork,
    /// Produced by the validator itself.
    Own,
}

/// One slot of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    pub slot: u64,
    /// Its parent's number, which is lower.
    pub parent: u64,
    /// All transactions of its block, votes included.
    pub transactions: u64,
    /// Where it was executed.
    pub kind: SlotKind,
}

/// What a transaction did to a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// Deployed or upgraded: it has new code from the next slot on.
    Deployed,
    /// Closed: it has no code any more.
    Closed,
}

/// A program that was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// Place of the slot in the trace.
    pub slot_index: u32,
    /// How many calls of the slot came before, the changing one included.
    pub position: u32,
    /// Number of the program.
    pub program: u32,
    pub kind: ChangeKind,
}

/// A measured load of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// In which slot.
    pub slot: u64,
    /// Number of the program.
    pub program: u32,
    /// How long it took, in microseconds.
    pub us: u64,
}

/// The trace of a run. It grows record by record, and each must agree with those before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    meta: Meta,
    programs: Vec<Program>,
    /// Where each set ends in `ids`.
    set_ends: Vec<u32>,
    ids: Vec<u32>,
    slots: Vec<Slot>,
    /// Where each slot ends in `calls`.
    slot_ends: Vec<usize>,
    calls: Vec<Call>,
    lookups: u64,
    changes: Vec<Change>,
    loads: Vec<Load>,
}

impl Trace {
    /// Without any slot.
    pub fn new(meta: Meta) -> Self {
        Self {
            meta,
            programs: Vec::new(),
            set_ends: Vec::new(),
            ids: Vec::new(),
            slots: Vec::new(),
            slot_ends: Vec::new(),
            calls: Vec::new(),
            lookups: 0,
            changes: Vec::new(),
            loads: Vec::new(),
        }
    }

    /// Adds a program and returns its number.
    ///
    /// # Errors
    /// [`Error::Contradiction`] beyond 2^31 programs, or of a program of 2^32 bytes.
    pub fn add_program(&mut self, program: Program) -> Result<u32, Error> {
        possible(program.bytes.unwrap_or(0), "bytes of a program")?;
        let number = small(self.programs.len(), "programs")?;
        self.programs.push(program);
        Ok(number)
    }

    /// Adds a set of programs and returns its number.
    ///
    /// # Errors
    /// [`Error::Contradiction`] if there are more than [`MAX_KEYS`], a program is unknown or there twice, or beyond 2^31 sets.
    pub fn add_set(&mut self, programs: &[u32]) -> Result<u32, Error> {
        let number = small(self.set_ends.len(), "sets")?;
        if programs.len() > MAX_KEYS {
            return Err(Error::Contradiction(format!(
                "set {number} has {} programs, and a transaction has at most {MAX_KEYS} keys",
                programs.len()
            )));
        }
        for (at, program) in programs.iter().enumerate() {
            self.check_program(*program)?;
            if programs.iter().take(at).any(|earlier| earlier == program) {
                return Err(Error::Contradiction(format!(
                    "set {number} has program {program} twice"
                )));
            }
        }
        self.set_ends
            .push(small(self.ids.len() + programs.len(), "programs in sets")?);
        self.ids.extend_from_slice(programs);
        Ok(number)
    }

    /// Adds a slot with the calls of its transactions in block order.
    ///
    /// # Errors
    /// [`Error::Contradiction`] if the slot is not behind the last one, not behind its parent, has more calls than
    /// transactions, 2^32 transactions, or a call of an unknown set; beyond [`MAX_LOOKUPS`].
    pub fn add_slot(&mut self, slot: Slot, calls: &[Call]) -> Result<(), Error> {
        let number = slot.slot;
        if self.slots.last().is_some_and(|last| last.slot >= number) {
            return Err(Error::Contradiction(format!(
                "slot {number} is not behind the one before it"
            )));
        }
        if slot.parent >= number && number > 0 {
            return Err(Error::Contradiction(format!(
                "slot {number} has the parent {}",
                slot.parent
            )));
        }
        if calls.len() as u64 > slot.transactions {
            let (calls, all) = (calls.len(), slot.transactions);
            return Err(Error::Contradiction(format!(
                "slot {number} has {calls} calls but {all} transactions"
            )));
        }
        if let Some(call) = calls
            .iter()
            .find(|call| call.set() as usize >= self.set_ends.len())
        {
            return Err(Error::Contradiction(format!(
                "slot {number} uses the unknown set {}",
                call.set()
            )));
        }
        possible(slot.transactions, "transactions of a slot")?;
        small(self.slots.len(), "slots")?;
        let of_call = |call: &Call| self.set(call.set()).len() as u64;
        let lookups = self.lookups + calls.iter().map(of_call).sum::<u64>();
        if lookups > MAX_LOOKUPS {
            return Err(Error::Contradiction(format!(
                "with slot {number} it has {lookups} lookups, and {MAX_LOOKUPS} are the most"
            )));
        }
        self.lookups = lookups;
        self.slots.push(slot);
        self.calls.extend_from_slice(calls);
        self.slot_ends.push(self.calls.len());
        Ok(())
    }

    /// Adds a change of a program in the last slot.
    ///
    /// # Errors
    /// [`Error::Contradiction`] if the program is unknown, or the place is outside the last slot or before an earlier change.
    pub fn add_change(&mut self, change: Change) -> Result<(), Error> {
        self.check_program(change.program)?;
        let is_last = self.slots.len().checked_sub(1) == Some(change.slot_index as usize);
        let in_slot =
            is_last && change.position as usize <= self.calls_of(change.slot_index as usize).len();
        let order = |c: &Change| (c.slot_index, c.position);
        if !in_slot
            || self
                .changes
                .last()
                .is_some_and(|last| order(last) > order(&change))
        {
            return Err(Error::Contradiction(format!(
                "a change of program {} is not in the last slot, or out of order",
                change.program
            )));
        }
        self.changes.push(change);
        Ok(())
    }

    /// Adds a measured load.
    ///
    /// # Errors
    /// [`Error::Contradiction`] if the program is unknown or took 2^32 microseconds.
    pub fn add_load(&mut self, load: Load) -> Result<(), Error> {
        possible(load.us, "microseconds of a load")?;
        self.check_program(load.program)?;
        self.loads.push(load);
        Ok(())
    }

    fn check_program(&self, program: u32) -> Result<(), Error> {
        if (program as usize) < self.programs.len() {
            return Ok(());
        }
        Err(Error::Contradiction(format!(
            "program {program} is unknown"
        )))
    }

    /// What it says about itself.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// All programs, by number.
    pub fn programs(&self) -> &[Program] {
        &self.programs
    }

    /// How many different sets of programs there are.
    pub fn sets(&self) -> usize {
        self.set_ends.len()
    }

    /// The programs of a set; none of an unknown one.
    #[inline]
    pub fn set(&self, set: u32) -> &[u32] {
        let at = set as usize;
        let begin = at
            .checked_sub(1)
            .and_then(|before| self.set_ends.get(before))
            .copied()
            .unwrap_or(0);
        let end = self.set_ends.get(at).copied().unwrap_or(begin);
        self.ids.get(begin as usize..end as usize).unwrap_or(&[])
    }

    /// All slots.
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// The calls of the slot at a place, in block order.
    pub fn calls_of(&self, slot_index: usize) -> &[Call] {
        let begin = slot_index
            .checked_sub(1)
            .and_then(|before| self.slot_ends.get(before))
            .copied()
            .unwrap_or(0);
        let end = self.slot_ends.get(slot_index).copied().unwrap_or(begin);
        self.calls.get(begin..end).unwrap_or(&[])
    }

    /// Calls of all slots.
    pub fn calls(&self) -> usize {
        self.calls.len()
    }

    /// Lookups of all calls.
    pub fn lookups(&self) -> u64 {
        self.lookups
    }

    /// Changes of programs, in order.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    pub fn loads(&self) -> &[Load] {
        &self.loads
    }
}

fn possible(number: u64, of: &str) -> Result<(), Error> {
    if number < LARGEST {
        Ok(())
    } else {
        Err(Error::Contradiction(format!("{number} {of}")))
    }
}

fn small(number: usize, of: &str) -> Result<u32, Error> {
    let fits = u32::try_from(number)
        .ok()
        .filter(|number| number & FEES_ONLY == 0);
    fits.ok_or_else(|| Error::Contradiction(format!("more than {} {of}", FEES_ONLY)))
}

/// Numbers for sets of programs, so that equal sets are kept once.
#[derive(Debug, Default)]
pub struct SetNumbers {
    known: HashMap<Box<[u32]>, u32>,
}

impl SetNumbers {
    /// Of the sets that a trace has, to continue it.
    pub fn of(trace: &Trace) -> Self {
        let numbers = 0..u32::try_from(trace.sets()).unwrap_or(u32::MAX);
        Self {
            known: numbers.map(|set| (trace.set(set).into(), set)).collect(),
        }
    }

    /// The number of a set in the trace, to which it is added if it is new. The order of programs does not matter, and each
    /// counts once.
    pub fn number(&mut self, trace: &mut Trace, programs: &[u32]) -> Result<u32, Error> {
        let mut sorted = programs.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        if let Some(number) = self.known.get(sorted.as_slice()) {
            return Ok(*number);
        }
        let number = trace.add_set(&sorted)?;
        self.known.insert(sorted.into(), number);
        Ok(number)
    }
}
