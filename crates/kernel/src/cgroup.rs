pub mod files;
mod freezer;
pub mod levels;
pub mod locate;
pub mod settings;
mod source;
