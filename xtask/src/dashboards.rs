//! The Grafana dashboards: written from descriptions, and checked against the catalog, the rules and the runbooks.

mod cache;
mod check;
mod daemon;
mod dashboard;
mod experiment;
mod fleet;
mod memory;
mod overview;
mod panel;
mod throughput;

use anyhow::{Context, bail};
use dashboard::Dashboard;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const FOLDER: &str = "grafana/dashboards";

/// In the order of the links above each.
fn all() -> Vec<Dashboard> {
    vec![
        overview::dashboard(),
        memory::dashboard(),
        cache::dashboard(),
        throughput::dashboard(),
        experiment::dashboard(),
        fleet::dashboard(),
        daemon::dashboard(),
    ]
}

/// Each file's name with its text.
fn pages() -> anyhow::Result<BTreeMap<PathBuf, String>> {
    let all = all();
    let names: Vec<_> = all.iter().map(|dashboard| (dashboard.uid, dashboard.title)).collect();
    let page = |dashboard: &Dashboard| {
        let file = Path::new(FOLDER).join(format!("{}.json", dashboard.uid.trim_start_matches("faultline-")));
        Ok((file, serde_json::to_string_pretty(&dashboard.json(&names))? + "\n"))
    };
    all.iter().map(page).collect()
}

/// Writes the files, and says what is wrong with them.
pub(crate) fn write(root: &Path) -> anyhow::Result<()> {
    for (file, text) in pages()? {
        let path = root.join(file);
        std::fs::write(&path, text).with_context(|| format!("{} cannot be written", path.display()))?;
    }
    check(root)
}

/// Fails if a file is not what it would be, and with everything that is wrong with a dashboard.
pub(crate) fn check(root: &Path) -> anyhow::Result<()> {
    let pages = pages()?;
    let mut broken = Vec::new();
    for (file, text) in &pages {
        if std::fs::read_to_string(root.join(file)).ok().as_ref() != Some(text) {
            broken.push(format!(
                "{} is not what its description says; run: cargo run -p xtask -- dashboards",
                file.display()
            ));
        }
    }
    let folder = root.join(FOLDER);
    let found = std::fs::read_dir(&folder).with_context(|| format!("{} cannot be read", folder.display()))?;
    for entry in found {
        let file = Path::new(FOLDER).join(entry.context("a file of the folder")?.file_name());
        if !pages.contains_key(&file) {
            broken.push(format!("{}: nothing describes it", file.display()));
        }
    }
    check::all(root, &all(), &mut broken)?;
    if broken.is_empty() {
        println!("dashboards: {} files", pages.len());
        return Ok(());
    }
    bail!("{} things are wrong with the dashboards:\n  {}", broken.len(), broken.join("\n  "));
}
