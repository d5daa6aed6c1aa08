//! Influx line protocol as Agave writes it.
//!
//! ```text
//! <name>,host_id=<id>[,<tag>=<v>...] <field>=<v>[,<field>=<v>...] <unix nanoseconds>\n
//! ```
//!
//! Differences from the protocol's own definition, all from `solana-metrics` 2.0.5 to 4.4.0: names
//! and tags are not escaped at all; in a string only `"` is escaped (as `\"`), so a value may hold
//! raw newlines, commas and backslashes; a float may have no decimal point; a `u64` above
//! `i64::MAX` arrives negative; the field part may be missing.
//!
//! A string that ends in a backslash cannot be read, because its closing quote looks escaped. Such
//! a line is bad. The resynchronization of [`LineSplitter`] limits the damage to that line.

mod point;
mod splitter;

pub(crate) use point::quoted_end;
pub use point::{EscapedStr, Field, Fields, Point, Tag, Value, host_id_of, name_of};
pub use splitter::{DEFAULT_MAX_LINE_BYTES, LineSplitter};

#[cfg(test)]
mod tests;
