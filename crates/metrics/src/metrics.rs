pub mod cgroup;
pub mod consensus;
pub mod daemon;
pub mod host;
pub mod memory;
pub mod pools;
pub mod process;
pub mod recorded;
pub mod resources;
pub mod validator;
pub mod votes;

use crate::{Metric, Section};

/// Chapters of docs/METRICS.md. Metrics of [`recorded`] are only in recordings.
pub static SECTIONS: [&Section; 10] = [
    &process::SECTION,
    &pools::SECTION,
    &memory::SECTION,
    &cgroup::SECTION,
    &host::SECTION,
    &resources::SECTION,
    &validator::SECTION,
    &votes::SECTION,
    &consensus::SECTION,
    &daemon::SECTION,
];

pub fn exported() -> impl Iterator<Item = &'static Metric> {
    SECTIONS.iter().flat_map(|section| section.metrics).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Amount, Kind, Unit};
    use std::collections::HashSet;

    #[test]
    fn every_metric_name_is_unique_and_has_a_known_prefix() {
        let mut seen = HashSet::new();
        for metric in exported() {
            assert!(seen.insert(metric.name), "{} twice", metric.name);
            let prefixed = ["agave_", "faultline_", "process_"]
                .iter()
                .any(|p| metric.name.starts_with(p));
            assert!(prefixed, "{}", metric.name);
        }
    }

    #[test]
    fn metric_names_end_with_their_unit_and_kind_suffix() {
        for metric in exported() {
            let total = metric.name.ends_with("_total");
            assert_eq!(
                total,
                metric.kind == Kind::Counter,
                "{} is a {}",
                metric.name,
                metric.kind.type_name()
            );
            assert_eq!(
                metric.name.ends_with("_info"),
                metric.kind == Kind::Info,
                "{}",
                metric.name
            );
            assert!(
                metric.kind != Kind::Info || metric.unit == Unit::Flag,
                "{}",
                metric.name
            );
            let stem = metric.name.trim_end_matches("_total");
            match metric.unit {
                Unit::Bytes => assert!(stem.ends_with("_bytes"), "{}", metric.name),
                Unit::Seconds => assert!(stem.ends_with("_seconds"), "{}", metric.name),
                _ => assert!(
                    !stem.ends_with("_bytes") && !stem.ends_with("_seconds"),
                    "{}",
                    metric.name
                ),
            }
        }
    }

    #[test]
    fn no_label_has_values_that_grow_over_time() {
        for metric in exported() {
            for label in metric.label_names {
                assert!(
                    !["pid", "tid", "slot", "epoch"].contains(label),
                    "{} carries {label}",
                    metric.name
                );
            }
        }
    }

    /// A scrape adds the labels of the target, and calls a metric's own label of that name
    /// `exported_` and the name.
    #[test]
    fn no_label_is_one_that_a_scrape_adds() {
        for metric in exported() {
            for label in metric.label_names {
                let added = ["job", "instance"].contains(label) || label.starts_with("exported_");
                assert!(!added, "{} carries {label}", metric.name);
            }
        }
    }

    #[test]
    fn every_metric_has_help_and_source_texts() {
        for metric in exported() {
            assert!(
                metric.help.ends_with('.') && metric.help.len() > 15,
                "{}: {}",
                metric.name,
                metric.help
            );
            assert!(
                !metric.help.contains(['\\', '"', '\n']),
                "{}: no encoder escapes a help",
                metric.name
            );
            assert!(!metric.origin.is_empty(), "{}", metric.name);
        }
    }

    #[test]
    fn metric_definitions_match_their_labels_and_sources() {
        for metric in exported() {
            for datapoint in metric.datapoints {
                assert!(
                    datapoint
                        .names
                        .iter()
                        .any(|name| metric.origin.contains(name))
                        || datapoint
                            .series
                            .iter()
                            .all(|input| input.amount == Amount::PerPoint(0)),
                    "{}: the origin names none of {:?}",
                    metric.name,
                    datapoint.names
                );
                let counts_blocks = datapoint.slot.is_none()
                    || (metric.kind, metric.unit) == (Kind::Counter, Unit::Count);
                assert!(counts_blocks, "{}", metric.name);
                for input in datapoint.series {
                    assert_eq!(
                        input.label_values.len(),
                        metric.label_names.len(),
                        "{}",
                        metric.name
                    );
                    let in_microseconds =
                        matches!(input.amount, Amount::Field { factor: 1_000, .. });
                    assert!(
                        metric.unit == Unit::Seconds || !in_microseconds,
                        "{}",
                        metric.name
                    );
                }
            }
        }
    }
}
