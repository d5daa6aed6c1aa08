use super::paragraphs;
use crate::disk::{self, Disk, Space};
use faultline_pages::cells::{figure, number, row, table, words};
use faultline_pages::model::{BarSeries, Bars, Block, Cell, Chart};

pub(super) fn blocks(disks: &[Disk]) -> Vec<Block> {
    if disks.is_empty() {
        return Vec::new();
    }
    let mut blocks = vec![totals(disks), kinds(disks)];
    blocks.extend(parts(disks));
    blocks.extend(levels(disks));
    for disk in disks {
        let of_databases = disk.databases.iter().flat_map(|of| {
            of.problems
                .iter()
                .map(move |sentences| format!("{}: {sentences}", of.path))
        });
        let sentences: Vec<String> = disk
            .problems
            .iter()
            .cloned()
            .chain(of_databases)
            .map(|sentences| format!("{}: {sentences}", disk.node))
            .collect();
        blocks.extend(paragraphs(&sentences.join("\n")));
    }
    blocks
}

fn count(number_of: Option<u64>) -> Cell {
    number(number_of.map(|number| number as f64), 0, "not known")
}

/// Files, their size, and what they take of the disk.
fn space(of: Option<&Space>) -> [Cell; 3] {
    let parts: [fn(&Space) -> u64; 3] = [|of| of.files, |of| of.bytes, |of| of.allocated];
    parts.map(|part| count(of.map(part)))
}

fn totals(disks: &[Disk]) -> Block {
    let columns = [
        ("node", ""),
        ("folder", ""),
        ("files", ""),
        ("size", "bytes"),
        ("on disk", "bytes"),
    ];
    let note = "On disk is less where files have holes, more where blocks are not full.";
    let mut out = table("storage", "Storage space", &columns, note);
    for disk in disks {
        let cells = std::iter::once(words(&disk.folder)).chain(space(disk.total.as_ref()));
        out.rows.push(row(&disk.node, cells));
    }
    Block::Table(out)
}

fn kinds(disks: &[Disk]) -> Block {
    let columns = [
        ("node", ""),
        ("type of file", ""),
        ("files", ""),
        ("size", "bytes"),
        ("on disk", "bytes"),
    ];
    let mut out = table(
        "storage-by-type",
        "Storage space by type of file",
        &columns,
        "",
    );
    for disk in disks {
        for (kind, of_kind) in &disk.kinds {
            let cells = std::iter::once(words(kind)).chain(space(Some(of_kind)));
            out.rows.push(row(&disk.node, cells));
        }
    }
    Block::Table(out)
}

fn parts(disks: &[Disk]) -> Option<Block> {
    let columns = [
        ("database", ""),
        ("node", ""),
        ("engine", ""),
        ("part", ""),
        ("level", ""),
        ("tables", ""),
        ("size", "bytes"),
    ];
    let note = "Parts are tables and indexes of SQLite, and column families and their levels of the other engines.";
    let mut out = table(
        "storage-by-part",
        "Storage space of databases",
        &columns,
        note,
    );
    let none = |number_of: Option<u64>| number(number_of.map(|of| of as f64), 0, "");
    for (disk, database, part) in disk::rows(disks) {
        let name = if part.name.is_empty() {
            "all"
        } else {
            &part.name
        };
        let mut cells = [&database.path, &disk.node, &database.engine]
            .map(|text| words(text))
            .to_vec();
        cells.extend([
            words(name),
            none(part.level),
            none(part.files),
            count(Some(part.bytes)),
        ]);
        out.rows.push(cells);
    }
    (!out.rows.is_empty()).then_some(Block::Table(out))
}

fn levels(disks: &[Disk]) -> Option<Block> {
    let levels: Vec<u64> = (0..=disk::rows(disks)
        .filter_map(|(.., part)| part.level)
        .max()
        .unwrap_or(0))
        .collect();
    let series = disks.iter().map(|disk| {
        let of_level = |level: &u64| {
            let parts = disk
                .databases
                .iter()
                .flat_map(|of| &of.parts)
                .filter(|part| part.level == Some(*level));
            let bytes: u64 = parts.map(|part| part.bytes).sum();
            (bytes > 0).then_some((bytes as f64 / f64::from(1 << 20), None))
        };
        BarSeries {
            name: disk.node.clone(),
            values: levels.iter().map(of_level).collect(),
        }
    });
    let series: Vec<BarSeries> = series
        .filter(|series| series.values.iter().any(Option::is_some))
        .collect();
    if series.is_empty() {
        return None;
    }
    let categories = levels
        .iter()
        .map(|level| format!("level {level}"))
        .collect();
    let chart = Chart::Bars(Bars {
        y_label: "MiB".to_owned(),
        categories,
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
