use super::*;
use crate::{read, text};

/// The mistakes of a list of lower-case names and of tables with names.
fn mistakes(settings: &str) -> Vec<String> {
    let (_, found) = read(settings, None, true, |mut top| {
        top.read("names", |v| distinct(v, |v| Ok(text(v)?.to_lowercase())));
        let mut unique = Unique::default();
        top.tables("table", |t| {
            let name = t.read("name", text).unwrap_or_default();
            unique.insert(
                name.clone(),
                t.first_key_line(),
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

#[test]
fn an_integer_of_any_radix_has_its_value() {
    let mut values = Vec::new();
    let settings = "a = 0x10\nb = 0b11\nc = 1_000\nd = 2.5\ne = -1\nf = 0xff";
    let (_, mistakes) = read(settings, None, true, |mut top| {
        for key in ["a", "b", "c", "d", "e"] {
            values.extend(top.read(key, number));
        }
        top.read("f", |value| whole_number_within(value, 0..=9));
        top.finish();
    });
    assert_eq!(values, [16.0, 3.0, 1000.0, 2.5]);
    let shown: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
    assert!(
        shown[1].ends_with("0 to 9 is wanted, not the number 0xff"),
        "{shown:?}"
    );
}
