//! A trace as a file, `RUN.trace`. Records are appended and never changed.
//!
//! After eight bytes `FLTRACE` and the format's number 1, each record is its kind (one byte), the
//! length of its content (varint), the content, and the CRC-32 of kind and content (four bytes, the
//! lowest first). Numbers are varints: seven bits a byte, the lowest first. A text is its length
//! and its bytes.
//!
//! | kind | content |
//! | --- | --- |
//! | 1 meta, the first record | source (0 validator, 1 replay, 2 blocks, 3 plain: for tests, no addresses), cluster, version |
//! | 2 programs | each: flags (1 has address, 2 has size, 4 has code, plus 8 times the loader, 0 if unknown), 32 bytes of address, size in bytes |
//! | 3 sets | each: number of programs, numbers of the programs |
//! | 4 slot | slot, slot - parent, transactions, kind of slot (0 replayed, 1 fork, 2 own); for each transaction with programs (a call) the number of its set times 2, plus 1 if it only paid fees |
//! | 5 change in the slot of the previous slot record | position (calls of the slot up to and including the changing one), program, kind of change (0 deployed, 1 closed) |
//! | 6 loads | each: slot, program, microseconds |
//!
//! There are at most 2^20 programs, 256 programs in a set, and 2^29 lookups in all calls. Programs
//! and sets are numbered from 0 in the order of the file. The file is not compressed.

mod read;

use crate::{
    Error, Result,
    trace::{ChangeKind, Loader, MAX_PROGRAMS, Program, SlotKind, Source, Trace},
};
pub use read::{PartialRead, read, read_whole_records};
use std::io::Write;

pub(crate) const MAGIC: &[u8; 8] = b"FLTRACE\x01";
/// A longer record is damage: the largest block has far fewer calls.
const MAX_RECORD_BYTES: u64 = 1 << 26;

const META: u8 = 1;
const PROGRAMS: u8 = 2;
const SETS: u8 = 3;
const SLOT: u8 = 4;
const CHANGE: u8 = 5;
const LOADS: u8 = 6;

const HAS_ADDRESS: u8 = 1;
const HAS_SIZE: u8 = 2;
const HAS_CODE: u8 = 4;
const LOADER_SHIFT: u32 = 3;

/// A value's number in the file is its index in its table.
const SOURCES: [Source; 4] = [
    Source::Validator,
    Source::Replay,
    Source::Blocks,
    Source::Plain,
];
const LOADERS: [Option<Loader>; 5] = [
    None,
    Some(Loader::V1),
    Some(Loader::V2),
    Some(Loader::V3),
    Some(Loader::V4),
];
const SLOT_KINDS: [SlotKind; 3] = [SlotKind::Replayed, SlotKind::Fork, SlotKind::Own];
const CHANGE_KINDS: [ChangeKind; 2] = [ChangeKind::Deployed, ChangeKind::Closed];

/// Damage to an item loses its whole record, so records are short.
const MAX_ITEMS_PER_RECORD: usize = 4_096;

/// Appends the records of a growing trace. The fields count what is written already.
pub struct Writer<W> {
    out: W,
    programs: usize,
    sets: usize,
    slots: usize,
    changes: usize,
    loads: usize,
}

impl<W: Write> Writer<W> {
    pub fn new(mut out: W, trace: &Trace) -> Result<Self> {
        out.write_all(MAGIC)?;
        let meta = trace.meta();
        let mut writer = Self::resume(out, &Trace::new(meta.clone()));
        let mut content = vec![index_of(&SOURCES, &meta.source)];
        for text in [&meta.cluster, &meta.version] {
            push_varint(&mut content, text.len() as u64);
            content.extend_from_slice(text.as_bytes());
        }
        writer.write_record(META, &content)?;
        Ok(writer)
    }

    /// Continues a file with the records of `trace`: see [`PartialRead::end`].
    pub fn resume(out: W, trace: &Trace) -> Self {
        Self {
            out,
            programs: trace.programs().len(),
            sets: trace.set_count(),
            slots: trace.slots().len(),
            changes: trace.changes().len(),
            loads: trace.measured_loads().len(),
        }
    }

