//! The cgroups of a process, v1 or v2, in one vocabulary.

pub(crate) mod files;
mod freezer;
pub(crate) mod levels;
pub(crate) mod locate;
pub(crate) mod settings;
mod source;
