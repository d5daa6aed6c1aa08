use crate::recorded::Recorded;
use anyhow::{Result, bail, ensure};
use faultline_cache_sim::{
    Error, file,
    predict::Coverage,
    trace::{Meta, SetInterner, Trace},
};
use faultline_common::files::{AtPath, open_regular};
use faultline_text::{count, counted, number};
use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{BufReader, BufWriter, ErrorKind, Seek, SeekFrom},
    path::{Path, PathBuf},
};

/// The file system is full, or the quota of this user is used up.
const DISK_FULL: [ErrorKind; 2] = [ErrorKind::StorageFull, ErrorKind::QuotaExceeded];

pub fn trace_path(run: &Path, given: Option<&Path>) -> PathBuf {
    given.map_or_else(|| run.with_extension("trace"), Path::to_owned)
}

/// Fails if the trace is of another cluster than the recording.
pub fn read(run: &Path, path: &Path, recorded: &Recorded) -> Result<Trace> {
    let shown = path.display();
    let file = match open_regular(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let run = run.display();
            bail!(
                "{shown} is missing: `faultline cache fetch {run} --rpc URL --out {shown}` makes it from public blocks"
            )
        }
        opened => opened.at(path)?,
    };
    let trace = file::read(BufReader::new(file)).at(path)?;
    recorded.require_cluster(&trace.meta().cluster).at(path)?;
    Ok(trace)
}

pub struct TraceFile {
    pub trace: Trace,
    pub set_interner: SetInterner,
    writer: file::Writer<BufWriter<File>>,
    path: PathBuf,
}

impl TraceFile {
    /// Creates the file, or continues it at its first damage or end. Fails if it is locked, or not a
    /// trace from blocks of this cluster.
    pub fn open(path: &Path, meta: Meta) -> Result<Self> {
        match open_regular(path).and_then(|_| OpenOptions::new().read(true).write(true).open(path))
        {
            Ok(file) => Self::resume(file, &meta, path).at(path),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Self::create(path, Trace::new(meta))
            }
            Err(error) => Err(error).at(path),
        }
    }

    pub fn create(path: &Path, trace: Trace) -> Result<Self> {
        let file = File::create_new(path).at(path)?;
        if let Err(error) = file.try_lock() {
            // A locked file is not removed, because another process writes to it.
            if let TryLockError::Error(_) = error {
                let _ = std::fs::remove_file(path);
            }
            return Err(lock_error(error)).at(path);
        }
        let writer = file::Writer::new(BufWriter::new(file), &trace)
            .and_then(|mut writer| writer.write(&trace).map(|()| writer));
        match writer {
            Ok(writer) => Ok(Self {
                set_interner: SetInterner::of(&trace),
                trace,
                writer,
                path: path.to_owned(),
            }),
            Err(error) => {
                // A partly written file may be impossible to continue. This command created it.
                let _ = std::fs::remove_file(path);
                Err(not_written(error, path))
            }
        }
    }

    fn resume(mut file: File, meta: &Meta, path: &Path) -> Result<Self> {
        file.try_lock().map_err(lock_error)?;
        let records = file::read_whole_records(BufReader::new(&file))?;
        let existing = records.trace.meta();
        ensure!(
            existing.source == meta.source,
            "it was not fetched from blocks, so it cannot be continued: choose another file with --out"
        );
        ensure!(
            existing.cluster == meta.cluster,
            "it was fetched from the cluster with the genesis hash {}, and this node's is {}: choose another file \
             with --out",
            faultline_text::clean(&existing.cluster),
            meta.cluster
        );
        file.set_len(records.end)?;
        file.seek(SeekFrom::End(0))?;
        let writer = file::Writer::resume(BufWriter::new(file), &records.trace);
        Ok(Self {
            set_interner: SetInterner::of(&records.trace),
            trace: records.trace,
            writer,
            path: path.to_owned(),
        })
    }

    pub fn write(&mut self) -> Result<()> {
        self.writer
            .write(&self.trace)
            .map_err(|error| not_written(error, &self.path))
    }
}

/// Text with the size of the trace, its coverage of the recording, and the lines `more`.
pub fn summary(
    path: &Path,
    trace: &Trace,
    recorded: &Recorded,
    more: impl IntoIterator<Item = String>,
) -> String {
    let coverage = Coverage::of(trace, &recorded.transactions_by_slot);
    let percent = coverage.percent().map_or("nothing".to_owned(), |percent| {
        format!("{} %", number(percent, 2))
    });
    let mut lines = vec![
        format!(
            "{}: {}, {} transactions with programs, {} programs",
            path.display(),
            counted(trace.slots().len() as f64, "slot"),
            count(trace.call_count() as u64),
            count(trace.programs().len() as u64)
        ),
        format!(
            "covers {percent} of the recorded transactions; {} missing",
            counted(coverage.missing_slots.len() as f64, "recorded slot")
        ),
    ];
    lines.extend(more);
    if let Err(error) = coverage.require() {
        lines.push(format!("not enough to predict from: {error}"));
    }
    lines.join("\n") + "\n"
}

fn not_written(error: Error, path: &Path) -> anyhow::Error {
    let is_full = matches!(&error, Error::Io(error) if DISK_FULL.contains(&error.kind()));
    let path = path.display();
    anyhow::Error::new(error).context(if is_full {
        format!(
            "{path}: there is no space left: free space, and run the same command again to continue"
        )
    } else {
        path.to_string()
    })
}

fn lock_error(error: TryLockError) -> anyhow::Error {
    match error {
        TryLockError::WouldBlock => anyhow::anyhow!("another process has locked it"),
        TryLockError::Error(error) => anyhow::Error::new(error).context("it cannot be locked"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_in_place_of_a_trace_is_not_read() {
        let recorded = Recorded {
            version: None,
            entries: None,
            from_start: true,
            slots_with_counters: Vec::new(),
            transactions_by_slot: Default::default(),
            own_slots: Default::default(),
            replay_us: None,
            genesis_hash: None,
            has_full_rpc_api: true,
            is_demo: false,
        };
        let error = read(Path::new("run.fltl"), Path::new("/dev/null"), &recorded);
        let error = format!("{:#}", error.err().unwrap());
        assert!(
            error.starts_with("/dev/null: is not a regular file"),
            "{error}"
        );
    }

    #[test]
    fn a_device_in_place_of_a_trace_is_not_continued() {
        let meta = Meta {
            source: faultline_cache_sim::trace::Source::Blocks,
            cluster: String::new(),
            version: String::new(),
        };
        let error = TraceFile::open(Path::new("/dev/null"), meta);
        let error = format!("{:#}", error.err().unwrap());
        assert!(
            error.starts_with("/dev/null: is not a regular file"),
            "{error}"
        );
    }

    #[test]
    fn only_a_full_disk_is_reported_as_one() {
        let text = |kind: ErrorKind| {
            let error = not_written(Error::Io(kind.into()), Path::new("run.trace"));
            format!("{error:#}")
        };
        assert!(text(ErrorKind::StorageFull).contains("there is no space left"));
        let too_large = text(ErrorKind::FileTooLarge);
        assert!(!too_large.contains("space"), "{too_large}");
    }
}
