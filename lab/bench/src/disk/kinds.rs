use super::Space;
use std::collections::BTreeMap;

/// The smallest of the others are merged.
const MAX_KINDS: usize = 24;
/// Names come from the node and are cut to this length.
const MAX_EXTENSION_CHARS: usize = 12;

#[derive(Default)]
pub struct FileKinds {
    by_name: BTreeMap<String, Space>,
}

impl FileKinds {
    pub fn add(&mut self, name: &str, space: Space) {
        let kind = kind(name);
        // Limits memory if names are unbounded.
        let kind = if self.by_name.len() < 10_000 || self.by_name.contains_key(&kind) {
            kind
        } else {
            "others".to_owned()
        };
        self.by_name.entry(kind).or_default().add(space);
    }

    pub fn total(&self) -> Space {
        let mut total = Space::default();
        self.by_name.values().for_each(|space| total.add(*space));
        total
    }

    pub fn largest_first(&self) -> Vec<(String, Space)> {
        let mut all: Vec<(String, Space)> = self.by_name.clone().into_iter().collect();
        all.sort_by_key(|(_, space)| std::cmp::Reverse(space.bytes));
        if all.len() > MAX_KINDS {
            let mut others = Space::default();
            for (_, space) in all.split_off(MAX_KINDS - 1) {
                others.add(space);
            }
            all.push(("others".to_owned(), others));
        }
        all
    }
}

fn kind(name: &str) -> String {
    let known = [
        "MANIFEST", "OPTIONS", "LOG", "CURRENT", "LOCK", "IDENTITY", "marker",
    ];
    let stem = name.split(['-', '.']).next().unwrap_or_default();
    if let Some(known) = known.into_iter().find(|known| *known == stem) {
        return known.to_owned();
    }
    match name.rsplit_once('.') {
        // Accounts files of Agave, and names such as `17.204`.
        Some((_, end)) if end.bytes().all(|byte| byte.is_ascii_digit()) => "numbered".to_owned(),
        Some((_, end)) if end.chars().count() <= MAX_EXTENSION_CHARS => {
            format!(".{}", faultline_text::clean(end))
        }
        None if name.bytes().all(|byte| byte.is_ascii_digit()) => "numbered".to_owned(),
        _ => "other names".to_owned(),
    }
}

/// Whether the name allows it. The file's header decides.
pub fn may_be_sqlite(name: &str) -> bool {
    match name.rsplit_once('.') {
        Some((_, end)) => ["sqlite", "sqlite3", "db", "db3"].contains(&end),
        None => !name.bytes().all(|byte| byte.is_ascii_digit()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn database_files_of_both_studied_nodes_are_classified() {
        let kinds = [
            "mainnet.sqlite",
            "mainnet.sqlite-wal",
            "999203.sst",
            "MANIFEST-4682254",
            "OPTIONS-4682255",
        ]
        .map(kind);
        assert_eq!(
            kinds,
            [".sqlite", ".sqlite-wal", ".sst", "MANIFEST", "OPTIONS"]
        );
        let kinds = [
            "123",
            "7.12",
            "LOG.old.1",
            "CURRENT",
            "genesis",
            "x.",
            "a.\u{202e}b",
        ]
        .map(kind);
        assert_eq!(
            kinds[..5],
            ["numbered", "numbered", "LOG", "CURRENT", "other names"]
        );
        assert!(!kinds[6].contains('\u{202e}'));
    }

    #[test]
    fn the_smallest_of_many_file_types_are_grouped() {
        let mut kinds = FileKinds::default();
        (1..100_u64).for_each(|n| {
            kinds.add(
                &format!("a.x{n}"),
                Space {
                    files: 1,
                    bytes: n,
                    allocated: 512,
                },
            )
        });
        let all = kinds.largest_first();
        assert_eq!(
            (
                all.len(),
                all[0].1.bytes,
                all[23].0.as_str(),
                all[23].1.files
            ),
            (24, 99, "others", 76)
        );
        assert_eq!(
            all.iter().map(|(_, space)| space.bytes).sum::<u64>(),
            99 * 50
        );
    }
}
