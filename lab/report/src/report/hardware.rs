//! The machines (the study's Figures 1, 2 and 5), validators and folders.

use super::{
    cells::{self, GIB, number, row, table, text},
    groups::{by_key, distinct},
    model::{Block, Cell, Section, Table},
    subject::{Subject, Subjects},
};
use crate::run::{SystemFacts, json_text};
use itertools::Itertools;
use serde_json::Value;

pub fn section(subjects: &Subjects) -> Section {
    let facts = |id, title, note, of: fn(&SystemFacts) -> &[(&'static str, String)]| {
        facts(subjects, id, title, note, of)
    };
    let blocks = vec![
        Block::Fold("Machine, validator and disks".to_owned()),
        facts(
            "hardware",
            "Machine",
            "As the daemon found it when it began to record.",
            |facts| &facts.host,
        ),
        facts(
            "validator",
            "Validator",
            "Of the first process that was followed. Secrets are left out of arguments.",
            |facts| &facts.validator,
        ),
        shared_rows(
            subjects,
            table(
                "folders",
                "Ledger, accounts and their file systems",
                &FOLDER_COLUMNS,
                "The validator's folders and their file systems, when the process was found. GiB is 2^30 bytes.",
            ),
            |facts| &facts.mounts,
            folder,
        ),
        shared_rows(
            subjects,
            table(
                "drives",
                "Disks",
                &["Runs", "Disk", "Model", "Size [GiB]", "Kind", "Scheduler"],
                "As the kernel lists them. IOPS and throughput of a cloud volume are not known to the machine. GiB is 2^30 bytes.",
            ),
            |facts| &facts.drives,
            drive,
        ),
        shared_rows(
            subjects,
            table(
                "network",
                "Network interfaces",
                &["Runs", "Interface", "Speed [Gbit/s]", "State"],
                "As the kernel lists them; virtual ones report no speed.",
            ),
            |facts| &facts.interfaces,
            interface,
        ),
    ];
    cells::section("hardware", "Hardware", blocks)
}

fn facts(
    subjects: &Subjects,
    id: &str,
    title: &str,
    note: &str,
    of: fn(&SystemFacts) -> &[(&'static str, String)],
) -> Block {
    let names = subjects.all.iter().map(|subject| subject.name.as_str());
    let columns: Vec<(&str, &str)> = std::iter::once("")
        .chain(names)
        .map(|name| (name, ""))
        .collect();
    let mut listed = table(id, title, &columns, note);
    let all = subjects.all.iter();
    let all = all.flat_map(|subject| of(&subject.run.facts));
    for fact in distinct(all.map(|(fact, _)| *fact)) {
        let of_run = |subject: &Subject| {
            let known = of(&subject.run.facts)
                .iter()
                .find(|(name, _)| *name == fact);
            text(
                known.map(|(_, words)| words.as_str()),
                "not in the manifest",
            )
        };
        listed.rows.push(row(fact, subjects.all.iter().map(of_run)));
    }
    if listed.rows.is_empty() {
        listed.note = "No manifest of any run has hardware.".to_owned();
    }
    Block::Table(listed)
}

/// Runs with equal facts share their rows.
fn shared_rows(
    subjects: &Subjects,
    mut listed: Table,
    of: fn(&SystemFacts) -> &[Value],
    cells: fn(&Value) -> Vec<Cell>,
) -> Block {
    let all = subjects.all.iter().map(|subject| {
        let things = of(&subject.run.facts).iter().map(cells);
        (things.collect::<Vec<_>>(), subject.name.as_str())
    });
    for (things, runs) in by_key(all) {
        let is_of_all = runs.len() == subjects.all.len() && runs.len() > 1;
        let runs = if is_of_all {
            "all runs".to_owned()
        } else {
            runs.join("; ")
        };
        let rows = things.into_iter().map(|cells| row(&runs, cells));
        listed.rows.extend(rows);
    }
    if listed.rows.is_empty() {
        listed.note = "No manifest of any run has any.".to_owned();
    }
    Block::Table(listed)
}

const FOLDER_COLUMNS: [&str; 9] = [
    "Runs",
    "Folder of",
    "Path",
    "Device",
    "Disk",
    "File system",
    "Mount options",
    "Size [GiB]",
    "Free [GiB]",
];

fn folder(folder: &Value) -> Vec<Cell> {
    let mount = &folder["mount"];
    let options = ["options", "file_system_options"].map(|name| json_text(&mount[name]));
    let options = options.into_iter().flatten().join(",");
    vec![
        Cell::Text(named(&folder["what"]).replace('_', " ")),
        Cell::Text(named(&folder["path"])),
        fact(&mount["source"], NOT_THERE),
        fact(&mount["disk"], NOT_THERE),
        fact(&mount["file_system"], NOT_THERE),
        text(Some(&options), NOT_THERE),
        gib(&mount["bytes"]),
        gib(&mount["free_bytes"]),
    ]
}

const NOT_THERE: &str = "not in the manifest";

fn named(name: &Value) -> String {
    json_text(name).unwrap_or_default()
}

fn fact(value: &Value, why: &str) -> Cell {
    text(json_text(value).as_deref(), why)
}

fn gib(bytes: &Value) -> Cell {
    let gib = bytes.as_u64().map(|bytes| bytes as f64 / GIB);
    number(gib, 1, NOT_THERE)
}

fn drive(drive: &Value) -> Vec<Cell> {
    let kind = |rotates| if rotates { "rotating" } else { "solid state" };
    vec![
        Cell::Text(named(&drive["name"])),
        fact(&drive["model"], "not reported by the disk"),
        gib(&drive["bytes"]),
        text(drive["rotational"].as_bool().map(kind), NOT_THERE),
        fact(&drive["scheduler"], NOT_THERE),
    ]
}

fn interface(interface: &Value) -> Vec<Cell> {
    let speed = interface["speed_mbit"].as_u64();
    vec![
        Cell::Text(named(&interface["name"])),
        number(
            speed.map(|mbit| mbit as f64 / 1000.0),
            1,
            "not reported by the interface",
        ),
        fact(&interface["state"], NOT_THERE),
    ]
}
