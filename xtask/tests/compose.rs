//! Checks the compose file against the tree that it mounts, and against the programs that read the mounted files.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use serde_json::Value;
use std::{
    path::{Path, PathBuf},
    process::Command,
};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/container")
}

fn yaml(path: &Path) -> Value {
    serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn services() -> Vec<(String, Value)> {
    let compose = yaml(&folder().join("compose.yaml"));
    let services = compose["services"].as_object().unwrap();
    services
        .iter()
        .map(|(name, service)| (name.clone(), service.clone()))
        .collect()
}

fn service(name: &str) -> Value {
    services()
        .into_iter()
        .find(|(other, _)| other == name)
        .unwrap()
        .1
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array()
        .unwrap()
        .iter()
        .map(|text| text.as_str().unwrap().to_owned())
        .collect()
}

/// Source and target of each path of this tree that a service mounts. These mounts have the short form, which is a text.
fn mounted(service: &Value) -> Vec<(PathBuf, PathBuf)> {
    let volumes = service["volumes"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str);
    let own = volumes
        .filter(|volume| volume.starts_with('.'))
        .map(|volume| {
            let parts: Vec<&str> = volume.split(':').collect();
            assert_eq!(parts[2..], ["ro"], "{volume} can be written");
            (folder().join(parts[0]), PathBuf::from(parts[1]))
        });
    own.collect()
}

/// The file of this tree that a service finds at `path`.
fn mounted_file(service: &Value, path: &str) -> PathBuf {
    let found = mounted(service).into_iter().find_map(|(source, place)| {
        let rest = Path::new(path).strip_prefix(place).ok()?;
        Some(if rest == Path::new("") {
            source
        } else {
            source.join(rest)
        })
    });
    found.unwrap_or_else(|| panic!("{path} is not mounted"))
}

fn option(service: &Value, name: &str) -> String {
    let words = texts(&service["command"]);
    words
        .iter()
        .find_map(|word| word.strip_prefix(name))
        .unwrap()
        .to_owned()
}

/// Fails with the error output of the program. Skips with a message if the program is not installed.
#[expect(clippy::disallowed_methods, reason = "the witness is a program")]
fn run_check(program: &str, words: &[&str], file: &Path) {
    match Command::new(program).args(words).arg(file).output() {
        Ok(output) => assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        ),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("SKIPPED: no {program}")
        }
        Err(error) => panic!("{program} cannot be run: {error}"),
    }
}

#[test]
fn every_repository_path_mounted_by_compose_exists() {
    let all: Vec<(PathBuf, PathBuf)> = services()
        .iter()
        .flat_map(|(_, service)| mounted(service))
        .collect();
    assert!(all.len() > 4, "{all:?}");
    for (source, _) in all {
        assert!(source.exists(), "{} is not there", source.display());
    }
}

/// These mounts have the long form: the short form creates a missing folder, as root.
#[test]
fn compose_mounts_validator_folders_read_only_without_creating_them() {
    let volumes = service("faultlined")["volumes"].as_array().unwrap().clone();
    let folders: Vec<Value> = volumes.into_iter().filter(Value::is_object).collect();
    assert_eq!(folders.len(), 3, "ledger, accounts, snapshots: {folders:?}");
    for folder in folders {
        assert_eq!(folder["read_only"], true, "{folder}");
        assert_eq!(folder["bind"]["create_host_path"], false, "{folder}");
        let source = folder["source"].as_str().unwrap();
        assert!(
            source.starts_with("${FAULTLINED_"),
            "{source} is not told by who starts it"
        );
    }
}

#[test]
fn compose_images_are_pinned_and_the_daemon_has_this_version() {
    for (name, service) in services() {
        let image = service["image"].as_str().unwrap();
        let version = image.rsplit(':').next().unwrap().trim_start_matches('v');
        let numbers: Vec<&str> = version.split('.').collect();
        assert!(
            numbers.len() == 3 && numbers.iter().all(|number| number.parse::<u32>().is_ok()),
            "{name}: {image}"
        );
        if name == "faultlined" {
            assert_eq!(version, env!("CARGO_PKG_VERSION"), "{image}");
        }
    }
}

#[test]
fn promtool_and_amtool_accept_the_compose_configurations() {
    let (prometheus, alertmanager) = (service("prometheus"), service("alertmanager"));
    run_check(
        "promtool",
        &["check", "config"],
        &mounted_file(&prometheus, &option(&prometheus, "--config.file=")),
    );
    run_check(
        "amtool",
        &["check-config"],
        &mounted_file(&alertmanager, &option(&alertmanager, "--config.file=")),
    );
}

/// Each service requests the next one at the address on which that one listens.
#[test]
fn compose_services_find_each_other_on_loopback() {
    let (prometheus, grafana) = (service("prometheus"), service("grafana"));
    let source = yaml(&mounted_file(
        &grafana,
        "/etc/grafana/provisioning/datasources/faultline.yml",
    ));
    let listens = option(&prometheus, "--web.listen-address=");
    assert_eq!(source["datasources"][0]["url"], format!("http://{listens}"));
    let asks = yaml(&mounted_file(&prometheus, "/etc/prometheus/prometheus.yml"));
    let told = &asks["alerting"]["alertmanagers"][0]["static_configs"][0]["targets"][0];
    assert_eq!(
        *told,
        option(&service("alertmanager"), "--web.listen-address=")
    );
    assert_eq!(grafana["environment"]["GF_SERVER_HTTP_ADDR"], "127.0.0.1");
}

#[test]
fn the_grafana_dashboard_path_matches_the_compose_mount() {
    let grafana = service("grafana");
    let provider = yaml(&mounted_file(
        &grafana,
        "/etc/grafana/provisioning/dashboards/faultline.yml",
    ));
    let looks = mounted_file(
        &grafana,
        provider["providers"][0]["options"]["path"]
            .as_str()
            .unwrap(),
    );
    assert!(looks.join("overview.json").is_file(), "{}", looks.display());
}

#[test]
fn the_compose_file_contains_no_password() {
    for (name, service) in services() {
        let Some(variables) = service["environment"].as_object() else {
            continue;
        };
        for (variable, value) in variables
            .iter()
            .filter(|(variable, _)| variable.contains("PASSWORD") || variable.contains("CONFIG"))
        {
            let given = value
                .as_str()
                .is_none_or(|text| text.starts_with("${") && text.contains(":?"));
            assert!(given, "{name}: {variable} is in the file");
        }
    }
}
