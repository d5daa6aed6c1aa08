use super::{
    CHANGE, CHANGE_KINDS, HAS_ADDRESS, HAS_CODE, HAS_SIZE, LOADER_SHIFT, LOADERS, LOADS, MAGIC,
    MAX_RECORD_BYTES, META, PROGRAMS, SETS, SLOT, SLOT_KINDS, SOURCES, checksum,
};
use crate::{
    Error, Result,
    trace::{MAX_PROGRAMS, MeasuredLoad, Meta, Program, Slot, Trace, TraceChange, TransactionCall},
};
use std::io::{BufRead, Read};

pub struct PartialRead {
    pub trace: Trace,
    /// Bytes up to the end of the last whole record. To continue the file, truncate it here.
    pub end: u64,
    /// `None` if the whole file was read.
    pub damage: Option<Error>,
}

pub fn read(input: impl BufRead) -> Result<Trace> {
    let partial = read_whole_records(input)?;
    partial.damage.map_or(Ok(partial.trace), Err)
}

/// Reads a file up to its end or its first damage: a killed writer leaves half a record.
pub fn read_whole_records(input: impl BufRead) -> Result<PartialRead> {
    let mut file = RecordReader {
        input,
        begin: 0,
        offset: 0,
        content: Vec::new(),
    };
    let magic = file.read_exactly(MAGIC.len() as u64);
    if !MAGIC.starts_with(&file.content) {
        return Err(match file.content.strip_prefix(b"FLTRACE") {
            Some(&[format @ 2..=u8::MAX]) => Error::Newer {
                found: format!("format {format}"),
            },
            _ => Error::NotATrace,
        });
    }
    magic?;
    let meta = match file.record()? {
        Some(META) => meta(&file.content),
        _ => Err("the first record is not that of the metadata".to_owned()),
    };
    let meta = meta.map_err(|problem| damaged(file.begin, problem))?;
    let mut partial = PartialRead {
        trace: Trace::new(meta),
        end: file.offset,
        damage: None,
    };
    loop {
        let result = match file.record() {
            Ok(None) => return Ok(partial),
            Ok(Some(kind)) if kind > LOADS => {
                let found = format!("records of kind {kind}");
                return Err(Error::Newer { found });
            }
            Ok(Some(kind)) => add_record(&mut partial.trace, kind, &file.content)
                .map_err(|problem| damaged(partial.end, problem)),
            Err(error @ Error::Io(_)) => return Err(error),
            Err(error) => Err(error),
        };
        if let Err(error) = result {
            partial.damage = Some(error);
            return Ok(partial);
        }
        partial.end = file.offset;
    }
}

struct RecordContent<'a>(&'a [u8]);

impl<'a> RecordContent<'a> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], String> {
        let (taken, rest) = usize::try_from(length)
            .ok()
            .and_then(|length| self.0.split_at_checked(length))
            .ok_or("its content ends within a field")?;
        self.0 = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, String> {
        self.take(1)?.first().copied().ok_or_else(String::new)
    }

    fn one_of<T: Copy>(&mut self, values: &[T], name: &str) -> Result<T, String> {
        let index = self.byte()?;
        values
            .get(usize::from(index))
            .copied()
            .ok_or_else(|| format!("{index} is not a known {name}"))
    }

    fn number(&mut self) -> Result<u64, String> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err("a number has more than 64 bits".to_owned())
    }

    fn number_u32(&mut self) -> Result<u32, String> {
        u32::try_from(self.number()?).map_err(|_| "a number has more than 32 bits".to_owned())
    }

    fn text(&mut self) -> Result<String, String> {
        let length = self.number()?;
        String::from_utf8(self.take(length)?.to_vec()).map_err(|_| "a text is not UTF-8".to_owned())
    }
}

fn damaged(offset: u64, problem: impl Into<String>) -> Error {
    Error::Damaged {
        offset,
        problem: problem.into(),
    }
}

struct RecordReader<R> {
    input: R,
    /// Offset of the current record, where damage is reported.
    begin: u64,
    offset: u64,
    content: Vec<u8>,
}

impl<R: BufRead> RecordReader<R> {
    /// Memory grows with the bytes that arrive, not with `length`.
    fn read_exactly(&mut self, length: u64) -> Result<()> {
        self.content.clear();
        let read = self
            .input
            .by_ref()
            .take(length)
            .read_to_end(&mut self.content)? as u64;
        self.offset += read;
        if read < length {
            return Err(damaged(self.begin, "it ends too early"));
        }
        Ok(())
    }

