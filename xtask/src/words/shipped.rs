//! Texts for users outside of programs and pages: alerts, dashboards, units, the package, output of
//! scripts.

use crate::rules;
use crate::run::read;
use anyhow::Context;
use serde_json::Value;
use std::path::Path;

/// Commands that print their arguments. The checks of the guests print their names.
const PRINTING_COMMANDS: [&str; 8] = [
    "echo", "printf", "say", "fail", "wrong", "step", "skip", "check",
];

pub(super) fn texts(root: &Path, file: &Path) -> anyhow::Result<Vec<String>> {
    let extension = file.extension().and_then(|extension| extension.to_str());
    if file.starts_with(rules::RULES) {
        return rules::annotations(root, file);
    }
    if file.starts_with("grafana/dashboards") {
        let dashboard =
            serde_json::from_str(&read(root, file)?).with_context(|| file.display().to_string())?;
        let mut found = Vec::new();
        of_dashboard(&dashboard, &mut found);
        return Ok(found);
    }
    if extension
        .is_some_and(|extension| ["service", "socket", "slice", "target"].contains(&extension))
    {
        return Ok(read(root, file)?
            .lines()
            .filter(|line| line.starts_with("Description="))
            .map(str::to_owned)
            .collect());
    }
    if file == Path::new("packaging/debian/control") {
        return Ok(read(root, file)?.lines().map(str::to_owned).collect());
    }
    if [".ci", "packaging", "scripts"]
        .iter()
        .any(|folder| file.starts_with(folder))
    {
        let text = read(root, file)?;
        let first = text.lines().next().unwrap_or_default();
        let is_sourced = extension.is_none() && first.starts_with("# ");
        if is_sourced || (first.starts_with("#!") && first.ends_with("sh")) {
            return Ok(of_script(&text));
        }
    }
    Ok(Vec::new())
}

fn of_dashboard(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| of_dashboard(value, found)),
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(text) if ["title", "description"].contains(&name.as_str()) => {
                        found.push(text.clone());
                    }
                    _ => of_dashboard(value, found),
                }
            }
        }
        _ => {}
    }
}

/// Quoted arguments of printing commands, here-documents of `cat`, and the indented comments that
/// scripts print as usage.
fn of_script(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(usage) = line.strip_prefix("#   ") {
            found.push(usage.to_owned());
        }
        let line = line.trim_start();
        if let Some(end) = line.strip_prefix("cat <<") {
            let end = end.trim_matches(['\'', '"']);
            found.extend(
                lines
                    .by_ref()
                    .take_while(|line| *line != end)
                    .map(str::to_owned),
            );
        } else if !line.starts_with('#') {
            let mut words = line.split_inclusive([' ', ';', '(', '{', '|', '&']);
            if words.any(|word| PRINTING_COMMANDS.contains(&word.trim_end())) {
                found.extend(quoted(&words.collect::<String>()));
            }
        }
    }
    found
}

fn quoted(line: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = line;
    while let Some(at) = rest.find(['"', '\'']) {
        let (quote, after) = rest.split_at(at).1.split_at(1);
        let (text, behind) = after.split_once(quote).unwrap_or((after, ""));
        found.push(text.to_owned());
        rest = behind;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_script_texts_are_found_but_not_comments_or_conditions() {
        let script = "# nobody\n#   --usage\n[ -e \"$told\" ] || fail \"it's beside\" # x\ncheck 'a name' runuser -u nobody\n\
                      cat <<'END'\nusage\nEND\nx=\"told\"\n";
        assert_eq!(
            of_script(script),
            ["--usage", "it's beside", "a name", "usage"]
        );
    }

    #[test]
    fn titles_and_descriptions_are_found_at_any_depth() {
        let dashboard =
            serde_json::json!({ "title": "a", "panels": [{ "description": "b", "expr": "c" }] });
        let mut found = Vec::new();
        of_dashboard(&dashboard, &mut found);
        found.sort();
        assert_eq!(found, ["a", "b"]);
    }

    #[test]
    fn shipped_alerts_dashboards_units_and_scripts_have_checked_texts() {
        let root = crate::root();
        for file in [
            "grafana/prometheus/rules/faultline.alerts.yml",
            "grafana/dashboards/memory.json",
            "systemd/system/faultlined.service",
            "packaging/debian/control",
            "packaging/debian/faultlined.postrm",
            "scripts/guest/checks",
            "scripts/guest/machine",
            "scripts/install",
            ".ci/run",
        ] {
            assert!(!texts(&root, Path::new(file)).unwrap().is_empty(), "{file}");
        }
    }
}
