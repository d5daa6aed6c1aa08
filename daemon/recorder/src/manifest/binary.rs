//! SHA-256 of the executable, read without disturbing the validator: slowly, and without changing
//! the page cache.

use faultline_core::supervisor::Stop;
use rustix::{
    fs::{Advice, fadvise},
    io::{Errno, ReadWriteFlags},
};
use std::{
    fs::File,
    io::{self, IoSliceMut},
    num::NonZeroU64,
    time::Duration,
};

const PIECE_BYTES: usize = 256 << 10;

const PIECES_PER_PAUSE: u32 = 32;

/// Limits reads to 400 MB/s.
const PAUSE: Duration = Duration::from_millis(20);

/// Maximum size of a program; a larger file is not hashed.
const MAX_BYTES: u64 = 8 << 30;

#[derive(Debug, PartialEq)]
pub struct BinaryDigest {
    pub sha256: String,
    pub bytes: u64,
}

/// Hashes the file in pieces of 256 KiB. Evicts each piece of which a page was not in the page
/// cache before.
///
/// # Errors
/// The file is unreadable or larger than 8 GiB, or `stop` is set.
pub fn hash_file(file: &File, stop: &Stop) -> io::Result<BinaryDigest> {
    // Readahead would cache later pieces, which would then seem to be cached by others.
    let _ = fadvise(file, 0, None, Advice::Random);
    let mut context = ring::digest::Context::new(&ring::digest::SHA256);
    let (mut buffer, mut offset, mut pieces) = (vec![0; PIECE_BYTES], 0, 0);
    loop {
        let (count, is_cached) = read_piece(file, &mut buffer, offset)?;
        let Some(piece) = buffer.get(..count).filter(|piece| !piece.is_empty()) else {
            break;
        };
        context.update(piece);
        if !is_cached {
            let _ = fadvise(
                file,
                offset,
                NonZeroU64::new(count as u64),
                Advice::DontNeed,
            );
        }
        offset += count as u64;
        pieces += 1;
        let pause = if pieces % PIECES_PER_PAUSE == 0 {
            PAUSE
        } else {
            Duration::ZERO
        };
        if offset > MAX_BYTES {
            return Err(io::Error::other("too large"));
        }
        if stop.sleep(pause) {
            return Err(io::Error::other("stopped"));
        }
    }
    let sha256 = context
        .finish()
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    Ok(BinaryDigest {
        sha256,
        bytes: offset,
    })
}

/// Reads one piece. Also returns whether all of it was in the page cache; false if unknown.
fn read_piece(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<(usize, bool)> {
    let cached_bytes = rustix::io::preadv2(
        file,
        &mut [IoSliceMut::new(buffer)],
        offset,
        ReadWriteFlags::NOWAIT,
    );
    let cached_bytes = match cached_bytes {
        Ok(count) if count == buffer.len() => return Ok((count, true)),
        Ok(count) => Some(count),
        Err(Errno::AGAIN | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::INTR) => None,
        Err(error) => return Err(error.into()),
    };
    let count = rustix::io::retry_on_intr(|| rustix::io::pread(file, &mut *buffer, offset))?;
    Ok((count, cached_bytes == Some(count)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_sha256_test_vectors_match() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        for (text, sha256) in [
            (
                "",
                "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            ),
            (
                "abc",
                "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            ),
        ] {
            std::fs::write(&path, text).unwrap();
            let found = hash_file(&File::open(&path).unwrap(), &Stop::default()).unwrap();
            assert_eq!(
                found,
                BinaryDigest {
                    sha256: sha256.to_owned(),
                    bytes: text.len() as u64
                }
            );
        }
        // A million times "a", in several pieces.
        std::fs::write(&path, vec![b'a'; 1_000_000]).unwrap();
        let found = hash_file(&File::open(&path).unwrap(), &Stop::default()).unwrap();
        assert_eq!(
            found.sha256,
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"
        );
    }

    #[test]
    fn hashing_the_binary_ends_when_stopped() {
        let stop = Stop::default();
        stop.set();
        let own = File::open(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(hash_file(&own, &stop).unwrap_err().to_string(), "stopped");
    }

    #[test]
    fn hashing_a_binary_leaves_the_page_cache_unchanged() {
        let folder = tempfile::tempdir_in(std::env::current_dir().unwrap()).unwrap();
        let path = folder.path().join("program");
        std::fs::write(&path, vec![b'a'; 16 * PIECE_BYTES]).unwrap();
        let file = File::open(&path).unwrap();
        file.sync_all().unwrap();
        let cached = |file: &File| {
            let is = |piece: usize| {
                let mut byte = [0];
                let offset = (piece * PIECE_BYTES) as u64;
                let slices = &mut [IoSliceMut::new(&mut byte)];
                rustix::io::preadv2(file, slices, offset, ReadWriteFlags::NOWAIT) == Ok(1)
            };
            (0..16).filter(|piece| is(*piece)).collect::<Vec<_>>()
        };
        let _ = fadvise(&file, 0, None, Advice::Random);
        let _ = fadvise(
            &file,
            (4 * PIECE_BYTES) as u64,
            NonZeroU64::new((12 * PIECE_BYTES) as u64),
            Advice::DontNeed,
        );
        let before = cached(&file);
        if before.len() == 16 {
            eprintln!("SKIPPED: this file system keeps everything in the page cache");
            return;
        }
        hash_file(&file, &Stop::default()).unwrap();
        assert_eq!(cached(&file), before);
    }
}
