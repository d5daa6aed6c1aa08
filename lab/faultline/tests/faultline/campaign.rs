//! A campaign over simulated releases of which one is worse by a known amount, killed at several of its steps.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot prepare its scene fails"
)]
#![expect(clippy::disallowed_methods, reason = "a test starts programs itself")]

mod tasks;

use crate::support::simulated::{Scene, said};
use faultline_testkit::{eventually::eventually, simulated::PROGRAM_NAME};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::Duration,
};

const PATIENCE: Duration = Duration::from_secs(120);
/// How much slower the worse release is.
const SLOWER: f64 = 1.5;
const TRUTH: &str =
    "slots_per_second = 100\nstart_ms = 100\nfirst_calls_per_slot = 640\npush_ms = 200\n";

struct Stage {
    scene: Scene,
    folder: PathBuf,
}

impl Stage {
    /// The baseline 1.0.0 and its equal 1.1.0 are there; 1.2.0, which is slower, is published and built.
    fn new() -> Option<Self> {
        let scene = Scene::with_groups()?;
        scene.write("same", TRUTH);
        scene.write(
            "slower",
            &format!(
                "{TRUTH}slower_permille = {}\n",
                (1000.0 * (SLOWER - 1.0)) as u64
            ),
        );
        let folder = scene.path("campaign");
        let program = |name: &str, truth: &str| {
            let (own, truth) = (scene.path(PROGRAM_NAME), scene.path(truth));
            let text = format!(
                "#!/bin/sh\n# {name}\nexec {} --truth {} \"$@\"\n",
                own.display(),
                truth.display()
            );
            let path = scene.write(name, &text);
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("rights");
            path
        };
        let [baseline, same, slower] = [("1.0.0", "same"), ("1.1.0", "same"), ("1.2.0", "slower")]
            .map(|(name, truth)| program(name, truth));
        let text = format!(
            "name = \"simulated releases\"\n[baseline]\nversion = \"1.0.0\"\npath = {baseline:?}\n\
             [[program]]\nversion = \"1.1.0\"\npath = {same:?}\n\
             [get]\ncommand = [\"sh\", \"-c\", \"sleep 1; cp -p {} {{folder}}/validator\"]\nprogram = \"validator\"\n\
             [watch]\nrange = \">=1.1\"\ncommand = [\"sh\", \"-c\", \"echo 9.9.9 >&2; printf 'v0.9.0 1.1.0 1.2.0'\"]\n",
            slower.display()
        );
        scene.write("campaign/campaign.toml", &text);
        let ledger = scene.path("ledger");
        let plan = format!(
            "name = \"releases\"\n[workload]\nkind = \"validator\"\ncluster = \"localnet\"\nledger = {ledger:?}\nrpc_port = {}\n\
             command = [\"{{binary}}\", \"--ledger\", \"{{ledger}}\", \"--rpc-port\", \"{{rpc_port}}\"]\n\
             [begin]\nhow = \"download\"\n[stop]\nduration = \"2s\"\nfirst_transaction_within = \"30s\"\ngrace = \"5s\"\n\
             [host]\ncool_down = \"0s\"\nbusy_cpus = {{ at_most = 1000.0, otherwise = \"ignore\" }}\n\
             free_disk = {{ at_least = \"1M\", otherwise = \"warn\" }}\nswap = \"ignore\"\nhuge_pages = \"ignore\"\n\
             governor = \"ignore\"\n[recorder]\nprogram = {:?}\nconfig = {:?}\ninterval = \"200ms\"\n",
            scene.ports.port(1),
            scene.path("faultlined"),
            scene.path("faultlined.toml"),
        );
        scene.write("campaign/plan.toml", &plan);
        let made = scene.init(&["ledger"]);
        assert_eq!(made.status.code(), Some(0), "{}", said(&made));
        Some(Self { scene, folder })
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(self.scene.path("faultline"));
        command
            .arg("campaign")
            .arg(words[0])
            .arg(&self.folder)
            .args(&words[1..]);
        command.env_remove("SOLANA_METRICS_CONFIG");
        command
    }

    fn faultline(&self, words: &[&str]) -> Output {
        self.command(words).output().expect("faultline can be run")
    }

