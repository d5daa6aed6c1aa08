use super::{Database, DatabasePart, FolderUsage, Space, lsm::MAX_LEVELS};
use faultline_pages::{
    cells::{self, figure, number_cell, text_cell},
    model::{BarSeries, Bars, Block, Cell, Chart, Table},
};
use faultline_text::{bytes, count, lines, number, size, table};

/// Totals of all nodes, then file types and databases of each, in the order of the study
/// (`docs/BENCH-STUDIES.md`).
pub fn text(usages: &[FolderUsage]) -> String {
    if usages.is_empty() {
        return String::new();
    }
    let mut out = "=== Storage space ===\n\n".to_owned();
    for usage in usages {
        let total = match usage.total {
            None => "not known".to_owned(),
            Some(total) => format!(
                "{} in {} files, {} on disk",
                bytes(total.bytes),
                count(total.files),
                bytes(total.allocated)
            ),
        };
        out += &format!("{}: {} total {total}\n", usage.node, usage.folder);
    }
    if let Some(sentence) = size_ratio(usages) {
        out += &(sentence + "\n");
    }
    for usage in usages {
        out += &format!("\n{}: by type of file\n", usage.node);
        let row = |(file_type, space): &(String, Space)| {
            vec![
                file_type.clone(),
                count(space.files),
                count(space.bytes),
                count(space.allocated),
            ]
        };
        if usage.total.is_none() {
            out += "not known\n";
        } else {
            out += &table(
                &["type", "files", "bytes", "on disk"],
                usage.file_types.iter().map(row).collect(),
            );
        }
        out += &lines(&usage.problems);
        for database in &usage.databases {
            out += &database_text(&usage.node, database);
        }
    }
    out + "\n"
}

/// Largest to smallest folder; `None` if a size is unknown.
fn size_ratio(usages: &[FolderUsage]) -> Option<String> {
    let mut sizes = Vec::new();
    for usage in usages {
        sizes.push((usage.total?.bytes, &usage.node));
    }
    // Stable: nodes of equal size stay in order.
    sizes.sort_by_key(|(bytes, _)| *bytes);
    let [(least, smallest), .., (most, largest)] = sizes[..] else {
        return None;
    };
    let times = number(most as f64 / least.max(1) as f64, 1);
    Some(format!(
        "{largest} takes {times} times the space of {smallest}"
    ))
}

fn database_text(node: &str, database: &Database) -> String {
    let mut out = format!("\n{node}: {} ({})\n", database.path, database.engine);
    let dash_or_count = |number: Option<u64>| number.map_or("-".to_owned(), count);
    let row = |part: &DatabasePart| {
        vec![
            part.display_name().to_owned(),
            dash_or_count(part.level),
            dash_or_count(part.files),
            count(part.bytes),
            size(part.bytes),
        ]
    };
    if !database.parts.is_empty() {
        out += &table(
            &["part", "level", "table files", "bytes", ""],
            database.parts.iter().map(row).collect(),
        );
    } else if database.problems.is_empty() {
        out += "it has no table file yet: all data is in its logs\n";
    }
    out + &lines(&database.problems)
}

pub fn page(usages: &[FolderUsage]) -> Vec<Block> {
    if usages.is_empty() {
        return Vec::new();
    }
    let mut totals = cells::table(
        "storage",
        "Storage space",
        &["node", "folder", "files", "size [bytes]", "on disk [bytes]"],
        "The size on disk is smaller if files have holes, and larger if blocks are not full.",
    );
    let mut file_types = cells::table(
        "storage-by-type",
        "Storage space by type of file",
        &[
            "node",
            "type of file",
            "files",
            "size [bytes]",
            "on disk [bytes]",
        ],
        "If a folder could not be counted completely, its types are not known.",
    );
    for usage in usages {
        let node = &usage.node;
        totals
            .rows
            .push(space_row(node, &usage.folder, usage.total));
        // Results of older versions have incomplete sizes.
        let complete = usage.total.iter().flat_map(|_| &usage.file_types);
        for (file_type, space) in complete {
            file_types
                .rows
                .push(space_row(node, file_type, Some(*space)));
        }
    }
    let mut blocks = vec![Block::Table(totals), Block::Table(file_types)];
    let parts = parts_table(usages);
    if !parts.rows.is_empty() {
        blocks.push(Block::Table(parts));
    }
    blocks.extend(levels_figure(usages));
    for usage in usages {
        let node = &usage.node;
        for problem in &usage.problems {
            blocks.push(Block::Text(format!("{node}: {problem}")));
        }
        for Database { path, problems, .. } in &usage.databases {
            for problem in problems {
                blocks.push(Block::Text(format!("{node}: {path}: {problem}")));
            }
        }
    }
    blocks
}

fn count_cell(count: Option<u64>, missing: &str) -> Cell {
    cells::number_or(count.map(|count| count as f64), 0, missing)
}

fn space_row(node: &str, name: &str, space: Option<Space>) -> Vec<Cell> {
    let counts = [
        |space: Space| space.files,
        |space: Space| space.bytes,
        |space: Space| space.allocated,
    ];
    let mut row = vec![text_cell(node), text_cell(name)];
    row.extend(counts.map(|count| count_cell(space.map(count), "not known")));
    row
}

fn parts_table(usages: &[FolderUsage]) -> Table {
    let mut out = cells::table(
        "storage-by-part",
        "Storage space of databases",
        &[
            "database",
            "node",
            "engine",
            "part",
            "level",
            "table files",
            "size [bytes]",
        ],
        "Parts are tables and indexes of SQLite, and column families and their levels of the other engines.",
    );
    for usage in usages {
        for database in &usage.databases {
            for part in &database.parts {
                out.rows.push(vec![
                    text_cell(&database.path),
                    text_cell(&usage.node),
                    text_cell(&database.engine),
                    text_cell(part.display_name()),
                    count_cell(part.level, ""),
                    count_cell(part.files, ""),
                    number_cell(part.bytes as f64, 0),
                ]);
            }
        }
    }
    out
}

fn database_parts(usage: &FolderUsage) -> impl Iterator<Item = &DatabasePart> {
    usage.databases.iter().flat_map(|database| &database.parts)
}

fn levels_figure(usages: &[FolderUsage]) -> Option<Block> {
    let levels = 0..=usages
        .iter()
        .flat_map(database_parts)
        .filter_map(|part| part.level)
        // The results file is not trusted.
        .filter(|level| *level < MAX_LEVELS)
        .max()?;
    let mut series = Vec::new();
    for usage in usages {
        let mebibytes = |level: u64| {
            let bytes: f64 = database_parts(usage)
                .filter(|part| part.level == Some(level))
                .map(|part| part.bytes as f64)
                .sum();
            (bytes > 0.0).then_some((bytes / f64::from(1 << 20), None))
        };
        let values = Vec::from_iter(levels.clone().map(mebibytes));
        if values.iter().any(Option::is_some) {
            series.push(BarSeries {
                name: usage.node.clone(),
                values,
            });
        }
    }
    if series.is_empty() {
        return None;
    }
    Some(figure(
        "storage-by-level",
        "Storage space by level",
        "All databases of a node whose levels are known, together.",
        Chart::Bars(Bars {
            y_label: "MiB".to_owned(),
            categories: levels.map(|level| format!("level {level}")).collect(),
            series,
            log: false,
        }),
    ))
}
