//! The recording of a run: one SQLite file, whose tables docs/RECORDING.md describes.
//!
//! [`Writer`] takes ticks, events and points (datapoints of the validator), and commits on request;
//! committed data survives a kill at any moment. [`Recording`] reads a file that is finished, still
//! being written, or left by a kill. [`merge`] joins the pieces of a run, [`backup`] copies a live
//! recording. Callers pass all times: no clock is read.

mod error;
mod file;
mod foreign;
mod merge;
mod reader;
mod rows;
pub mod schema;
mod side_files;
mod writer;

pub use error::Error;
pub use file::{DatabaseKind, open_immutable};
pub use foreign::{ForeignDatabase, OlderFormat};
pub use merge::{MergeSummary, backup, merge};
pub use reader::{Cell, LiveStatus, Progress, Recording, RecordingInfo, Row, TableInfo};
pub use rows::{
    Columns, Event, EventKind, EventRow, NewProcess, NewRecording, NewSession, PoolRow, ProblemRow,
    ProcessRow, SeriesRow, SessionRow, TickRow,
};
pub use schema::{
    CacheTimesPoint, CostTrackerPoint, PerTickTable, Point, ProgramCachePoint, ReplaySlotPoint,
    SetRootPoint,
};
pub use side_files::{length, with_suffix};
pub use writer::Writer;
