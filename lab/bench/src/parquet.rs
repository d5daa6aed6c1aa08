use crate::{
    results::{PHASES, Results, Sample, Timing},
    store::check_new,
};
use anyhow::Result;
use faultline_pages::export::{Columns, Values, named, write_columns};
use faultline_text::counted;
use std::path::Path;

/// The file gets its final name only when it is complete. Returns the line `PATH: rows`.
pub fn write(path: &Path, table: &str, rows: &str, columns: Columns) -> Result<String> {
    check_new("--parquet", path)?;
    write_columns(path, table, columns)?;
    Ok(format!("{}: {rows}\n", path.display()))
}

pub fn write_requests(path: &Path, results: &Results) -> Result<String> {
    let rows = counted(results.samples.len() as f64, "request");
    write(path, "request", &rows, request_columns(results))
}

/// Measured values of a failed request are NULL.
fn request_columns(results: &Results) -> Columns {
    let integer_column = |of: &dyn Fn(&Sample) -> Option<u64>| {
        let number = |sample: &Sample| of(sample).and_then(|number| i64::try_from(number).ok());
        Values::Integer(results.samples.iter().map(number).collect())
    };
    let text_column = |of: &dyn Fn(&Sample) -> Option<String>| {
        Values::Text(results.samples.iter().map(of).collect())
    };
    let cell_of = |sample: &Sample| &results.cells[sample.cell];
    let timing_column =
        |of: &dyn Fn(&Timing) -> u64| integer_column(&|sample| sample.timing().map(of));
    let arm = |sample: &Sample| Some(cell_of(sample).arm.clone());
    let subject = |sample: &Sample| Some(cell_of(sample).subject.clone());
    let mut columns = named([
        ("number", integer_column(&|sample| Some(sample.number))),
        ("round", integer_column(&|sample| Some(sample.round.into()))),
        ("arm", text_column(&arm)),
        ("subject", text_column(&subject)),
        ("size", integer_column(&|sample| cell_of(sample).size)),
        ("at_ns", integer_column(&|sample| Some(sample.at_ns))),
        ("latency_ns", integer_column(&Sample::latency_ns)),
    ]);
    for (index, phase) in PHASES.iter().enumerate() {
        let name = format!("{}_ns", phase.to_lowercase().replace(' ', "_"));
        columns.push((name, timing_column(&|timing| timing.phases[index])));
    }
    columns.extend(named([
        (
            "decode_cpu_ns",
            timing_column(&|timing| timing.decode_cpu_ns),
        ),
        ("sent", timing_column(&|timing| timing.sent)),
        ("received", timing_column(&|timing| timing.received)),
        (
            "failure",
            text_column(&|sample| sample.result.clone().err()),
        ),
        (
            "refused",
            integer_column(&|sample| Some(sample.refused.into())),
        ),
    ]));
    columns
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::results;

    #[test]
    fn every_request_is_a_row_and_a_failed_one_has_no_latency() {
        let mut saved = results(30, &[("a", 904, &|round| round * 1000), ("b", 904, &|_| 5)]);
        saved.samples[4].result = Err("timeout".to_owned());
        let columns = request_columns(&saved);
        let of = |name: &str| {
            columns
                .iter()
                .find(|(column, _)| column == name)
                .unwrap()
                .1
                .clone()
        };
        let Values::Integer(latency) = of("latency_ns") else {
            panic!("whole numbers")
        };
        assert_eq!(
            (latency.len(), latency[4], latency[5], latency[6]),
            (60, None, Some(5), Some(3000))
        );
        for unknown in ["decode_cpu_ns", "sent", "received"] {
            let Values::Integer(values) = of(unknown) else {
                panic!("whole numbers")
            };
            assert!(
                values[4].is_none() && values[5].is_some(),
                "{unknown} of a request that failed"
            );
        }
        assert_eq!(
            of("first_byte_ns"),
            of("latency_ns"),
            "all of a pretended latency"
        );
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.parquet");
        write(&path, "request", "", columns.clone()).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
        assert!(
            write(&path, "request", "", columns)
                .unwrap_err()
                .to_string()
                .contains("exists already")
        );
    }
}
