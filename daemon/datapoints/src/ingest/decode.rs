//! Incremental gzip decoder.

use flate2::write::MultiGzDecoder;
use std::io::{self, Write};

/// Accepts one or more gzip members. One step outputs at most 32 KiB, whatever the stream expands
/// to, and uses about 110 KiB.
pub struct Gunzip(MultiGzDecoder<Vec<u8>>);

impl Gunzip {
    pub fn new() -> Self {
        Gunzip(MultiGzDecoder::new(Vec::new()))
    }

    /// Decodes a part of `input` and returns the rest; the result is in [`Gunzip::output`].
    pub fn step<'i>(&mut self, input: &'i [u8]) -> io::Result<&'i [u8]> {
        match self.0.write(input)? {
            0 if !input.is_empty() => Err(io::Error::from(io::ErrorKind::InvalidData)),
            used => Ok(input.get(used..).unwrap_or_default()),
        }
    }

    /// Checks the length and checksum at the end of the stream.
    pub fn finish(&mut self) -> io::Result<()> {
        self.0.try_finish()
    }

    /// Takes the decoded bytes; return the emptied buffer with [`Gunzip::reuse`].
    pub fn output(&mut self) -> Vec<u8> {
        std::mem::take(self.0.get_mut())
    }

    pub fn reuse(&mut self, mut buffer: Vec<u8>) {
        buffer.clear();
        *self.0.get_mut() = buffer;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    /// Everything decoded, and the largest step.
    fn gunzip(bytes: &[u8], chunk: usize) -> io::Result<(Vec<u8>, usize)> {
        let mut decoder = Gunzip::new();
        let (mut all, mut largest) = (Vec::new(), 0);
        for mut rest in bytes.chunks(chunk) {
            while !rest.is_empty() {
                rest = decoder.step(rest)?;
                let out = decoder.output();
                largest = largest.max(out.len());
                all.extend_from_slice(&out);
                decoder.reuse(out);
            }
        }
        decoder.finish()?;
        all.extend_from_slice(&decoder.output());
        Ok((all, largest))
    }

    #[test]
    fn any_chunking_gives_the_same_bytes() {
        let text: Vec<u8> = (0..200_000_u32)
            .flat_map(|n| n.to_string().into_bytes())
            .collect();
        let packed = gzip(&text);
        for chunk in [1, 7, 1000, usize::MAX] {
            assert!(
                gunzip(&packed, chunk).unwrap().0 == text,
                "chunks of {chunk}"
            );
        }
    }

    #[test]
    fn concatenated_gzip_members_are_one_stream() {
        let packed = [gzip(b"one\n"), gzip(b""), gzip(b"two\n")].concat();
        assert_eq!(gunzip(&packed, 5).unwrap().0, b"one\ntwo\n");
    }

    #[test]
    fn a_gzip_bomb_is_decompressed_in_small_chunks() {
        let (all, largest) = gunzip(&gzip(&vec![0; 20_000_000]), usize::MAX).unwrap();
        assert_eq!(all.len(), 20_000_000);
        assert!(largest <= 64 * 1024, "{largest}");
    }

    #[test]
    fn a_truncated_damaged_or_non_gzip_stream_is_an_error() {
        let packed = gzip(b"some text that is long enough");
        let mut damaged = packed.clone();
        let last = damaged.len() - 8;
        damaged[last] ^= 1;
        for bad in [
            &packed[..packed.len() - 1],
            &packed[..12],
            &damaged,
            b"plain text",
            b"",
            &[&packed[..], b"tail"].concat(),
        ] {
            assert!(gunzip(bad, 9).is_err());
        }
    }
}
