use super::{Database, Disk, Space, show::rows};
use faultline_pages::{
    cells::{figure, known, number, row, table, words},
    model::{BarSeries, Bars, Block, Cell, Chart, Table},
};
use std::iter;

pub fn blocks(disks: &[Disk]) -> Vec<Block> {
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

fn count(of: Option<u64>, why: &str) -> Cell {
    number(of.map(|of| of as f64), 0, why)
}

/// Files, their size, and what they take of the disk.
fn space(of: Option<&Space>) -> [Cell; 3] {
    let parts: [fn(&Space) -> u64; 3] = [|of| of.files, |of| of.bytes, |of| of.allocated];
    parts.map(|part| count(of.map(part), "not known"))
}

fn space_table(id: &str, title: &str, of: &str, note: &str) -> Table {
    let columns = ["node", of, "files", "size [bytes]", "on disk [bytes]"];
    table(id, title, &columns, note)
}

fn totals(disks: &[Disk]) -> Block {
    let note = "On disk is less where files have holes, more where blocks are not full.";
    let mut out = space_table("storage", "Storage space", "folder", note);
    for disk in disks {
        let cells = iter::once(words(&disk.folder)).chain(space(disk.total.as_ref()));
        out.rows.push(row(&disk.node, cells));
    }
    Block::Table(out)
}

fn kinds(disks: &[Disk]) -> Block {
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

fn parts(disks: &[Disk]) -> Option<Block> {
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
    let mut out = table(
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
            count(part.level, ""),
            count(part.files, ""),
            known(part.bytes as f64, 0),
        ]);
    }
    (!out.rows.is_empty()).then_some(Block::Table(out))
}

fn levels(disks: &[Disk]) -> Option<Block> {
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