    /// Reads the next record into `content`, and returns its kind; `None` at the end.
    fn record(&mut self) -> Result<Option<u8>> {
        self.begin = self.offset;
        if self.input.fill_buf()?.is_empty() {
            return Ok(None);
        }
        self.read_exactly(1)?;
        let kind = self.content.first().copied().unwrap_or(0);
        let length = self.length()?;
        if length > MAX_RECORD_BYTES {
            return Err(damaged(
                self.begin,
                format!("a record of {length} bytes, more than {MAX_RECORD_BYTES}"),
            ));
        }
        self.read_exactly(length + 4)?;
        let sum = self.content.split_off(length as usize);
        if sum != checksum(kind, &self.content).to_le_bytes() {
            return Err(damaged(self.begin, "the checksum of the record is wrong"));
        }
        Ok(Some(kind))
    }

    fn length(&mut self) -> Result<u64> {
        let mut bytes = Vec::new();
        loop {
            self.read_exactly(1)?;
            bytes.extend_from_slice(&self.content);
            let is_last = bytes.last().is_some_and(|byte| byte & 0x80 == 0);
            if is_last || bytes.len() == 10 {
                return RecordContent(&bytes)
                    .number()
                    .map_err(|problem| damaged(self.begin, problem));
            }
        }
    }
}

fn meta(content: &[u8]) -> Result<Meta, String> {
    let mut content = RecordContent(content);
    Ok(Meta {
        source: content.one_of(&SOURCES, "source of a trace")?,
        cluster: content.text()?,
        version: content.text()?,
    })
}

fn add_record(trace: &mut Trace, kind: u8, content: &[u8]) -> Result<(), String> {
    let mut content = RecordContent(content);
    let as_text = |error: Error| error.to_string();
    match kind {
        PROGRAMS => {
            while !content.is_empty() {
                let program = program(&mut content)?;
                if trace.programs().len() == MAX_PROGRAMS {
                    return Err(format!("more than {MAX_PROGRAMS} programs"));
                }
                trace.add_program(program).map_err(as_text)?;
            }
        }
        SETS => {
            while !content.is_empty() {
                let length = content.number()?.min(content.0.len() as u64 + 1);
                let programs: Vec<u32> = (0..length)
                    .map(|_| content.number_u32())
                    .collect::<Result<_, _>>()?;
                trace.add_set(&programs).map_err(as_text)?;
            }
        }
        SLOT => add_slot(trace, &mut content)?,
        CHANGE => {
            let position = content.number_u32()?;
            let program = content.number_u32()?;
            let kind = content.one_of(&CHANGE_KINDS, "kind of change")?;
            let slot_index = trace
                .slots()
                .len()
                .checked_sub(1)
                .ok_or("a change before the first slot")? as u32;
            trace
                .add_change(TraceChange {
                    slot_index,
                    position,
                    program,
                    kind,
                })
                .map_err(as_text)?;
        }
        LOADS => {
            while !content.is_empty() {
                let load = MeasuredLoad {
                    slot: content.number()?,
                    program: content.number_u32()?,
                    compile_us: content.number()?,
                };
                trace.add_measured_load(load).map_err(as_text)?;
            }
        }
        other => return Err(format!("{other} is not a known kind of record")),
    }
    if content.is_empty() {
        Ok(())
    } else {
        Err("the record has more content than its kind allows".to_owned())
    }
}

fn program(content: &mut RecordContent) -> Result<Program, String> {
    let flags = content.byte()?;
    let loader = RecordContent(&[flags >> LOADER_SHIFT]).one_of(&LOADERS, "loader")?;
    let address = if flags & HAS_ADDRESS == 0 {
        None
    } else {
        content.take(32)?.try_into().ok()
    };
    let has_size = flags & HAS_SIZE != 0;
    let bytes = has_size.then(|| content.number()).transpose()?;
    Ok(Program {
        address,
        loader,
        bytes,
        has_code: flags & HAS_CODE != 0,
    })
}

fn add_slot(trace: &mut Trace, content: &mut RecordContent) -> Result<(), String> {
    let slot = content.number()?;
    let parent_distance = content.number()?;
    let transactions = content.number()?;
    let parent = slot
        .checked_sub(parent_distance)
        .ok_or("a slot with a parent below 0")?;
    let kind = content.one_of(&SLOT_KINDS, "kind of slot")?;
    let mut calls = Vec::new();
    while !content.is_empty() {
        let packed_call = content.number()?;
        let set = u32::try_from(packed_call >> 1).ok();
        calls.push(
            set.and_then(|set| TransactionCall::new(set, packed_call & 1 == 1))
                .ok_or("the number of a set of programs is too high")?,
        );
    }
    trace
        .add_slot(
            Slot {
                slot,
                parent,
                transactions,
                kind,
            },
            &calls,
        )
        .map_err(|error| error.to_string())
}
