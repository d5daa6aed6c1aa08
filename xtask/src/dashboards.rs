//! Normalizes the Grafana dashboards, and checks them against the catalog, the rules and the
//! runbooks.

mod check;
mod queries;

use crate::{
    rules,
    run::{self, read},
};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::path::Path;

const FOLDER: &str = "grafana/dashboards";

const COLUMNS: u64 = 24;

pub fn write(root: &Path) -> Result<()> {
    for file in rules::files_with_extension(root, FOLDER, "json")? {
        let text = normalized(&read(root, &file)?).with_context(|| file.display().to_string())?;
        run::write(root, &file, &text)?;
    }
    check(root)
}

pub fn check(root: &Path) -> Result<()> {
    let files = rules::files_with_extension(root, FOLDER, "json")?;
    let mut violations = Vec::new();
    let mut dashboards = Vec::new();
    for file in &files {
        let text = read(root, file)?;
        if normalized(&text).with_context(|| file.display().to_string())? != text {
            violations.push(format!(
                "{} is not normalized; run: cargo run -p xtask -- dashboards",
                file.display()
            ));
        }
        let dashboard: check::Dashboard =
            serde_json::from_str(&text).with_context(|| file.display().to_string())?;
        let name = dashboard.uid.trim_start_matches("faultline-");
        if *file != Path::new(FOLDER).join(format!("{name}.json")) {
            violations.push(format!(
                "{}: the uid {} does not match the file name",
                file.display(),
                dashboard.uid
            ));
        }
        dashboards.push(dashboard);
    }
    check::check_all(root, &dashboards, &mut violations)?;
    ensure!(
        violations.is_empty(),
        "violations in dashboards: {}\n  {}",
        violations.len(),
        violations.join("\n  ")
    );
    println!("dashboards: {} files", files.len());
    Ok(())
}

/// Numbers panels, closes gaps between them, and removes fields that a Grafana server adds when it
/// saves a dashboard. Keys are sorted, because the map of [`Value`] sorts them.
fn normalized(text: &str) -> Result<String> {
    let mut dashboard: Value = serde_json::from_str(text)?;
    let object = dashboard.as_object_mut().context("no dashboard")?;
    object.remove("id");
    object.insert("version".to_owned(), json!(1));
    let panels = object
        .get_mut("panels")
        .and_then(Value::as_array_mut)
        .context("no panels")?;
    let mut left = 0;
    let mut top = 0;
    let mut tallest = 0;
    for (index, panel) in panels.iter_mut().enumerate() {
        panel
            .as_object_mut()
            .context("a panel is no object")?
            .remove("pluginVersion");
        let size = |name: &str| {
            panel["gridPos"][name]
                .as_u64()
                .with_context(|| format!("panel {index}: no {name}"))
        };
        let width = size("w")?;
        let height = size("h")?;
        if left + width > COLUMNS {
            (left, top, tallest) = (0, top + tallest, 0);
        }
        panel["gridPos"] = json!({ "x": left, "y": top, "w": width, "h": height });
        panel["id"] = json!(index + 1);
        (left, tallest) = (left + width, tallest.max(height));
    }
    Ok(serde_json::to_string_pretty(&dashboard)? + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawing_fails_if_the_chosen_dashboard_does_not_exist() {
        let arguments = ["grafana/render/render.mjs", "--only", "no-such-dashboard"];
        let error = run::output(&crate::root(), "node", &arguments).unwrap_err();
        if error.to_string().ends_with("cannot be run") {
            eprintln!("SKIPPED: no node in PATH");
            return;
        }
        assert!(
            error.to_string().contains("no dashboard no-such-dashboard"),
            "{error}"
        );
    }

    #[test]
    fn a_dashboard_saved_by_grafana_is_normalized() {
        let panel = |x: u64, y: u64, w: u64, h: u64| json!({ "id": 7, "gridPos": { "x": x, "y": y, "w": w, "h": h }, "pluginVersion": "12" });
        let saved = json!({ "version": 3, "id": 9, "panels": [panel(0, 0, 24, 1), panel(0, 1, 12, 8), panel(12, 1, 8, 4), panel(0, 20, 6, 2)] });
        let text = normalized(&saved.to_string()).unwrap();
        let ordered: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (&ordered["version"], &ordered["id"]),
            (&json!(1), &Value::Null)
        );
        let places: Vec<_> = ordered["panels"]
            .as_array()
            .unwrap()
            .iter()
            .map(|panel| panel["gridPos"].clone())
            .collect();
        let grid = |x: u64, y: u64, w: u64, h: u64| json!({ "x": x, "y": y, "w": w, "h": h });
        assert_eq!(
            places,
            [
                grid(0, 0, 24, 1),
                grid(0, 1, 12, 8),
                grid(12, 1, 8, 4),
                grid(0, 9, 6, 2)
            ]
        );
        assert_eq!(
            ordered["panels"][3],
            json!({ "id": 4, "gridPos": grid(0, 9, 6, 2) })
        );
        assert_eq!(normalized(&text).unwrap(), text);
    }
}
