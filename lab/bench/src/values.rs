//! A placeholder such as `{slot}` becomes a random number of a range, or a random item of a list.

use faultline_text::count;
use ring::digest::{SHA256, digest};
use std::{borrow::Cow, rc::Rc};

#[derive(Debug, Clone)]
pub struct Placeholder {
    pub name: String,
    pub source: ValueSource,
}

#[derive(Debug, Clone)]
pub enum ValueSource {
    /// Both ends included.
    Range { from: u64, to: u64, is_hex: bool },
    /// Escaped for JSON strings.
    List(Rc<[String]>),
}

impl Placeholder {
    pub fn random_text(&self, seed: u64, index: usize) -> Cow<'_, str> {
        let mut random =
            fastrand::Rng::with_seed(seed ^ (index as u64 + 1).wrapping_mul(0xd1b5_4a32_d192_ed03));
        match &self.source {
            ValueSource::Range { from, to, is_hex } => {
                format_number(random.u64(*from..=*to.max(from)), *is_hex).into()
            }
            ValueSource::List(list) => list
                .get(random.usize(0..list.len().max(1)))
                .map_or("", String::as_str)
                .into(),
        }
    }

    /// Different sources have different descriptions.
    pub fn description(&self) -> String {
        match &self.source {
            ValueSource::Range { from, to, is_hex } => {
                let [from, to] = [*from, *to].map(|number| format_number(number, *is_hex));
                format!("{from} to {to}")
            }
            ValueSource::List(list) => {
                let digest = digest(&SHA256, list.join("\n").as_bytes());
                let start: String = digest.as_ref()[..6]
                    .iter()
                    .map(|byte| format!("{byte:02x}"))
                    .collect();
                format!("{} texts of digest {start}", count(list.len() as u64))
            }
        }
    }

    pub fn first_text(&self) -> Cow<'_, str> {
        match &self.source {
            ValueSource::Range { from, is_hex, .. } => format_number(*from, *is_hex).into(),
            ValueSource::List(list) => list.first().map_or("", String::as_str).into(),
        }
    }

    /// All texts of a list; of a range only the first number.
    pub fn texts_to_check(&self) -> Vec<Cow<'_, str>> {
        match &self.source {
            ValueSource::Range { .. } => vec![self.first_text()],
            ValueSource::List(list) => list.iter().map(Cow::from).collect(),
        }
    }
}

fn format_number(number: u64, is_hex: bool) -> String {
    if is_hex {
        format!("{number:#x}")
    } else {
        number.to_string()
    }
}

/// `replacement` gets the index of the placeholder. Placeholders in its result are not filled.
pub fn fill_placeholders<'a>(
    text: &str,
    placeholders: &'a [Placeholder],
    mut replacement: impl FnMut(usize, &'a Placeholder) -> Cow<'a, str>,
) -> String {
    let mut out = String::with_capacity(text.len() + 64);
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        out += before;
        let placeholder = placeholder_name(after).and_then(|name| {
            let index = placeholders.iter().position(|known| known.name == name)?;
            Some((index, after.get(name.len() + 1..)?))
        });
        rest = match placeholder {
            Some((index, after)) => {
                out += &replacement(index, &placeholders[index]);
                after
            }
            None => {
                out.push('{');
                after
            }
        };
    }
    out + rest
}

pub fn placeholder_names(text: &str) -> impl Iterator<Item = &str> {
    text.split('{').skip(1).filter_map(placeholder_name)
}

/// The name before the first closing brace. The braces of JSON contain a quote or nothing.
fn placeholder_name(text: &str) -> Option<&str> {
    let (name, _) = text.split_once('}')?;
    is_placeholder_name(name).then_some(name)
}

pub fn is_placeholder_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.len() <= 40
        && name
            .bytes()
            .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_filled_once_and_json_braces_kept() {
        let list = |name: &str, text: &str| Placeholder {
            name: name.to_owned(),
            source: ValueSource::List([text.to_owned()].into()),
        };
        let placeholders = [list("a", "{b}"), list("b", "x")];
        let text = r#"[{a},"{b}",{"c":{}},{d},{"#;
        assert_eq!(
            fill_placeholders(text, &placeholders, |_, filled| filled.random_text(1, 0)),
            r#"[{b},"x",{"c":{}},{d},{"#
        );
        assert_eq!(placeholder_names(text).collect::<Vec<_>>(), ["a", "b", "d"]);
    }

    #[test]
    fn every_number_of_a_range_and_list_entry_is_sampled() {
        let random_text = |source: ValueSource| {
            let placeholder = Placeholder {
                name: "v".to_owned(),
                source,
            };
            let mut seen: Vec<String> = (0..200)
                .map(|seed| placeholder.random_text(seed, 0).into_owned())
                .collect();
            seen.sort();
            seen.dedup();
            seen
        };
        assert_eq!(
            random_text(ValueSource::Range {
                from: 14,
                to: 16,
                is_hex: true
            }),
            ["0x10", "0xe", "0xf"]
        );
        assert_eq!(
            random_text(ValueSource::Range {
                from: u64::MAX,
                to: u64::MAX,
                is_hex: false
            }),
            [u64::MAX.to_string()]
        );
        assert_eq!(
            random_text(ValueSource::List(["a", "b"].map(str::to_owned).into())),
            ["a", "b"]
        );
    }
}
