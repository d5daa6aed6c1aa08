//! The files of a table: one, or in a data set one for each day.

use crate::{args::Format, run::json_text};
use anyhow::{Context, Result, bail};
use faultline_common::files::{AtPath, TempFile};
use faultline_pages::export::{CsvWriter, Layout, ParquetWriter, TableWriter, Type, Values};
use faultline_recording::{Cell, Recording, Row, TickRow, schema::TableSpec};
use itertools::Itertools;
use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    fs,
    io::BufWriter,
    path::{Path, PathBuf},
};

const DAY_NS: i64 = 86_400_000_000_000;

const HIVE_NULL: &str = "__HIVE_DEFAULT_PARTITION__";

/// A file system allows 255; 5 of them are `host=`.
const MAX_FOLDER_NAME_BYTES: usize = 250;

pub struct RecordingExport<'d> {
    pub recording: Recording,
    /// Root of the data set, else folder of the tables.
    pub folder: &'d Path,
    pub format: Format,
    pub dataset: Option<DatasetRun>,
    /// From a data set: days that only an earlier export of the run has.
    pub removes_later_days: bool,
}

impl RecordingExport<'_> {
    /// In a data set: `TABLE/host=HOST/run=RUN/day=DAY/TABLE.parquet`. `day` counts from
    /// 1970-01-01.
    fn path(&self, table: &str, day: i64) -> PathBuf {
        let Some(run) = &self.dataset else {
            return table_path(self.folder, table, self.format);
        };
        let day = faultline_text::date(day.saturating_mul(DAY_NS));
        let folder = self.folder.join(table).join(&run.path);
        table_path(&folder.join(format!("day={day}")), table, self.format)
    }
}

pub fn table_path(folder: &Path, table: &str, format: Format) -> PathBuf {
    let extension = match format {
        Format::Parquet => "parquet",
        Format::Csv => "csv",
    };
    folder.join(format!("{table}.{extension}"))
}

