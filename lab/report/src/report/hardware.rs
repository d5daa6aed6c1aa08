//! The machines (Figures 1, 2 and 5 of the study, see `docs/PAPER.md`), validators and folders.

use super::{
    cells::{self, GIB, number_or, row, table, text_or},
    groups::{by_key, distinct},
    measured_run::MeasuredRuns,
    model::{Block, Cell, Section, Table},
};
use crate::run::{SystemFacts, json_text};
use itertools::{Itertools, chain};
use serde_json::Value;

pub fn section(runs: &MeasuredRuns) -> Section {
    let blocks = vec![
        Block::Fold("Machine, validator and disks".to_owned()),
        facts_table(
            runs,
            "hardware",
            "Machine",
            "As the daemon found it when it began to record.",
            |facts| &facts.host,
        ),
        facts_table(
            runs,
            "validator",
            "Validator",
            "Of the first process that is a validator, otherwise of the last one. Secrets are left out of arguments.",
            |facts| &facts.validator,
        ),
        rows_by_distinct_values(
            runs,
            table(
                "folders",
                "Ledger, accounts and their file systems",
                &FOLDER_COLUMNS,
                "The validator's folders and their file systems, when the process was found. GiB is 2^30 bytes.",
            ),
            |facts| &facts.folders,
            folder,
        ),
        rows_by_distinct_values(
            runs,
            table(
                "drives",
                "Disks",
                &["Runs", "Disk", "Model", "Size [GiB]", "Kind", "Scheduler"],
                "As the kernel lists them. IOPS and throughput of a cloud volume are not known to the machine. GiB is 2^30 bytes.",
            ),
            |facts| &facts.drives,
            drive,
        ),
        rows_by_distinct_values(
            runs,
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

fn facts_table(
    runs: &MeasuredRuns,
    id: &str,
    title: &str,
    note: &str,
    facts_of: fn(&SystemFacts) -> &[(&'static str, String)],
) -> Block {
    let all = || runs.all.iter();
    let names = all().map(|run| (run.name.as_str(), ""));
    let columns = chain!([("", "")], names).collect_vec();
    let mut table = table(id, title, &columns, note);
    let names = all().flat_map(|run| facts_of(&run.recording.facts));
    for name in distinct(names.map(|(name, _)| *name)) {
        let cells = all().map(|run| {
            let fact = facts_of(&run.recording.facts)
                .iter()
                .find(|(known, _)| *known == name);
            text_or(fact.map(|(_, fact)| fact.as_str()), NOT_IN_MANIFEST)
        });
        table.rows.push(row(name, cells));
    }
    if table.rows.is_empty() {
        table.note = "No manifest of any run has any of these.".to_owned();
    }
    Block::Table(table)
}

/// Runs with equal values share their rows.
fn rows_by_distinct_values(
    runs: &MeasuredRuns,
    mut table: Table,
    values: fn(&SystemFacts) -> &[Value],
    cells: fn(&Value) -> Vec<Cell>,
) -> Block {
    let by_values = by_key(runs.all.iter().map(|run| {
        let values = values(&run.recording.facts).iter();
        (values.map(cells).collect_vec(), run.name.as_str())
    }));
    for (values, names) in by_values {
        let names = if names.len() == runs.all.len() && names.len() > 1 {
            "all runs".to_owned()
        } else {
            names.join("; ")
        };
        table
            .rows
            .extend(values.into_iter().map(|cells| row(&names, cells)));
    }
    if table.rows.is_empty() {
        table.note = "No manifest of any run has any of these.".to_owned();
    }
    Block::Table(table)
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
    let options = ["options", "file_system_options"]
        .map(|name| json_text(&mount[name]))
        .into_iter()
        .flatten()
        .join(",");
    vec![
        Cell::Text(text_or_empty(&folder["what"]).replace('_', " ")),
        Cell::Text(text_or_empty(&folder["path"])),
        fact(&mount["source"], NOT_IN_MANIFEST),
        fact(&mount["disk"], NOT_IN_MANIFEST),
        fact(&mount["file_system"], NOT_IN_MANIFEST),
        text_or(Some(&options), NOT_IN_MANIFEST),
        gib(&mount["bytes"]),
        gib(&mount["free_bytes"]),
    ]
}

const NOT_IN_MANIFEST: &str = "not in the manifest";

fn text_or_empty(value: &Value) -> String {
    json_text(value).unwrap_or_default()
}

fn fact(value: &Value, missing_reason: &str) -> Cell {
    text_or(json_text(value).as_deref(), missing_reason)
}

fn gib(bytes: &Value) -> Cell {
    let gib = bytes.as_u64().map(|bytes| bytes as f64 / GIB);
    number_or(gib, 1, NOT_IN_MANIFEST)
}

fn drive(drive: &Value) -> Vec<Cell> {
    let kind = drive["rotational"]
        .as_bool()
        .map(|rotates| if rotates { "rotating" } else { "solid state" });
    vec![
        Cell::Text(text_or_empty(&drive["name"])),
        fact(&drive["model"], "not reported by the disk"),
        gib(&drive["bytes"]),
        text_or(kind, NOT_IN_MANIFEST),
        fact(&drive["scheduler"], NOT_IN_MANIFEST),
    ]
}

fn interface(interface: &Value) -> Vec<Cell> {
    let mbit = interface["speed_mbit"].as_u64();
    let gbit = mbit.map(|mbit| mbit as f64 / 1000.0);
    vec![
        Cell::Text(text_or_empty(&interface["name"])),
        number_or(gbit, 1, "not reported by the interface"),
        fact(&interface["state"], NOT_IN_MANIFEST),
    ]
}
