use super::dataset::{DAY_NS, DatasetRun};
use anyhow::Result;
use faultline_common::files::{AtPath, TempFile};
use faultline_pages::export::{TableWriter, Values};
use faultline_recording::{Cell, Row, schema::TableSpec};
use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
};

/// The files of one table: one, or one for each day of a data set.
pub struct TableFiles<'f> {
    dataset: Option<&'f DatasetRun>,
    /// Columns of the row's time and of its tick.
    time_column: Option<usize>,
    tick_column: Option<usize>,
    create: &'f dyn Fn(i64) -> Result<OpenFile>,
    open: BTreeMap<i64, OpenFile>,
}

/// A temporary file. It is renamed when all files of the table are complete.
pub struct OpenFile {
    pub path: PathBuf,
    pub temp_file: TempFile,
    pub writer: Box<dyn TableWriter>,
}

impl<'f> TableFiles<'f> {
    pub fn new(
        spec: Option<&TableSpec>,
        dataset: Option<&'f DatasetRun>,
        create: &'f dyn Fn(i64) -> Result<OpenFile>,
    ) -> Self {
        let column = |name| spec?.columns.iter().position(|column| column.name == name);
        TableFiles {
            dataset,
            time_column: column("unix_ns"),
            tick_column: column("tick"),
            create,
            open: BTreeMap::new(),
        }
    }

    /// Days since 1970-01-01.
    pub fn day(&self, row: &Row) -> i64 {
        let Some(dataset) = self.dataset else {
            return 0;
        };
        let value = |column: Option<usize>| match row.get(column?)? {
            Cell::Integer(value) => Some(*value),
            _ => None,
        };
        match value(self.time_column) {
            Some(unix_ns) => unix_ns.div_euclid(DAY_NS),
            None => dataset.day_of(value(self.tick_column)),
        }
    }

    pub fn write(&mut self, day: i64, mut columns: Vec<Values>, rows: usize) -> Result<()> {
        for (_, value) in self.dataset.iter().flat_map(|dataset| &dataset.columns) {
            columns.push(Values::Text(vec![Some(value.clone()); rows]));
        }
        let file = match self.open.entry(day) {
            Entry::Occupied(file) => file.into_mut(),
            Entry::Vacant(none) => none.insert((self.create)(day)?),
        };
        file.writer.chunk(&columns).at(&file.path)
    }

    /// A table without rows has a file, too. Files that an earlier export of the run made for other
    /// days, or left when it was killed, are removed.
    pub fn finish(mut self) -> Result<()> {
        if self.open.is_empty() {
            let day = self.dataset.map_or(0, |dataset| dataset.day_of(None));
            self.open.insert(day, (self.create)(day)?);
        }
        // All files are complete before the first is renamed: a full disk leaves no table with some
        // of its days.
        let mut complete = Vec::new();
        for OpenFile {
            path,
            temp_file,
            writer,
        } in self.open.into_values()
        {
            writer.finish().at(&path)?;
            complete.push((path, temp_file));
        }
        let mut paths: Vec<PathBuf> = Vec::new();
        for (path, temp_file) in complete {
            temp_file.finish(&path).at(&path)?;
            paths.push(path);
        }
        match self.dataset {
            Some(_) => remove_others(&paths),
            None => Ok(()),
        }
    }
}

/// Dropped, it removes the folders that are empty.
#[derive(Default)]
pub struct CreatedFolders(RefCell<BTreeSet<PathBuf>>);

impl CreatedFolders {
    pub fn make(&self, folder: &Path) -> std::io::Result<()> {
        let missing = folder.ancestors().take_while(|above| !above.exists());
        self.0.borrow_mut().extend(missing.map(Path::to_owned));
        fs::create_dir_all(folder)
    }
}

impl Drop for CreatedFolders {
    fn drop(&mut self) {
        for folder in self.0.take().iter().rev() {
            let _ = fs::remove_dir(folder);
        }
    }
}

fn remove_others(paths: &[PathBuf]) -> Result<()> {
    let of_run = paths
        .first()
        .and_then(|path| Some((path.ancestors().nth(2)?, path.file_name()?)));
    let Some((run, name)) = of_run else {
        return Ok(());
    };
    for day in fs::read_dir(run).at(run)? {
        let day = day.at(run)?.path();
        if !day.is_dir() {
            continue;
        }
        for file in fs::read_dir(&day).at(&day)? {
            let path = file.at(&day)?.path();
            let is_old = path.file_name() == Some(name) && !paths.contains(&path);
            if path.is_file() && (is_old || is_part(&path, name)) {
                fs::remove_file(&path).at(&path)?;
            }
        }
        // Not empty if it has files of others.
        let _ = fs::remove_dir(&day);
    }
    Ok(())
}

/// What a killed export left: readers of the folder fail on it.
fn is_part(path: &Path, table: &OsStr) -> bool {
    let names = path.file_name().and_then(OsStr::to_str).zip(table.to_str());
    let rest = names.and_then(|(name, table)| name.strip_prefix(table));
    rest.is_some_and(|rest| rest.starts_with('.') && rest.ends_with(".part"))
}
