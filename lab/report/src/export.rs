mod files;
mod rows;

use crate::args::{ExportArgs, Format};
use anyhow::{Context, Result, bail};
use faultline_common::{args::UsageError, files::is_disk_full};
use faultline_recording::{
    Recording,
    schema::{TABLES, TableSpec},
};
use faultline_text::counted;
use files::{DatasetRun, RecordingExport, TableFiles, table_path};
use itertools::Itertools;
use std::path::{Path, PathBuf};

const WIDE: &str = "wide";

/// Exported table, and recorded table with its rows: `tick` for [`WIDE`].
type ExportedTable = (&'static str, &'static TableSpec);

/// An error does not remove complete files.
pub fn run(args: &ExportArgs) -> Result<String> {
    export_all(args).map_err(|error| {
        if is_disk_full(&error) {
            error.context("the disk is full: free space, and export again")
        } else {
            error
        }
    })
}

fn export_all(args: &ExportArgs) -> Result<String> {
    let tables = selected_tables(&args.tables)?;
    if let Some(root) = &args.into {
        return export_into_dataset(root, args, &tables);
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
        let export = RecordingExport {
            recording: Recording::open(file)?,
            folder,
            format: args.format,
            dataset: None,
            removes_later_days: false,
        };
        message += &write_tables(&export, &tables)?;
    }
    Ok(message)
}

/// All tables if `names` is empty.
fn selected_tables(names: &[String]) -> Result<Vec<ExportedTable>> {
    let mut tables = TABLES.iter().map(|spec| (spec.name, spec)).collect_vec();
    let tick = TABLES.iter().find(|spec| spec.name == rows::TICK);
    tables.extend(tick.map(|spec| (WIDE, spec)));
    for name in names {
        if !tables.iter().any(|(table, _)| table == name) {
            let all = tables.iter().map(|(table, _)| table).join(", ");
            let text = format!("there is no table {name:?}: use one of {all}");
            return Err(UsageError(text).into());
        }
    }
    tables.retain(|(table, _)| names.is_empty() || names.iter().any(|name| name == table));
    // First, so that a data set refuses the recording before other tables are replaced.
    tables.sort_by_key(|(table, _)| *table != rows::TICK);
    Ok(tables)
}

fn recording_folders(files: &[PathBuf], out: &Path) -> Result<Vec<PathBuf>> {
    if files.len() == 1 {
        return Ok(vec![out.to_owned()]);
    }
    let mut folders = Vec::new();
    for file in files {
        let folder = out.join(
            file.file_stem()
                .with_context(|| format!("{}: not a file", file.display()))?,
        );
        if let Some(index) = folders.iter().position(|other| *other == folder) {
            bail!(
                "{} and {} would both go to {}: export them one by one",
                files[index].display(),
                file.display(),
                folder.display()
            );
        }
        folders.push(folder);
    }
    Ok(folders)
}

/// Replaces files of an earlier export of the same runs.
fn export_into_dataset(root: &Path, args: &ExportArgs, tables: &[ExportedTable]) -> Result<String> {
    let mut message = String::new();
    let mut runs: Vec<(PathBuf, &Path)> = Vec::new();
    for file in &args.files {
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
        let export = RecordingExport {
            recording,
            folder: root,
            format: Format::Parquet,
            dataset: Some(dataset),
            removes_later_days: args.force,
        };
        message += &write_tables(&export, tables)?;
        runs.push((run_path, file));
    }
    Ok(message)
}

fn write_tables(export: &RecordingExport<'_>, tables: &[ExportedTable]) -> Result<String> {
    let mut rows = 0;
    for &(table, row_source) in tables {
        let columns = match table {
            WIDE => rows::wide_columns(export)?,
            _ => rows::columns(export, row_source)?,
        };
        let mut files = TableFiles::new(export, table, row_source, columns);
        rows += rows::write(table == WIDE, &mut files)?;
        files.finish()?;
    }
    let run_path = export.dataset.as_ref().map(|run| run.path.as_path());
    Ok(format!(
        "{}: {} with {} in {}\n",
        export.recording.path().display(),
        counted(tables.len() as f64, "table"),
        counted(rows as f64, "row"),
        run_path.unwrap_or(export.folder).display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_table_is_wrong_usage() {
        let error = selected_tables(&["nosuch".to_owned()]).unwrap_err();
        assert!(error.is::<UsageError>(), "{error}");
    }
}
