use super::Addresses;
use anyhow::{Context, Result, ensure};
use faultline_recording::with_suffix;
use serde::Deserialize;
use serde_json::Value;
use std::{
    fs::{self, File},
    io::{ErrorKind, Read},
    path::{Path, PathBuf},
};

const FORMAT: u32 = 1;
const MAX_FILE_BYTES: u64 = 1 << 16;

pub fn name(out: &Path) -> PathBuf {
    with_suffix(out, ".ready")
}

/// The file that the daemon writes when it is ready. Dropping this removes the file, which a killed
/// daemon leaves behind. Drop it after the daemon has ended.
pub struct ReadyFile(PathBuf);

impl ReadyFile {
    /// For the recording `out`. Removes an old file.
    pub fn of(out: &Path) -> Result<Self> {
        let path = name(out);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(error).with_context(|| format!("{} cannot be removed", path.display()))
            }
            _ => Ok(ReadyFile(path)),
        }
    }

    pub fn read(&self) -> Result<Option<Ready>> {
        let mut text = Vec::new();
        let read =
            File::open(&self.0).and_then(|file| file.take(MAX_FILE_BYTES).read_to_end(&mut text));
        match read {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            read => read
                .map_err(anyhow::Error::from)
                .and_then(|_| of(&text))
                .map(Some),
        }
        .with_context(|| format!("{} cannot be read", self.0.display()))
    }
}

impl Drop for ReadyFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[derive(Debug, Deserialize)]
pub struct Ready {
    metrics: Vec<String>,
    ingest: Option<Vec<String>>,
    target: Option<Target>,
}

#[derive(Debug, Deserialize)]
struct Target {
    pid: u32,
}

impl Ready {
    pub fn addresses(&self) -> Addresses {
        Addresses {
            metrics: self.metrics.join(","),
            ingest: self.ingest.as_ref().map(|all| all.join(",")),
        }
    }

    /// Pid of the followed process: the one that the daemon was given, or a descendant of it.
    pub fn target(&self) -> Option<u32> {
        self.target.as_ref().map(|target| target.pid)
    }
}

fn of(text: &[u8]) -> Result<Ready> {
    let json: Value = serde_json::from_slice(text)?;
    let format = &json["format"];
    ensure!(
        *format == FORMAT,
        "its format is {format}; this program reads {FORMAT}: install both programs of one version"
    );
    Ok(Ready::deserialize(json)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_pid_are_read_once_the_ready_file_exists() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("run.fltl");
        let path = name(&out);
        std::fs::write(&path, "of an earlier daemon").unwrap();
        let file = ReadyFile::of(&out).unwrap();
        assert!(file.read().unwrap().is_none());
        let text = r#"{"format":1,"pid":9,"metrics":["127.0.0.1:4"],"ingest":["127.0.0.1:5"],"target":null,"more":0}"#;
        std::fs::write(&path, text).unwrap();
        let ready = file.read().unwrap().unwrap();
        let found = Addresses {
            metrics: "127.0.0.1:4".to_owned(),
            ingest: Some("127.0.0.1:5".to_owned()),
        };
        assert!(
            ready.addresses() == found && ready.target().is_none(),
            "{ready:?}"
        );
        let text = r#"{"format":1,"pid":9,"metrics":["[::1]:4"],"ingest":null,"target":{"pid":4,"start_ticks":7}}"#;
        std::fs::write(&path, text).unwrap();
        let ready = file.read().unwrap().unwrap();
        assert!(
            ready.addresses().ingest.is_none() && ready.target() == Some(4),
            "{ready:?}"
        );
        drop(file);
        assert!(!path.exists());
    }

    #[test]
    fn an_invalid_or_newer_ready_file_is_an_error() {
        let of = |text: &str| format!("{:#}", super::of(text.as_bytes()).unwrap_err());
        assert!(
            of(r#"{"format":2,"addresses":{}}"#).contains("its format is 2; this program reads 1")
        );
        let whole = r#"{"format":1,"pid":9,"metrics":["127.0.0.1:4"],"ingest":null,"target":null}"#;
        assert!(super::of(whole.as_bytes()).is_ok());
        for length in 0..whole.len() {
            of(&whole[..length]);
        }
    }

    #[test]
    fn an_output_path_that_is_a_folder_fails_before_the_daemon_starts() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("run.fltl");
        std::fs::create_dir(name(&out)).unwrap();
        let error = ReadyFile::of(&out).err().unwrap();
        assert!(
            error
                .to_string()
                .contains("run.fltl.ready cannot be removed"),
            "{error:#}"
        );
    }
}
