use super::*;
use faultline_metrics::metrics;
use std::collections::BTreeSet;

fn columns() -> impl Iterator<Item = &'static Column> {
    let wide = PerTickTable::ALL
        .into_iter()
        .flat_map(PerTickTable::columns);
    wide.chain(POOL_COLUMNS).chain(DEVICE_COLUMNS)
}

#[test]
fn every_column_is_a_series_of_the_catalog() {
    let recorded = [&metrics::recorded::PHASE_EVIDENCE];
    let known: BTreeSet<&str> = metrics::exported()
        .chain(recorded)
        .map(|metric| metric.name)
        .collect();
    let mut seen = BTreeSet::new();
    for column in columns() {
        assert!(
            known.contains(column.metric.name),
            "{} is no metric",
            column.metric.name
        );
        let keyed = POOL_COLUMNS
            .iter()
            .chain(DEVICE_COLUMNS)
            .any(|other| std::ptr::eq(other, column));
        assert_eq!(
            column.label_values.len() + usize::from(keyed),
            column.metric.label_names.len(),
            "{}",
            column.name
        );
        assert!(
            seen.insert((column.metric.name, column.label_values)),
            "{} is there twice",
            column.name
        );
    }
}

#[test]
fn metrics_without_a_column_are_known_and_stored_elsewhere_once() {
    let columns: BTreeSet<&str> = columns().map(|column| column.metric.name).collect();
    let mut seen = BTreeSet::new();
    for (metric, why) in metrics_without_samples() {
        assert!(seen.insert(metric.name), "{} twice", metric.name);
        assert!(
            !columns.contains(metric.name),
            "{} has a column",
            metric.name
        );
        assert!(
            metrics::exported().any(|known| known == metric),
            "{}",
            metric.name
        );
        assert!(!why.is_empty(), "{}", metric.name);
    }
}

#[test]
fn table_and_column_names_are_unique_and_need_no_quotes() {
    let mut tables = BTreeSet::new();
    for table in TABLES.iter() {
        assert!(tables.insert(table.name));
        let mut columns = BTreeSet::new();
        for column in &table.columns {
            assert!(
                columns.insert(column.name),
                "{}.{} twice",
                table.name,
                column.name
            );
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            assert!(column.name.chars().all(plain), "{}", column.name);
        }
    }
}

#[test]
fn a_column_name_states_its_unit() {
    for column in columns() {
        let ends = |unit: &str| column.name.ends_with(unit);
        match column.metric.unit {
            faultline_metrics::Unit::Bytes => assert!(ends("_bytes"), "{}", column.name),
            faultline_metrics::Unit::Seconds => {
                assert!(
                    ends("_seconds") && column.kind() == ColumnKind::Real,
                    "{}",
                    column.name
                );
            }
            _ => assert!(!ends("_bytes") && !ends("_seconds"), "{}", column.name),
        }
    }
}

#[test]
fn a_series_is_found_by_its_metric_and_labels() {
    let (table, column) = column_of(&metrics::process::PAGE_FAULTS, &["major"]).unwrap();
    assert_eq!(
        (table, column.name),
        (PerTickTable::Process, "major_faults")
    );
    assert!(column_of(&metrics::process::PAGE_FAULTS, &["other"]).is_none());
}
