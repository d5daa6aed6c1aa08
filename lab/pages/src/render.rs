//! Renders a report as one offline HTML page, Markdown, CSV tables and SVG figures.
//!
//! Equal reports give equal bytes. Texts are treated as hostile: escaped, with invisible and
//! direction-changing characters as code points.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use anyhow::{Result, ensure};

use crate::model::{Block, Figure, Report, Table};
use faultline_common::files::write_report_files;

mod axis;
pub mod csv;
pub mod html;
pub mod markdown;
mod style;
pub mod svg;
mod text;

pub use style::SeriesStyles;
pub use text::plain_table;

#[derive(Debug)]
pub struct WrittenFiles {
    pub page: PathBuf,
    pub files: Vec<PathBuf>,
}

/// Writes `report.html`, `report.md`, `tables/ID.csv` and `figures/ID.svg`. If `out` ends in
/// `.html`, it is the path of the page, the only file. With `force`, old files are replaced after
/// all new ones are written. A symbolic link is replaced, not its target.
pub fn write(report: &Report, out: &Path, force: bool) -> Result<WrittenFiles> {
    check(report)?;
    let files = files(report, out)?;
    let folder = files
        .first()
        .and_then(|(page, _)| page.parent())
        .unwrap_or(out);
    write_report_files(folder, &files, force)?;
    let files = Vec::from_iter(files.into_iter().map(|(path, _)| path));
    Ok(WrittenFiles {
        page: files.first().cloned().unwrap_or_default(),
        files,
    })
}

fn files(report: &Report, out: &Path) -> Result<Vec<(PathBuf, String)>> {
    let page = html::page(report)?;
    if out
        .extension()
        .is_some_and(|ending| ending.eq_ignore_ascii_case("html"))
    {
        return Ok(vec![(out.to_owned(), page)]);
    }
    let styles = SeriesStyles::of(report);
    let mut files = vec![
        (out.join("report.html"), page),
        (out.join("report.md"), markdown::markdown(report)),
    ];
    files.extend(tables(report).map(|table| {
        let path = out.join(format!("tables/{}.csv", table.id));
        (path, csv::csv(table))
    }));
    files.extend(figures(report).map(|figure| {
        let path = out.join(format!("figures/{}.svg", figure.id));
        (path, svg::draw(figure, &styles, svg::Surface::File))
    }));
    Ok(files)
}

fn check(report: &Report) -> Result<()> {
    check_ids("run", report.runs.iter().map(|run| &run.id))?;
    check_ids("section", report.sections.iter().map(|section| &section.id))?;
    check_ids("table", tables(report).map(|table| &table.id))?;
    check_ids("figure", figures(report).map(|figure| &figure.id))?;
    for table in tables(report) {
        let columns = table.columns.len();
        for (number, row) in table.rows.iter().enumerate() {
            let (row, cells) = (number + 1, row.len());
            ensure!(
                cells == columns,
                "table {}: row {row} has {cells} cells for {columns} columns",
                table.id
            );
        }
    }
    Ok(())
}

/// `kind` is a singular: `table`.
fn check_ids<'a>(kind: &str, ids: impl Iterator<Item = &'a String>) -> Result<()> {
    let mut seen = BTreeSet::new();
    for id in ids {
        let is_allowed = |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
        ensure!(
            !id.is_empty() && id.bytes().all(is_allowed),
            "{kind} {id:?}: an id has only a to z, 0 to 9 and -"
        );
        ensure!(seen.insert(id), "two {kind}s have the id {id:?}");
    }
    Ok(())
}

fn tables(report: &Report) -> impl Iterator<Item = &Table> {
    report.blocks().filter_map(|block| match block {
        Block::Table(table) => Some(table),
        _ => None,
    })
}

fn figures(report: &Report) -> impl Iterator<Item = &Figure> {
    report.blocks().filter_map(|block| match block {
        Block::Figure(figure) => Some(figure),
        _ => None,
    })
}
