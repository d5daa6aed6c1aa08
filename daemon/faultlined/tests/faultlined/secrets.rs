//! Passwords that the daemon is given or reads. None may appear in its pages, files or log.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot prepare its scene fails"
)]
#![expect(clippy::disallowed_methods, reason = "a test starts programs itself")]

use faultline_testkit::{
    eventually::eventually_ok,
    http::Request,
    process,
    sink::{ResponseMode, Sink},
};
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

const FAULTLINED: &str = env!("CARGO_BIN_EXE_faultlined");
const PATIENCE: Duration = Duration::from_secs(60);

/// The password of the validator's pushes.
const PUSH: &str = "pushed-with-4c1d";
/// A wrong password.
const GUESS: &str = "guessed-77aa";
/// The password of the upstream.
const UPSTREAM: &str = "upstream-90ce";
/// The password of the scraper `alice`.
const SCRAPE: &str = "scraped-with-b3f1";
/// A secret on the command line of the followed process, and one in its environment.
const ARGUMENT: &str = "argument-51d0";
const VARIABLE: &str = "variable-e82b";

/// Kills the process when dropped.
struct Kill(Child);

impl Drop for Kill {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The `Authorization` header of `alice`.
fn authorization() -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let encode = |chunk: &[u8]| {
        let bits = (0..3).fold(0_usize, |bits, at| {
            bits << 8 | usize::from(chunk.get(at).copied().unwrap_or(0))
        });
        let digit = |at: usize| {
            if at > chunk.len() {
                '='
            } else {
                char::from(DIGITS[bits >> (18 - 6 * at) & 63])
            }
        };
        (0..4).map(digit).collect::<String>()
    };
    let encoded: String = format!("alice:{SCRAPE}")
        .as_bytes()
        .chunks(3)
        .map(encode)
        .collect();
    format!("Basic {encoded}")
}

fn write(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, text).expect("a file");
    path.display().to_string()
}

fn configuration(folder: &Path, upstream: &str, hash: &str) -> String {
    let push = write(folder, "push", PUSH);
    let forward = write(folder, "upstream", UPSTREAM);
    let web = write(
        folder,
        "web.yml",
        &format!("basic_auth_users:\n  alice: {hash}\n"),
    );
    let (record, flight) = (folder.join("out/run.fltl"), folder.join("out/flight"));
    let text = format!(
        "[metrics]\nlisten = \"127.0.0.1:0\"\nweb_config = {web:?}\n\
         [ingest]\nlisten = \"127.0.0.1:0\"\ndb = \"d\"\nuser = \"u\"\npassword_file = {push:?}\n\
         [forward]\nurl = {upstream:?}\ndb = \"d\"\nuser = \"u\"\npassword_file = {forward:?}\ngive_up_after = \"1s\"\n\
         [record]\nfile = {record:?}\n[flight]\nfolder = {flight:?}\n[sampling]\ninterval = \"100ms\"\n"
    );
    write(folder, "c.toml", &text)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        if entry.path().is_dir() {
            found.extend(files(&entry.path()))
        } else {
            found.push(entry.path())
        }
    }
    found
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes
        .windows(text.len())
        .any(|window| window == text.as_bytes())
}

/// A daemon with passwords of every kind.
struct Scene {
    folder: tempfile::TempDir,
    upstream: Sink,
    hash: String,
    config: String,
    _followed: Kill,
    daemon: Kill,
}

