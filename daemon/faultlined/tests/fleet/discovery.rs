//! The three methods of `discovery.yml`, with a real DNS server, in a separate network namespace.

use super::shipped;
use faultline_testkit::{
    binaries::{in_search_path, victoriametrics},
    eventually::eventually,
    process::{Program, Running},
};
use std::{fs, os::unix::fs::MetadataExt, path::Path, time::Duration};

const TIMEOUT: Duration = Duration::from_secs(180);

#[test]
#[ignore = "takes a minute; part of .ci/run --long"]
fn prometheus_and_vmagent_find_daemons_by_file_http_and_dns() {
    let programs = ["unshare", "dnsmasq", "python3", "prometheus", "promtool"];
    let is_root = fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
    let agent = victoriametrics("vmagent");
    let (Some(agent), true, true) = (
        agent,
        is_root,
        programs.iter().all(|name| in_search_path(name).is_some()),
    ) else {
        return eprintln!("SKIPPED: it needs root, vmagent and {programs:?}");
    };
    let folder = tempfile::tempdir().expect("a folder");
    let text = shipped(
        "grafana/prometheus/fleet/discovery.yml",
        &[
            ("https://inventory.example/", "http://127.0.0.1:8000/"),
            ("/etc/faultline/targets", "targets"),
        ],
    );
    fs::write(folder.path().join("discovery.yml"), text).expect("a file");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fleet/discovery.sh");
    let output = folder.path().join("found");
    let paths = [
        script.as_path(),
        folder.path(),
        Path::new(env!("CARGO_BIN_EXE_faultlined")),
        &agent,
    ];
    let paths = paths.map(|path| path.display().to_string());
    let running = Running::start(&Program {
        path: "unshare".into(),
        arguments: ["-n", "-m", "sh"]
            .map(str::to_owned)
            .into_iter()
            .chain(paths)
            .collect(),
        environment: Vec::new(),
        output: output.clone(),
    });
    let mut running = running.expect("it starts");
    eventually(TIMEOUT, "it ends", || running.exit_status().ok().flatten());
    let found = fs::read_to_string(output).expect("what was found");
    for way in ["file", "http", "dns"] {
        let series = format!("{{host=\"{way}\", instance=\"fra1-{way}\", job=\"faultline\"");
        // The target of the agent also has the site.
        let count = found
            .lines()
            .filter(|line| line.starts_with(&series))
            .count();
        assert_eq!(count, 2, "{found}");
    }
}
