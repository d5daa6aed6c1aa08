use super::summary::RecordingSummary;
use faultline_text::{bytes, clean, count, counted, duration_f64, utc};
use itertools::Itertools;
use serde_json::Value;
use std::fmt::Write;

/// If there are more, half of this number is shown from each end.
const MAX_EVENTS: usize = 60;
const MAX_GAPS: usize = 20;

const SESSION_FIELDS: [&str; 6] = [
    "/host/name",
    "/host/system",
    "/host/kernel/release",
    "/host/cpu/model",
    "/host/cpu/threads",
    "/host/memory/total_bytes",
];
const PROCESS_FIELDS: [&str; 7] = [
    "/validator/client",
    "/validator/version",
    "/validator/identity",
    "/comm",
    "/exe",
    "/binary/sha256",
    "/arguments",
];

pub fn describe(summary: &RecordingSummary, all_fields: bool) -> String {
    let mut out = format!("{}\n", clean(&summary.file.display().to_string()));
    write_recording(&mut out, summary);
    write_sessions(&mut out, summary, all_fields);
    write_processes(&mut out, summary, all_fields);
    let phases = summary.phases.iter().map(|phase| {
        (
            phase.phase.as_deref().unwrap_or("not known"),
            duration_f64(phase.seconds),
        )
    });
    write_list(&mut out, "phases", phases);
    write_events(&mut out, summary);
    write_gaps(&mut out, summary);
    write_list(
        &mut out,
        "rows",
        summary
            .tables
            .iter()
            .filter(|table| table.rows > 0)
            .map(|table| (table.name, count(table.rows))),
    );
    write_list(
        &mut out,
        "unreadable",
        summary.problems.iter().map(|problem| {
            (
                &problem.source,
                format!("{} ({})", problem.what, problem.status),
            )
        }),
    );
    write_list(
        &mut out,
        "missing",
        summary.missing.iter().map(|part| (part, String::new())),
    );
    out
}

fn write_recording(out: &mut String, summary: &RecordingSummary) {
    let state = if summary.finished { "" } else { "not " };
    let log = if summary.log_bytes > 0 {
        format!(" and {} of log", bytes(summary.log_bytes))
    } else {
        String::new()
    };
    write_line(
        out,
        "recording",
        &format!(
            "format {}, {state}finished, {}{log}",
            summary.format,
            bytes(summary.bytes)
        ),
    );
    if !summary.labels.is_empty() {
        let labels = summary
            .labels
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .join(", ");
        write_line(out, "labels", &labels);
    }
    for (key, value) in &summary.meta {
        write_line(out, key, value);
    }
    if let (Some(first), Some(last)) = (summary.first_unix_ns, summary.last_unix_ns) {
        write_line(
            out,
            "time",
            &format!(
                "{} to {}, {}",
                utc(first),
                utc(last),
                duration_f64(summary.seconds)
            ),
        );
    }
}

fn write_events(out: &mut String, summary: &RecordingSummary) {
    let events = summary.events.iter();
    let left_out = events.len().saturating_sub(MAX_EVENTS);
    let first = events.clone().take(MAX_EVENTS / 2);
    let shown = first.chain(events.skip(MAX_EVENTS / 2 + left_out));
    write_list(
        out,
        "events",
        shown.map(|event| {
            (
                utc(event.unix_ns),
                format!("{}{}", event.kind, detail(&event.detail)),
            )
        }),
    );
    if left_out > 0 {
        write_line(
            out,
            "",
            &format!(
                "({} in between are left out; --json has all)",
                count(left_out as u64)
            ),
        );
    }
}

fn write_sessions(out: &mut String, summary: &RecordingSummary, all_fields: bool) {
    for session in &summary.sessions {
        let end = session
            .ended_unix_ns
            .map_or("no end".to_owned(), |end| format!("ended {}", utc(end)));
        let text = format!(
            "{}: faultlined {}, every {}, {}, began {}, {end}",
            session.id,
            session.version,
            duration_f64(session.interval_seconds),
            counted(session.ticks as f64, "sample"),
            utc(session.started_unix_ns),
        );
        write_line(out, "session", &text);
        write_manifest(out, &session.manifest, &SESSION_FIELDS, all_fields);
    }
}

fn write_processes(out: &mut String, summary: &RecordingSummary, all_fields: bool) {
    for process in &summary.processes {
        let started = process
            .started_unix_ns
            .map_or("start unknown".to_owned(), |start| {
                format!("started {}", utc(start))
            });
        let seen = utc(process.seen_unix_ns);
        write_line(
            out,
            "process",
            &format!(
                "{}: pid {}, {started}, followed from {seen}",
                process.id, process.pid
            ),
        );
        write_manifest(out, &process.manifest, &PROCESS_FIELDS, all_fields);
    }
}

