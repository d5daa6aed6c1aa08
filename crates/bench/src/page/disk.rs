use super::paragraphs;
use crate::disk::{self, Disk};
use crate::report_tables::words;
use faultline_analysis::report::cells::{figure, number, table};
use faultline_analysis::report::model::{BarSeries, Bars, Block, Cell, Chart};

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
        let of = |of: fn(&disk::Space) -> u64| count(disk.total.as_ref().map(of));
        let numbers = [
            of(|space| space.files),
            of(|space| space.bytes),
            of(|space| space.allocated),
        ];
        out.rows.push(
            [words(&disk.node), words(&disk.folder)]
                .into_iter()
                .chain(numbers)
                .collect(),
        );
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
        for (kind, space) in &disk.kinds {
            let numbers = [space.files, space.bytes, space.allocated].map(|of| count(Some(of)));
            out.rows.push(
                [words(&disk.node), words(kind)]
                    .into_iter()
                    .chain(numbers)
                    .collect(),
            );
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
    let none = |number_of: Option<u64>| {
        number_of.map_or_else(|| Cell::Missing(String::new()), |of| count(Some(of)))
    };
    for (disk, database, part) in disk::rows(disks) {
        let name = if part.name.is_empty() {
            "all"
        } else {
            &part.name
        };
        let mut row = [&database.path, &disk.node, &database.engine]
            .map(|text| words(text))
            .to_vec();
        row.extend([
            words(name),
            none(part.level),
            none(part.files),
            count(Some(part.bytes)),
        ]);
        out.rows.push(row);
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
