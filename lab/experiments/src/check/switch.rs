//! Searches a program file for a name.

use super::OptionPresence;
use memchr::memmem;
use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

const ELF: &[u8] = b"\x7fELF";
const CHUNK_BYTES: usize = 1 << 18;

/// `name` followed by `excluded_suffix` does not count.
pub fn search(file: &Path, name: &str, excluded_suffix: &str) -> OptionPresence {
    let opened = std::fs::metadata(file).and_then(|meta| match meta.is_file() {
        true => File::open(file),
        false => Err(io::Error::other("is no file")),
    });
    let searched = opened.and_then(|mut file| {
        let mut start = Vec::new();
        file.by_ref()
            .take(ELF.len() as u64)
            .read_to_end(&mut start)?;
        if start != ELF {
            return Ok(OptionPresence::Script);
        }
        Ok(
            if contains(&mut file, name.as_bytes(), excluded_suffix.as_bytes())? {
                OptionPresence::Present
            } else {
                OptionPresence::Missing
            },
        )
    });
    searched.unwrap_or_else(|error| OptionPresence::Unreadable(error.to_string()))
}

/// Uses constant memory.
fn contains(file: &mut impl Read, wanted: &[u8], excluded_suffix: &[u8]) -> io::Result<bool> {
    if wanted.is_empty() {
        return Ok(true);
    }
    let mut buffer: Vec<u8> = Vec::new();
    loop {
        let read = file
            .by_ref()
            .take(CHUNK_BYTES as u64)
            .read_to_end(&mut buffer)?;
        // A match at the end of this piece is decided with the next one.
        let is_last = read == 0;
        let decided = buffer
            .len()
            .saturating_sub(if is_last { 0 } else { excluded_suffix.len() });
        if has_match(&buffer, decided, wanted, excluded_suffix) {
            return Ok(true);
        }
        if is_last {
            return Ok(false);
        }
        buffer.drain(..decided.saturating_sub(wanted.len() - 1));
    }
}

fn has_match(text: &[u8], decided: usize, wanted: &[u8], excluded_suffix: &[u8]) -> bool {
    let decided = text.get(..decided).unwrap_or_default();
    memmem::find_iter(decided, wanted).any(|at| {
        let rest = text.get(at + wanted.len()..).unwrap_or_default();
        excluded_suffix.is_empty() || !rest.starts_with(excluded_suffix)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn scripts_and_programs_with_or_without_the_option_are_distinguished() {
        let folder = tempfile::tempdir().unwrap();
        let searched = |content: &[u8]| {
            let file = folder.path().join("program");
            std::fs::write(&file, content).unwrap();
            search(&file, "AGAVE_PROGRAM_CACHE_ENTRIES", "")
        };
        let mut program = b"\x7fELF".to_vec();
        program.resize(CHUNK_BYTES * 2 - 10, b'A');
        assert_eq!(searched(&program), OptionPresence::Missing);
        // Over the border of two pieces.
        program.extend(b"AGAVE_PROGRAM_CACHE_ENTRIES and more");
        assert_eq!(searched(&program), OptionPresence::Present);
        assert_eq!(
            searched(b"#!/bin/sh\nAGAVE_PROGRAM_CACHE_ENTRIES=1 exec v"),
            OptionPresence::Script
        );
        assert_eq!(searched(b""), OptionPresence::Script);
        for unreadable in [folder.path().to_owned(), folder.path().join("none")] {
            assert!(matches!(
                search(&unreadable, "A", ""),
                OptionPresence::Unreadable(_)
            ));
        }
    }

    #[test]
    fn an_option_is_not_matched_inside_a_longer_one_across_chunks() {
        for before in CHUNK_BYTES - 40..CHUNK_BYTES + 4 {
            let file = |text: &str| [vec![b'x'; before], text.into()].concat();
            let there = |text: &str| {
                contains(&mut file(text).as_slice(), b"read-cache-limit", b"-mb").unwrap()
            };
            assert!(!there("read-cache-limit-mb and more"), "{before}");
            assert!(there("read-cache-limit-mbread-cache-limit"), "{before}");
            assert!(there("read-cache-limit-m"), "{before}");
        }
    }

    proptest! {
        #[test]
        fn the_chunked_option_search_equals_a_substring_search(text in "[ab]{0,40}", wanted in "[ab]{1,6}") {
            prop_assert_eq!(has_match(text.as_bytes(), text.len(), wanted.as_bytes(), b""), text.contains(&wanted));
        }
    }
}