/// A recording in a data set.
pub struct DatasetRun {
    /// `host=HOST/run=RUN`.
    pub path: PathBuf,
    /// Host and run, as text columns of every file: from a folder's name, readers would parse `01`
    /// as 1.
    columns: [(&'static str, String); 2],
    /// (id of the first tick, days since 1970) of each day.
    days: Vec<(i64, i64)>,
}

impl DatasetRun {
    /// A run is named by its labels and its first tick's time, so a copy or a merge has the same
    /// name.
    pub fn new(recording: &Recording) -> Result<Self> {
        let (sessions, ticks) = (recording.sessions()?, recording.ticks()?);
        let label = |wanted| {
            let mut labels = recording.labels().iter();
            let label = labels.find(|(key, value)| key == wanted && !value.is_empty());
            label.map(|(_, value)| value.clone())
        };
        let session = sessions.first();
        let host_name = || json_text(&session?.manifest["host"]["name"]);
        let host = label("host")
            .or_else(host_name)
            .unwrap_or("unknown".to_owned());
        let started = session.map_or(0, |session| session.started.as_nanos() as i64);
        let first_ns = ticks.first().map_or(started, |tick| tick.unix_ns);
        let mut name = ["experiment", "arm", "run"]
            .into_iter()
            .filter_map(label)
            .join("-");
        if name.is_empty() {
            name += "run";
        }
        let day = |tick: &TickRow| (tick.id, tick.unix_ns.div_euclid(DAY_NS));
        let mut days = vec![(i64::MIN, first_ns.div_euclid(DAY_NS))];
        days.extend(ticks.iter().map(day));
        days.dedup_by_key(|(_, day)| *day);
        let columns = [("host", host), ("run", format!("{name}-{first_ns}"))];
        let folders = columns
            .iter()
            .map(|(name, value)| Ok(format!("{name}={}", folder_name(value)?)));
        Ok(Self {
            path: folders.collect::<Result<_>>().at(recording.path())?,
            columns,
            days,
        })
    }

    /// The first day if there is no tick.
    fn day_of(&self, tick: Option<i64>) -> i64 {
        let tick = tick.unwrap_or(i64::MIN);
        let after = self.days.partition_point(|(first, _)| *first <= tick);
        self.days
            .get(after.saturating_sub(1))
            .map_or(0, |(_, day)| *day)
    }
}

/// Percent-encoded: readers decode it.
fn folder_name(value: &str) -> Result<String> {
    let encoded = |byte| match byte {
        b'.' | b'_' | b'-' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    let name: String = value.bytes().map(encoded).collect();
    if value == HIVE_NULL {
        bail!("a host or run called {value} would be read as NULL; label it otherwise");
    }
    if name.len() > MAX_FOLDER_NAME_BYTES {
        bail!(
            "the labels make a folder name of {} bytes; at most {MAX_FOLDER_NAME_BYTES} are possible: {value}",
            name.len()
        );
    }
    Ok(name)
}

pub struct TableFiles<'f> {
    pub export: &'f RecordingExport<'f>,
    table: &'static str,
    /// Specifies the recorded rows: those of `table`, or of the table `tick` for the table `wide`.
    pub row_source: &'static TableSpec,
    /// Excluding the columns that a data set adds.
    pub columns: Vec<(String, Type)>,
    /// By day; outside a data set, day 0.
    files: BTreeMap<i64, OpenFile>,
    /// Dropped after the files.
    created_folders: CreatedFolders,
}

/// A temporary file until all files of the table are complete.
struct OpenFile {
    path: PathBuf,
    temp_file: TempFile,
    writer: Box<dyn TableWriter>,
}

impl<'f> TableFiles<'f> {
    pub fn new(
        export: &'f RecordingExport<'_>,
        table: &'static str,
        row_source: &'static TableSpec,
        columns: Vec<(String, Type)>,
    ) -> Self {
        TableFiles {
            export,
            table,
            row_source,
            columns,
            files: BTreeMap::new(),
            created_folders: CreatedFolders::default(),
        }
    }

    /// Days since 1970-01-01, by the time of the row, else of its tick, else of the run's start.
    pub fn day(&self, row: &Row) -> i64 {
        let Some(dataset) = &self.export.dataset else {
            return 0;
        };
        let value = |name| {
            let mut columns = self.row_source.columns.iter();
            match row.get(columns.position(|column| column.name == name)?)? {
                Cell::Integer(value) => Some(*value),
                _ => None,
            }
        };
        match value("unix_ns") {
            Some(unix_ns) => unix_ns.div_euclid(DAY_NS),
            None => dataset.day_of(value("tick")),
        }
    }

    pub fn write(&mut self, day: i64, mut columns: Vec<Values>, rows: usize) -> Result<()> {
        for (_, value) in self.export.dataset.iter().flat_map(|run| &run.columns) {
            columns.push(Values::Text(vec![Some(value.clone()); rows]));
        }
        let mut file = match self.files.remove(&day) {
            Some(file) => file,
            None => self.create(day)?,
        };
        file.writer.write_chunk(&columns).at(&file.path)?;
        self.files.insert(day, file);
        Ok(())
    }

    fn create(&mut self, day: i64) -> Result<OpenFile> {
        let path = self.export.path(self.table, day);
        let folder = path.parent().unwrap_or(Path::new("."));
        self.created_folders
            .create(folder)
            .with_context(|| format!("the folder {} cannot be made", folder.display()))?;
        let temp_file = TempFile::create(&path).at(&path)?;
        Ok(OpenFile {
            writer: self.writer(&temp_file).at(&path)?,
            path,
            temp_file,
        })
    }

    fn writer(&self, temp_file: &TempFile) -> Result<Box<dyn TableWriter>> {
        let columns = self
            .columns
            .iter()
            .map(|(name, kind)| (name.as_str(), *kind));
        let of_dataset = self.export.dataset.iter().flat_map(|run| &run.columns);
        let layout = Layout::new(columns.chain(of_dataset.map(|(name, _)| (*name, Type::Text))));
        let out = BufWriter::new(temp_file.file().try_clone()?);
        if self.export.format == Format::Csv {
            return Ok(Box::new(CsvWriter::new(out, layout)?));
        }
        let labels = self.export.recording.labels().iter();
        let labels = labels.map(|(key, value)| (format!("faultline.label.{key}"), value.clone()));
        Ok(Box::new(ParquetWriter::new(
            out, self.table, layout, labels,
        )?))
    }

    /// A table without rows also gets a file.
    pub fn finish(mut self) -> Result<()> {
        let dataset = &self.export.dataset;
        if self.files.is_empty() {
            let day = dataset.as_ref().map_or(0, |run| run.day_of(None));
            let file = self.create(day)?;
            self.files.insert(day, file);
        }
        if dataset.is_some() && !self.export.removes_later_days {
            self.refuse_later_day()?;
        }
        // All files are complete before the first is renamed, so a full disk never leaves a partial
        // table.
        let mut complete = Vec::new();
        for OpenFile {
            path,
            temp_file,
            writer,
        } in self.files.into_values()
        {
            writer.finish().at(&path)?;
            complete.push((path, temp_file));
        }
        let mut paths = Vec::new();
        for (path, temp_file) in complete {
            temp_file.finish(&path).at(&path)?;
            paths.push(path);
        }
        match dataset {
            Some(_) => remove_other_files(&paths),
            None => Ok(()),
        }
    }

    fn refuse_later_day(&self) -> Result<()> {
        let Some(last) = self.files.values().next_back().map(|file| &file.path) else {
            return Ok(());
        };
        let (Some(run), Some(name)) = (last.ancestors().nth(2), last.file_name()) else {
            return Ok(());
        };
        let mut files = day_folders(run)?.into_iter().map(|day| day.join(name));
        let Some(later) = files.find(|file| file > last && file.exists()) else {
            return Ok(());
        };
        bail!(
            "{}: an earlier export of this run has a later day: {}; export the longer recording, or give --force to remove later days",
            self.export.recording.path().display(),
            later.display()
        )
    }
}

/// When dropped, removes the empty ones.
#[derive(Default)]
struct CreatedFolders(BTreeSet<PathBuf>);

impl CreatedFolders {
    fn create(&mut self, folder: &Path) -> std::io::Result<()> {
        let missing = folder.ancestors().take_while(|above| !above.exists());
        self.0.extend(missing.map(Path::to_owned));
        fs::create_dir_all(folder)
    }
}

impl Drop for CreatedFolders {
    fn drop(&mut self) {
        for folder in self.0.iter().rev() {
            let _ = fs::remove_dir(folder);
        }
    }
}

/// Removes files of an earlier export of the run: those of other days, and temporary ones.
fn remove_other_files(paths: &[PathBuf]) -> Result<()> {
    let [path, ..] = paths else { return Ok(()) };
    let (Some(run), Some(name)) = (path.ancestors().nth(2), path.file_name()) else {
        return Ok(());
    };
    for day in day_folders(run)? {
        for file in fs::read_dir(&day).at(&day)? {
            let path = file.at(&day)?.path();
            let is_old = path.file_name() == Some(name) && !paths.contains(&path);
            if path.is_file() && (is_old || is_part(&path, name)) {
                fs::remove_file(&path).at(&path)?;
            }
        }
        let _ = fs::remove_dir(&day);
    }
    Ok(())
}

fn day_folders(run: &Path) -> Result<Vec<PathBuf>> {
    let mut folders = Vec::new();
    for entry in fs::read_dir(run).at(run)? {
        let path = entry.at(run)?.path();
        let shape = path.to_string_lossy().replace(char::is_numeric, "0");
        if path.is_dir() && shape.ends_with("/day=0000-00-00") {
            folders.push(path);
        }
    }
    Ok(folders)
}

/// Whether `path` is a temporary file of the table. Readers of the folder would fail on it.
fn is_part(path: &Path, table_file: &OsStr) -> bool {
    let name = path.file_name().and_then(OsStr::to_str);
    let rest = name
        .zip(table_file.to_str())
        .and_then(|(name, table_file)| name.strip_prefix(table_file));
    rest.is_some_and(|rest| rest.starts_with('.') && rest.ends_with(".part"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_of_days_lose_files_of_an_earlier_export() {
        let folder = tempfile::tempdir().unwrap();
        let path = |day: &str| folder.path().join(day).join("tick.parquet");
        let days = ["day=2027-01-15", "day=2027-01-16"].map(path);
        let others = ["copy", "day=2027-01-15-copy", "day=", "day=2027-1-15 b"].map(path);
        for path in days.iter().chain(&others) {
            fs::create_dir(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
        remove_other_files(&days[..1]).unwrap();
        assert_eq!(days.map(|path| path.exists()), [true, false]);
        assert_eq!(others.map(|path| path.exists()), [true; 4]);
    }
}
