//! A program's output into lines.

/// Splits output into lines, of which an incomplete one is kept up to a limit.
#[derive(Debug)]
pub(super) struct Lines {
    most: usize,
    partial: Vec<u8>,
    skipping: bool,
}

/// What a piece of output completes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    /// A line without its newline.
    Whole(&'a [u8]),
    /// A line longer than the limit; told once, when it has grown too long.
    TooLong,
}

impl Lines {
    pub(super) fn new(most: usize) -> Self {
        Lines { most, partial: Vec::new(), skipping: false }
    }

    pub(super) fn feed(&mut self, output: &[u8], mut sink: impl FnMut(Line<'_>)) {
        for piece in output.split_inclusive(|byte| *byte == b'\n') {
            let line = piece.strip_suffix(b"\n");
            let text = line.unwrap_or(piece);
            if !self.skipping && self.partial.len() + text.len() > self.most {
                self.skipping = true;
                self.partial = Vec::new();
                sink(Line::TooLong);
            }
            match (self.skipping, line) {
                (true, None) => {}
                (true, Some(_)) => self.skipping = false,
                (false, None) => self.partial.extend_from_slice(text),
                (false, Some(line)) if self.partial.is_empty() => sink(Line::Whole(line)),
                (false, Some(line)) => {
                    self.partial.extend_from_slice(line);
                    sink(Line::Whole(&self.partial));
                    self.partial.clear();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(most: usize, pieces: &[&str]) -> Vec<Option<String>> {
        let mut found = Vec::new();
        let mut lines = Lines::new(most);
        for piece in pieces {
            lines.feed(piece.as_bytes(), |line| match line {
                Line::Whole(line) => found.push(Some(String::from_utf8_lossy(line).into_owned())),
                Line::TooLong => found.push(None),
            });
        }
        found
    }

    #[test]
    fn lines_do_not_depend_on_the_pieces_they_come_in() {
        let whole = lines(4, &["one\nfive5\n\ntwo\ncut"]);
        assert_eq!(whole, [Some("one".to_owned()), None, Some(String::new()), Some("two".to_owned())]);
        assert_eq!(lines(4, &["o", "ne", "\nfiv", "e5\n", "\n", "two\n", "c", "ut"]), whole);
    }
}
