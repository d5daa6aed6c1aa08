//! Plain traces: one line per transaction, with its slot and its programs.

use super::{Call, MAX_PROGRAMS, Meta, Program, SetNumbers, Slot, SlotKind, Source, Trace};
use crate::Error;
use std::io::{BufRead, Read};

const MAX_LINE_BYTES: u64 = 4096;

impl Trace {
    /// Reads lines with a slot and the numbers of the programs that one transaction looked up,
    /// separated by blanks. Programs have no address and no size. All transactions of a slot are in
    /// the trace; its parent is the slot before.
    pub fn read_plain(mut input: impl BufRead) -> Result<Self, Error> {
        let meta = Meta {
            source: Source::Plain,
            cluster: String::new(),
            version: String::new(),
        };
        let mut reading = PlainReader {
            trace: Trace::new(meta),
            sets: SetNumbers::default(),
            current: None,
        };
        let (mut line, mut number) = (Vec::new(), 0);
        loop {
            line.clear();
            number += 1;
            if input
                .by_ref()
                .take(MAX_LINE_BYTES)
                .read_until(b'\n', &mut line)?
                == 0
            {
                reading.end_slot()?;
                return Ok(reading.trace);
            }
            let text = String::from_utf8_lossy(&line);
            reading.line(text.trim()).map_err(|cause| match cause {
                LineError::Line(what) => Error::Line {
                    line: number,
                    what,
                    text: Error::excerpt(&text),
                },
                LineError::Other(error) => error,
            })?;
        }
    }
}

enum LineError {
    Line(&'static str),
    Other(Error),
}

impl From<Error> for LineError {
    fn from(error: Error) -> Self {
        LineError::Other(error)
    }
}

struct PlainReader {
    trace: Trace,
    sets: SetNumbers,
    current: Option<(u64, Vec<Call>)>,
}

impl PlainReader {
    fn line(&mut self, text: &str) -> Result<(), LineError> {
        let mut words = text.split_ascii_whitespace();
        let slot: u64 = words
            .next()
            .and_then(|word| word.parse().ok())
            .ok_or(LineError::Line("no slot"))?;
        let programs: Option<Vec<u32>> = words.map(|word| word.parse().ok()).collect();
        let programs = programs.ok_or(LineError::Line("not the number of a program"))?;
        let highest = programs.iter().max().ok_or(LineError::Line("no program"))?;
        // Every number up to the highest takes memory.
        if *highest as usize >= MAX_PROGRAMS {
            return Err(LineError::Line("too high a number of a program"));
        }
        while self.trace.programs().len() <= *highest as usize {
            self.trace.add_program(Program {
                address: None,
                loader: None,
                bytes: None,
                has_code: true,
            })?;
        }
        match &self.current {
            Some((current, _)) if slot < *current => {
                return Err(LineError::Line("an earlier slot than the line before"));
            }
            Some((current, _)) if slot == *current => {}
            _ => {
                self.end_slot()?;
                self.current = Some((slot, Vec::new()));
            }
        }
        let set = self.sets.number(&mut self.trace, &programs)?;
        let call = Call::new(set, false).ok_or(LineError::Line("too many different sets"))?;
        self.current
            .iter_mut()
            .for_each(|(_, calls)| calls.push(call));
        Ok(())
    }

    fn end_slot(&mut self) -> Result<(), Error> {
        let Some((slot, calls)) = self.current.take() else {
            return Ok(());
        };
        let parent = self
            .trace
            .slots()
            .last()
            .map_or(slot.saturating_sub(1), |last| last.slot);
        let transactions = calls.len() as u64;
        self.trace.add_slot(
            Slot {
                slot,
                parent,
                transactions,
                kind: SlotKind::Replayed,
            },
            &calls,
        )
    }
}
