use crate::isolation::launch::Error;
use std::fs;
use std::path::{Path, PathBuf};

pub(super) fn write(path: &Path, text: &str) -> Result<(), Error> {
    fs::write(path, text).map_err(Error::at(path))
}

pub(super) fn folders(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(Error::at(folder))?,
    };
    let is_folder = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    Ok(entries
        .flatten()
        .filter(is_folder)
        .map(|entry| entry.path())
        .collect())
}
