//! `POST /mark?name=NAME[&kind=KIND]`: marks a moment in the recording.

use faultline_text::is_unfit;
use percent_encoding::percent_decode_str;

const LONGEST: usize = 200;

const LONGEST_KIND: usize = 32;

pub(super) fn kind(query: Option<&str>) -> Result<Option<&str>, String> {
    let pairs = query
        .unwrap_or_default()
        .split('&')
        .filter_map(|pair| pair.split_once('='));
    match pairs
        .filter(|(key, _)| *key == "kind")
        .map(|(_, kind)| kind)
        .collect::<Vec<_>>()[..]
    {
        [] => Ok(None),
        [kind] if is_kind(kind) => Ok(Some(kind)),
        _ => Err(format!(
            "The mark's kind is one word of a to z and _, with at most {LONGEST_KIND} letters."
        )),
    }
}

fn is_kind(kind: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
    (1..=LONGEST_KIND).contains(&kind.len()) && kind.bytes().all(fits)
}

pub(super) fn name(query: Option<&str>) -> Result<String, String> {
    let wanted = || "Give the mark a name: POST /mark?name=NAME.".to_owned();
    let pairs = query.unwrap_or_default().split('&');
    let mut named = pairs
        .filter_map(|pair| pair.split_once('='))
        .filter(|(key, _)| *key == "name");
    let (_, value) = named.next().ok_or_else(wanted)?;
    if named.next().is_some() {
        return Err("The query has several names; use one.".to_owned());
    }
    let plus = value.replace('+', " ");
    let name = percent_decode_str(&plus)
        .decode_utf8()
        .map_err(|_| "The mark's name is no UTF-8.".to_owned())?;
    match name.trim() {
        "" => Err(wanted()),
        name if name.len() > LONGEST => {
            Err(format!("The mark's name is longer than {LONGEST} bytes."))
        }
        name if name.contains(is_unfit) => {
            Err("The mark's name has control characters.".to_owned())
        }
        name => Ok(name.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_taken_as_a_form_or_a_shell_writes_it() {
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
    fn a_kind_is_one_short_word_and_need_not_be_there() {
        let long = format!("kind={}", "a".repeat(LONGEST_KIND + 1));
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
    fn a_name_that_is_missing_or_unfit_is_refused_with_what_to_do() {
        let long = format!("name={}", "a".repeat(LONGEST + 1));
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
