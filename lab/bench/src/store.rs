mod read;
#[cfg(test)]
mod tests;
mod write;

pub use read::{Stored, read};
pub use write::{ResultsFile, check_new, reason, write_document};

/// `FLBn`.
pub const APPLICATION_ID: i32 = 0x464c_426e;
const FORMAT: i32 = 1;

/// A file must contain exactly these statements.
pub const TABLES: [&str; 4] = [
    "CREATE TABLE run (header TEXT NOT NULL)",
    "CREATE TABLE cell (cell INTEGER PRIMARY KEY, arm TEXT NOT NULL, subject TEXT NOT NULL, size INTEGER)",
    "CREATE TABLE sample (number INTEGER PRIMARY KEY, round INTEGER NOT NULL, cell INTEGER NOT NULL, at_ns INTEGER NOT NULL,
  queued_ns INTEGER, connect_ns INTEGER, tls_ns INTEGER, first_byte_ns INTEGER, transfer_ns INTEGER, decode_ns INTEGER,
  decode_cpu_ns INTEGER, sent INTEGER, received INTEGER, failure TEXT, refused INTEGER NOT NULL)",
    "CREATE TABLE histogram (cell INTEGER NOT NULL, from_ns INTEGER NOT NULL, to_ns INTEGER NOT NULL, count INTEGER NOT NULL)",
];
