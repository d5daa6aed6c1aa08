use crate::settings::Campaign;
use crate::store::{ListedVersion, RunRow, Store};
use crate::work;
use crate::{compare, page};
use anyhow::Context as _;
use faultline_analysis::export::{Values, write_columns};
use faultline_command::files::TempFile;
use faultline_command::output::json;
use faultline_text::{clean, table};
use serde::Serialize;
use std::io::BufWriter;
use std::path::Path;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Version {
    version: String,
    name: String,
    source: String,
    digest: Option<String>,
    runs: usize,
    /// `done`, `waits`, `round 2 waits`, `failed`, `removed`, `baseline`.
    state: String,
    error: Option<String>,
}

pub(crate) fn status(campaign: &Campaign, store: &Store, as_json: bool) -> anyhow::Result<String> {
    let listed = work::list(campaign, store)?;
    let mut versions = Vec::new();
    for one in &listed {
        versions.push(version(campaign, store, one, &listed)?);
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
    for (one, why) in versions
        .iter()
        .filter_map(|one| Some((one, one.error.as_ref()?)))
    {
        lines += &format!("{}: {}\n", one.version, clean(why));
    }
    Ok(lines)
}

fn version(
    campaign: &Campaign,
    store: &Store,
    one: &ListedVersion,
    all: &[ListedVersion],
) -> anyhow::Result<Version> {
    let version = &one.program.version;
    let is_own = |run: &&RunRow| match run.of_baseline {
        true => run.conditions.baseline == *version,
        false => run.release == *version,
    };
    let runs = store.runs()?.iter().filter(is_own).count();
    let next = work::next(campaign, store, one, all)?;
    let state = match next {
        _ if work::is_baseline(campaign, one) => "baseline".to_owned(),
        _ if one.removed => "removed".to_owned(),
        _ if one.error.is_some() => "failed".to_owned(),
        None => "done".to_owned(),
        Some(1) => "waits".to_owned(),
        Some(round) => format!("round {round} waits"),
    };
    Ok(Version {
        version: version.clone(),
        name: one.program.name.clone(),
        source: one.source.clone(),
        digest: one.digest.clone(),
        runs,
        state,
        error: one.error.clone(),
    })
}

/// Writes one row for each run and metric; returns their number. Fails if the file exists.
#[expect(clippy::too_many_lines, reason = "to be split by meaning")]
pub(crate) fn export(campaign: &Campaign, store: &Store, out: &Path) -> anyhow::Result<usize> {
    let named = || out.display().to_string();
    anyhow::ensure!(
        out.symlink_metadata().is_err(),
        "{}: exists already",
        out.display()
    );
    let verdicts = compare::rows(&page::groups(campaign, store)?);
    let runs = store.runs()?;
    let rows: Vec<_> = runs
        .iter()
        .flat_map(|run| run.values.iter().map(move |value| (run, value)))
        .collect();
    let text = |of: &dyn Fn(&RunRow) -> Option<String>| {
        Values::Text(rows.iter().map(|(run, _)| of(run)).collect())
    };
    let whole = |of: &dyn Fn(&RunRow) -> i64| {
        Values::Integer(rows.iter().map(|(run, _)| Some(of(run))).collect())
    };
    let verdict = |(run, (metric, _)): &(&RunRow, &(String, f64))| {
        let same = |row: &&crate::store::VerdictRow| {
            row.conditions == run.conditions
                && row.machine == run.machine
                && row.release == run.release
                && row.metric == *metric
        };
        verdicts.iter().find(same).map(|row| row.verdict.clone())
    };
    let columns: Vec<(&str, Values)> = vec![
        ("release", text(&|run| Some(run.release.clone()))),
        (
            "arm",
            text(&|run| {
                Some(
                    if run.of_baseline {
                        "baseline"
                    } else {
                        "release"
                    }
                    .to_owned(),
                )
            }),
        ),
        ("round", whole(&|run| i64::from(run.round))),
        ("replicate", whole(&|run| i64::from(run.replicate))),
        ("began_unix_ns", whole(&|run| run.began_unix_ns)),
        ("outcome", text(&|run| Some(run.outcome.clone()))),
        ("validity", text(&|run| Some(run.validity.clone()))),
        ("machine", text(&|run| Some(run.machine.clone()))),
        ("kernel", text(&|run| Some(run.kernel.clone()))),
        (
            "plan_digest",
            text(&|run| Some(run.conditions.plan_digest.clone())),
        ),
        (
            "baseline",
            text(&|run| Some(run.conditions.baseline.clone())),
        ),
        (
            "baseline_digest",
            text(&|run| Some(run.conditions.baseline_digest.clone())),
        ),
        (
            "program_digest",
            text(&|run| Some(run.program_digest.clone())),
        ),
        ("recording", text(&|run| Some(run.recording.clone()))),
        (
            "recording_digest",
            text(&|run| run.recording_digest.clone()),
        ),
        (
            "metric",
            Values::Text(
                rows.iter()
                    .map(|(_, (metric, _))| Some(metric.clone()))
                    .collect(),
            ),
        ),
        (
            "value",
            Values::Real(rows.iter().map(|(_, (_, value))| Some(*value)).collect()),
        ),
        ("verdict", Values::Text(rows.iter().map(verdict).collect())),
    ];
    let columns: Vec<(String, Values)> = columns
        .into_iter()
        .map(|(name, values)| (name.to_owned(), values))
        .collect();
    let part = TempFile::create(out).with_context(named)?;
    write_columns(
        BufWriter::new(part.file().try_clone().with_context(named)?),
        "result",
        &columns,
    )
    .with_context(named)?;
    part.finish(out).with_context(named)?;
    Ok(rows.len())
}
