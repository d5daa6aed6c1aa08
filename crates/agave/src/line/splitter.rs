use memchr::{memchr, memchr2};

use crate::{BadLine, Reason};

/// The longest lines of a validator have about 2 KiB.
pub const DEFAULT_MAX_LINE_BYTES: usize = 64 * 1024;

/// The search for a new datapoint inside a string ignores longer names.
const MAX_NAME_BYTES: usize = 128;
const HOST_ID: &[u8] = b",host_id=";
const LOOKAHEAD: usize = MAX_NAME_BYTES + HOST_ID.len();

/// Splits a streamed body into lines, independent of the chunk boundaries.
///
/// * A newline inside a string value does not end the line. A string begins at `="` and
///   ends at the next `"` without a preceding backslash.
/// * Resynchronization: a newline inside a string ends the line if `name,host_id=` follows, with a
///   name of 1 to 128 characters of `A-Z a-z 0-9 _ - . : /`. So an unbalanced quote damages only
///   its own line. A string whose text contains such a newline is cut at the newline.
/// * CRLF is a newline; empty lines are skipped.
/// * A line above the limit is reported as [`Reason::TooLong`] and skipped up to the next newline,
///   even if that is inside a string.
///
/// Memory is bounded: at most the limit plus 137 bytes of an incomplete line, plus the allocator's
/// rounding.
#[derive(Debug)]
pub struct LineSplitter {
    scanner: Scanner,
    tail: Vec<u8>,
}

impl Default for LineSplitter {
    fn default() -> Self {
        Self::new()
    }
}

impl LineSplitter {
    pub fn new() -> Self {
        Self::with_max_line(DEFAULT_MAX_LINE_BYTES)
    }

    pub fn with_max_line(max_line_bytes: usize) -> Self {
        Self {
            scanner: Scanner::new(max_line_bytes, true),
            tail: Vec::new(),
        }
    }

    /// Ignores quotes: every newline ends a line.
    pub(crate) fn ignoring_quotes(max_line_bytes: usize) -> Self {
        Self {
            scanner: Scanner::new(max_line_bytes, false),
            tail: Vec::new(),
        }
    }

    /// Passes each complete line to `sink`, borrowed from the chunk if possible. Ignores what
    /// `sink` returns, so that it may return early with `?`.
    pub fn feed<R>(&mut self, chunk: &[u8], mut sink: impl FnMut(Result<&[u8], BadLine>) -> R) {
        let mut rest = chunk;
        if !self.tail.is_empty() {
            rest = self.feed_tail(chunk, &mut sink);
        }
        while !rest.is_empty() {
            let step = self.scanner.scan(rest);
            let Some(used) = deliver(step, rest, &mut sink) else {
                self.tail.extend_from_slice(rest);
                return;
            };
            rest = rest.get(used..).unwrap_or_default();
        }
    }

    fn feed_tail<'c, R>(
        &mut self,
        chunk: &'c [u8],
        sink: &mut impl FnMut(Result<&[u8], BadLine>) -> R,
    ) -> &'c [u8] {
        let mut appended = 0;
        loop {
            let step = self.scanner.scan(&self.tail);
            if let Some(used) = deliver(step, &self.tail, sink) {
                let unconsumed = self.tail.len() - used.min(self.tail.len());
                if unconsumed <= appended {
                    self.tail.clear();
                    return chunk.get(appended - unconsumed..).unwrap_or_default();
                }
                self.tail.drain(..used);
                continue;
            }
            let rest = chunk.get(appended..).unwrap_or_default();
            if rest.is_empty() {
                return rest;
            }
            let piece_length = memchr(b'\n', rest)
                .map_or(rest.len(), |at| at + 1)
                .min(self.free_bytes());
            self.tail
                .extend_from_slice(rest.get(..piece_length).unwrap_or_default());
            appended += piece_length;
        }
    }

    /// Bytes that may be appended to the tail at once. This bounds the tail. It is at least 1, so
    /// that a chunk is always consumed.
    fn free_bytes(&self) -> usize {
        (self.scanner.max_line_bytes + LOOKAHEAD)
            .saturating_sub(self.tail.len())
            .max(1)
    }

    pub fn finish<R>(&mut self, sink: impl FnMut(Result<&[u8], BadLine>) -> R) {
        let tail = std::mem::take(&mut self.tail);
        self.scanner.is_at_end = true;
        self.feed(&tail, sink);
        self.reset();
    }

    /// Drops the incomplete line of an aborted body, because its last number may be cut. Returns
    /// the number of dropped bytes.
    pub fn reset(&mut self) -> usize {
        let dropped = self.tail.len();
        self.tail = Vec::new();
        self.scanner = Scanner::new(self.scanner.max_line_bytes, self.scanner.respects_quotes);
        dropped
    }

    pub fn memory_bytes(&self) -> usize {
        self.tail.capacity()
    }
}

