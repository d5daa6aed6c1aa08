pub(crate) mod files;
mod freezer;
pub(crate) mod levels;
pub(crate) mod locate;
pub(crate) mod settings;
mod source;
