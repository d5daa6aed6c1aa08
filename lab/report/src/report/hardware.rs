//! The machines (the study's Figures 1, 2 and 5), validators and folders.

use super::cells::{self, GIB, number, row, table, text, words};
use super::groups::{by_key, distinct};
use super::model::{Block, Cell, Section, Table};
use super::subject::{Subject, Subjects};
use crate::run::{Drive, Interface, Mount, SystemFacts};

pub(crate) fn section(subjects: &Subjects<'_>) -> Section {
    let facts = |id, title, note, of: fn(&SystemFacts) -> &[(&'static str, String)]| {
        facts(subjects, id, title, note, of)
    };
    let blocks = vec![
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
        folders(subjects),
        drives(subjects),
        network(subjects),
    ];
    cells::section("hardware", "Hardware", blocks)
}

fn facts(
    subjects: &Subjects<'_>,
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
        let of_run = |subject: &Subject<'_>| {
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
fn shared_rows<T: PartialEq>(
    subjects: &Subjects<'_>,
    mut listed: Table,
    of: fn(&SystemFacts) -> &Vec<T>,
    cells: fn(&T) -> Vec<Cell>,
) -> Block {
    let all = subjects.all.iter();
    let all = all.map(|subject| (of(&subject.run.facts), subject.name.as_str()));
    for (things, runs) in by_key(all) {
        let is_of_all = runs.len() == subjects.all.len() && runs.len() > 1;
        let runs = if is_of_all {
            "all runs".to_owned()
        } else {
            runs.join("; ")
        };
        let rows = things.iter().map(|thing| row(&runs, cells(thing)));
        listed.rows.extend(rows);
    }
    if listed.rows.is_empty() {
        listed.note = "No manifest of any run has any.".to_owned();
    }
    Block::Table(listed)
}

fn folders(subjects: &Subjects<'_>) -> Block {
    let columns = [
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
    let note = "The validator's folders and their file systems, when the process was found. GiB is 2^30 bytes.";
    shared_rows(
        subjects,
        table(
            "folders",
            "Ledger, accounts and their file systems",
            &columns,
            note,
        ),
        |facts| &facts.mounts,
        folder,
    )
}

fn folder(mount: &Mount) -> Vec<Cell> {
    let why = "not in the manifest";
    let word = |words: &Option<String>| text(words.as_deref(), why);
    let size = |bytes: Option<u64>| number(bytes.map(|bytes| bytes as f64 / GIB), 1, why);
    vec![
        Cell::Text(mount.what.replace('_', " ")),
        words(&mount.path),
        word(&mount.source),
        word(&mount.disk),
        word(&mount.file_system),
        word(&mount.options),
        size(mount.size),
        size(mount.free),
    ]
}

fn drives(subjects: &Subjects<'_>) -> Block {
    let columns = ["Runs", "Disk", "Model", "Size [GiB]", "Kind", "Scheduler"];
    let note = "As the kernel lists them. IOPS and throughput of a cloud volume are not known to the machine. GiB is 2^30 bytes.";
    shared_rows(
        subjects,
        table("drives", "Disks", &columns, note),
        |facts| &facts.drives,
        drive,
    )
}

fn drive(drive: &Drive) -> Vec<Cell> {
    let why = "not in the manifest";
    vec![
        words(&drive.name),
        text(drive.model.as_deref(), "not reported by the disk"),
        number(drive.size.map(|bytes| bytes as f64 / GIB), 1, why),
        text(
            drive
                .rotational
                .map(|rotates| if rotates { "rotating" } else { "solid state" }),
            why,
        ),
        text(drive.scheduler.as_deref(), why),
    ]
}

fn network(subjects: &Subjects<'_>) -> Block {
    let columns = ["Runs", "Interface", "Speed [Gbit/s]", "State"];
    let listed = table(
        "network",
        "Network interfaces",
        &columns,
        "As the kernel lists them; virtual ones report no speed.",
    );
    shared_rows(subjects, listed, |facts| &facts.interfaces, interface)
}

fn interface(interface: &Interface) -> Vec<Cell> {
    vec![
        words(&interface.name),
        number(
            interface.speed.map(|mbit| mbit as f64 / 1000.0),
            1,
            "not reported by the interface",
        ),
        text(interface.state.as_deref(), "not in the manifest"),
    ]
}
