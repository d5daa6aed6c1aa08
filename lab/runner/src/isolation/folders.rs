//! The folders of an experiment. Files are deleted or written only in a folder with the [`MARKER`].
//! Only [`init`] sets it, on a folder that it creates or finds empty.

mod clear;
mod guard;
mod marker;
mod restore;

pub use clear::{Cleared, LISTED, RetainedEntry, clear, would_clear};
pub use guard::{FolderLock, FolderUser, InUse, Purpose, lock_folder, users};
pub use marker::{Init, MARKER, check, init, is_marked};
pub use restore::{Owner, Restored, Source, measure, restore, set_folder_owner};