/// Returns the number of bytes of `buffer` that were consumed; `None` if more are needed.
#[inline]
fn deliver<R>(
    step: Step,
    buffer: &[u8],
    sink: &mut impl FnMut(Result<&[u8], BadLine>) -> R,
) -> Option<usize> {
    match step {
        Step::NeedsMore => None,
        Step::Skipped { used } => Some(used),
        Step::Line { end, used } => {
            let line = buffer.get(..end).unwrap_or_default();
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if !line.is_empty() {
                sink(Ok(line));
            }
            Some(used)
        }
        Step::TooLong { used } => {
            sink(Err(BadLine::new(
                Reason::TooLong,
                buffer.get(..used).unwrap_or(buffer),
            )));
            Some(used)
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Line {
        end: usize,
        used: usize,
    },
    /// The line's first `used` bytes are consumed. Further calls skip the rest.
    TooLong {
        used: usize,
    },
    Skipped {
        used: usize,
    },
    /// No complete line: the next call needs the same bytes and more after them.
    NeedsMore,
}

/// Position of the scan in the current line. Only the start of a possible datapoint after
/// a newline in a string is scanned again, if chunks are small.
#[derive(Debug)]
struct Scanner {
    max_line_bytes: usize,
    respects_quotes: bool,
    scanned: usize,
    in_string: bool,
    is_skipping: bool,
    is_at_end: bool,
}

impl Scanner {
    fn new(max_line_bytes: usize, respects_quotes: bool) -> Self {
        Self {
            max_line_bytes: max_line_bytes.max(1),
            respects_quotes,
            scanned: 0,
            in_string: false,
            is_skipping: false,
            is_at_end: false,
        }
    }

    fn scan(&mut self, buffer: &[u8]) -> Step {
        if self.is_skipping {
            let newline = memchr(b'\n', buffer);
            self.is_skipping = newline.is_none();
            return Step::Skipped {
                used: newline.map_or(buffer.len(), |at| at + 1),
            };
        }
        loop {
            let unseen = buffer.get(self.scanned..).unwrap_or_default();
            let found = if self.respects_quotes {
                memchr2(b'\n', b'"', unseen)
            } else {
                memchr(b'\n', unseen)
            };
            let position = self.scanned + found.unwrap_or(unseen.len());
            if position > self.max_line_bytes {
                return self.start_skipping();
            }
            if found.is_none() {
                if self.is_at_end {
                    return Step::Line {
                        end: position,
                        used: position,
                    };
                }
                self.scanned = position;
                return Step::NeedsMore;
            }
            if buffer.get(position) == Some(&b'"') {
                let before = position.checked_sub(1).and_then(|at| buffer.get(at));
                let stays_in_string_after = if self.in_string { b'\\' } else { b'=' };
                self.in_string = before == Some(&stays_in_string_after);
            } else if !self.in_string {
                return self.end_line(position);
            } else {
                match point_start(buffer.get(position + 1..).unwrap_or_default()) {
                    PointStart::Yes => return self.end_line(position),
                    PointStart::Unknown if !self.is_at_end => {
                        self.scanned = position;
                        return Step::NeedsMore;
                    }
                    PointStart::No | PointStart::Unknown => {}
                }
            }
            self.scanned = position + 1;
        }
    }

    fn end_line(&mut self, end: usize) -> Step {
        self.scanned = 0;
        self.in_string = false;
        Step::Line { end, used: end + 1 }
    }

    fn start_skipping(&mut self) -> Step {
        self.scanned = 0;
        self.in_string = false;
        self.is_skipping = true;
        Step::TooLong {
            used: self.max_line_bytes,
        }
    }
}

/// Whether a datapoint begins; `Unknown` if more bytes are needed.
#[derive(Debug)]
enum PointStart {
    Yes,
    No,
    Unknown,
}

fn point_start(text: &[u8]) -> PointStart {
    let is_name = |byte: &u8| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b':' | b'/')
    };
    let name_length = text
        .iter()
        .take(MAX_NAME_BYTES + 1)
        .take_while(|byte| is_name(byte))
        .count();
    if name_length > MAX_NAME_BYTES {
        return PointStart::No;
    }
    let after = text.get(name_length..).unwrap_or_default();
    if name_length == 0 && !after.is_empty() {
        PointStart::No
    } else if after.starts_with(HOST_ID) {
        PointStart::Yes
    } else if HOST_ID.starts_with(after) {
        PointStart::Unknown
    } else {
        PointStart::No
    }
}
