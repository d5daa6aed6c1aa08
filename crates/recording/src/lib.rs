//! The recording of a run: one SQLite file, whose tables docs/RECORDING.md describes.
//!
//! [`Writer`] takes ticks, points and events, and commits on request; committed data survives a
//! kill at any moment. [`Recording`] reads a file that is finished, still being written, or left by
//! a kill. [`merge`] joins the pieces of a run, [`backup`] copies a live one. Callers pass all
//! times: no clock is read.

mod backup;
mod error;
mod file;
mod foreign;
mod merge;
mod reader;
mod rows;
pub mod schema;
mod writer;

pub use backup::backup;
pub use error::Error;
pub use file::{DatabaseKind, open_immutable, with_suffix};
pub use foreign::{ForeignDatabase, OlderFormat};
pub use merge::{MergeSummary, merge};
pub use reader::{
    Cell, Columns, EventRow, Info, Live, PoolRow, ProblemRow, ProcessRow, Progress, Recording, Row,
    SeriesRow, SessionRow, TableInfo, TickRow,
};
pub use rows::{Event, EventKind, NewProcess, NewRecording, NewSession};
pub use schema::{
    CacheTimesPoint, CostTrackerPoint, Point, ProgramCachePoint, ReplaySlotPoint, SetRootPoint,
    Table,
};
pub use writer::Writer;