impl Scene {
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("out")).expect("a folder");
        let upstream = Sink::start().expect("an upstream");
        upstream.set_response_mode(ResponseMode::Answer(401));
        let hash = bcrypt::hash(SCRAPE, 4).expect("a hash");
        let config = configuration(folder.path(), &upstream.url(), &hash);
        let followed = Command::new("sh")
            .args([
                "-c",
                "while :; do sleep 1; done",
                "sh",
                "--rpc-token",
                ARGUMENT,
            ])
            .env(
                "SOLANA_METRICS_CONFIG",
                format!("host=http://127.0.0.1:9,db=d,u=u,p={VARIABLE}"),
            )
            .env("API_TOKEN", VARIABLE)
            .stdin(Stdio::null())
            .spawn();
        let followed = Kill(followed.expect("a process"));
        let daemon = Command::new(FAULTLINED)
            .args([
                "run",
                "--config",
                &config,
                "--pid",
                &followed.0.id().to_string(),
            ])
            .env("FAULTLINE_LOG", "trace")
            .stderr(File::create(folder.path().join("log")).expect("a log"))
            .spawn();
        Self {
            folder,
            upstream,
            hash,
            config,
            _followed: followed,
            daemon: Kill(daemon.expect("the daemon")),
        }
    }

    fn log_text(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// An address on which the daemon listens, from its log.
    fn address(&self, key: &str) -> String {
        eventually_ok(PATIENCE, "it says where it listens", || {
            let log_text = self.log_text();
            let line = log_text
                .lines()
                .find(|line| line.contains("listening metrics="))
                .map(str::to_owned);
            let rest = line.and_then(|line| line.split_once(key).map(|(_, rest)| rest.to_owned()));
            rest.and_then(|rest| rest.split_whitespace().next().map(str::to_owned))
                .ok_or(log_text)
        })
    }

    fn push(&self) {
        let ingest = self.address("ingest=");
        for (password, status) in [(PUSH, 204), (GUESS, 401)] {
            let push = Request::new("POST", &format!("/write?db=d&u=u&p={password}&precision=n"));
            assert_eq!(
                push.body(b"x,host_id=A a=1i 1\n")
                    .send(&ingest)
                    .expect("an answer")
                    .status,
                status
            );
        }
    }

    /// Every page, with and without the password.
    fn pages(&self) -> Vec<(String, Vec<u8>)> {
        let metrics = self.address("metrics=");
        let ask = |method: &str, path: &str, authorization: &str| {
            Request::new(method, path)
                .header("Authorization", authorization)
                .send(&metrics)
                .expect("an answer")
        };
        eventually_ok(
            PATIENCE,
            "the upstream has refused, and a process is followed",
            || {
                let page = ask("GET", "/metrics", &authorization()).text();
                let is_there = |name: &str| {
                    page.lines()
                        .any(|line| line.starts_with(name) && !line.ends_with(" 0"))
                };
                let refused = is_there("faultline_forward_bytes_total{result=\"refused\"}");
                if refused && is_there("agave_process_threads") {
                    Ok(())
                } else {
                    Err(page)
                }
            },
        );
        let pages = [
            "/metrics", "/", "/status", "/healthz", "/readyz", "/nothing",
        ]
        .map(|path| ("GET", path));
        let orders = [("POST", "/mark?name=x"), ("POST", "/flight/save")];
        let mut shown = Vec::new();
        for (method, path) in pages.into_iter().chain(orders) {
            for who in [authorization(), format!("Basic {GUESS}")] {
                shown.push((
                    format!("{method} {path}"),
                    ask(method, path, &who).text().into_bytes(),
                ));
            }
        }
        shown
    }

    /// Output after the daemon's end: its log, its files, and the output of commands that read its
    /// configuration.
    fn left(&mut self) -> Vec<(String, Vec<u8>)> {
        process::signal(self.daemon.0.id(), "TERM").expect("a signal");
        assert!(
            self.daemon.0.wait().expect("its end").success(),
            "{}",
            self.log_text()
        );
        let written_files = files(&self.folder.path().join("out"));
        assert!(
            written_files.len() >= 2,
            "a recording and the flight recorder's: {written_files:?}"
        );
        let checked = Command::new(FAULTLINED)
            .args(["check-config", "--config", &self.config])
            .output();
        let checked = checked.expect("the daemon");
        let mut left = vec![(
            "check-config".to_owned(),
            [checked.stdout, checked.stderr].concat(),
        )];
        left.push(("the log".to_owned(), self.log_text().into_bytes()));
        left.extend(
            written_files
                .iter()
                .map(|path| (path.display().to_string(), fs::read(path).expect("a file"))),
        );
        left
    }
}

#[test]
fn no_secret_is_in_a_page_a_recording_or_the_log() {
    let mut scene = Scene::start();
    scene.push();
    let mut shown = scene.pages();
    shown.extend(scene.left());
    let encoded = authorization();
    let encoded = encoded.trim_start_matches("Basic ");
    for (what, bytes) in &shown {
        for secret in [
            PUSH,
            GUESS,
            UPSTREAM,
            SCRAPE,
            ARGUMENT,
            VARIABLE,
            &scene.hash,
            encoded,
        ] {
            assert!(
                !holds(bytes, secret),
                "{secret} is in {what}: {}",
                String::from_utf8_lossy(bytes)
            );
        }
    }
    // Checks that every password was used.
    assert!(
        scene
            .upstream
            .find_map(|arrival| arrival.target.contains(UPSTREAM).then_some(()))
            .is_some()
    );
    assert!(
        shown
            .iter()
            .any(|(what, bytes)| what.ends_with("run.fltl") && holds(bytes, "--rpc-token"))
    );
    assert!(
        shown
            .iter()
            .any(|(what, bytes)| what == "GET /metrics" && holds(bytes, "faultline_ticks_total"))
    );
}