fn write_gaps(out: &mut String, summary: &RecordingSummary) {
    let shown = summary.gaps.iter().take(MAX_GAPS).map(|gap| {
        let missed = gap
            .missed
            .map_or("between samples of two sessions".to_owned(), |missed| {
                format!("{} missed", counted(missed as f64, "sample"))
            });
        (
            utc(gap.from_unix_ns),
            format!("{}, {missed}", duration_f64(gap.seconds)),
        )
    });
    write_list(out, "gaps", shown);
    if summary.gaps.len() > MAX_GAPS {
        write_line(
            out,
            "",
            &format!(
                "({} more; --json has all)",
                count((summary.gaps.len() - MAX_GAPS) as u64)
            ),
        );
    }
}

fn write_line(out: &mut String, label: &str, text: &str) {
    let _ = writeln!(out, "{:<11} {}", clean(label), clean(text).trim_end());
}

/// Only the first line has the label.
fn write_list(
    out: &mut String,
    label: &str,
    rows: impl IntoIterator<Item = (impl AsRef<str>, String)>,
) {
    let rows = rows.into_iter().collect_vec();
    let width = rows
        .iter()
        .map(|(first, _)| first.as_ref().len())
        .max()
        .unwrap_or(0);
    for (i, (first, second)) in rows.iter().enumerate() {
        write_line(
            out,
            if i == 0 { label } else { "" },
            &format!("{:<width$}  {second}", first.as_ref()),
        );
    }
}

/// A JSON object as lines `a.b  value`: only `json_pointers`, or all fields.
fn write_manifest(out: &mut String, value: &Value, json_pointers: &[&str], all_fields: bool) {
    let mut lines = Vec::new();
    if all_fields {
        flatten("", value, &mut lines);
    } else {
        for pointer in json_pointers {
            if let Some(field) = value.pointer(pointer) {
                let path = pointer.trim_start_matches('/').replace('/', ".");
                flatten(&path, field, &mut lines);
            }
        }
    }
    write_list(out, "", lines);
}

fn flatten(path: &str, value: &Value, lines: &mut Vec<(String, String)>) {
    let child_path = |key: &str| match path {
        "" => key.to_owned(),
        path => format!("{path}.{key}"),
    };
    match value {
        Value::Null => {}
        Value::Object(map) => map
            .iter()
            .for_each(|(key, value)| flatten(&child_path(key), value, lines)),
        Value::Array(items)
            if items
                .iter()
                .all(|item| !item.is_object() && !item.is_array()) =>
        {
            lines.push((path.to_owned(), items.iter().map(field_text).join(" ")));
        }
        Value::Array(items) => items
            .iter()
            .enumerate()
            .for_each(|(i, value)| flatten(&child_path(&i.to_string()), value, lines)),
        plain => lines.push((path.to_owned(), field_text(plain))),
    }
}

fn field_text(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

fn detail(value: &Value) -> String {
    let mut lines = Vec::new();
    flatten("", value, &mut lines);
    let mut pairs = lines.into_iter().map(|(key, value)| {
        if key.is_empty() {
            value
        } else {
            format!("{key}={value}")
        }
    });
    match pairs.join(", ") {
        pairs if pairs.is_empty() => pairs,
        pairs => format!(": {pairs}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_row_label_keeps_a_space_before_its_text() {
        let mut out = String::new();
        write_line(&mut out, "salvaged_from", "run.fltl");
        write_line(&mut out, "time", "now");
        write_line(&mut out, "a\nb\u{202e}", "c\nrows        7");
        assert_eq!(
            out,
            "salvaged_from run.fltl\ntime        now\na b[U+202E] c rows        7\n"
        );
    }

    #[test]
    fn a_printed_manifest_is_flat_and_escapes_control_characters() {
        let value = serde_json::json!({"host": {"cpu": "A\u{1b}[2J", "none": null}, "args": ["a", 1], "disks": [{"name": "sda"}]});
        let mut out = String::new();
        write_manifest(&mut out, &value, &[], true);
        let lines: Vec<Vec<&str>> = out
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(
            lines,
            [
                vec!["args", "a", "1"],
                vec!["disks.0.name", "sda"],
                vec!["host.cpu", "A[U+001B][2J"]
            ]
        );
        let mut out = String::new();
        write_manifest(
            &mut out,
            &value,
            &["/host/none", "/host/cpu", "/nowhere", "/args"],
            false,
        );
        let names: Vec<_> = out
            .lines()
            .filter_map(|line| line.split_whitespace().next())
            .collect();
        assert_eq!(names, ["host.cpu", "args"]);
        assert_eq!(
            detail(&serde_json::json!({"from": "starting", "to": "at_tip"})),
            ": from=starting, to=at_tip"
        );
        assert_eq!(
            (detail(&Value::Null), detail(&Value::from("words"))),
            (String::new(), ": words".to_owned())
        );
    }
}
