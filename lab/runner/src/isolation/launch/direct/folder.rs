use crate::isolation::launch::at;
use anyhow::Result;
use std::fs;
use std::path::{Path, PathBuf};

pub(super) fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(at(path))
}

pub(super) fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(at(path))
}

pub(super) fn folders(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(at(folder))?,
    };
    let is_folder = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    Ok(entries
        .flatten()
        .filter(is_folder)
        .map(|entry| entry.path())
        .collect())
}
