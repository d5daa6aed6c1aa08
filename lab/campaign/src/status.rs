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

#[derive(Serialize)]
struct VersionStatus<'l> {
    version: &'l str,
    name: &'l str,
    source: &'l str,
    digest: Option<&'l str>,
    runs: usize,
    /// `done`, `waits`, `round 2 waits`, `failed`, `removed`, `baseline`.
    state: String,
    error: Option<&'l str>,
    /// Why metrics that depend on slots are not compared.
    not_comparable: Option<String>,
}

pub fn status(campaign: &Campaign, store: &Store, as_json: bool) -> Result<String> {
    let listed = work::sync_listed_versions(campaign, store)?;
    let current = work::current_conditions(campaign, &listed);
    let mut groups = page::shown_groups(campaign, store)?;
    groups.retain(|group| current.as_ref() == Some(&group.conditions));
    let releases = || groups.iter().flat_map(|group| &group.releases);
    let runs = store.runs()?;
    let mut versions = Vec::new();
    for listed_version in &listed {
        let version = &listed_version.program.version;
        let release = releases().find(|release| release.version == *version);
        let is_own = |run: &&RunRow| {
            let run_version = if run.is_baseline {
                &run.conditions.baseline
            } else {
                &run.version
            };
            run_version == version && !run.is_void()
        };
        versions.push(VersionStatus {
            version,
            name: &listed_version.program.name,
            source: &listed_version.source,
            digest: listed_version.digest.as_deref(),
            runs: runs.iter().filter(is_own).count(),
            state: state(campaign, store, listed_version, &listed)?,
            error: listed_version.error.as_deref(),
            not_comparable: release.and_then(changes::not_comparable_sentence),
        });
    }
    if as_json {
        return Ok(json(&versions)?);
    }
    let rows = versions.iter().map(|version| {
        let digest = version
            .digest
            .and_then(|digest| digest.get(..12))
            .unwrap_or("not known yet");
        vec![
            version.version.to_owned(),
            version.state.clone(),
            version.runs.to_string(),
            version.source.to_owned(),
            digest.to_owned(),
            clean(version.name),
        ]
    });
    let mut lines = table(
        &["VERSION", "STATE", "RUNS", "SOURCE", "DIGEST", "NAME"],
        rows.collect(),
    );
    for version in &versions {
        if let Some(error) = version.error {
            lines += &format!("{}: {}\n", version.version, clean(error));
        }
    }
    for reason in versions.iter().flat_map(|version| &version.not_comparable) {
        lines += &format!("{}\n", clean(reason));
    }
    Ok(lines)
}

fn state(
    campaign: &Campaign,
    store: &Store,
    version: &ListedVersion,
    listed: &[ListedVersion],
) -> Result<String> {
    let next = work::pending_round(campaign, store, version, listed)?;
    Ok(match next {
        _ if work::is_baseline(campaign, version) => "baseline".to_owned(),
        _ if version.removed => "removed".to_owned(),
        _ if version.error.is_some() => "failed".to_owned(),
        None => "done".to_owned(),
        Some(1) => "waits".to_owned(),
        Some(round) => format!("round {round} waits"),
    })
}

/// Writes Parquet with one row for each run and metric; returns their number. Fails if the file exists.
pub fn export(campaign: &Campaign, store: Store, out: &Path) -> Result<usize> {
    anyhow::ensure!(
        out.symlink_metadata().is_err(),
        "{}: exists already",
        out.display()
    );
    let verdicts = compare::verdict_rows(&page::shown_groups(campaign, &store)?);
    let (rows, columns) = store.export(&verdicts)?;
    write_columns(out, "result", columns)?;
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        comparability::tests::{cluster, with_clusters},
        round::tests::search_round,
        settings::{Program, RESULTS},
        store::FROM_COMMAND,
    };

    #[test]
    fn the_consensus_of_an_earlier_plans_runs_is_not_in_the_status() {
        let root = tempfile::tempdir().unwrap();
        let (mut campaign, _) = search_round(root.path());
        let clusters = [
            &cluster(&["tower"], Some(0.4)),
            &cluster(&["alpenglow"], Some(0.2)),
        ];
        let runs = with_clusters("1.1.0", clusters);
        let conditions = runs[0].conditions.clone();
        campaign.baseline.version = conditions.baseline;
        let mut store = Store::open(&root.path().join(RESULTS)).unwrap();
        for version in [campaign.baseline.version.as_str(), "1.1.0"] {
            let program = Program {
                version: version.to_owned(),
                ..Program::default()
            };
            store.add(&program, FROM_COMMAND, 1).unwrap();
            let digest = &conditions.baseline_digest;
            store.set_digest(version, digest).unwrap();
        }
        store.add_runs(&runs).unwrap();
        for (plan_digest, is_named) in [("another", false), (&*conditions.plan_digest, true)] {
            campaign.plan_digest = plan_digest.to_owned();
            let text = status(&campaign, &store, false).unwrap();
            assert_eq!(text.contains("1.1.0 is not comparable"), is_named, "{text}");
        }
        let counts = |store: &Store| {
            let text = status(&campaign, store, true).unwrap();
            let versions: serde_json::Value = serde_json::from_str(&text).unwrap();
            [0, 1].map(|index| versions[index]["runs"].as_u64().unwrap())
        };
        assert_eq!(counts(&store), [6, 6]);
        // Every run of this scene has the same recording.
        store.void(&runs[0].recording).unwrap();
        assert_eq!(counts(&store), [0, 0]);
    }
}
