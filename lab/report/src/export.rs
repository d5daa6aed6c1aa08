mod rows;
mod wide;

use crate::args::{ExportArgs, Format};
use anyhow::{Context, bail};
use faultline_common::files::TempFile;
use faultline_pages::export::{CsvWriter, Layout, ParquetWriter, TableWriter, Type};
use faultline_recording::schema::TABLES;
use faultline_recording::{Error, Recording};
use faultline_text::counted;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

/// The table that joins a tick with its samples.
const WIDE: &str = "wide";

struct Job {
    from: PathBuf,
    to: PathBuf,
}

/// Files that were finished before an error stay.
pub fn run(args: &ExportArgs) -> anyhow::Result<String> {
    let tables = selected_tables(&args.tables)?;
    let jobs = jobs(args)?;
    for job in &jobs {
        for path in tables.iter().map(|table| path(job, table, args.format)) {
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
        std::fs::create_dir_all(&job.to)
            .with_context(|| format!("the folder {} cannot be made", job.to.display()))?;
        let mut rows = 0;
        for table in &tables {
            let path = path(job, table, args.format);
            rows += export(&recording, table, &path, args.format).map_err(|error| {
                match error.is::<Error>() {
                    true => error,
                    false => error.context(path.display().to_string()),
                }
            })?;
        }
        message += &format!(
            "{}: {} with {} in {}\n",
            job.from.display(),
            counted(tables.len() as f64, "table"),
            counted(rows as f64, "row"),
            job.to.display()
        );
    }
    Ok(message)
}

/// All tables if `names` is empty.
fn selected_tables(names: &[String]) -> anyhow::Result<Vec<&'static str>> {
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
fn jobs(args: &ExportArgs) -> anyhow::Result<Vec<Job>> {
    let mut jobs: Vec<Job> = Vec::new();
    for file in &args.files {
        let name = || {
            let stem = file.file_stem();
            stem.with_context(|| format!("{}: not a file", file.display()))
        };
        let to = match args.files.len() {
            1 => args.out.clone(),
            _ => args.out.join(name()?),
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

fn path(job: &Job, table: &str, format: Format) -> PathBuf {
    let extension = match format {
        Format::Parquet => "parquet",
        Format::Csv => "csv",
    };
    job.to.join(format!("{table}.{extension}"))
}

/// The file gets its final name only when it is complete.
fn export(
    recording: &Recording,
    table: &'static str,
    path: &Path,
    format: Format,
) -> anyhow::Result<u64> {
    let part = TempFile::create(path)?;
    let spec = TABLES.iter().find(|spec| spec.name == table);
    let columns: Vec<(String, Type)> = match spec {
        Some(spec) => {
            let names = spec.columns.iter().map(|column| column.name.to_owned());
            names.zip(rows::kinds(recording, spec)?).collect()
        }
        None => wide::columns(recording)?,
    };
    let layout = Layout::new(columns.iter().map(|(name, kind)| (name.as_str(), *kind)));
    let kinds: Vec<Type> = columns.iter().map(|(_, kind)| *kind).collect();
    let to = writer(recording, &part, table, layout, format)?;
    let rows = match spec {
        Some(spec) => rows::write(recording, spec.name, &kinds, to, |rows, columns| {
            rows::push_rows(rows, columns);
            Ok(())
        })?,
        None => wide::write(recording, &kinds, to)?,
    };
    part.finish(path)?;
    Ok(rows)
}

fn writer(
    recording: &Recording,
    part: &TempFile,
    table: &str,
    layout: Layout,
    format: Format,
) -> anyhow::Result<Box<dyn TableWriter>> {
    let out = BufWriter::new(part.file().try_clone()?);
    Ok(match format {
        Format::Csv => Box::new(CsvWriter::new(out, layout)?),
        Format::Parquet => {
            let labels = recording
                .labels()
                .iter()
                .map(|(key, value)| (format!("faultline.label.{key}"), value.clone()));
            Box::new(ParquetWriter::new(
                out,
                table,
                layout,
                &labels.collect::<Vec<_>>(),
            )?)
        }
    })
}