    fn run(&self) -> Child {
        let output = fs::File::create(self.scene.path("run.out")).expect("a file");
        let mut command = self.command(&["run", "--launcher", "direct"]);
        command
            .stdin(Stdio::null())
            .stdout(output.try_clone().expect("a file"))
            .stderr(output);
        command.spawn().expect("faultline can be run")
    }

    /// Runs until this holds, and is killed then.
    fn killed_when(&self, what: &str, holds: impl Fn() -> bool) {
        let mut child = self.run();
        eventually(PATIENCE, what, || {
            let ended = child.try_wait().expect("a status");
            assert!(
                ended.is_none(),
                "{what}: {}",
                fs::read_to_string(self.scene.path("run.out")).unwrap_or_default()
            );
            holds().then_some(())
        });
        child.kill().expect("a kill");
        child.wait().expect("an end");
    }

    /// Lines that the journals of all experiments have of this entry.
    fn entries(&self, entry: &str) -> usize {
        let entry = format!("\"entry\":\"{entry}\"");
        let texts = files(&self.folder.join("experiments"))
            .into_iter()
            .filter(|path| path.ends_with("journal.jsonl"));
        texts
            .map(|path| {
                fs::read_to_string(path)
                    .unwrap_or_default()
                    .matches(&entry)
                    .count()
            })
            .sum()
    }

