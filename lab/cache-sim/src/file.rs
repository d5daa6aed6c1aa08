//! A trace as a file, `RUN.trace`: records that are only ever appended.
//!
//! After eight bytes `FLTRACE` and the format's number 1, each record is its kind (one byte), the length of its content
//! (varint), the content, and the CRC-32 of kind and content (four bytes, the lowest first). Numbers are varints: seven bits a byte, the
//! lowest first. A text is its length and its bytes.
//!
//! | kind | content |
//! | --- | --- |
//! | 1 meta, the first record | source (0 validator, 1 replay, 2 blocks, 3 plain), cluster, version |
//! | 2 programs | each: flags (1 address, 2 bytes, 4 has code, times 8 the loader, 0 if unknown), 32 bytes of address, bytes |
//! | 3 sets | each: how many programs, their numbers |
//! | 4 slot | slot, slot - parent, transactions, kind (0 replayed, 1 fork, 2 own), of each call twice its set, plus 1 if it only paid fees |
//! | 5 change, of the slot before | position, program, kind (0 deployed, 1 closed) |
//! | 6 loads | each: slot, program, microseconds |
//!
//! There are at most 2^20 programs, 256 programs in a set, and 2^29 lookups in all calls. Programs
//! and sets are numbered from 0 in the order of the file. Nothing is compressed here: a caller may
//! put an encoder behind `Write` and a decoder in front of `BufRead`.

mod bytes;
mod read;
mod write;

use crate::trace::{ChangeKind, Loader, SlotKind, Source};
pub use read::{PartialRead, read, read_whole_records};
pub use write::Writer;

const MAGIC: &[u8; 8] = b"FLTRACE\x01";
/// A longer record is damage: the largest block has far fewer calls.
const LONGEST: u64 = 1 << 26;

const META: u8 = 1;
const PROGRAMS: u8 = 2;
const SETS: u8 = 3;
const SLOT: u8 = 4;
const CHANGE: u8 = 5;
const LOADS: u8 = 6;

const HAS_ADDRESS: u8 = 1;
const HAS_BYTES: u8 = 2;
const HAS_CODE: u8 = 4;
const LOADER_SHIFT: u32 = 3;

/// The number of a value in the file is its index.
const SOURCES: [Source; 4] = [
    Source::Validator,
    Source::Replay,
    Source::Blocks,
    Source::Plain,
];
const LOADERS: [Option<Loader>; 5] = [
    None,
    Some(Loader::V1),
    Some(Loader::V2),
    Some(Loader::V3),
    Some(Loader::V4),
];
const SLOT_KINDS: [SlotKind; 3] = [SlotKind::Replayed, SlotKind::Fork, SlotKind::Own];
const CHANGE_KINDS: [ChangeKind; 2] = [ChangeKind::Deployed, ChangeKind::Closed];
