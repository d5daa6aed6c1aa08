//! docs/RECORDING.md lists all tables and columns. After an intended change, renew it with
//! `FAULTLINE_RENEW=1 cargo test -p faultline-recording` and read the difference.

use faultline_recording::schema::{TABLES, metrics_without_samples};
use std::{fmt::Write, fs, path::Path};

const BEGIN: &str = "<!-- generated from the schema: tables -->\n";
const END: &str = "<!-- end of what is generated -->";

fn generated() -> String {
    let mut out = String::new();
    for table in TABLES.iter() {
        write!(
            out,
            "\n### {}\n\n{}\n\n",
            table.name,
            table.description.trim()
        )
        .unwrap();
        out.push_str("| column | type | what |\n| --- | --- | --- |\n");
        for column in &table.columns {
            let constraint = match column.constraint {
                "" => String::new(),
                constraint => format!(" {}", constraint.to_lowercase()),
            };
            let kind = column.kind.sql().to_lowercase();
            let of = match column.references {
                Some(table) if column.constraint != "PRIMARY KEY" => format!("`{table}.id`"),
                _ => String::new(),
            };
            let description = if column.description.is_empty() {
                of
            } else {
                column.description.clone()
            };
            writeln!(
                out,
                "| `{}` | {kind}{constraint} | {description} |",
                column.name
            )
            .unwrap();
        }
    }
    out.push_str("\n### Not recorded\n\n| metric | what replaces it |\n| --- | --- |\n");
    for (metric, why) in metrics_without_samples() {
        writeln!(out, "| `{}` | {why} |", metric.name).unwrap();
    }
    out.push('\n');
    out
}

#[test]
fn the_document_lists_every_table_and_column() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/RECORDING.md");
    let found = fs::read_to_string(&path).unwrap();
    let (head, rest) = found
        .split_once(BEGIN)
        .expect("the mark of the generated part");
    let (_, foot) = rest.split_once(END).expect("the end of the generated part");
    let wanted = format!("{head}{BEGIN}{}{END}{foot}", generated());
    if std::env::var_os("FAULTLINE_RENEW").is_some() {
        fs::write(&path, wanted).unwrap();
        return;
    }
    assert!(
        found == wanted,
        "renew docs/RECORDING.md: FAULTLINE_RENEW=1 cargo test -p faultline-recording"
    );
}
