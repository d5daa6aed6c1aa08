//! `POST /mark?name=NAME[&kind=KIND]`: marks a moment in the recording.

use super::request_checks::{query_text, query_values};

const MAX_KIND_LENGTH: usize = 32;

pub fn kind(query: Option<&str>) -> Result<Option<&str>, String> {
    match query_values(query, "kind").collect::<Vec<_>>()[..] {
        [] => Ok(None),
        [kind] if is_kind(kind) => Ok(Some(kind)),
        _ => Err(format!(
            "The mark's kind is one word of a to z and _, with at most {MAX_KIND_LENGTH} letters."
        )),
    }
}

fn is_kind(kind: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
    (1..=MAX_KIND_LENGTH).contains(&kind.len()) && kind.bytes().all(fits)
}

pub fn name(query: Option<&str>) -> Result<String, String> {
    let wanted = || "Give the mark a name: POST /mark?name=NAME.".to_owned();
    let mut names = query_values(query, "name");
    let value = names.next().ok_or_else(wanted)?;
    if names.next().is_some() {
        return Err("The query has several names; use one.".to_owned());
    }
    let name = query_text(value, "The mark's name")?;
    Some(name)
        .filter(|name| !name.is_empty())
        .ok_or_else(wanted)
}

#[cfg(test)]
mod tests {
    use super::{super::request_checks::MAX_TEXT_LENGTH, *};

    #[test]
    fn a_mark_name_is_decoded_from_form_or_percent_encoding() {
        for query in [
            "name=load+begins",
            "name=load%20begins",
            "a=b&name=load begins&c",
            "name=%20load+begins+",
        ] {
            assert_eq!(name(Some(query)).as_deref(), Ok("load begins"), "{query}");
        }
    }

    #[test]
    fn a_mark_kind_is_an_optional_short_word() {
        let long = format!("kind={}", "a".repeat(MAX_KIND_LENGTH + 1));
        assert_eq!(kind(None), Ok(None));
        assert_eq!(kind(Some("name=a")), Ok(None));
        assert_eq!(kind(Some("name=a&kind=kept_up")), Ok(Some("kept_up")));
        for query in [
            "kind=",
            "kind=A",
            "kind=a1",
            "kind=a%20b",
            "kind=a&kind=b",
            &long,
        ] {
            assert!(kind(Some(query)).unwrap_err().ends_with('.'), "{query}");
        }
    }

    #[test]
    fn a_missing_or_invalid_mark_name_is_refused_with_a_remedy() {
        let long = format!("name={}", "a".repeat(MAX_TEXT_LENGTH + 1));
        for query in [
            "",
            "name",
            "name=",
            "name=+",
            "other=a",
            "name=a&name=b",
            "name=%ff",
            "name=a%0ab",
            "name=%E2%80%AEa",
            &long,
        ] {
            assert!(name(Some(query)).unwrap_err().ends_with('.'), "{query}");
        }
        assert!(name(None).is_err());
    }
}
