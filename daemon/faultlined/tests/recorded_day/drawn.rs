//! The dashboards, rendered for nodes that change.

use crate::{
    changes::Change,
    now,
    recording::{HOUR, Node, Recording},
    stored,
};
use faultline_testkit::{
    Result,
    binaries::in_search_path,
    eventually::eventually_ok,
    process::{Program, Running},
    prometheus::{Prometheus, SKIP_MESSAGE},
};
use std::{path::Path, time::Duration};

/// Maximum time for all dashboards of one node.
const DRAWN_WITHIN: Duration = Duration::from_secs(600);

/// Changes, each with the instance that has it.
const CHANGES: [(&str, Change); 4] = [
    ("label", Change::Label),
    ("second_target", Change::SecondTarget),
    ("replica", Change::Replica),
    ("slow_scrape", Change::SlowScrape),
];

#[test]
#[ignore = "takes minutes, of two cores; part of .ci/run --long"]
fn every_dashboard_renders_changing_nodes_without_query_errors() -> Result<()> {
    if !Prometheus::is_installed() {
        eprintln!("{SKIP_MESSAGE}");
        return Ok(());
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let is_fetched = root
        .join("grafana/render/node_modules/.package-lock.json")
        .is_file();
    if !is_fetched
        || ["node", "chromium"]
            .iter()
            .any(|name| in_search_path(name).is_none())
    {
        eprintln!("SKIPPED: npm ci --prefix grafana/render, node and chromium are needed");
        return Ok(());
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (recording, rules) = (Recording::read("healthy"), stored::rules()?);
    let to = now();
    let from = to - 6 * HOUR;
    let nodes = CHANGES.map(|(instance, change)| Node {
        instance,
        from,
        to,
        faults: Vec::new(),
        change: Some((change, change.moments(from))),
    });
    let stored = stored::store(&recording, &rules, &|_| true, &nodes, folder.path())?;
    assert_eq!(stored.refused, [""; 0]);
    let prometheus = stored::on(&stored.folder, Vec::new())?;
    let errors: Vec<String> = CHANGES
        .iter()
        .flat_map(|(instance, change)| {
            let scrape = if *change == Change::SlowScrape {
                60
            } else {
                15
            };
            errors(&root, &prometheus, instance, scrape)
        })
        .collect();
    assert_eq!(errors, [""; 0]);
    Ok(())
}

/// Errors that the renderer finds. Panels may be empty, because the recording lacks some series.
fn errors(root: &Path, prometheus: &Prometheus, instance: &str, scrape: u64) -> Vec<String> {
    let output = root.join(format!("target/dashboards-{instance}.out"));
    let words = [
        ("--prometheus", format!("http://{}", prometheus.address())),
        ("--last", "6h".to_owned()),
        ("--scrape", scrape.to_string()),
        ("--set", format!("instance={instance}")),
        ("--out", format!("target/dashboards-{instance}")),
    ];
    let mut renderer = Running::start(&Program {
        path: root.join("scripts/render-dashboards"),
        arguments: words
            .into_iter()
            .flat_map(|(option, value)| [option.to_owned(), value])
            .chain(["--allow-empty".to_owned()])
            .collect(),
        environment: Vec::new(),
        output: output.clone(),
    })
    .expect("the renderer");
    let status = eventually_ok(DRAWN_WITHIN, "the dashboards are drawn", || {
        renderer
            .exit_status()
            .map_err(|error| error.to_string())?
            .ok_or_else(|| "not yet".to_owned())
    });
    let text = std::fs::read_to_string(&output).expect("what the renderer wrote");
    assert!(text.contains(" panels, "), "{text}");
    let errors = text.lines().filter(|line| !line.contains(" panels, "));
    assert_eq!(status.success(), errors.clone().next().is_none(), "{text}");
    errors.map(|line| format!("{instance}: {line}")).collect()
}
