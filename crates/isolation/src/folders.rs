//! The folders of an experiment: marked, cleared, filled again.
//!
//! Nothing is deleted or written but in a folder that carries the [`MARKER`], which only [`init`] sets, and only on a
//! folder that it makes or finds empty.

mod clear;
mod guard;
mod keep;
mod lock;
mod marker;
mod restore;

pub use clear::{Cleared, LISTED, RetainedEntry, clear, would_clear};
pub use guard::{Use, users};
pub use lock::{FolderLock, Purpose, lock_folder};
pub use marker::{Init, MARKER, check, init, is_marked};
pub use restore::{Owner, Restored, Source, hand_over, measure, restore};
