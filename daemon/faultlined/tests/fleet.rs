//! Real daemons, an agent and both kinds of centre, with the configurations of `grafana/prometheus/fleet`: an outage of
//! both centres in which the agent is restarted loses no sample.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test that cannot prepare its scene fails"
)]

use faultline_testkit::Result;
use faultline_testkit::binaries::{NO_VICTORIAMETRICS_MESSAGE, in_search_path, victoriametrics};
use faultline_testkit::daemon::Daemon;
use faultline_testkit::eventually::{eventually, eventually_ok};
use faultline_testkit::http::Request;
use faultline_testkit::ports::PortBlock;
use faultline_testkit::process::{Program, Running, run_to_success, signal};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

#[path = "fleet/discovery.rs"]
mod discovery;
#[path = "fleet/upload.rs"]
mod upload;

const HOSTS: usize = 3;
const TIMEOUT: Duration = Duration::from_secs(120);
/// `fleet:secret`.
const LOGIN: &str = "Basic ZmxlZXQ6c2VjcmV0";

/// A shipped file with other values.
fn shipped(name: &str, changes: &[(&str, &str)]) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(name);
    let text = fs::read_to_string(file).expect("a shipped file");
    changes.iter().fold(text, |text, (from, to)| {
        assert!(text.contains(from), "{name} has no {from}");
        text.replace(from, to)
    })
}

/// The lines of a shipped environment file.
fn environment(text: &str) -> Vec<(String, Option<String>)> {
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| (name.to_owned(), Some(value.to_owned())))
        .collect()
}

/// Ends a program by SIGTERM.
fn stop(mut running: Running) {
    signal(running.pid(), "TERM").expect("kill");
    eventually(TIMEOUT, "it ends", || running.exit_status().ok().flatten());
}

/// The only number that a query yields, now.
fn query(centre: &str, expression: &str) -> std::result::Result<f64, String> {
    let encoded: String = expression.bytes().map(|b| format!("%{b:02X}")).collect();
    let response = Request::new("GET", &format!("/api/v1/query?query={encoded}"))
        .header("Authorization", LOGIN)
        .timeout(TIMEOUT)
        .send(centre)
        .map_err(|error| error.to_string())?;
    let answer: Value = serde_json::from_slice(&response.body).map_err(|_| response.text())?;
    let value = answer["data"]["result"][0]["value"][1].as_str();
    value
        .and_then(|value| value.parse().ok())
        .ok_or_else(|| format!("{centre} {expression}: {answer}"))
}

struct Fleet {
    folder: tempfile::TempDir,
    ports: PortBlock,
    programs: [PathBuf; 3],
}

impl Fleet {
    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn address(&self, index: u16) -> String {
        format!("127.0.0.1:{}", self.ports.port(index))
    }

    fn start(
        &self,
        program: &Path,
        arguments: Vec<String>,
        environment: Vec<(String, Option<String>)>,
    ) -> Running {
        let started = Running::start(&Program {
            path: program.to_owned(),
            arguments,
            environment,
            output: self.folder.path().join("programs.log"),
        });
        started.expect("it starts")
    }

    fn start_daemons(&self) -> Result<Vec<Daemon>> {
        let start = |number: usize| {
            let folder = self.folder.path().join(number.to_string());
            fs::create_dir(&folder).expect("a folder");
            Daemon::start(env!("CARGO_BIN_EXE_faultlined"), &["--demo"], &folder)
        };
        (0..HOSTS).map(start).collect()
    }

    /// Port 1 is VictoriaMetrics by TLS, 2 the same without, 3 Prometheus.
    fn start_centres(&self) -> [Running; 2] {
        let text = shipped(
            "grafana/prometheus/fleet/victoria-metrics.env",
            &[
                (
                    ":8443,127.0.0.1:8428",
                    &format!("{},{}", self.address(1), self.address(2)),
                ),
                ("/etc/faultline/", &self.path("")),
                (
                    "/var/lib/faultline-victoria-metrics",
                    &self.path("victoria"),
                ),
            ],
        );
        let flags = ["-envflag.enable", "-search.latencyOffset=1s"].map(str::to_owned);
        let victoria = self.start(&self.programs[1], flags.into(), environment(&text));
        let arguments = vec![
            format!("--config.file={}", self.path("prometheus-centre.yml")),
            format!("--storage.tsdb.path={}", self.path("prometheus")),
            format!("--web.listen-address={}", self.address(3)),
            "--web.enable-remote-write-receiver".to_owned(),
        ];
        [
            victoria,
            self.start(&self.programs[2], arguments, Vec::new()),
        ]
    }

    /// By the command of the unit.
    fn start_agent(&self) -> Running {
        let unit = shipped(
            "systemd/system/faultline-vmagent.service",
            &[
                ("127.0.0.1:8429", &self.address(4)),
                ("/etc/faultline/", &self.path("")),
                ("/var/lib/faultline-vmagent", &self.path("queue")),
            ],
        );
        let command = unit
            .lines()
            .find_map(|line| line.strip_prefix("ExecStart="));
        let words = command.expect("a command").split(' ').skip(1);
        let mut arguments: Vec<String> = words.map(str::to_owned).collect();
        arguments.push("-remoteWrite.retryMaxInterval=2s".to_owned());
        let urls = format!(
            "https://{}/api/v1/write,http://{}/api/v1/write",
            self.address(1),
            self.address(3)
        );
        let text = shipped(
            "grafana/prometheus/fleet/vmagent.env",
            &[
                ("https://centre.example:8443/api/v1/write", &urls),
                ("centre-ca.crt", "centre.crt"),
                ("/etc/faultline/", &self.path("")),
            ],
        );
        self.start(&self.programs[0], arguments, environment(&text))
    }

