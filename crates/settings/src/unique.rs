use crate::{ConfigErrors, values::kind};
use std::fmt;
use toml::de::DeValue;

#[derive(Debug)]
pub struct Unique<K>(Vec<(K, Option<usize>)>);

impl<K> Default for Unique<K> {
    fn default() -> Self {
        Unique(Vec::new())
    }
}

impl<K: PartialEq> Unique<K> {
    /// Refuses an entry with the key of another one, and names the lines of both; false if it is
    /// refused. `what` names the entry.
    pub fn insert(
        &mut self,
        key: K,
        line: Option<usize>,
        what: impl fmt::Display,
        errors: &ConfigErrors<'_>,
    ) -> bool {
        let Some((_, first)) = self.0.iter().find(|(known, _)| *known == key) else {
            self.0.push((key, line));
            return true;
        };
        let lines = match (first, line) {
            (Some(first), Some(line)) if *first != line => {
                format!(", in lines {first} and {line}")
            }
            _ => String::new(),
        };
        errors.push(
            line,
            format!("{what} is given twice{lines}: remove or change one"),
        );
        false
    }
}

/// An array of different values. Errors name the positions of equal items.
pub fn distinct<T: PartialEq>(
    value: &DeValue<'_>,
    read: impl Fn(&DeValue<'_>) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    let values = crate::several(value, read)?;
    let items = value.as_array().into_iter().flat_map(|items| items.iter());
    let items: Vec<_> = items.map(|item| item.get_ref()).collect();
    for (index, value) in values.iter().enumerate() {
        let Some(first) = values.iter().position(|other| other == value) else {
            continue;
        };
        if let (Some(earlier), Some(later)) = (items.get(first), items.get(index))
            && first < index
        {
            return Err(format!(
                "item {}, {}, is the same as item {}, {}: keep one",
                index + 1,
                kind(later),
                first + 1,
                kind(earlier),
            ));
        }
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{read, text};

    /// The mistakes of a list of lower-case names and of tables with names.
    fn mistakes(settings: &str) -> Vec<String> {
        let (_, found) = read(settings, None, |mut top| {
            top.take("names", |v| distinct(v, |v| Ok(text(v)?.to_lowercase())));
            let mut unique = Unique::default();
            top.tables("table", |t| {
                let name = t.take("name", text).unwrap_or_default();
                unique.insert(
                    name.clone(),
                    t.line(),
                    format!("table {name:?}"),
                    t.errors(),
                );
            });
            top.finish();
        });
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_duplicate_item_is_refused_naming_both_positions() {
        assert_eq!(
            mistakes("names = [\"a\", \"B\", \"b\"]"),
            [
                "line 1: names: item 3, the string \"b\", is the same as item 2, the string \"B\": keep one"
            ]
        );
        assert!(mistakes("names = [\"a\", \"b\"]").is_empty());
    }

    #[test]
    fn a_duplicate_table_key_is_refused_naming_both_lines() {
        let table = "[[table]]\nname = \"x\"\n";
        assert_eq!(
            mistakes(&format!("{table}[[table]]\nname = \"y\"\n{table}")),
            ["line 6: table \"x\" is given twice, in lines 2 and 6: remove or change one"]
        );
    }
}
