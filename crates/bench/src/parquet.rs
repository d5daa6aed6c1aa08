use crate::results::{PHASES, Results, Sample};
use crate::store::check_new;
use anyhow::Context as _;
use faultline_analysis::export::{Values, write_columns};
use faultline_command::files::TempFile;
use std::io::BufWriter;
use std::path::Path;

/// All columns have the same length.
pub(crate) type Columns = Vec<(String, Values)>;

/// The file gets its final name only when it is complete.
pub(crate) fn write(path: &Path, table: &str, columns: &Columns) -> anyhow::Result<()> {
    let named = || path.display().to_string();
    check_new("--parquet", path)?;
    let part = TempFile::create(path).with_context(named)?;
    let out = BufWriter::new(part.file().try_clone().with_context(named)?);
    write_columns(out, table, columns).with_context(named)?;
    part.finish(path).with_context(named)
}

/// Phases of a failed request are NULL.
pub(crate) fn requests(results: &Results) -> Columns {
    let whole = |of: &dyn Fn(&Sample) -> Option<u64>| {
        let number = |sample: &Sample| of(sample).and_then(|number| i64::try_from(number).ok());
        Values::Integer(results.samples.iter().map(number).collect())
    };
    let text = |of: &dyn Fn(&Sample) -> Option<String>| {
        Values::Text(results.samples.iter().map(of).collect())
    };
    let head = |sample: &Sample| results.cells.get(sample.cell);
    let mut columns: Columns = vec![
        ("number".to_owned(), whole(&|sample| Some(sample.number))),
        (
            "round".to_owned(),
            whole(&|sample| Some(u64::from(sample.round))),
        ),
        (
            "arm".to_owned(),
            text(&|sample| Some(head(sample)?.arm.clone())),
        ),
        (
            "subject".to_owned(),
            text(&|sample| Some(head(sample)?.subject.clone())),
        ),
        ("size".to_owned(), whole(&|sample| head(sample)?.size)),
        ("at_ns".to_owned(), whole(&|sample| Some(sample.at_ns))),
        ("latency_ns".to_owned(), whole(&Sample::latency_ns)),
    ];
    for (index, phase) in PHASES.iter().enumerate() {
        let name = format!("{}_ns", phase.to_lowercase().replace(' ', "_"));
        columns.push((
            name,
            whole(&|sample| sample.phases.and_then(|phases| phases.get(index).copied())),
        ));
    }
    columns.extend([
        (
            "decode_cpu_ns".to_owned(),
            whole(&|sample| sample.phases.map(|_| sample.decode_cpu_ns)),
        ),
        (
            "sent".to_owned(),
            whole(&|sample| sample.phases.map(|_| sample.sent)),
        ),
        (
            "received".to_owned(),
            whole(&|sample| sample.phases.map(|_| sample.received)),
        ),
        ("failure".to_owned(), text(&|sample| sample.failure.clone())),
        (
            "refused".to_owned(),
            whole(&|sample| Some(u64::from(sample.refused))),
        ),
    ]);
    columns
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::results;

    #[test]
    fn every_request_is_a_row_and_a_failed_one_has_no_latency() {
        let mut saved = results(30, &[("a", 904, &|round| round * 1000), ("b", 904, &|_| 5)]);
        (saved.samples[4].phases, saved.samples[4].failure) = (None, Some("timeout".to_owned()));
        let columns = requests(&saved);
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
        write(&path, "request", &columns).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
        assert!(
            write(&path, "request", &columns)
                .unwrap_err()
                .to_string()
                .contains("exists already")
        );
    }
}
