//! The trace of a run: the programs that each transaction looked up, in block order.

mod variants;

use crate::{Error, Result};
use std::collections::HashMap;
pub use variants::with_attack;

/// Program sizes, compile times and a slot's transactions are below this, so that no sum overflows.
const VALUE_LIMIT: u64 = 1 << 32;
/// Keys of a transaction. The index of a key has one byte.
pub const MAX_KEYS: usize = 256;
/// More than a public cluster has. Bounds memory: a program may take only one byte of the file.
pub const MAX_PROGRAMS: usize = 1 << 20;
/// More than a day of mainnet has. Bounds the work: a call may take only one byte of the file, and
/// has up to [`MAX_KEYS`] lookups.
pub const MAX_LOOKUPS: u64 = 1 << 29;
/// Flag of fees-only transactions, in the same integer as the number of the set.
const FEES_ONLY: u32 = 1 << 31;

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum Source {
    #[default]
    Validator,
    /// `agave-ledger-tool`.
    Replay,
    /// Public blocks.
    Blocks,
    /// Programs are numbers without addresses, for tests.
    Plain,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Meta {
    pub source: Source,
    /// Genesis hash; empty if unknown.
    pub cluster: String,
    /// Version of the validator that ran; empty if unknown.
    pub version: String,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Loader {
    V1,
    /// The loader of programs that cannot be upgraded.
    V2,
    V3,
    V4,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Program {
    /// Public key; `None` in a plain trace.
    pub address: Option<[u8; 32]>,
    /// `None` in a plain trace.
    pub loader: Option<Loader>,
    /// Size of its code; `None` if unknown.
    pub bytes: Option<u64>,
    /// False for program-data and buffer accounts, and for closed programs: see
    /// [`Trace::ever_had_code`].
    pub has_code: bool,
}

/// One transaction's lookups: the number of its set of programs, and the fees-only flag.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TransactionCall(u32);

impl TransactionCall {
    /// `None` beyond 2^31 sets.
    pub fn new(set: u32, fees_only: bool) -> Option<Self> {
        (set & FEES_ONLY == 0).then_some(Self(if fees_only { set | FEES_ONLY } else { set }))
    }

    pub fn set_number(self) -> u32 {
        self.0 & !FEES_ONLY
    }

    /// Whether the transaction failed before execution and only paid its fees.
    pub fn is_fees_only(self) -> bool {
        self.0 & FEES_ONLY != 0
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SlotKind {
    /// Replayed, and rooted as far as is known.
    Replayed,
    /// Replayed, but not an ancestor of a rooted slot.
    Fork,
    /// Produced by this validator.
    Own,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slot {
    pub slot: u64,
    /// The parent's slot, which is lower except at slot 0.
    pub parent: u64,
    /// Including votes.
    pub transactions: u64,
    pub kind: SlotKind,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ChangeKind {
    /// Deployed or upgraded: it has new code from the next slot on.
    Deployed,
    Closed,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TraceChange {
    pub slot_index: u32,
    /// Calls of the slot up to and including the changing one.
    pub position: u32,
    pub program: u32,
    pub kind: ChangeKind,
}

/// A compilation that a lookup caused, with its recorded time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeasuredLoad {
    pub slot: u64,
    pub program: u32,
    pub compile_us: u64,
}

/// A trace grows record by record. Each record must agree with the earlier ones.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Trace {
    meta: Meta,
    programs: Vec<Program>,
    /// By program.
    ever_had_code: Vec<bool>,
    /// End of each set in `set_programs`.
    set_ends: Vec<u32>,
    set_programs: Vec<u32>,
    slots: Vec<Slot>,
    /// End of each slot in `calls`.
    slot_ends: Vec<usize>,
    calls: Vec<TransactionCall>,
    lookups: u64,
    changes: Vec<TraceChange>,
    loads: Vec<MeasuredLoad>,
}

impl Trace {
    pub fn new(meta: Meta) -> Self {
        Self {
            meta,
            ..Self::default()
        }
    }

    pub(crate) fn without_slots(&self) -> Self {
        Self {
            programs: self.programs.clone(),
            ever_had_code: self.ever_had_code.clone(),
            set_ends: self.set_ends.clone(),
            set_programs: self.set_programs.clone(),
            loads: self.loads.clone(),
            ..Self::new(self.meta.clone())
        }
    }

    /// Fails beyond 2^31 programs, and for a program of 2^32 bytes.
    pub fn add_program(&mut self, program: Program) -> Result<u32> {
        check_value(program.bytes.unwrap_or(0), "bytes of a program")?;
        let number = to_index(self.programs.len(), "programs")?;
        self.ever_had_code.push(program.has_code);
        self.programs.push(program);
        Ok(number)
    }

    /// Fails for unknown or repeated programs, for more than [`MAX_KEYS`], and beyond 2^31 sets.
    pub fn add_set(&mut self, programs: &[u32]) -> Result<u32> {
        let number = to_index(self.set_ends.len(), "sets")?;
        if programs.len() > MAX_KEYS {
            return invalid(format!(
                "set {number} has {} programs, and a transaction has at most {MAX_KEYS} keys",
                programs.len()
            ));
        }
        for (index, program) in programs.iter().enumerate() {
            self.check_program(*program)?;
            if programs
                .iter()
                .take(index)
                .any(|earlier| earlier == program)
            {
                return invalid(format!("set {number} has program {program} twice"));
            }
        }
        self.set_ends.push(to_index(
            self.set_programs.len() + programs.len(),
            "programs in sets",
        )?);
        self.set_programs.extend_from_slice(programs);
        Ok(number)
    }

    /// `calls` are in block order. The slot must be after the last slot and after its parent. Fails
    /// otherwise, and for more calls than transactions, 2^32 transactions, an unknown set, and beyond
    /// [`MAX_LOOKUPS`].
    pub fn add_slot(&mut self, slot: Slot, calls: &[TransactionCall]) -> Result<()> {
        let number = slot.slot;
        if self.slots.last().is_some_and(|last| last.slot >= number) {
            return invalid(format!("slot {number} is not after the slot before it"));
        }
        if slot.parent >= number && number > 0 {
            return invalid(format!("slot {number} has the parent {}", slot.parent));
        }
        if calls.len() as u64 > slot.transactions {
            let calls = calls.len();
            let all = slot.transactions;
            return invalid(format!(
                "slot {number} has {calls} calls but {all} transactions"
            ));
        }
        if let Some(call) = calls
            .iter()
            .find(|call| call.set_number() as usize >= self.set_ends.len())
        {
            return invalid(format!(
                "slot {number} uses the unknown set {}",
                call.set_number()
            ));
        }
        check_value(slot.transactions, "transactions of a slot")?;
        to_index(self.slots.len(), "slots")?;
        let lookups = self.lookups
            + calls
                .iter()
                .map(|call| self.programs_of_set(call.set_number()).len() as u64)
                .sum::<u64>();
        if lookups > MAX_LOOKUPS {
            return invalid(format!(
                "with slot {number} it has {lookups} lookups, and the maximum is {MAX_LOOKUPS}"
            ));
        }
        self.lookups = lookups;
        self.slots.push(slot);
        self.calls.extend_from_slice(calls);
        self.slot_ends.push(self.calls.len());
        Ok(())
    }

    /// Adds a change in the last slot. Fails if the program is unknown, or the position is outside
    /// the slot or before an earlier change.
    pub fn add_change(&mut self, change: TraceChange) -> Result<()> {
        self.check_program(change.program)?;
        let is_last = self.slots.len().checked_sub(1) == Some(change.slot_index as usize);
        let in_slot = is_last
            && change.position as usize <= self.transactions_of(change.slot_index as usize).len();
        let order = |c: &TraceChange| (c.slot_index, c.position);
        if !in_slot
            || self
                .changes
                .last()
                .is_some_and(|last| order(last) > order(&change))
        {
            return invalid(format!(
                "a change of program {} is not in the last slot, or is out of order",
                change.program
            ));
        }
        self.ever_had_code[change.program as usize] |= change.kind == ChangeKind::Closed;
        self.changes.push(change);
        Ok(())
    }

    /// Fails if the program is unknown or took 2^32 microseconds.
    pub fn add_measured_load(&mut self, load: MeasuredLoad) -> Result<()> {
        check_value(load.compile_us, "microseconds of a load")?;
        self.check_program(load.program)?;
        self.loads.push(load);
        Ok(())
    }

    fn check_program(&self, program: u32) -> Result<()> {
        if (program as usize) < self.programs.len() {
            return Ok(());
        }
        invalid(format!("program {program} is unknown"))
    }

    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    pub fn programs(&self) -> &[Program] {
        &self.programs
    }

    /// Whether the program had code at any time of the trace: it is recorded with code, or a change
    /// of the trace closed it.
    #[inline]
    pub fn ever_had_code(&self, program: u32) -> bool {
        self.ever_had_code[program as usize]
    }

    pub fn set_count(&self) -> usize {
        self.set_ends.len()
    }

    #[inline]
    pub fn programs_of_set(&self, set: u32) -> &[u32] {
        let (begin, end) = bounds_of(&self.set_ends, set as usize);
        self.set_programs
            .get(begin as usize..end as usize)
            .unwrap_or(&[])
    }

    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// The transactions of the slot that looked up programs.
    pub fn transactions_of(&self, slot_index: usize) -> &[TransactionCall] {
        let (begin, end) = bounds_of(&self.slot_ends, slot_index);
        self.calls.get(begin..end).unwrap_or(&[])
    }

    pub fn slot_index(&self, slot: u64) -> Option<usize> {
        self.slots.binary_search_by_key(&slot, |s| s.slot).ok()
    }

    pub(crate) fn calls(&self) -> &[TransactionCall] {
        &self.calls
    }

    pub fn call_count(&self) -> usize {
        self.calls.len()
    }

    pub fn lookup_count(&self) -> u64 {
        self.lookups
    }

    pub fn changes(&self) -> &[TraceChange] {
        &self.changes
    }

    pub fn measured_loads(&self) -> &[MeasuredLoad] {
        &self.loads
    }
}

/// Begin and end of a part, from the ends of all parts. They are equal for an unknown part.
#[inline]
fn bounds_of<T: Copy + Default>(ends: &[T], part: usize) -> (T, T) {
    let begin = part
        .checked_sub(1)
        .and_then(|before| ends.get(before))
        .copied()
        .unwrap_or_default();
    (begin, ends.get(part).copied().unwrap_or(begin))
}

fn check_value(number: u64, unit: &str) -> Result<()> {
    if number < VALUE_LIMIT {
        Ok(())
    } else {
        invalid(format!(
            "{number} {unit}, and they must be below {VALUE_LIMIT}"
        ))
    }
}

fn invalid<T>(problem: String) -> Result<T> {
    Err(Error::InvalidTrace(problem))
}

/// Fails from [`FEES_ONLY`] on, because the flag shares its integer with the number of a set.
fn to_index(number: usize, unit: &str) -> Result<u32> {
    u32::try_from(number)
        .ok()
        .filter(|number| number & FEES_ONLY == 0)
        .ok_or_else(|| Error::InvalidTrace(format!("more than {} {unit}", FEES_ONLY)))
}

/// Adds equal sets to a trace once.
#[derive(Default)]
pub struct SetInterner {
    number_by_set: HashMap<Box<[u32]>, u32>,
}

impl SetInterner {
    pub fn of(trace: &Trace) -> Self {
        let numbers = 0..u32::try_from(trace.set_count()).unwrap_or(u32::MAX);
        Self {
            number_by_set: numbers
                .map(|set| (trace.programs_of_set(set).into(), set))
                .collect(),
        }
    }

    /// The number of a set, which is added if new. The order of programs and repeated programs do
    /// not matter.
    pub fn intern(&mut self, trace: &mut Trace, programs: &[u32]) -> Result<u32> {
        let mut sorted = programs.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        if let Some(number) = self.number_by_set.get(sorted.as_slice()) {
            return Ok(*number);
        }
        let number = trace.add_set(&sorted)?;
        self.number_by_set.insert(sorted.into(), number);
        Ok(number)
    }
}
