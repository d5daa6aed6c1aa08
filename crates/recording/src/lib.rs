//! How a run is kept: one format, one writer, one reader.
//!
//! A recording is one SQLite file; docs/RECORDING.md describes its tables for whoever opens it without this crate. The
//! [`Writer`] is fed ticks, points and events and commits when told to; what is committed survives the end of the
//! process at any moment. [`Recording`] reads a file that is finished, still being written, or left behind by a kill.
//! [`merge`] joins the pieces of one run, [`backup`] copies a live one.
//!
//! No clock is read here: times are given.

mod backup;
mod error;
mod file;
mod foreign;
mod merge;
mod reader;
mod rows;
pub mod schema;
mod writer;

pub use backup::{backup, backup_with};
pub use error::Error;
pub use file::{DatabaseKind, ReturnedValues};
pub use foreign::ForeignDatabase;
pub use merge::{Merged, merge};
pub use reader::{
    Cell, Columns, DeviceRow, EventRow, Info, Live, PoolRow, ProblemRow, ProcessRow, Progress,
    Recording, Row, SeriesRow, SessionRow, TableInfo, TickRow,
};
pub use rows::{Event, EventKind, NewProcess, NewSession, Opening};
pub use schema::{
    CacheTimesPoint, CostTrackerPoint, Point, ProgramCachePoint, ReplaySlotPoint, SetRootPoint,
    Table,
};
pub use writer::Writer;
