//! What Linux says about a process, its threads, its cgroup and its host: text to types.
//!
//! * [`HostRoot`] is where the kernel's files are; nothing outside it is ever opened, and no clock is read.
//! * [`parse`] holds one pure parser per file of the kernel.
//! * [`ProcessFiles`], [`Threads`], [`CgroupFiles`] and [`HostFiles`] keep descriptors open and re-read them with
//!   `pread`; each sample is a struct of per-file [`Result`]s, so that one forbidden file spoils no other.
//! * A value that could not be read is a [`ReadError`] with one of four reasons ([`ErrorKind`]); it is never 0 or -1.
//!
//! `smaps`, `smaps_rollup`, `maps` and `numa_maps` are never touched: reading them holds the memory lock of the
//! process that is being watched.

pub mod block;
mod cgroup;
pub mod cpus;
mod error;
mod file;
pub mod filesystem;
pub mod hardware;
pub mod headroom;
mod host;
mod location;
pub mod parse;
mod process;
mod text;
mod threads;

pub use cgroup::files::{CgroupFiles, CgroupSample};
pub use cgroup::levels::CgroupLevels;
pub use cgroup::locate::{CgroupFolder, CgroupLocator, CgroupVersion, ProcessCgroups, locate};
pub use cgroup::settings::{CgroupLevel, Setting};
pub use error::{ErrorKind, ParseError, ReadError};
pub use file::OpenFile;
pub use headroom::numa::NumaFiles;
pub use headroom::{Level, LevelMemory};
pub use host::files::{HostFiles, HostSample};
pub use host::{HostConstants, HostRoot};
pub use location::{Location, locate_folder};
pub use parse::Limit;
pub use parse::ignored_signals::IgnoredSignals;
pub use process::{ProcessFiles, ProcessId, ProcessSample};
pub use text::Comm;
pub use threads::{ReadDepth, ThreadSample, Threads};
