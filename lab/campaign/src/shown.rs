use crate::{
    changes, compare, page,
    settings::Campaign,
    store::{ListedVersion, RunRow, Store},
    work,
};
use anyhow::Result;
use faultline_common::output::json;
use faultline_pages::export::write_columns;
use faultline_text::{clean, table};
use serde::Serialize;
use std::path::Path;

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Version {
    version: String,
    name: String,
    source: String,
    digest: Option<String>,
    runs: usize,
    /// `done`, `waits`, `round 2 waits`, `failed`, `removed`, `baseline`.
    state: String,
    error: Option<String>,
    /// Why it is not compared with its baseline by slot.
    not_comparable: Option<String>,
}

pub fn status(campaign: &Campaign, store: &Store, as_json: bool) -> Result<String> {
    let listed = work::synchronized_list(campaign, store)?;
    let groups = page::groups(campaign, store)?;
    let releases = || groups.iter().flat_map(|group| &group.releases);
    let runs = store.runs()?;
    let mut versions = Vec::new();
    for one in &listed {
        let version = &one.program.version;
        let release = releases().find(|release| release.version == *version);
        let is_own = |run: &&RunRow| {
            let own = if run.of_baseline {
                &run.conditions.baseline
            } else {
                &run.release
            };
            own == version
        };
        versions.push(Version {
            version: version.clone(),
            name: one.program.name.clone(),
            source: one.source.clone(),
            digest: one.digest.clone(),
            runs: runs.iter().filter(is_own).count(),
            state: state(campaign, store, one, &listed)?,
            error: one.error.clone(),
            not_comparable: release.and_then(changes::not_comparable),
        });
    }
    if as_json {
        return Ok(json(&versions)?);
    }
    let heads = ["VERSION", "STATE", "RUNS", "FROM", "PROGRAM", "NAME"];
    let rows = versions.iter().map(|one| {
        let digest = one
            .digest
            .as_deref()
            .and_then(|digest| digest.get(..12))
            .unwrap_or("not there yet");
        vec![
            one.version.clone(),
            one.state.clone(),
            one.runs.to_string(),
            one.source.clone(),
            digest.to_owned(),
            clean(&one.name),
        ]
    });
    let mut lines = table(&heads, rows.collect());
    for one in &versions {
        if let Some(why) = &one.error {
            lines += &format!("{}: {}\n", one.version, clean(why));
        }
    }
    for words in versions.iter().flat_map(|one| &one.not_comparable) {
        lines += &format!("{}\n", clean(words));
    }
    Ok(lines)
}

fn state(
    campaign: &Campaign,
    store: &Store,
    one: &ListedVersion,
    all: &[ListedVersion],
) -> Result<String> {
    let next = work::pending_round(campaign, store, one, all)?;
    Ok(match next {
        _ if work::is_baseline(campaign, one) => "baseline".to_owned(),
        _ if one.removed => "removed".to_owned(),
        _ if one.error.is_some() => "failed".to_owned(),
        None => "done".to_owned(),
        Some(1) => "waits".to_owned(),
        Some(round) => format!("round {round} waits"),
    })
}

/// Writes one row for each run and metric; returns their number. Fails if the file exists.
pub fn export(campaign: &Campaign, store: Store, out: &Path) -> Result<usize> {
    anyhow::ensure!(
        out.symlink_metadata().is_err(),
        "{}: exists already",
        out.display()
    );
    let verdicts = compare::rows(&page::groups(campaign, &store)?);
    let (rows, columns) = store.export(&verdicts)?;
    write_columns(out, "result", columns)?;
    Ok(rows)
}
