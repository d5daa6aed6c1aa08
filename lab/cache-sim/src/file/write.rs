use super::{
    CHANGE, CHANGE_KINDS, HAS_ADDRESS, HAS_BYTES, HAS_CODE, LOADER_SHIFT, LOADERS, LOADS, MAGIC,
    META, PROGRAMS, SETS, SLOT, SLOT_KINDS, SOURCES,
    bytes::{checksum, index_of, put},
};
use crate::{
    error::Error,
    trace::{MAX_PROGRAMS, Program, Trace},
};
use std::io::Write;

/// Items of one record. Damage then costs only a part.
const ITEMS_PER_RECORD: usize = 4_096;

pub struct Writer<W> {
    out: W,
    programs: usize,
    sets: usize,
    slots: usize,
    changes: usize,
    loads: usize,
}

impl<W: Write> Writer<W> {
    pub fn new(mut out: W, trace: &Trace) -> Result<Self, Error> {
        out.write_all(MAGIC)?;
        let meta = trace.meta();
        let mut writer = Writer::append(out, &Trace::new(meta.clone()));
        let mut content = vec![index_of(&SOURCES, &meta.source)];
        for text in [&meta.cluster, &meta.version] {
            put(&mut content, text.len() as u64);
            content.extend_from_slice(text.as_bytes());
        }
        writer.record(META, &content)?;
        Ok(writer)
    }

    /// Continues a file that ends with the trace's present records: see
    /// [`super::PartialRead::end`].
    pub fn append(out: W, trace: &Trace) -> Self {
        Writer {
            out,
            programs: trace.programs().len(),
            sets: trace.sets(),
            slots: trace.slots().len(),
            changes: trace.changes().len(),
            loads: trace.loads().len(),
        }
    }

    /// Writes and flushes new records. A change belongs to the last slot: write before the next
    /// slot begins, or all at once. After [`Error::Io`] the file may end within a record. Fails
    /// beyond [`MAX_PROGRAMS`].
    pub fn write(&mut self, trace: &Trace) -> Result<(), Error> {
        let programs = trace.programs().len();
        if programs > MAX_PROGRAMS {
            return Err(Error::Contradiction(format!(
                "{programs} programs, and {MAX_PROGRAMS} are the most"
            )));
        }
        let mut content = Vec::new();
        for programs in trace.programs()[self.programs..].chunks(ITEMS_PER_RECORD) {
            content.clear();
            programs
                .iter()
                .for_each(|program| put_program(&mut content, program));
            self.record(PROGRAMS, &content)?;
        }
        self.programs = trace.programs().len();
        while self.sets < trace.sets() {
            content.clear();
            let end = (self.sets + ITEMS_PER_RECORD).min(trace.sets());
            for set in self.sets..end {
                let programs = trace.set(u32::try_from(set).unwrap_or(u32::MAX));
                put(&mut content, programs.len() as u64);
                programs
                    .iter()
                    .for_each(|program| put(&mut content, u64::from(*program)));
            }
            self.record(SETS, &content)?;
            self.sets = end;
        }
        // Changes that came after their slot was written.
        self.changes_of(trace, self.slots.checked_sub(1))?;
        for index in self.slots..trace.slots().len() {
            content.clear();
            put_slot(&mut content, trace, index);
            self.record(SLOT, &content)?;
            self.changes_of(trace, Some(index))?;
        }
        self.slots = trace.slots().len();
        for loads in trace.loads()[self.loads..].chunks(ITEMS_PER_RECORD) {
            content.clear();
            for load in loads {
                [load.slot, u64::from(load.program), load.us]
                    .iter()
                    .for_each(|number| put(&mut content, *number));
            }
            self.record(LOADS, &content)?;
        }
        self.loads = trace.loads().len();
        self.out.flush()?;
        Ok(())
    }

    fn changes_of(&mut self, trace: &Trace, slot_index: Option<usize>) -> Result<(), Error> {
        while let Some(change) = trace.changes().get(self.changes) {
            if Some(change.slot_index as usize) != slot_index {
                break;
            }
            let mut content = Vec::new();
            put(&mut content, u64::from(change.position));
            put(&mut content, u64::from(change.program));
            content.push(index_of(&CHANGE_KINDS, &change.kind));
            self.record(CHANGE, &content)?;
            self.changes += 1;
        }
        Ok(())
    }

    fn record(&mut self, kind: u8, content: &[u8]) -> Result<(), Error> {
        let mut begin = vec![kind];
        put(&mut begin, content.len() as u64);
        self.out.write_all(&begin)?;
        self.out.write_all(content)?;
        self.out.write_all(&checksum(kind, content).to_le_bytes())?;
        Ok(())
    }

    pub fn into_inner(self) -> W {
        self.out
    }
}

fn put_program(content: &mut Vec<u8>, program: &Program) {
    let loader = index_of(&LOADERS, &program.loader);
    let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
    let (address, bytes) = (program.address.is_some(), program.bytes.is_some());
    content.push(
        flag(address, HAS_ADDRESS)
            | flag(bytes, HAS_BYTES)
            | flag(program.has_code, HAS_CODE)
            | loader << LOADER_SHIFT,
    );
    content.extend(program.address.iter().flatten());
    program.bytes.iter().for_each(|bytes| put(content, *bytes));
}

fn put_slot(content: &mut Vec<u8>, trace: &Trace, index: usize) {
    let Some(slot) = trace.slots().get(index) else {
        return;
    };
    put(content, slot.slot);
    put(content, slot.slot.saturating_sub(slot.parent));
    put(content, slot.transactions);
    content.push(index_of(&SLOT_KINDS, &slot.kind));
    for call in trace.calls_of(index) {
        put(
            content,
            u64::from(call.set()) << 1 | u64::from(call.fees_only()),
        );
    }
}
