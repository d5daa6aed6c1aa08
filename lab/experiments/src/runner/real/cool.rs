use crate::runner::system::CacheDropped;
use faultline_isolation::cold::Residency;
use faultline_text::bytes;
use std::path::Path;

/// From this share of cached pages, files are not cold.
const WARM: f64 = 0.01;
/// Irrelevant for a limit, whatever the share.
const NEGLIGIBLE_BYTES: u64 = 1 << 20;

pub(super) fn cooled(dropped: String, found: anyhow::Result<Residency>) -> CacheDropped {
    let (sampled_at, not_cold) = match found {
        Ok(found) => judged(&found),
        Err(error) => (
            None,
            Some(format!("the cold start could not be verified: {error}")),
        ),
    };
    CacheDropped {
        lines: std::iter::once(dropped).chain(sampled_at).collect(),
        not_cold,
    }
}

/// Every run should find its program cached.
pub(super) fn program(file: &Path, read: anyhow::Result<u64>) -> Option<String> {
    let error = read.err()?;
    Some(format!(
        "{}: whether it is charged to this run is not known: {error}",
        file.display()
    ))
}

fn judged(found: &Residency) -> (Option<String>, Option<String>) {
    let Some(share) = found.share() else {
        return (Some("the folders hold no pages".to_owned()), None);
    };
    let resident = found.resident_bytes();
    let percent = 100.0 * share;
    if share >= WARM && resident >= NEGLIGIBLE_BYTES {
        let words = format!(
            "it did not begin cold: {percent:.1} % of the files' pages ({}) were in memory",
            bytes(resident)
        );
        return (None, Some(words));
    }
    (
        Some(format!("{percent:.2} % of the files' pages are in memory")),
        None,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(pages: u64, resident: u64) -> CacheDropped {
        cooled(
            "dropped".to_owned(),
            Ok(Residency {
                files: 1,
                pages,
                resident,
                ..Residency::default()
            }),
        )
    }

    #[test]
    fn one_percent_in_memory_is_not_cold_and_less_is() {
        assert_eq!(of(1_000_000, 9_999).not_cold, None);
        let warm = of(1_000_000, 10_000);
        assert!(warm.not_cold.is_some_and(|why| why.contains("1.0 %")));
        assert_eq!(
            warm.lines,
            ["dropped"],
            "it is said once, with the run's validity"
        );
    }

    #[test]
    fn a_keypair_that_was_just_read_warms_nothing() {
        assert_eq!(of(2, 2).not_cold, None);
        assert_eq!(of(0, 0).not_cold, None);
        assert!(of(1000, 1000).not_cold.is_some());
    }

    #[test]
    fn what_could_not_be_looked_at_is_not_called_cold() {
        let error = anyhow::anyhow!("fincore is not installed");
        let cooled = cooled("dropped".to_owned(), Err(error));
        assert!(cooled.not_cold.is_some_and(|why| why.contains("fincore")));
    }

    proptest! {
        #[test]
        fn more_in_memory_is_never_colder(pages in 1_u64..1 << 40, a: u64, b: u64) {
            let (less, more) = ((a % pages).min(b % pages), (a % pages).max(b % pages));
            prop_assert!(of(pages, less).not_cold.is_none() || of(pages, more).not_cold.is_some());
        }
    }
}
