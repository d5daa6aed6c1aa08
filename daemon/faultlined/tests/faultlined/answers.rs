//! The same three lines on the page, in `/status`, in `/status.svg` and in `once --json`.

#![expect(clippy::unwrap_used, reason = "the helpers of tests fail as tests do")]
#![expect(clippy::disallowed_methods, reason = "a test starts programs itself")]

use faultline_metrics::Source;
use faultline_status::{Answer, Figure, Status, Verdict};
use faultline_testkit::{daemon::Daemon, eventually::eventually, http};
use std::{fs, path::Path, process::Command, time::Duration};

const NEEDS_DAEMON: &str =
    "not known without a running daemon that follows this process; its /status has the answer.";
const FAULTLINED: &str = env!("CARGO_BIN_EXE_faultlined");
/// Timeout. In the first minute, no answer has the verdict fine.
const PATIENCE: Duration = Duration::from_secs(240);

fn get(daemon: &Daemon, path: &str) -> String {
    http::get(daemon.metrics(), path).unwrap().text()
}

fn status(daemon: &Daemon) -> Status {
    serde_json::from_str(&get(daemon, "/status")).unwrap_or_default()
}

fn answers(daemon: &Daemon) -> (u64, Vec<Answer>) {
    let status = status(daemon);
    (status.tick, status.answers)
}

/// The text between tags, in one line.
fn words(markup: &str) -> String {
    let mut text = String::new();
    for part in markup.split('<') {
        text.push_str(part.split_once('>').map_or(part, |(_, after)| after));
        text.push(' ');
    }
    let text = text.replace("&#39;", "'").replace("&amp;", "&");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The text without spaces and backticks, which tags replace.
fn letters(text: &str) -> String {
    text.chars()
        .filter(|letter| !" `".contains(*letter))
        .collect()
}

/// Waits until all answers are known, and until every output has the answers of one tick.
fn same_lines(daemon: &Daemon) -> Vec<Answer> {
    eventually(PATIENCE, "three known answers", || {
        let (tick, answers) = answers(daemon);
        let known = |answer: &Answer| answer.verdict != Verdict::Unknown;
        let is_known = answers.len() == 3 && answers.iter().all(known);
        let places = ["/", "/status.svg"].map(|path| words(&get(daemon, path)));
        let (later, _) = self::answers(daemon);
        (is_known && tick == later).then(|| {
            for place in &places {
                assert!(place.contains("DEMO"), "{place}");
                for answer in &answers {
                    let line = answer.line();
                    assert!(letters(place).contains(&letters(&line)), "{line}: {place}");
                }
            }
            answers
        })
    })
}

fn once(config: &Path) -> serde_json::Value {
    let mut command = Command::new(FAULTLINED);
    let command = command.args(["once", "--json", "--config"]).arg(config);
    serde_json::from_slice(&command.output().unwrap().stdout).unwrap()
}

/// A cgroup need not have all figures.
fn assert_all_figures(daemon: &Daemon) {
    let must_be_there = Figure::ALL
        .iter()
        .filter(|figure| figure.source() != Source::Cgroup);
    let figures = status(daemon).figures;
    let missing: Vec<&Figure> = must_be_there
        .filter(|figure| !figures.contains_key(figure))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn page_status_card_and_once_have_the_same_three_lines() {
    let folder = tempfile::tempdir().unwrap();
    let [config, evidence] = ["c.toml", "evidence.json"].map(|name| folder.path().join(name));
    let proven = r#"{"version":1,"ram":{"proven_bytes":7516192768,"interval_bytes":[6442450944,7516192768],
        "release":"9.9.9","measured":"2026-11-27"}}"#;
    fs::write(&evidence, proven).unwrap();
    fs::write(
        &config,
        format!(
            "[status]\nevidence = {:?}\n",
            evidence.display().to_string()
        ),
    )
    .unwrap();
    let shown = config.display().to_string();
    let ready = folder.path().join("ready.json");
    let ready_file = ready.display().to_string();
    let arguments = ["--demo", "--config", &shown, "--ready-file", &ready_file];
    let daemon = Daemon::start(FAULTLINED, &arguments, folder.path()).unwrap();
    let answers = same_lines(&daemon);
    assert_all_figures(&daemon);
    let ram = answers[0].line();
    assert!(
        ram.starts_with("RAM: 7 GiB proven enough (measured on 9.9.9, 2026-11-27) of "),
        "{ram}"
    );

    let beside = folder.path().join("beside.toml");
    let listen = daemon.metrics();
    let once_of = |pid: &serde_json::Value| {
        let text = format!("[target]\npid = {pid}\n[metrics]\nlisten = \"{listen}\"\n");
        fs::write(&beside, text).unwrap();
        once(&beside)
    };
    let ready: serde_json::Value = serde_json::from_slice(&fs::read(&ready).unwrap()).unwrap();
    let report = once_of(&ready["target"]["pid"]);
    let verdicts = report["answers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|answer| &answer["verdict"]);
    assert!(
        verdicts.eq(answers.iter().map(|answer| answer.verdict.word())),
        "{report:#}"
    );
    let text = report["answers"][0]["text"].as_str().unwrap();
    let is_named = text.starts_with("of the demo's simulated validator: ");
    assert!(is_named && text.contains("measured on 9.9.9"), "{text}");
    let other = once_of(&1.into());
    assert_eq!(other["answers"][1]["text"], NEEDS_DAEMON, "{other:#}");

    fs::write(&evidence, r#"{"version":2}"#).unwrap();
    daemon.signal("HUP").unwrap();
    eventually(PATIENCE, "the evidence is read anew", || {
        let ram = self::answers(&daemon).1.swap_remove(0).line();
        ram.contains("no evidence is used: ").then_some(())
    });
    let log = daemon.log();
    assert!(
        log.contains("status.evidence is not used")
            && log.contains("its format 2 is of a newer release"),
        "{log}"
    );
}

#[test]
fn once_alone_says_what_needs_a_daemon() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("c.toml");
    let text =
        "[target]\nprocess_name = \"nobody-has-this\"\n[metrics]\nlisten = \"127.0.0.1:1\"\n";
    fs::write(&config, text).unwrap();
    let report = once(&config);
    let cache = &report["answers"][1];
    assert_eq!(cache["verdict"], "unknown", "{report:#}");
    assert_eq!(cache["text"], NEEDS_DAEMON);
}
