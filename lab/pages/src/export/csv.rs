//! CSV as in RFC 4180; a NULL is an empty field, an empty text is `""`.

use super::{Layout, TableWriter, Values};
use anyhow::Result;
use chrono::{DateTime, SecondsFormat};
use std::io::Write;

pub struct CsvWriter<W> {
    out: W,
    layout: Layout,
    line: String,
}

impl<W: Write> CsvWriter<W> {
    pub fn new(out: W, layout: Layout) -> Result<Self> {
        let mut writer = CsvWriter {
            out,
            layout,
            line: String::new(),
        };
        for (i, field) in writer.layout.fields.iter().enumerate() {
            separate(&mut writer.line, i);
            push_text(&mut writer.line, &field.name);
        }
        writer.end_line()?;
        Ok(writer)
    }

    fn end_line(&mut self) -> std::io::Result<()> {
        self.line.push_str("\r\n");
        let written = self.out.write_all(self.line.as_bytes());
        self.line.clear();
        written
    }
}

impl<W: Write> TableWriter for CsvWriter<W> {
    fn chunk(&mut self, columns: &[Values]) -> Result<()> {
        for row in 0..columns.first().map_or(0, Values::len) {
            for (i, (field, values)) in self.layout.values(columns).enumerate() {
                separate(&mut self.line, i);
                push(&mut self.line, field.is_time, values, row);
            }
            self.end_line()?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        Ok(self.out.flush()?)
    }
}

fn separate(line: &mut String, index: usize) {
    if index > 0 {
        line.push(',');
    }
}

fn push(line: &mut String, is_time: bool, values: &Values, row: usize) {
    match values {
        Values::Integer(values) => match values.get(row).copied().flatten() {
            Some(value) if is_time => line.push_str(&iso(value)),
            Some(value) => line.push_str(&value.to_string()),
            None => {}
        },
        // Debug keeps the decimal point of whole numbers, so that readers infer the type.
        Values::Real(values) => {
            if let Some(Some(value)) = values.get(row) {
                line.push_str(&format!("{value:?}"));
            }
        }
        Values::Text(values) => {
            if let Some(Some(text)) = values.get(row) {
                push_text(line, text);
            }
        }
    }
}

fn push_text(line: &mut String, text: &str) {
    if !text.is_empty() && !text.contains([',', '"', '\r', '\n']) {
        line.push_str(text);
        return;
    }
    line.push('"');
    for part in text.chars() {
        if part == '"' {
            line.push('"');
        }
        line.push(part);
    }
    line.push('"');
}

/// `2026-01-31T23:59:59.000000001Z`.
fn iso(unix_ns: i64) -> String {
    DateTime::from_timestamp_nanos(unix_ns).to_rfc3339_opts(SecondsFormat::Nanos, true)
}

#[cfg(test)]
mod tests {
    use super::{super::Type, *};
    use proptest::prelude::*;

    fn written(columns: &[(&str, Type)], values: &[Values]) -> String {
        let mut out = Vec::new();
        let mut writer =
            Box::new(CsvWriter::new(&mut out, Layout::new(columns.iter().copied())).unwrap());
        writer.chunk(values).unwrap();
        writer.finish().unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn csv_distinguishes_null_from_empty_text_and_keeps_decimal_points() {
        let columns = [
            ("unix_ns", Type::Integer),
            ("v", Type::Real),
            ("t", Type::Text),
        ];
        let values = [
            Values::Integer(vec![Some(1), None]),
            Values::Real(vec![Some(2.0), None]),
            Values::Text(vec![Some(String::new()), None]),
        ];
        let expected = "unix_ns,time,v,t\r\n1,1970-01-01T00:00:00.000000001Z,2.0,\"\"\r\n,,,\r\n";
        assert_eq!(written(&columns, &values), expected);
    }

    /// Reads RFC 4180, with NULL for an empty field without quotes.
    fn parsed(text: &str) -> Vec<Vec<Option<String>>> {
        let mut rows = vec![vec![]];
        let mut rest = text;
        loop {
            let (field, after) = match rest.strip_prefix('"') {
                Some(mut quoted) => {
                    let mut field = String::new();
                    loop {
                        let end = quoted.find('"').unwrap();
                        field.push_str(&quoted[..end]);
                        quoted = &quoted[end + 1..];
                        match quoted.strip_prefix('"') {
                            Some(more) => {
                                field.push('"');
                                quoted = more;
                            }
                            None => break (Some(field), quoted),
                        }
                    }
                }
                None => {
                    let end = rest.find([',', '\r']).unwrap();
                    ((end > 0).then(|| rest[..end].to_owned()), &rest[end..])
                }
            };
            rows.last_mut().unwrap().push(field);
            match after.strip_prefix(',') {
                Some(more) => rest = more,
                None => {
                    rest = after.strip_prefix("\r\n").unwrap();
                    if rest.is_empty() {
                        return rows;
                    }
                    rows.push(vec![]);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn any_exported_csv_round_trips(rows in proptest::collection::vec((any::<Option<i64>>(), any::<Option<f64>>(), proptest::option::of("[a\",\r\n\u{e9}]{0,5}")), 0..20)) {
            let columns = [("i", Type::Integer), ("r", Type::Real), ("t", Type::Text)];
            let values = [
                Values::Integer(rows.iter().map(|row| row.0).collect()),
                Values::Real(rows.iter().map(|row| row.1).collect()),
                Values::Text(rows.iter().map(|row| row.2.clone()).collect()),
            ];
            let read = parsed(&written(&columns, &values));
            prop_assert_eq!(read.len(), rows.len() + 1);
            for (row, read) in rows.iter().zip(&read[1..]) {
                prop_assert_eq!(read[0].as_ref().map(|text| text.parse::<i64>().unwrap()), row.0);
                let real = read[1].as_ref().map(|text| text.parse::<f64>().unwrap());
                prop_assert!(real == row.1 || row.1.is_some_and(f64::is_nan));
                prop_assert_eq!(&read[2], &row.2);
            }
        }
    }
}