    /// How often the agent says that it has scraped since it started.
    fn scrapes(&self) -> f64 {
        let page = Request::new("GET", "/metrics").send(&self.address(4));
        let page = page.expect("the agent's page").text();
        let mut lines = page.lines();
        let count = lines.find_map(|line| {
            line.strip_prefix("vm_promscrape_scrapes_total{status_code=\"200\"} ")
        });
        count.expect("a count").parse().expect("a number")
    }

    fn write_configurations(&self, daemons: &[Daemon]) -> Result<()> {
        let targets: String = daemons
            .iter()
            .enumerate()
            .map(|(number, daemon)| {
                let address = daemon.metrics();
                format!(
                    "      - targets: [\"{address}\"]\n        labels: {{ instance: v{number} }}\n"
                )
            })
            .collect();
        let one = "      - targets: [\"127.0.0.1:9912\"]\n        labels: { instance: fra1-validator-1, hardware: unnamed }\n";
        let agent = shipped(
            "grafana/prometheus/fleet/vmagent.yml",
            &[
                (one, &targets),
                ("scrape_interval: 5s", "scrape_interval: 1s"),
                ("127.0.0.1:8429", &self.address(4)),
            ],
        );
        let centre = shipped("grafana/prometheus/fleet/prometheus-centre.yml", &[]);
        for (name, text) in [
            ("vmagent.yml", agent.as_str()),
            ("prometheus-centre.yml", &centre),
            ("centre-password", "secret"),
        ] {
            fs::write(self.path(name), text).expect("a file");
        }
        let [key, certificate] = ["centre.key", "centre.crt"].map(|name| self.path(name));
        let words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=centre \
            -addext subjectAltName=IP:127.0.0.1";
        let mut words: Vec<&str> = words.split_whitespace().collect();
        words.extend(["-keyout", &key, "-out", &certificate]);
        run_to_success(Path::new("openssl"), &words)
    }
}

#[test]
#[ignore = "takes a minute; part of .ci/run --long"]
fn an_outage_of_the_centres_and_a_restart_of_the_agent_lose_no_sample() -> Result<()> {
    let found = [
        victoriametrics("vmagent"),
        victoriametrics("victoria-metrics"),
        in_search_path("prometheus"),
        in_search_path("openssl"),
    ];
    let [Some(agent), Some(victoria), Some(prometheus), Some(_)] = found else {
        eprintln!("{NO_VICTORIAMETRICS_MESSAGE}; it also needs prometheus and openssl");
        return Ok(());
    };
    let fleet = Fleet {
        folder: tempfile::tempdir().expect("a folder"),
        ports: PortBlock::claim(21_000)?,
        programs: [agent, victoria, prometheus],
    };
    let daemons = fleet.start_daemons()?;
    fleet.write_configurations(&daemons)?;
    let centres = fleet.start_centres();
    let agent = fleet.start_agent();
    let addresses = [fleet.address(2), fleet.address(3)];
    let every_up = "sum(count_over_time(up{site='fra1',host='validator-1'}[1h]))";
    for centre in &addresses {
        eventually_ok(TIMEOUT, "samples arrive", || {
            match query(centre, every_up) {
                Ok(count) if count >= 30.0 => Ok(()),
                other => Err(other),
            }
        });
    }

    centres.into_iter().for_each(stop);
    sleep(Duration::from_secs(10));
    let before = fleet.scrapes();
    stop(agent);
    let _agent = fleet.start_agent();
    sleep(Duration::from_secs(10));
    let _centres = fleet.start_centres();
    sleep(Duration::from_secs(10));
    let scraped = before + fleet.scrapes();
    let moment = query(&addresses[1], "vector(time())").expect("a time");
    let counts = addresses.map(|centre| {
        // Samples arrive in order.
        eventually_ok(TIMEOUT, "newer samples arrive", || {
            match query(&centre, "max(timestamp(up))") {
                Ok(newest) if newest > moment + 3.0 => Ok(()),
                other => Err(other),
            }
        });
        // The first and the last series of a page are in different blocks.
        [
            "count_over_time(up{site='fra1',host='validator-1'}",
            "sum_over_time(up{job='faultline'}",
            "count_over_time(agave_up",
            "count_over_time(faultline_ticks_total",
        ]
        .map(|call| query(&centre, &format!("sum({call}[1h] @ {moment}))")).expect("a count"))
    });
    println!("{scraped} scrapes by the agent's count; at each centre: {counts:?}");
    assert_eq!(counts[0], counts[1]);
    let [arrived, successes, first, last] = counts[0];
    assert!(arrived >= scraped);
    assert_eq!([successes; 2], [first, last]);
    Ok(())
}
