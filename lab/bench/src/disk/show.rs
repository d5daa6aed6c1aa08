use super::{Database, DatabasePart, Disk};
use crate::results::lines;
use faultline_text::{bytes, count, number, size, table};
use std::fmt::Write as _;

/// Totals and file types, then databases, in the study's order.
pub fn text(disks: &[Disk]) -> String {
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
        let row = |(name, space): &(String, super::Space)| {
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

/// The study's ratio of the largest folder to the smallest.
fn size_ratio(disks: &[Disk]) -> Option<String> {
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

pub fn rows(disks: &[Disk]) -> Vec<(&Disk, &Database, &DatabasePart)> {
    let mut rows = Vec::new();
    for disk in disks {
        for of in &disk.databases {
            rows.extend(of.parts.iter().map(|part| (disk, of, part)));
        }
    }
    rows
}
