//! Looks for the name of a variable in a program file.

use super::facts::Switch;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// How machine code begins on Linux.
const ELF: &[u8] = b"\x7fELF";
/// Read at a time.
const PIECE: usize = 1 << 18;

/// Whether `variable` stands in the file.
pub(super) fn look(file: &Path, variable: &str) -> Switch {
    let opened = std::fs::metadata(file).and_then(|meta| match meta.is_file() {
        true => File::open(file),
        false => Err(std::io::Error::other("is no file")),
    });
    let looked = opened.and_then(|mut file| {
        let mut start = Vec::new();
        file.by_ref().take(ELF.len() as u64).read_to_end(&mut start)?;
        if start != ELF {
            return Ok(Switch::Script);
        }
        Ok(if contains(&mut file, variable.as_bytes())? { Switch::There } else { Switch::Missing })
    });
    looked.unwrap_or_else(|error| Switch::Unreadable(error.to_string()))
}

/// Whether `wanted` comes in what is left to read, in constant memory.
fn contains(file: &mut impl Read, wanted: &[u8]) -> std::io::Result<bool> {
    if wanted.is_empty() {
        return Ok(true);
    }
    let mut held: Vec<u8> = Vec::new();
    loop {
        let read = file.by_ref().take(PIECE as u64).read_to_end(&mut held)?;
        if found(&held, wanted) {
            return Ok(true);
        }
        if read == 0 {
            return Ok(false);
        }
        // It may begin at the end of this piece.
        held.drain(..held.len().saturating_sub(wanted.len() - 1));
    }
}

/// Horspool's search: most places are stepped over.
fn found(text: &[u8], wanted: &[u8]) -> bool {
    let mut step = [wanted.len(); 256];
    for (at, byte) in wanted.iter().enumerate().take(wanted.len() - 1) {
        step[usize::from(*byte)] = wanted.len() - 1 - at;
    }
    let mut at = 0;
    while let Some(window) = text.get(at..at + wanted.len()) {
        if window == wanted {
            return true;
        }
        at += window.last().map_or(1, |byte| step[usize::from(*byte)]);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn scripts_programs_with_and_without_the_name_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let looked = |content: &[u8]| {
            let file = folder.path().join("program");
            std::fs::write(&file, content).unwrap();
            look(&file, "AGAVE_PROGRAM_CACHE_ENTRIES")
        };
        let mut program = b"\x7fELF".to_vec();
        program.resize(PIECE * 2 - 10, b'A');
        assert_eq!(looked(&program), Switch::Missing);
        // Over the border of two pieces.
        program.extend(b"AGAVE_PROGRAM_CACHE_ENTRIES and more");
        assert_eq!(looked(&program), Switch::There);
        assert_eq!(looked(b"#!/bin/sh\nAGAVE_PROGRAM_CACHE_ENTRIES=1 exec v"), Switch::Script);
        assert_eq!(looked(b""), Switch::Script);
        for unreadable in [folder.path().to_owned(), folder.path().join("none")] {
            assert!(matches!(look(&unreadable, "A"), Switch::Unreadable(_)));
        }
    }

    proptest! {
        #[test]
        fn what_is_found_is_there_and_nothing_else(text in "[ab]{0,40}", wanted in "[ab]{1,6}") {
            prop_assert_eq!(found(text.as_bytes(), wanted.as_bytes()), text.contains(&wanted));
        }
    }
}
