use crate::{
    BadLine, Reason,
    line::{DEFAULT_MAX_LINE_BYTES, LineSplitter, quoted_end},
};

const INDENT: &[u8] = b"    ";

/// Splits a log into lines, and joins the continuation lines of a datapoint whose string value
/// holds newlines.
///
/// An open string continues with lines that are indented by four spaces. Any other line makes the
/// open datapoint a bad line. Continuation lines of other messages stay separate.
#[derive(Debug)]
pub struct LogSplitter {
    lines: LineSplitter,
    joiner: Joiner,
}

#[derive(Debug)]
struct Joiner {
    open_datapoint: Vec<u8>,
    max_line_bytes: usize,
}

impl Default for LogSplitter {
    fn default() -> Self {
        Self::new()
    }
}

impl LogSplitter {
    pub fn new() -> Self {
        Self::with_max_line(DEFAULT_MAX_LINE_BYTES)
    }

    pub fn with_max_line(max_line_bytes: usize) -> Self {
        Self {
            lines: LineSplitter::ignoring_quotes(max_line_bytes),
            joiner: Joiner {
                open_datapoint: Vec::new(),
                max_line_bytes,
            },
        }
    }

    pub fn feed<R>(&mut self, chunk: &[u8], mut sink: impl FnMut(Result<&[u8], BadLine>) -> R) {
        let Self { lines, joiner } = self;
        lines.feed(chunk, |line| joiner.join(line, &mut sink));
    }

    pub fn finish<R>(&mut self, mut sink: impl FnMut(Result<&[u8], BadLine>) -> R) {
        let Self { lines, joiner } = self;
        lines.finish(|line| joiner.join(line, &mut sink));
        joiner.reject_open_datapoint(Reason::UnbalancedQuote, &mut sink);
    }
}

impl Joiner {
    fn join<R>(
        &mut self,
        line: Result<&[u8], BadLine>,
        sink: &mut impl FnMut(Result<&[u8], BadLine>) -> R,
    ) {
        let line = match line {
            Ok(line) => line,
            Err(bad) => {
                self.reject_open_datapoint(Reason::UnbalancedQuote, sink);
                sink(Err(bad));
                return;
            }
        };
        if !self.open_datapoint.is_empty() {
            match line.strip_prefix(INDENT) {
                Some(continuation) => return self.extend(continuation, sink),
                None => self.reject_open_datapoint(Reason::UnbalancedQuote, sink),
            }
        }
        if has_open_string(line) {
            self.open_datapoint.extend_from_slice(line);
        } else {
            sink(Ok(line));
        }
    }

    fn extend<R>(
        &mut self,
        continuation: &[u8],
        sink: &mut impl FnMut(Result<&[u8], BadLine>) -> R,
    ) {
        if self.open_datapoint.len() + 1 + continuation.len() > self.max_line_bytes {
            return self.reject_open_datapoint(Reason::TooLong, sink);
        }
        self.open_datapoint.push(b'\n');
        self.open_datapoint.extend_from_slice(continuation);
        // Only a line with a quote can close the string: this avoids a new search of a long
        // datapoint for each line.
        if memchr::memchr(b'"', continuation).is_some() && !has_open_string(&self.open_datapoint) {
            sink(Ok(&self.open_datapoint));
            self.open_datapoint.clear();
        }
    }

    fn reject_open_datapoint<R>(
        &mut self,
        reason: Reason,
        sink: &mut impl FnMut(Result<&[u8], BadLine>) -> R,
    ) {
        if !self.open_datapoint.is_empty() {
            sink(Err(BadLine::new(reason, &self.open_datapoint)));
        }
        self.open_datapoint = Vec::new();
    }
}

fn has_open_string(line: &[u8]) -> bool {
    let Some(datapoint_start) = memchr::memmem::find(line, b"datapoint: ") else {
        return false;
    };
    let mut rest = line.get(datapoint_start..).unwrap_or_default();
    while let Some(open) = memchr::memmem::find(rest, b"=\"") {
        let string = rest.get(open + 1..).unwrap_or_default();
        let Some(end) = quoted_end(string) else {
            return true;
        };
        rest = string.get(end..).unwrap_or_default();
    }
    false
}