    /// Writes and flushes new records. After [`Error::Io`] the file may end within a record. Fails
    /// beyond [`MAX_PROGRAMS`].
    pub fn write(&mut self, trace: &Trace) -> Result<()> {
        let programs = trace.programs().len();
        if programs > MAX_PROGRAMS {
            return Err(Error::InvalidTrace(format!(
                "{programs} programs, and the maximum is {MAX_PROGRAMS}"
            )));
        }
        let mut content = Vec::new();
        for programs in trace.programs()[self.programs..].chunks(MAX_ITEMS_PER_RECORD) {
            content.clear();
            for program in programs {
                push_program(&mut content, program);
            }
            self.write_record(PROGRAMS, &content)?;
        }
        self.programs = programs;
        while self.sets < trace.set_count() {
            content.clear();
            let end = (self.sets + MAX_ITEMS_PER_RECORD).min(trace.set_count());
            for set in self.sets..end {
                let programs = trace.programs_of_set(u32::try_from(set).unwrap_or(u32::MAX));
                push_varint(&mut content, programs.len() as u64);
                for program in programs {
                    push_varint(&mut content, u64::from(*program));
                }
            }
            self.write_record(SETS, &content)?;
            self.sets = end;
        }
        // A slot's changes may be added after the slot is written.
        self.write_changes(trace, self.slots.checked_sub(1))?;
        for index in self.slots..trace.slots().len() {
            content.clear();
            push_slot(&mut content, trace, index);
            self.write_record(SLOT, &content)?;
            self.write_changes(trace, Some(index))?;
        }
        self.slots = trace.slots().len();
        for loads in trace.measured_loads()[self.loads..].chunks(MAX_ITEMS_PER_RECORD) {
            content.clear();
            for load in loads {
                for number in [load.slot, u64::from(load.program), load.compile_us] {
                    push_varint(&mut content, number);
                }
            }
            self.write_record(LOADS, &content)?;
        }
        self.loads = trace.measured_loads().len();
        self.out.flush()?;
        Ok(())
    }

    fn write_changes(&mut self, trace: &Trace, slot_index: Option<usize>) -> Result<()> {
        while let Some(change) = trace.changes().get(self.changes) {
            if Some(change.slot_index as usize) != slot_index {
                break;
            }
            let mut content = Vec::new();
            push_varint(&mut content, u64::from(change.position));
            push_varint(&mut content, u64::from(change.program));
            content.push(index_of(&CHANGE_KINDS, &change.kind));
            self.write_record(CHANGE, &content)?;
            self.changes += 1;
        }
        Ok(())
    }

    fn write_record(&mut self, kind: u8, content: &[u8]) -> Result<()> {
        let mut header = vec![kind];
        push_varint(&mut header, content.len() as u64);
        self.out.write_all(&header)?;
        self.out.write_all(content)?;
        self.out.write_all(&checksum(kind, content).to_le_bytes())?;
        Ok(())
    }

    pub fn into_inner(self) -> W {
        self.out
    }
}

fn push_program(content: &mut Vec<u8>, program: &Program) {
    let loader = index_of(&LOADERS, &program.loader);
    let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
    let address = program.address.is_some();
    let size = program.bytes.is_some();
    content.push(
        flag(address, HAS_ADDRESS)
            | flag(size, HAS_SIZE)
            | flag(program.has_code, HAS_CODE)
            | loader << LOADER_SHIFT,
    );
    content.extend(program.address.iter().flatten());
    if let Some(bytes) = program.bytes {
        push_varint(content, bytes);
    }
}

fn push_slot(content: &mut Vec<u8>, trace: &Trace, index: usize) {
    let Some(slot) = trace.slots().get(index) else {
        return;
    };
    push_varint(content, slot.slot);
    push_varint(content, slot.slot.saturating_sub(slot.parent));
    push_varint(content, slot.transactions);
    content.push(index_of(&SLOT_KINDS, &slot.kind));
    for call in trace.transactions_of(index) {
        push_varint(
            content,
            u64::from(call.set_number()) << 1 | u64::from(call.is_fees_only()),
        );
    }
}

fn push_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn index_of<T: PartialEq>(values: &[T], value: &T) -> u8 {
    values
        .iter()
        .position(|other| other == value)
        .unwrap_or_default() as u8
}

/// Ethernet's CRC-32.
fn checksum(kind: u8, content: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&[kind]);
    sum.update(content);
    sum.finalize()
}
