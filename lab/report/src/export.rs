mod dataset;
mod files;
mod rows;
mod wide;

use crate::args::{ExportArgs, Format};
use anyhow::{Context, Result, bail};
use dataset::DatasetRun;
use faultline_common::files::{AtPath, TempFile, is_disk_full};
use faultline_pages::export::{CsvWriter, Layout, ParquetWriter, TableWriter, Type};
use faultline_recording::{Recording, schema::TABLES};
use faultline_text::counted;
use files::{CreatedFolders, OpenFile, TableFiles};
use std::{
    io::BufWriter,
    path::{Path, PathBuf},
};

/// The table that joins a tick with its samples.
const WIDE: &str = "wide";

struct Job {
    from: PathBuf,
    to: PathBuf,
}

/// Files that were finished before an error stay.
pub fn run(args: &ExportArgs) -> Result<String> {
    export_all(args).map_err(|error| match is_disk_full(&error) {
        true => error.context("the disk is full: free space, and export again"),
        false => error,
    })
}

fn export_all(args: &ExportArgs) -> Result<String> {
    let tables = selected_tables(&args.tables)?;
    if let Some(into) = &args.into {
        return dataset::export_into(into, &args.files, &tables);
    }
    let jobs = jobs(args)?;
    for job in &jobs {
        for path in tables.iter().map(|table| path(&job.to, table, args.format)) {
            if !args.force && path.symlink_metadata().is_ok() {
                bail!(
                    "{}: exists already; give another --out, or --force to overwrite it",
                    path.display()
                );
            }
        }
    }
    let mut message = String::new();
    for job in &jobs {
        let recording = Recording::open(&job.from)?;
        let destination = Destination {
            folder: &job.to,
            format: args.format,
            dataset: None,
        };
        message += &export(&recording, &tables, &destination)?;
    }
    Ok(message)
}

/// Where the tables of a recording go.
struct Destination<'t> {
    folder: &'t Path,
    format: Format,
    dataset: Option<&'t DatasetRun>,
}

impl Destination<'_> {
    fn path(&self, table: &str, day: i64) -> PathBuf {
        match self.dataset {
            Some(dataset) => dataset.path(table, day),
            None => path(self.folder, table, self.format),
        }
    }
}

fn export(
    recording: &Recording,
    tables: &[&'static str],
    destination: &Destination<'_>,
) -> Result<String> {
    let mut rows = 0;
    for table in tables {
        rows += export_table(recording, table, destination)?;
    }
    Ok(format!(
        "{}: {} with {} in {}\n",
        recording.path().display(),
        counted(tables.len() as f64, "table"),
        counted(rows as f64, "row"),
        destination.folder.display()
    ))
}

/// All tables if `names` is empty.
fn selected_tables(names: &[String]) -> Result<Vec<&'static str>> {
    let all: Vec<&'static str> = TABLES.iter().map(|spec| spec.name).chain([WIDE]).collect();
    if let Some(name) = names.iter().find(|name| !all.contains(&name.as_str())) {
        bail!("no table is called {name:?}; there are {}", all.join(", "));
    }
    Ok(all
        .into_iter()
        .filter(|table| names.is_empty() || names.iter().any(|name| name == table))
        .collect())
}

/// Several recordings get a subfolder each.
fn jobs(args: &ExportArgs) -> Result<Vec<Job>> {
    let out = args
        .out
        .as_deref()
        .context("neither --out nor --into is given")?;
    let mut jobs: Vec<Job> = Vec::new();
    for file in &args.files {
        let name = || {
            let stem = file.file_stem();
            stem.with_context(|| format!("{}: not a file", file.display()))
        };
        let to = match args.files.len() {
            1 => out.to_owned(),
            _ => out.join(name()?),
        };
        if let Some(other) = jobs.iter().find(|job| job.to == to) {
            bail!(
                "{} and {} would both go to {}: export them one by one",
                other.from.display(),
                file.display(),
                to.display()
            );
        }
        jobs.push(Job {
            from: file.clone(),
            to,
        });
    }
    Ok(jobs)
}

fn path(folder: &Path, table: &str, format: Format) -> PathBuf {
    let extension = match format {
        Format::Parquet => "parquet",
        Format::Csv => "csv",
    };
    folder.join(format!("{table}.{extension}"))
}

fn export_table(
    recording: &Recording,
    table: &'static str,
    destination: &Destination<'_>,
) -> Result<u64> {
    let dataset = destination.dataset;
    let spec = TABLES.iter().find(|spec| spec.name == table);
    let mut columns: Vec<(String, Type)> = match spec {
        Some(spec) => {
            let names = spec.columns.iter().map(|column| column.name.to_owned());
            names
                .zip(rows::kinds(recording, spec, dataset.is_some())?)
                .collect()
        }
        None => wide::columns(recording, dataset.is_some())?,
    };
    let kinds: Vec<Type> = columns.iter().map(|(_, kind)| *kind).collect();
    let own = dataset.iter().flat_map(|dataset| &dataset.columns);
    columns.extend(own.map(|(name, _)| ((*name).to_owned(), Type::Text)));
    let folders = CreatedFolders::default();
    let create = |day| {
        let path = destination.path(table, day);
        let folder = path.parent().unwrap_or(Path::new("."));
        folders
            .make(folder)
            .with_context(|| format!("the folder {} cannot be made", folder.display()))?;
        let temp_file = TempFile::create(&path).at(&path)?;
        let layout = Layout::new(columns.iter().map(|(name, kind)| (name.as_str(), *kind)));
        let writer = writer(recording, &temp_file, table, layout, destination).at(&path)?;
        Ok(OpenFile {
            path,
            temp_file,
            writer,
        })
    };
    let tick = || TABLES.iter().find(|spec| spec.name == wide::TICK);
    let mut files = TableFiles::new(spec.or_else(tick), dataset, &create);
    let rows = match spec {
        Some(spec) => rows::write(recording, spec.name, &kinds, &mut files, |rows, columns| {
            rows::push_rows(rows, columns);
            Ok(())
        })?,
        None => wide::write(recording, &kinds, dataset.is_some(), &mut files)?,
    };
    files.finish()?;
    Ok(rows)
}

fn writer(
    recording: &Recording,
    temp_file: &TempFile,
    table: &str,
    layout: Layout,
    destination: &Destination<'_>,
) -> Result<Box<dyn TableWriter>> {
    let out = BufWriter::new(temp_file.file().try_clone()?);
    if destination.format == Format::Csv {
        return Ok(Box::new(CsvWriter::new(out, layout)?));
    }
    let labels = recording
        .labels()
        .iter()
        .map(|(key, value)| (format!("faultline.label.{key}"), value.clone()));
    let labels: Vec<(String, String)> = labels.collect();
    Ok(Box::new(ParquetWriter::new(out, table, layout, &labels)?))
}
