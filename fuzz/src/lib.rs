//! What several targets check.

use faultline_kernel::ParseError;

/// The value of a kernel text, or nothing; an error must quote a line that the text has.
pub fn value<T>(text: &[u8], parsed: Result<T, ParseError>) -> Option<T> {
    match parsed {
        Ok(value) => Some(value),
        Err(error) => {
            let lines = text.iter().filter(|&&byte| byte == b'\n').count() + 1;
            assert!(
                (1..=lines).contains(&error.line),
                "line {} of {lines}",
                error.line
            );
            assert!(error.text.chars().count() <= 80, "quotes {:?}", error.text);
            None
        }
    }
}

/// The body in chunks. Its own bytes, from the last one on, say how long each is (1 to 64), so that the fuzzer moves the
/// cuts and a seed stays a plain text.
pub fn chunks(body: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = body;
    let mut sizes = body.iter().rev().map(|byte| usize::from(byte % 64) + 1);
    std::iter::from_fn(move || {
        let (chunk, later) = rest.split_at(sizes.next()?.min(rest.len()));
        rest = later;
        (!chunk.is_empty()).then_some(chunk)
    })
}

/// A true file with bytes written over it, in pieces of four: three of a place, one to be there.
pub fn damaged(file: &[u8], pieces: &[u8]) -> Vec<u8> {
    let mut damaged = file.to_vec();
    let (pieces, _) = pieces.as_chunks::<4>();
    for &[a, b, c, byte] in pieces {
        let place = u32::from_be_bytes([0, a, b, c]) as usize % damaged.len();
        damaged[place] = byte;
    }
    damaged
}
