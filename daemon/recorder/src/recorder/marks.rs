use faultline_metrics::{Reading, Text, metrics::daemon as d};
use parking_lot::Mutex;
use std::{collections::BTreeMap, sync::Arc};

/// Kinds that count separately: labels must not grow with time.
const MAX_KINDS: usize = 16;
/// Kinds that a search uses. They always count separately, because a search may begin after many
/// other kinds.
const SEARCH_KINDS: [&str; 4] = ["kept_up", "failed", "void", "reference"];
/// Label value for further kinds and for marks without a kind.
const OTHER_KIND: &str = "other";

#[derive(Debug, Default)]
pub struct Marks(Mutex<BTreeMap<Arc<str>, u64>>);

impl Marks {
    pub fn count(&self, kind: Option<&str>) {
        let mut counts = self.0.lock();
        let is_separate = |kind: &&str| {
            SEARCH_KINDS.contains(kind) || counts.contains_key(*kind) || counts.len() < MAX_KINDS
        };
        let kind = kind.filter(is_separate).unwrap_or(OTHER_KIND);
        match counts.get_mut(kind) {
            Some(count) => *count += 1,
            None => drop(counts.insert(kind.into(), 1)),
        }
    }

    pub fn readings(&self) -> Vec<Reading> {
        let counts = self.0.lock();
        let reading = |(kind, count): (&Arc<str>, &u64)| {
            Reading::counter(&d::MARKS, [Text::Shared(Arc::clone(kind))], *count)
        };
        counts.iter().map(reading).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_count_by_kind_and_kinds_beyond_the_first_count_as_others() {
        let marks = Marks::default();
        assert_eq!(marks.readings(), []);
        marks.count(Some("failed"));
        marks.count(None);
        marks.count(Some("failed"));
        let expected =
            |kind: &'static str, count| Reading::counter(&d::MARKS, [kind.into()], count);
        assert_eq!(
            marks.readings(),
            [expected("failed", 2), expected("other", 1)]
        );
        let more: Vec<String> = (0..20)
            .map(|number| format!("kind_{}", "a".repeat(number + 1)))
            .collect();
        more.iter().for_each(|kind| marks.count(Some(kind)));
        assert_eq!(marks.readings().len(), MAX_KINDS);
        marks.count(Some("failed"));
        assert!(marks.readings().contains(&expected("failed", 3)));
        assert!(
            marks
                .readings()
                .contains(&expected("other", 1 + 20 - (MAX_KINDS as u64 - 2)))
        );
        marks.count(Some("void"));
        assert!(
            marks.readings().contains(&expected("void", 1)),
            "a search's always count"
        );
    }
}
