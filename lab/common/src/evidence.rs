//! Writes the evidence file. The daemon reports from it how much RAM is proven to be enough, and
//! which cache size is predicted.

use crate::{
    clock,
    files::{AtPath, TempFile},
};
use anyhow::{Context, Result, anyhow};
use faultline_status::Evidence;
use faultline_text::date;
use std::{
    fs,
    io::{ErrorKind, Write},
    path::Path,
};

/// Applies `change` to the evidence in the file, and creates a missing file.
pub fn update(path: &Path, change: impl FnOnce(&mut Evidence)) -> Result<()> {
    let mut evidence = match fs::read(path) {
        Ok(json) => Evidence::parse(&json)
            .map_err(|why| anyhow!("{}: {why}; to begin anew, remove it", path.display()))?,
        Err(error) if error.kind() == ErrorKind::NotFound => Evidence::default(),
        Err(error) => return Err(error).at(path),
    };
    change(&mut evidence);
    let file = TempFile::create(path).at(path)?;
    let json = serde_json::to_string_pretty(&evidence)
        .context("the evidence cannot be written as JSON")?;
    writeln!(file.file(), "{json}").at(path)?;
    file.finish(path).at(path)
}

/// Today's date in UTC, such as `2026-01-31`.
pub fn today() -> String {
    date(clock::unix_ns())
}

#[cfg(test)]
mod tests {
    use super::*;
    use faultline_status::{CacheEvidence, RamEvidence};

    #[test]
    fn each_part_keeps_the_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("evidence.json");
        let ram = RamEvidence {
            proven_bytes: 7,
            interval_bytes: [5, 7],
            release: None,
            measured: today(),
        };
        let cache = CacheEvidence {
            sizes: Vec::new(),
            enough_entries: None,
            release: Some("4.0.1".to_owned()),
            measured: today(),
        };
        update(&path, |evidence| evidence.ram = Some(ram.clone())).unwrap();
        update(&path, |evidence| {
            evidence.program_cache = Some(cache.clone())
        })
        .unwrap();
        let read = Evidence::parse(&fs::read(&path).unwrap()).unwrap();
        assert_eq!((read.ram, read.program_cache), (Some(ram), Some(cache)));
        let newer = "{\"version\":2}";
        fs::write(&path, newer).unwrap();
        let error = update(&path, |_| ()).unwrap_err().to_string();
        assert!(
            error.ends_with("reads up to 1: use the newer one; to begin anew, remove it"),
            "{error}"
        );
        fs::write(&path, "{").unwrap();
        let error = update(&path, |_| ()).unwrap_err().to_string();
        assert!(
            error.contains("it is broken") && error.ends_with("; to begin anew, remove it"),
            "{error}"
        );
    }
}