    fn results(&self) -> Value {
        let text = fs::read_to_string(self.folder.join("page/results.json")).expect("results");
        serde_json::from_str(&text).expect("JSON")
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries: Vec<PathBuf> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    entries
        .into_iter()
        .flat_map(|path| {
            if path.is_dir() {
                files(&path)
            } else {
                vec![path]
            }
        })
        .collect()
}

/// Every run of every release is there once, with the digest of its recording as it is.
fn nothing_is_lost(stage: &Stage, results: &Value) {
    let releases = results["groups"][0]["releases"]
        .as_array()
        .expect("releases");
    assert_eq!(
        results["groups"].as_array().map(Vec::len),
        Some(1),
        "{results:#}"
    );
    for (release, rounds) in releases.iter().zip([1..=1, 2..=2]) {
        let runs = release["runs"].as_array().expect("runs");
        let count = |arm: &str| runs.iter().filter(|run| run["arm"] == arm).count();
        let found = (count("baseline"), count("release"));
        assert!(
            rounds.clone().any(|round| found == (3 * round, 3 * round)) || found == (6, 6),
            "{found:?}"
        );
        for run in runs {
            let file = stage
                .folder
                .join(run["recording"].as_str().expect("a recording"));
            let digest: String = Sha256::digest(fs::read(&file).expect("the recording"))
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            assert_eq!(run["sha256"], digest.as_str(), "{}", file.display());
            assert_eq!(
                (&run["outcome"], &run["validity"]),
                (&"completed".into(), &"valid".into()),
                "{run}"
            );
        }
    }
}

#[test]
fn only_the_worse_of_two_releases_is_marked_despite_kills() {
    let Some(stage) = Stage::new() else { return };
    stage.killed_when("the first run runs", || stage.entries("step") > 4);
    let reports = || files(&stage.folder.join("page/reports")).len();
    stage.killed_when("the first release is being reported", || reports() > 0);
    stage.killed_when("the second release is being built", || {
        stage.folder.join("programs/1.2.0/get.log").exists()
    });
    stage.killed_when("a run of it has ended", || {
        stage.entries("finished") > 0 && stage.entries("run_ended") > 8
    });
    stopped_between_experiments(&stage);
    let ended = stage.run().wait().expect("an end");
    let from_experiment = fs::read_to_string(stage.scene.path("run.out")).unwrap_or_default();
    assert_eq!(ended.code(), Some(0), "{from_experiment}");
    stage.scene.nothing_is_left();

    let results = stage.results();
    nothing_is_lost(&stage, &results);
    let changes = results["changes"].as_array().expect("changes");
    // Catch-up time has few samples here. A busy host marks it in about one of 80 tests.
    let (catch_up_changes, other_changes): (Vec<&Value>, Vec<&Value>) = changes
        .iter()
        .partition(|change| change["metric"] == "catch-up");
    let marked: Vec<(&Value, &Value)> = other_changes
        .iter()
        .map(|change| (&change["release"], &change["verdict"]))
        .collect();
    assert!(
        !marked.is_empty()
            && marked
                .iter()
                .all(|mark| *mark == (&"1.2.0".into(), &"worse".into())),
        "{changes:#?}"
    );
    let of = |metric: &str| results["groups"][0]["releases"][1]["metrics"][metric].clone();
    for metric in ["replay-p50", "replay-p95"] {
        let ratio = of(metric)["ratio"].as_f64().expect("a ratio");
        assert!((ratio / SLOWER - 1.0).abs() < 0.1, "{metric}: {ratio}");
        assert_eq!(of(metric)["verdict"], "worse");
    }
    if !catch_up_changes.is_empty() {
        eprintln!("SKIPPED: the page and the answers: a busy host marked {catch_up_changes:#?}");
        return;
    }
    page_shows(&stage, changes.len());
    asked(&stage);
}

/// One marked release, and a feed, badges and links that are whole.
fn page_shows(stage: &Stage, changes: usize) {
    let page = fs::read_to_string(stage.folder.join("page/index.html")).expect("a page");
    let rows: Vec<&str> = page
        .split("<tr>")
        .filter(|row| row.contains("class=\"mark "))
        .collect();
    assert!(
        rows.len() == 1 && rows[0].contains("1.2.0") && !rows[0].contains("better"),
        "{rows:?}"
    );
    let feed = fs::read_to_string(stage.folder.join("page/changes.xml")).expect("a feed");
    assert_eq!(feed.matches("<entry>").count(), changes);
    roxmltree::Document::parse(&feed).expect("a feed is XML");
    for badge in files(&stage.folder.join("page/badges")) {
        roxmltree::Document::parse(&fs::read_to_string(badge).expect("a badge"))
            .expect("a badge is XML");
    }
    // Pages write `/` in attributes as an entity.
    let page = page.replace("&#x2f;", "/");
    let links: Vec<&str> = page
        .split("href=\"reports/")
        .skip(1)
        .map(|rest| rest.split('"').next().unwrap_or_default())
        .collect();
    assert!(links.len() >= 2, "{links:?}");
    for link in links {
        assert!(
            stage.folder.join("page/reports").join(link).is_file(),
            "{link}"
        );
    }
}

/// What can be asked of a campaign that is done.
fn asked(stage: &Stage) {
    let code = |words: &[&str]| {
        let output = stage.faultline(words);
        (output.status.code(), said(&output))
    };
    let (worse, words) = code(&["check", "--against", "1.0.0", "--margin", "5"]);
    assert!(
        worse == Some(1) && words.contains("1.2.0 against 1.0.0") && words.contains("worse"),
        "{words}"
    );
    let (fine, words) = code(&["check", "--against", "1.0.0", "--release", "1.1.0"]);
    assert!(
        fine == Some(0) && words.contains("0 metrics worse"),
        "{words}"
    );
    let (worse, words) = code(&["check", "--against", "1.1.0"]);
    assert_eq!(worse, Some(1), "{words}");
    let (fine, words) = code(&["check", "--against", "1.0.0", "--margin", "80"]);
    assert_eq!(fine, Some(0), "{words}");
    let plan = stage.folder.join("plan.toml");
    let text = fs::read_to_string(&plan).expect("a plan");
    for (plan_text, is_current) in [(format!("{text}# changed\n"), false), (text, true)] {
        fs::write(&plan, plan_text).expect("a plan");
        let (_, words) = code(&["check", "--against", "1.0.0"]);
        let note = "the current plan and baseline are not known to have results";
        assert_eq!(words.contains(note), !is_current, "{words}");
    }
    let (_, words) = code(&["status"]);
    assert!(
        words.contains("baseline") && words.matches(" done ").count() == 2,
        "{words}"
    );
    let table = stage.scene.path("results.parquet");
    let (done, words) = code(&["export", "--out", table.to_str().expect("a path")]);
    assert!(
        done == Some(0) && fs::read(&table).expect("a table").starts_with(b"PAR1"),
        "{words}"
    );
    replaced(stage);
    renamed(stage);
    let (refused, words) = code(&["remove", "1.1.0"]);
    assert!(
        refused == Some(1) && words.contains("is in campaign.toml"),
        "{words}"
    );
    assert_eq!(code(&["remove", "1.2.0"]).0, Some(0));
    assert_eq!(stage.results()["changes"], serde_json::json!([]));
}

/// A signal that comes while a round is reported stops the campaign before the next round has ended.
fn stopped_between_experiments(stage: &Stage) {
    let reports = || {
        files(&stage.folder.join("page/reports"))
            .into_iter()
            .map(|path| path.display().to_string())
    };
    let mut child = stage.run();
    eventually(PATIENCE, "the second release is reported", || {
        reports()
            .any(|path| path.ends_with("/1.2.0-1.html"))
            .then_some(())
    });
    let killed = Command::new("kill")
        .args(["-TERM", &child.id().to_string()])
        .status()
        .expect("kill");
    assert!(killed.success());
    let ended = child.wait().expect("an end");
    let from_experiment = fs::read_to_string(stage.scene.path("run.out")).unwrap_or_default();
    assert!(
        ended.code() == Some(1) && from_experiment.contains("the campaign has stopped"),
        "{from_experiment}"
    );
    assert!(
        !reports().any(|path| path.ends_with("/1.2.0-2.html")),
        "{from_experiment}"
    );
}

/// Another file under a version that has its results is refused, by `add` and by the next `run`.
fn replaced(stage: &Stage) {
    let (own, other) = (stage.scene.path("1.1.0"), stage.scene.path("1.0.0"));
    let added = stage.faultline(&["add", "1.2.0", "--path", own.to_str().expect("a path")]);
    assert!(
        added.status.code() == Some(1) && said(&added).contains("another program"),
        "{}",
        said(&added)
    );
    let before = fs::read(&own).expect("a program");
    for (content, code) in [(fs::read(&other).expect("a program"), 1), (before, 0)] {
        fs::write(&own, content).expect("a program");
        let ended = stage.faultline(&["run", "--launcher", "direct"]);
        let words = said(&ended);
        assert!(
            ended.status.code() == Some(code) && words.contains("another program") == (code == 1),
            "{words}"
        );
    }
}

/// A baseline of another name is the same one by its digest: nothing runs again.
fn renamed(stage: &Stage) {
    let settings = stage.folder.join("campaign.toml");
    let text = fs::read_to_string(&settings).expect("settings");
    let other = text.replacen("version = \"1.0.0\"", "version = \"1.0.0+same\"", 1);
    fs::write(&settings, other).expect("settings");
    let runs = stage.entries("run_ended");
    let ended = stage.faultline(&["run", "--launcher", "direct"]);
    assert_eq!(ended.status.code(), Some(0), "{}", said(&ended));
    assert_eq!(stage.entries("run_ended"), runs);
    let results = stage.results();
    assert_eq!(
        results["groups"].as_array().map(Vec::len),
        Some(1),
        "{results:#}"
    );
    assert_eq!(results["groups"][0]["baseline"], "1.0.0+same");
    fs::write(&settings, text).expect("settings");
}

#[test]
fn failed_starts_and_damaged_recordings_are_reported_and_rerun() {
    let Some(stage) = Stage::new() else { return };
    let settings = stage.folder.join("campaign.toml");
    let text = fs::read_to_string(&settings).expect("settings");
    let no_watch = text.split("[watch]").next().unwrap_or_default();
    fs::write(&settings, no_watch).expect("settings");
    let run = || {
        let ended = stage.faultline(&["run", "--launcher", "direct"]);
        (ended.status.code(), said(&ended))
    };
    does_not_start(&stage, &run);
    changed_after_its_result(&stage, &run);

    // Damaged before its round has a result.
    truncate(&stage, 1);
    let database = stage.folder.join("results.db");
    fs::remove_file(&database).expect("results");
    let lost = stage.faultline(&["verify"]);
    let words = said(&lost);
    assert!(
        lost.status.code() == Some(1) && words.contains("results.db: missing or empty"),
        "{words}"
    );
    assert!(!database.exists());
    let (done, words) = run();
    assert_eq!(done, Some(0), "{words}");
    assert!(
        words.contains("both runs of its pair are repeated"),
        "{words}"
    );
    nothing_is_lost(&stage, &stage.results());
}

#[test]
fn a_slower_release_of_another_consensus_is_named_and_not_marked() {
    let Some(stage) = Stage::new() else { return };
    let truth = format!("{TRUTH}alpenglow = true\nslower_permille = 500\n");
    let alpenglow = stage.scene.write("alpenglow", &truth);
    let program = stage.scene.path("1.1.0");
    let text = fs::read_to_string(&program).expect("a program");
    let [same, other] =
        [stage.scene.path("same"), alpenglow].map(|path| path.display().to_string());
    fs::write(&program, text.replace(&same, &other)).expect("a program");
    let settings = stage.folder.join("campaign.toml");
    let text = fs::read_to_string(&settings).expect("settings");
    fs::write(&settings, text.split("[watch]").next().unwrap_or_default()).expect("settings");
    let plan = stage.folder.join("plan.toml");
    let text = fs::read_to_string(&plan).expect("a plan");
    fs::write(&plan, text.replace("\"2s\"", "\"8s\"")).expect("a plan");
    let ended = stage.faultline(&["run", "--launcher", "direct"]);
    assert_eq!(ended.status.code(), Some(0), "{}", said(&ended));
    stage.scene.nothing_is_left();

    let results = stage.results();
    let release = &results["groups"][0]["releases"][0];
    let metrics = &release["metrics"];
    let ratio = metrics["replay-p50"]["ratio"].as_f64().expect("a ratio");
    assert!(ratio > 1.1, "{ratio}");
    assert_eq!(metrics["replay-p50"]["verdict"], "not comparable");
    assert_eq!(metrics["rss-at-tip"]["tested"], true, "{metrics}");
    let by_slot = |change: &&Value| {
        change["metric"]
            .as_str()
            .is_some_and(|id| id.starts_with("replay"))
    };
    let changes = results["changes"].as_array().expect("changes");
    assert_eq!(changes.iter().find(by_slot), None);

    let named = "1.1.0 is not comparable by slot: Alpenglow";
    for words in [&["status"][..], &["check", "--against", "1.0.0"]] {
        let output = stage.faultline(words);
        let words = said(&output);
        assert_eq!(output.status.code(), Some(0), "{words}");
        assert!(
            words.contains(named) && words.contains(", the baseline Tower"),
            "{words}"
        );
    }
    for file in ["index.html", "changes.xml"] {
        let page = fs::read_to_string(stage.folder.join("page").join(file)).expect("a page");
        assert!(page.contains(named), "{file}");
    }
    let badge = stage.folder.join("page/badges/replay-p50.svg");
    let badge = fs::read_to_string(badge).expect("a badge");
    assert!(badge.contains("1.1.0: not comparable"), "{badge}");
}

type Ran = (Option<i32>, String);

fn does_not_start(stage: &Stage, run: &impl Fn() -> Ran) {
    let program = stage.scene.path("1.1.0");
    let text = fs::read_to_string(&program).expect("a program");
    let broken = stage.scene.write("broken", "");
    let fails = format!(
        "#!/bin/sh\n[ ! -e {} ] || {{ echo no such feature; exit 3; }}\n{}",
        broken.display(),
        text.trim_start_matches("#!/bin/sh\n")
    );
    fs::write(&program, fails).expect("a program");
    let (failed, words) = run();
    assert!(
        failed == Some(1)
            && words.contains("1.1.0 did not reach the tip in any of its 3 runs")
            && words.contains("its last line: no such feature"),
        "{words}"
    );
    assert_eq!(stage.results()["without_a_result"][0]["release"], "1.1.0");
    for file in ["index.html", "changes.xml", "badges/replay-p95.svg"] {
        let page = fs::read_to_string(stage.folder.join("page").join(file)).expect("a page");
        assert!(page.contains("1.1.0"), "{file}: {page}");
    }
    fs::remove_file(broken).expect("a file");
    let (done, words) = run();
    assert_eq!(done, Some(0), "{words}");
    assert_eq!(stage.results()["without_a_result"], serde_json::json!([]));
    let status = said(&stage.faultline(&["status"]));
    assert!(!status.contains("failed"), "{status}");
    // A second round follows where the first has shown a difference, as noise does at times.
    let runs = |version: &str| {
        let row = status.lines().find(|line| line.starts_with(version));
        row.and_then(|row| row.split_whitespace().nth(2))
            .map(str::to_owned)
    };
    assert!(runs("1.1.0").is_some_and(|count| count != "0"), "{status}");
    assert_eq!(runs("1.0.0"), runs("1.1.0"), "{status}");
}

fn changed_after_its_result(stage: &Stage, run: &impl Fn() -> Ran) {
    let verify = |words: &[&str]| {
        let output = stage.faultline(words);
        (output.status.code(), said(&output))
    };
    assert_eq!(verify(&["verify"]).0, Some(0));
    let damaged = truncate(stage, 0);
    let (code, words) = verify(&["verify"]);
    assert!(
        code == Some(1) && words.contains(&damaged) && words.contains("it changed: SHA-256"),
        "{words}"
    );
    assert_eq!(run().0, Some(0), "what is not verified stays");
    assert_eq!(verify(&["verify", "--repeat"]).0, Some(1));
    let runs = stage.entries("run_ended");
    let (done, words) = run();
    assert_eq!(done, Some(0), "{words}");
    assert!(stage.entries("run_ended") >= runs + 2, "the pair: {words}");
    let (code, words) = verify(&["verify"]);
    assert_eq!(code, Some(0), "{words}");
    nothing_is_lost(stage, &stage.results());
}

/// Cuts the recording of a release's run in half; its path in the campaign's folder.
fn truncate(stage: &Stage, place: usize) -> String {
    let results = stage.results();
    let runs = results["groups"][0]["releases"][0]["runs"].as_array();
    let own = runs
        .into_iter()
        .flatten()
        .filter(|run| run["arm"] == "release");
    let name = own
        .filter_map(|run| run["recording"].as_str())
        .nth(place)
        .expect("a recording");
    let file = fs::File::options()
        .write(true)
        .open(stage.folder.join(name))
        .expect("a recording");
    let length = file.metadata().expect("a length").len();
    file.set_len(length / 2).expect("a shorter file");
    name.to_owned()
}

/// What one page of it costs decides, and its time is virtual: as in the tests of searches.
const SEARCHED: &str = "anonymous_ms = 500\nslots_per_second = 10\nslot_us = 50000\nfile_mib = 96\nfile_mib_per_second = 0\n\
                        working_set_percent = 50\npages_per_slot = 4000\nmiss_us = 300\nreplays_unseen = true\n";
const SEARCH: &str = "[search]\nwhat = \"memory\"\nfrom = \"52M\"\nsettle = \"1s\"\ndwell = \"2s\"\nmost = \"10m\"\n";

#[test]
#[ignore = "takes five minutes: .ci/run --long"]
fn a_search_campaign_gives_minimum_ram_of_release_and_baseline() {
    let Some(stage) = Stage::new() else { return };
    stage
        .scene
        .write("same", &format!("{SEARCHED}anonymous_mib = 64\n"));
    stage
        .scene
        .write("slower", &format!("{SEARCHED}anonymous_mib = 128\n"));
    let daemon = "[rpc]\ninterval = \"100ms\"\n[phase]\nat_tip_for = \"1s\"\nbehind_slots = 40\nbehind_for = \"1s\"\n";
    stage.scene.write("faultlined.toml", daemon);
    let [plan, settings] = ["plan.toml", "campaign.toml"].map(|name| stage.folder.join(name));
    let text = fs::read_to_string(&plan)
        .expect("a plan")
        .replace("duration = \"2s\"\n", "")
        + SEARCH;
    fs::write(
        plan,
        text.replacen("[workload]", "replicates = 1\n[workload]", 1),
    )
    .expect("a plan");
    let text = fs::read_to_string(&settings).expect("settings");
    let larger = text.replace("/1.1.0\"", "/1.2.0\"");
    fs::write(settings, larger.split("[watch]").next().unwrap_or_default()).expect("settings");
    let ended = stage.run().wait().expect("an end");
    assert_eq!(
        ended.code(),
        Some(0),
        "{}",
        fs::read_to_string(stage.scene.path("run.out")).unwrap_or_default()
    );
    stage.scene.nothing_is_left();
    let results = stage.results();
    let runs = results["groups"][0]["releases"][0]["runs"]
        .as_array()
        .expect("runs");
    let least = |arm: &str| {
        let run = runs.iter().find(|run| run["arm"] == arm).expect("a run");
        run["values"]["least-ram"].as_f64().expect("an answer")
    };
    let (baseline, release) = (least("baseline"), least("release"));
    println!("{baseline} GiB, {release} GiB");
    // They differ by 64 MiB of anonymous memory, and each search by a tenth of its headroom of 48 MiB.
    assert!(
        (release - baseline - 0.0625).abs() < 0.03,
        "{baseline} GiB, {release} GiB"
    );
    assert_eq!(results["changes"], serde_json::json!([]));
}
