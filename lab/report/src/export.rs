mod files;
mod rows;

use crate::args::{ExportArgs, Format};
use anyhow::{Context, Result, bail};
use faultline_common::files::is_disk_full;
use faultline_recording::{
    Recording,
    schema::{TABLES, TableSpec},
};
use faultline_text::counted;
use files::{DatasetRun, Destination, TableFiles, table_path};
use std::path::{Path, PathBuf};

/// The table that joins a tick with its samples.
const WIDE: &str = "wide";

/// A table's name, and the table of the recording whose rows it has: `tick` for [`WIDE`].
type ExportedTable = (&'static str, &'static TableSpec);

/// Files that were finished before an error stay.
pub fn run(args: &ExportArgs) -> Result<String> {
    export_all(args).map_err(|error| match is_disk_full(&error) {
        true => error.context("the disk is full: free space, and export again"),
        false => error,
    })
}

fn export_all(args: &ExportArgs) -> Result<String> {
    let tables = selected_tables(&args.tables)?;
    if let Some(root) = &args.into {
        return export_into_dataset(root, &args.files, &tables);
    }
    let out = args
        .out
        .as_deref()
        .context("neither --out nor --into is given")?;
    let folders = recording_folders(&args.files, out)?;
    for folder in &folders {
        for (table, _) in &tables {
            let path = table_path(folder, table, args.format);
            if !args.force && path.symlink_metadata().is_ok() {
                bail!(
                    "{}: exists already; give another --out, or --force to overwrite it",
                    path.display()
                );
            }
        }
    }
    let mut message = String::new();
    for (file, folder) in args.files.iter().zip(&folders) {
        let recording = Recording::open(file)?;
        let destination = Destination {
            folder,
            format: args.format,
            dataset: None,
        };
        message += &export(&recording, &tables, &destination, folder)?;
    }
    Ok(message)
}

/// All tables if `names` is empty.
fn selected_tables(names: &[String]) -> Result<Vec<ExportedTable>> {
    let wide = TABLES.iter().find(|spec| spec.name == rows::TICK);
    let all: Vec<ExportedTable> = TABLES
        .iter()
        .map(|spec| (spec.name, spec))
        .chain(wide.map(|spec| (WIDE, spec)))
        .collect();
    let is_table = |name: &&String| all.iter().any(|(table, _)| table == name);
    if let Some(name) = names.iter().find(|name| !is_table(name)) {
        let all: Vec<&str> = all.iter().map(|(table, _)| *table).collect();
        bail!("no table is called {name:?}; there are {}", all.join(", "));
    }
    Ok(all
        .into_iter()
        .filter(|(table, _)| names.is_empty() || names.iter().any(|name| name == table))
        .collect())
}

/// The folder of each recording's tables: `out`, or a subfolder if there are several recordings.
fn recording_folders(files: &[PathBuf], out: &Path) -> Result<Vec<PathBuf>> {
    if files.len() == 1 {
        return Ok(vec![out.to_owned()]);
    }
    let mut folders: Vec<PathBuf> = Vec::new();
    for file in files {
        let name = file.file_stem();
        let folder = out.join(name.with_context(|| format!("{}: not a file", file.display()))?);
        let mut earlier = files.iter().zip(&folders);
        if let Some((other, _)) = earlier.find(|(_, other)| **other == folder) {
            bail!(
                "{} and {} would both go to {}: export them one by one",
                other.display(),
                file.display(),
                folder.display()
            );
        }
        folders.push(folder);
    }
    Ok(folders)
}

/// One recording at a time. Replaces what an earlier export wrote of the same runs.
fn export_into_dataset(root: &Path, files: &[PathBuf], tables: &[ExportedTable]) -> Result<String> {
    let mut message = String::new();
    let mut runs: Vec<(PathBuf, &Path)> = Vec::new();
    for file in files {
        let recording = Recording::open(file)?;
        let dataset = DatasetRun::new(&recording)?;
        let run_path = dataset.path.clone();
        if let Some((_, other)) = runs.iter().find(|(run, _)| *run == run_path) {
            bail!(
                "{} and {} are both {}: give each run once",
                other.display(),
                file.display(),
                run_path.display()
            );
        }
        let destination = Destination {
            folder: root,
            format: Format::Parquet,
            dataset: Some(dataset),
        };
        message += &export(&recording, tables, &destination, &run_path)?;
        runs.push((run_path, file));
    }
    Ok(message)
}

fn export(
    recording: &Recording,
    tables: &[ExportedTable],
    destination: &Destination<'_>,
    shown_folder: &Path,
) -> Result<String> {
    let is_dataset = destination.dataset.is_some();
    let mut rows = 0;
    for &(table, spec) in tables {
        let columns = match table {
            WIDE => rows::wide_columns(recording, is_dataset)?,
            _ => rows::columns(recording, spec, is_dataset)?,
        };
        let mut files = TableFiles::new(recording, destination, (table, spec), columns);
        rows += rows::write(recording, table == WIDE, &mut files)?;
        files.finish()?;
    }
    Ok(format!(
        "{}: {} with {} in {}\n",
        recording.path().display(),
        counted(tables.len() as f64, "table"),
        counted(rows as f64, "row"),
        shown_folder.display()
    ))
}
