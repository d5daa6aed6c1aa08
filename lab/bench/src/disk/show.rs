use super::{Database, DatabasePart, DiskUsage, Space};
use crate::results::lines;
use faultline_pages::{
    cells::{self, figure, known, row, words},
    model::{BarSeries, Bars, Block, Cell, Chart, Table},
};
use faultline_text::{bytes, count, number, size, table};
use std::{fmt::Write as _, iter};

/// Totals of all nodes, then file types and databases of each, in the order of the study
/// (`docs/BENCH-STUDIES.md`).
pub fn text(disks: &[DiskUsage]) -> String {
    if disks.is_empty() {
        return String::new();
    }
    let mut out = "=== Storage space ===\n\n".to_owned();
    for disk in disks {
        let total = disk.total.map_or("not known".to_owned(), |total| {
            format!(
                "{} in {} files, {} on disk",
                bytes(total.bytes),
                count(total.files),
                bytes(total.allocated)
            )
        });
        let _ = writeln!(out, "{}: {} total {total}", disk.node, disk.folder);
    }
    out += &size_ratio(disks).map_or_else(String::new, |sentences| sentences + "\n");
    for disk in disks {
        let _ = writeln!(out, "\n{}: by type of file", disk.node);
        let row = |(name, space): &(String, Space)| {
            vec![
                name.clone(),
                count(space.files),
                count(space.bytes),
                count(space.allocated),
            ]
        };
        out += &table(
            &["type", "files", "bytes", "on disk"],
            disk.kinds.iter().map(row).collect(),
        );
        out += &lines(&disk.problems);
        for of in &disk.databases {
            out += &database(&disk.node, of);
        }
    }
    out + "\n"
}

/// How many times larger the largest folder is than the smallest, as a sentence.
fn size_ratio(disks: &[DiskUsage]) -> Option<String> {
    let known: Option<Vec<(&str, u64)>> = disks
        .iter()
        .map(|disk| Some((disk.node.as_str(), disk.total?.bytes)))
        .collect();
    let known = known.filter(|known| known.len() > 1)?;
    let least = known.iter().min_by_key(|(_, bytes)| *bytes)?;
    let most = known.iter().max_by_key(|(_, bytes)| *bytes)?;
    let times = most.1 as f64 / least.1.max(1) as f64;
    Some(format!(
        "{} takes {} times the space of {}",
        most.0,
        number(times, 1),
        least.0
    ))
}

fn database(node: &str, of: &Database) -> String {
    let mut out = format!("\n{node}: {} ({})\n", of.path, of.engine);
    if !of.parts.is_empty() {
        out += &table(
            &["part", "level", "tables", "bytes", ""],
            of.parts.iter().map(part).collect(),
        );
    }
    if of.parts.is_empty() && of.problems.is_empty() {
        out += "it has no table yet: all is in its logs\n";
    }
    out + &lines(&of.problems)
}

fn part(part: &DatabasePart) -> Vec<String> {
    let count_or_dash = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), count);
    vec![
        part.shown().to_owned(),
        count_or_dash(part.level),
        count_or_dash(part.files),
        count(part.bytes),
        size(part.bytes),
    ]
}

fn rows(disks: &[DiskUsage]) -> Vec<(&DiskUsage, &Database, &DatabasePart)> {
    let mut rows = Vec::new();
    for disk in disks {
        for of in &disk.databases {
            rows.extend(of.parts.iter().map(|part| (disk, of, part)));
        }
    }
    rows
}

pub fn blocks(disks: &[DiskUsage]) -> Vec<Block> {
    if disks.is_empty() {
        return Vec::new();
    }
    let mut blocks = vec![totals(disks), kinds(disks)];
    blocks.extend(parts(disks));
    blocks.extend(levels(disks));
    for disk in disks {
        let node = &disk.node;
        let of_folder = disk.problems.iter();
        blocks.extend(of_folder.map(|problem| Block::Text(format!("{node}: {problem}"))));
        for Database { path, problems, .. } in &disk.databases {
            let of_database = problems.iter();
            blocks.extend(
                of_database.map(|problem| Block::Text(format!("{node}: {path}: {problem}"))),
            );
        }
    }
    blocks
}

fn count_cell(of: Option<u64>, why: &str) -> Cell {
    cells::number(of.map(|of| of as f64), 0, why)
}

/// Files, their size, and what they take of the disk.
fn space(of: Option<&Space>) -> [Cell; 3] {
    let parts: [fn(&Space) -> u64; 3] = [|of| of.files, |of| of.bytes, |of| of.allocated];
    parts.map(|part| count_cell(of.map(part), "not known"))
}

fn space_table(id: &str, title: &str, of: &str, note: &str) -> Table {
    let columns = ["node", of, "files", "size [bytes]", "on disk [bytes]"];
    cells::table(id, title, &columns, note)
}

fn totals(disks: &[DiskUsage]) -> Block {
    let note = "On disk is less where files have holes, more where blocks are not full.";
    let mut out = space_table("storage", "Storage space", "folder", note);
    for disk in disks {
        let cells = iter::once(words(&disk.folder)).chain(space(disk.total.as_ref()));
        out.rows.push(row(&disk.node, cells));
    }
    Block::Table(out)
}

fn kinds(disks: &[DiskUsage]) -> Block {
    let title = "Storage space by type of file";
    let mut out = space_table("storage-by-type", title, "type of file", "");
    for disk in disks {
        for (kind, of_kind) in &disk.kinds {
            let cells = iter::once(words(kind)).chain(space(Some(of_kind)));
            out.rows.push(row(&disk.node, cells));
        }
    }
    Block::Table(out)
}

fn parts(disks: &[DiskUsage]) -> Option<Block> {
    let columns = [
        "database",
        "node",
        "engine",
        "part",
        "level",
        "tables",
        "size [bytes]",
    ];
    let note = "Parts are tables and indexes of SQLite, and column families and their levels of the other engines.";
    let mut out = cells::table(
        "storage-by-part",
        "Storage space of databases",
        &columns,
        note,
    );
    for (disk, database, part) in rows(disks) {
        out.rows.push(vec![
            words(&database.path),
            words(&disk.node),
            words(&database.engine),
            words(part.shown()),
            count_cell(part.level, ""),
            count_cell(part.files, ""),
            known(part.bytes as f64, 0),
        ]);
    }
    (!out.rows.is_empty()).then_some(Block::Table(out))
}

fn levels(disks: &[DiskUsage]) -> Option<Block> {
    let known = rows(disks);
    let deepest = known.iter().filter_map(|(.., part)| part.level).max();
    let levels = 0..=deepest.unwrap_or(0);
    let series = disks.iter().map(|disk| {
        let of_level = |level: u64| {
            let parts = disk.databases.iter().flat_map(|of| &of.parts);
            let of_level = parts.filter(|part| part.level == Some(level));
            let bytes: u64 = of_level.map(|part| part.bytes).sum();
            (bytes > 0).then_some((bytes as f64 / f64::from(1 << 20), None))
        };
        BarSeries {
            name: disk.node.clone(),
            values: levels.clone().map(of_level).collect(),
        }
    });
    let series: Vec<BarSeries> = series
        .filter(|series| series.values.iter().any(Option::is_some))
        .collect();
    if series.is_empty() {
        return None;
    }
    let chart = Chart::Bars(Bars {
        y_label: "MiB".to_owned(),
        categories: levels.map(|level| format!("level {level}")).collect(),
        series,
        log: false,
    });
    Some(figure(
        "storage-by-level",
        "Storage space by level",
        "All databases of a node together, as far as they have levels.",
        chart,
    ))
}
