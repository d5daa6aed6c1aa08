use crate::plan::Plan;
use anyhow::{Result, bail};
use std::collections::BTreeSet;

/// Names the changed keys.
pub fn refuse(begun: &Plan, now: &Plan) -> Result<()> {
    if begun.text == now.text {
        return Ok(());
    }
    let keys = differences(&begun.text, &now.text);
    let what = if keys.is_empty() {
        "comments or layout".to_owned()
    } else {
        keys.join(", ")
    };
    bail!(
        "{}: the plan has changed since the experiment was begun ({what}): put it back ({} is a copy), or run the new plan \
         with another `folder`",
        now.file.display(),
        begun.folder.join(crate::folder::PLAN).display(),
    )
}

fn differences(before: &str, after: &str) -> Vec<String> {
    let [before, after] =
        [before, after].map(|text| text.parse::<toml::Table>().unwrap_or_default());
    let mut found = Vec::new();
    compare("", &before, &after, &mut found);
    found
}

fn compare(prefix: &str, before: &toml::Table, after: &toml::Table, found: &mut Vec<String>) {
    let keys: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    for key in keys {
        let name = format!("{prefix}{key}");
        match (before.get(key), after.get(key)) {
            (a, b) if a == b => {}
            (Some(toml::Value::Table(a)), Some(toml::Value::Table(b))) => {
                compare(&format!("{name}."), a, b, found)
            }
            _ => found.push(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_plan_keys_are_reported_with_their_tables() {
        let before = "name = 'a'\n[stop]\nduration = '1h'\ngrace = '1m'\n[[arm]]\nname = 'x'\n";
        let after = "name = 'a' # as before\nseed = 1\n[stop]\nduration = '2h'\ngrace = '1m'\n[[arm]]\nname = 'y'\n";
        assert_eq!(differences(before, after), ["arm", "seed", "stop.duration"]);
        assert_eq!(differences(before, before), [""; 0]);
    }
}
