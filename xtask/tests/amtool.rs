//! Checks with Alertmanager itself which receivers get the alerts.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use serde_json::Value;
use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../grafana/prometheus")
}

fn shipped() -> PathBuf {
    folder().join("alertmanager.yml")
}

fn yaml(path: &Path) -> Value {
    serde_saphyr::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Whether amtool succeeded, and its output. `None` with a message if amtool is not installed.
#[expect(clippy::disallowed_methods, reason = "the witness is a program")]
fn amtool(words: &[&str]) -> Option<(bool, String)> {
    match Command::new("amtool").args(words).output() {
        Ok(output) => {
            let said = [output.stdout, output.stderr]
                .map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            Some((output.status.success(), said.concat()))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            eprintln!("SKIPPED: no amtool");
            None
        }
        Err(error) => panic!("amtool cannot be run: {error}"),
    }
}

fn check_config(configuration: &Path) {
    if let Some((content, said)) = amtool(&["check-config", &configuration.display().to_string()]) {
        assert!(content, "{said}");
    }
}

/// Name and labels of each alert.
fn alerts() -> Vec<(String, Vec<(String, String)>)> {
    let rules = yaml(&folder().join("rules/faultline.alerts.yml"));
    let groups = rules["groups"].as_array().unwrap().iter();
    let rules = groups.flat_map(|group| group["rules"].as_array().unwrap());
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    rules
        .map(|rule| {
            let labels = rule["labels"].as_object().unwrap().iter();
            (
                text(&rule["alert"]),
                labels
                    .map(|(name, value)| (name.clone(), text(value)))
                    .collect(),
            )
        })
        .collect()
}

#[track_caller]
fn reaches(receiver: &str, job: &str, alert: &str, labels: &[(String, String)]) {
    let file = format!("--config.file={}", shipped().display());
    let verify = format!("--verify.receivers={receiver}");
    let mut words = vec![
        "config".to_owned(),
        "routes".to_owned(),
        "test".to_owned(),
        file,
        verify,
    ];
    words.extend([
        format!("alertname={alert}"),
        format!("job={job}"),
        "instance=127.0.0.1:9912".to_owned(),
    ]);
    words.extend(labels.iter().map(|(name, value)| format!("{name}={value}")));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    if let Some((reached, said)) = amtool(&words) {
        assert!(
            reached,
            "{alert} {labels:?} does not reach {receiver}: {said}"
        );
    }
}

#[test]
fn alertmanager_accepts_the_shipped_configuration() {
    check_config(&shipped());
}

/// Activates all commented lines of the receivers. An operator activates some of them.
#[test]
fn alertmanager_accepts_the_receiver_templates() {
    let text = fs::read_to_string(shipped()).unwrap();
    let (head, receivers) = text.split_once("\nreceivers:\n").unwrap();
    let filled = receivers.replace("    # ", "    ");
    assert_eq!(filled.matches("_configs: [{").count(), 7, "{filled}");
    let written = Path::new(env!("CARGO_TARGET_TMPDIR")).join("alertmanager.yml");
    fs::write(&written, format!("{head}\nreceivers:\n{filled}")).unwrap();
    check_config(&written);
}

#[test]
fn alerts_reach_their_severitys_receiver_except_those_of_experiments() {
    let alerts = alerts();
    assert!(alerts.len() > 30, "{alerts:?}");
    let mut severities = BTreeSet::new();
    for (alert, labels) in &alerts {
        let (_, severity) = labels.iter().find(|(name, _)| name == "severity").unwrap();
        severities.insert(severity.as_str());
        reaches(severity, "faultline", alert, labels);
        reaches("nobody", "faultline-experiment", alert, labels);
    }
    assert_eq!(severities, BTreeSet::from(["info", "page", "ticket"]));
}

#[test]
fn an_alert_of_unknown_severity_reaches_a_receiver() {
    reaches("ticket", "other", "SomebodyElses", &[]);
    reaches(
        "ticket",
        "other",
        "SomebodyElses",
        &[("severity".to_owned(), "critical".to_owned())],
    );
}

/// A misspelled name would match no alert, and the rule would have no effect.
#[test]
fn inhibitions_name_existing_alerts() {
    let names: BTreeSet<String> = alerts().into_iter().map(|(name, _)| name).collect();
    let configuration = yaml(&shipped());
    let mut named = 0;
    for rule in configuration["inhibit_rules"].as_array().unwrap() {
        assert!(
            rule["equal"]
                .as_array()
                .unwrap()
                .iter()
                .any(|label| label == "instance" || label == "site"),
            "of all hosts: {rule}"
        );
        let matchers =
            ["source_matchers", "target_matchers"].map(|key| rule[key].as_array().unwrap());
        for matcher in matchers.into_iter().flatten().filter_map(Value::as_str) {
            let Some(values) = matcher.strip_prefix("alertname ") else {
                continue;
            };
            for name in values
                .trim_start_matches(['=', '~', ' '])
                .trim_matches('"')
                .split('|')
            {
                assert!(names.contains(name), "{rule}: there is no alert {name}");
                named += 1;
            }
        }
    }
    assert!(named > 10, "only {named} alerts are named");
}

/// An alert for a dead or unobserved validator is never silenced.
#[test]
fn paging_alerts_of_root_causes_are_never_inhibited() {
    let configuration = yaml(&shipped());
    for rule in configuration["inhibit_rules"].as_array().unwrap() {
        let targets = rule["target_matchers"].to_string();
        for name in [
            "AgaveDown",
            "AgaveOomHappened",
            "AgaveOomAhead",
            "AgaveRestartLoop",
            "FaultlineDown",
        ] {
            assert!(!targets.contains(name), "{rule}");
        }
        assert!(
            targets.contains("alertname") || targets.contains("ticket|info"),
            "it silences pages of all kinds: {rule}"
        );
    }
}

/// Each attempt starts a program, so that all together take about a minute.
const ATTEMPTS: usize = 1_000;

/// A running Alertmanager with the shipped configuration; killed when dropped.
struct Alertmanager {
    process: Child,
    url: String,
}

impl Drop for Alertmanager {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Alertmanager {
    /// `None` if Alertmanager is not installed.
    #[expect(clippy::disallowed_methods, reason = "the witness is a program")]
    fn start() -> Option<Self> {
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .unwrap()
            .port();
        let storage = Path::new(env!("CARGO_TARGET_TMPDIR")).join("alertmanager");
        let started = Command::new("prometheus-alertmanager")
            .arg(format!("--config.file={}", shipped().display()))
            .arg(format!("--storage.path={}", storage.display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .args(["--cluster.listen-address=", "--log.level=error"])
            .stdout(Stdio::null())
            .spawn();
        match started {
            Ok(process) => Some(Self {
                process,
                url: format!("--alertmanager.url=http://127.0.0.1:{port}"),
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                eprintln!("SKIPPED: no prometheus-alertmanager");
                None
            }
            Err(error) => panic!("prometheus-alertmanager cannot be run: {error}"),
        }
    }

    /// Retries until Alertmanager answers, because it was just started.
    fn add(&self, labels: &[&str]) {
        let words = [&["alert", "add", &self.url], labels].concat();
        let mut outputs = (0..ATTEMPTS).map_while(|_| amtool(&words));
        assert!(outputs.any(|(added, _)| added), "no answer");
    }

    /// Name and mount point or device of each active alert.
    fn active(&self) -> BTreeSet<String> {
        let words = ["alert", "query", "--active", "-o", "json", &self.url];
        let (_, output) = amtool(&words).unwrap();
        let alerts: Vec<Value> = serde_json::from_str(&output).unwrap();
        let name = |alert: &Value| {
            let label = |name: &str| {
                alert["labels"][name]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned()
            };
            let severity = label("severity");
            let of = label("mountpoint") + &label("device");
            format!("{} {severity} {of}", label("alertname"))
        };
        alerts.iter().map(name).collect()
    }
}

#[test]
fn a_paging_alert_inhibits_only_tickets_of_its_own_file_system() {
    let Some(alertmanager) = Alertmanager::start() else {
        return;
    };
    if amtool(&["--version"]).is_none() {
        return;
    }
    for (name, severity, label) in [
        ("AgaveDiskFullAhead", "page", "mountpoint=/mnt/ledger"),
        ("AgaveDiskFullAhead", "ticket", "mountpoint=/mnt/ledger"),
        ("AgaveDiskFullAhead", "ticket", "mountpoint=/mnt/accounts"),
        ("AgaveDiskNearlyFull", "page", "mountpoint=/mnt/ledger"),
        ("AgaveDiskSlow", "ticket", "device=nvme1n1"),
    ] {
        let (name, severity) = (format!("alertname={name}"), format!("severity={severity}"));
        alertmanager.add(&[&name, &severity, "job=faultline", "instance=v1", label]);
    }
    let wanted = [
        "AgaveDiskFullAhead page /mnt/ledger",
        "AgaveDiskFullAhead ticket /mnt/accounts",
        "AgaveDiskNearlyFull page /mnt/ledger",
        "AgaveDiskSlow ticket nvme1n1",
    ]
    .map(str::to_owned);
    let mut active = (0..ATTEMPTS).map(|_| alertmanager.active());
    let wanted = BTreeSet::from(wanted);
    assert!(
        active.any(|active| active == wanted),
        "{:?}",
        alertmanager.active()
    );
}
