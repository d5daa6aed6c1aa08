//! Typed access to what Linux reports about a process, its threads, its cgroups and its host.
//!
//! * [`HostRoot`] locates the kernel's files. Only [`FileVersion`] and [`locate_folder`] take
//!   other paths. No clock is read.
//! * [`parse`] has pure parsers of the kernel's files.
//! * [`ProcessFiles`], [`Threads`], [`CgroupFiles`] and [`HostFiles`] have open descriptors
//!   and re-read them with `pread`. A sample has one [`Result`] per file, so one forbidden
//!   file does not affect the others. Only [`Threads`] has one for the whole sample.
//! * A file that cannot be read or parsed is a [`ReadError`] with one of four reasons
//!   ([`ErrorKind`]), and a missing line is `None`. Neither is ever 0 or -1.
//! * The *reader* is the process that uses this crate.
//!
//! `smaps`, `smaps_rollup`, `maps` and `numa_maps` are never read, because that takes the
//! `mmap_lock` of the observed process.

pub mod block;
mod cgroup;
pub mod cpus;
mod error;
mod file;
mod file_version;
pub mod filesystem;
pub mod hardware;
pub mod headroom;
mod host;
mod location;
pub mod parse;
mod process;
mod text;
mod threads;

pub use cgroup::{
    files::{CgroupFiles, CgroupSample},
    levels::CgroupLevels,
    locate::{CgroupFolder, CgroupLocator, CgroupVersion, ProcessCgroups, locate_cgroups},
    settings::{CgroupSettings, Setting},
};
pub use error::{ErrorKind, ParseError, Parsed, ReadError, Result, if_present};
pub use file::OpenFile;
pub use file_version::FileVersion;
pub use headroom::{Level, LevelMemory, numa::NumaFiles};
pub use host::{HostConstants, HostFiles, HostRoot, HostSample};
pub use location::{Location, locate_folder};
pub use parse::{cgroup::Limit, pid_status::IgnoredSignals};
pub use process::{OomAndFdSample, ProcessFiles, ProcessId, ProcessSample};
pub use text::{Comm, trimmed_text};
pub use threads::{ReadDepth, ThreadSample, Threads};
