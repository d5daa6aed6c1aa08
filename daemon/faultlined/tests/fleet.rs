//! Real daemons and agents with both kinds of central server, in the configurations of
//! `grafana/prometheus/fleet`. No outage of a central server or of a link may lose a sample.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test that cannot prepare its scene fails; it reads clocks"
)]

use faultline_testkit::{
    Result,
    alertmanager::Alertmanager,
    binaries::{NO_VICTORIAMETRICS_MESSAGE, in_search_path, victoriametrics},
    daemon::Daemon,
    eventually::eventually,
    http,
    ports::PortBlock,
    process::{Program, Running, run_to_success, signal},
};
use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

#[path = "fleet/costs.rs"]
mod costs;
#[path = "fleet/discovery.rs"]
mod discovery;
#[path = "fleet/link.rs"]
mod link;
#[path = "fleet/outages.rs"]
mod outages;
#[path = "fleet/pages.rs"]
mod pages;
#[path = "fleet/samples.rs"]
mod samples;
#[path = "fleet/upload.rs"]
mod upload;

const TIMEOUT: Duration = Duration::from_secs(300);
/// `fleet:secret` for HTTP basic authentication.
const LOGIN: &str = "Basic ZmxlZXQ6c2VjcmV0";
const SITES: [&str; 3] = ["fra1", "ams1", "nyc1"];

/// Milliseconds since 1970.
fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.expect("a clock").as_millis() as i64
}

/// A shipped file with some values replaced.
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

/// The variables of a shipped environment file.
fn environment(text: &str) -> Vec<(String, Option<String>)> {
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| (name.to_owned(), Some(value.to_owned())))
        .collect()
}

/// Stops programs with SIGTERM, all at the same time.
fn stop(mut programs: Vec<Running>) {
    for program in &programs {
        signal(program.pid(), "TERM").expect("kill");
    }
    for program in &mut programs {
        eventually(TIMEOUT, "it ends", || program.exit_status().ok().flatten());
    }
}

/// The site of a host. Host 7 is `host-007` in `ams1`, and its validator is `ams1-007`.
fn site(number: usize) -> &'static str {
    SITES[number % SITES.len()]
}

struct Agent {
    site: &'static str,
    /// The host of the agent. `None` if the agent scrapes several hosts: then their targets have
    /// the label.
    host: Option<usize>,
    /// Number of the host, address and path.
    targets: Vec<(usize, String, String)>,
    interval: Duration,
    /// `host:port` of VictoriaMetrics with TLS, and of Prometheus.
    centres: [String; 2],
}

struct Fleet {
    folder: tempfile::TempDir,
    ports: PortBlock,
    /// vmagent, VictoriaMetrics, Prometheus, vmalert.
    programs: [PathBuf; 4],
    /// Those of VictoriaMetrics and of Prometheus.
    alertmanagers: [Alertmanager; 2],
    /// Factor of the rules' intervals. A shorter run has shorter intervals.
    scale: f64,
    hosts: usize,
}

impl Fleet {
    /// `None` if a program is missing. The `for` of the fleet's alerts is shortened to two minutes.
    /// A query finds samples of the last 90 s instead of five minutes.
    fn new(scale: f64, hosts: usize) -> Result<Option<Self>> {
        let found = [
            victoriametrics("vmagent"),
            victoriametrics("victoria-metrics"),
            in_search_path("prometheus"),
            victoriametrics("vmalert"),
        ];
        let others = in_search_path("openssl").is_some() && Alertmanager::is_installed();
        let ([Some(agent), Some(victoria), Some(prometheus), Some(vmalert)], true) =
            (found, others)
        else {
            eprintln!(
                "{NO_VICTORIAMETRICS_MESSAGE}; \
                 it also needs prometheus, prometheus-alertmanager and openssl"
            );
            return Ok(None);
        };
        let configuration = shipped("grafana/prometheus/alertmanager.yml", &[]);
        let fleet = Self {
            folder: tempfile::tempdir().expect("a folder"),
            ports: PortBlock::claim(21_000)?,
            programs: [agent, victoria, prometheus, vmalert],
            alertmanagers: [
                Alertmanager::start(&configuration)?,
                Alertmanager::start(&configuration)?,
            ],
            scale,
            hosts,
        };
        fleet.write_centres()?;
        Ok(Some(fleet))
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("a file");
    }

    /// Port 1 is VictoriaMetrics with TLS, 2 is the same without TLS, 3 is Prometheus, and 4 is
    /// vmalert. Agents begin at 10.
    fn address(&self, index: usize) -> String {
        format!("127.0.0.1:{}", self.ports.port(index as u16))
    }

    /// `seconds` of the full run, scaled to the length of this run.
    fn scaled(&self, seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds * self.scale)
    }

    fn start_daemon(&self, number: usize) -> Result<Daemon> {
        let folder = self.folder.path().join(format!("daemon-{number}"));
        fs::create_dir(&folder).expect("a folder");
        Daemon::start(env!("CARGO_BIN_EXE_faultlined"), &["--demo"], &folder)
    }

    fn start(
        &self,
        program: usize,
        name: &str,
        arguments: Vec<String>,
        environment: Vec<(String, Option<String>)>,
    ) -> Running {
        let started = Running::start(&Program {
            path: self.programs[program].clone(),
            arguments,
            environment,
            output: self.folder.path().join(format!("{name}.log")),
        });
        started.expect("it starts")
    }

    fn start_victoria(&self) -> Running {
        let listeners = format!("{},{}", self.address(1), self.address(2));
        let changes: [(&str, &str); 3] = [
            (":8443,127.0.0.1:8428", &listeners),
            ("/etc/faultline/", &self.path("")),
            (
                "/var/lib/faultline-victoria-metrics",
                &self.path("victoria"),
            ),
        ];
        let text = shipped("grafana/prometheus/fleet/victoria-metrics.env", &changes);
        let flags = ["-envflag.enable", "-search.latencyOffset=1s"].map(str::to_owned);
        self.start(1, "victoria", flags.into(), environment(&text))
    }

    fn start_prometheus(&self) -> Running {
        let arguments = vec![
            format!("--config.file={}", self.path("prometheus-centre.yml")),
            format!("--storage.tsdb.path={}", self.path("prometheus")),
            format!("--web.listen-address={}", self.address(3)),
            format!("--query.lookback-delta={}ms", self.lookback()),
            "--web.enable-remote-write-receiver".to_owned(),
            "--web.enable-admin-api".to_owned(),
        ];
        self.start(2, "prometheus", arguments, Vec::new())
    }

    fn start_vmalert(&self) -> Running {
        let rules = self.path("metricsql/*.yml");
        let changes: [(&str, &str); 4] = [
            ("127.0.0.1:8880", &self.address(4)),
            ("/etc/faultline/rules/*.yml", &rules),
            ("/etc/faultline/", &self.path("")),
            ("127.0.0.1:8428", &self.address(2)),
        ];
        let text = shipped("grafana/prometheus/fleet/vmalert.env", &changes);
        let arguments = vec![
            "-envflag.enable".to_owned(),
            format!("-datasource.queryStep={}ms", self.lookback()),
            "-rule.evalDelay=1s".to_owned(),
        ];
        self.start(3, "vmalert", arguments, environment(&text))
    }

    fn lookback(&self) -> u128 {
        self.scaled(90.0).as_millis()
    }

    /// Starts an agent with the command of the systemd unit.
    fn start_agent(&self, number: usize, agent: &Agent) -> Running {
        let address = self.address(10 + number);
        self.write(
            &format!("agent-{number}.yml"),
            &agent.configuration(&address),
        );
        let configuration = format!("{}agent-{number}.yml", self.path(""));
        let changes: [(&str, &str); 3] = [
            ("127.0.0.1:8429", &address),
            ("/etc/faultline/vmagent.yml", &configuration),
            (
                "/var/lib/faultline-vmagent",
                &self.path(&format!("queue-{number}")),
            ),
        ];
        let unit = shipped("systemd/system/faultline-vmagent.service", &changes);
        let command = unit
            .lines()
            .find_map(|line| line.strip_prefix("ExecStart="));
        let words = command.expect("a command").split(' ').skip(1);
        let mut arguments: Vec<String> = words.map(str::to_owned).collect();
        arguments.push("-remoteWrite.retryMaxInterval=2s".to_owned());
        let [victoria, prometheus] = &agent.centres;
        let urls = format!("https://{victoria}/api/v1/write,http://{prometheus}/api/v1/write");
        let changes: [(&str, &str); 3] = [
            ("https://centre.example:8443/api/v1/write", &urls),
            ("centre-ca.crt", "centre.crt"),
            ("/etc/faultline/", &self.path("")),
        ];
        let text = shipped("grafana/prometheus/fleet/vmagent.env", &changes);
        let name = format!("agent-{number}");
        self.start(0, &name, arguments, environment(&text))
    }

    /// A value of the agent's own metrics.
    fn agent_number(&self, number: usize, name: &str) -> Option<f64> {
        let page = http::get(&self.address(10 + number), "/metrics")
            .ok()?
            .text();
        let mut lines = page.lines();
        lines.find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
    }

    /// Writes the configurations of both central servers, their rules and the certificate.
    fn write_centres(&self) -> Result<()> {
        let centre = shipped(
            "grafana/prometheus/fleet/prometheus-centre.yml",
            &[
                ("127.0.0.1:9093", self.alertmanagers[1].address()),
                ("127.0.0.1:9090", &self.address(3)),
            ],
        );
        self.write("prometheus-centre.yml", &centre);
        let notifiers = shipped(
            "grafana/prometheus/fleet/vmalert-notifiers.yml",
            &[("127.0.0.1:9093", self.alertmanagers[0].address())],
        );
        self.write("vmalert-notifiers.yml", &notifiers);
        self.write("centre-password", "secret");
        let expected: String = (0..self.hosts)
            .map(|number| {
                let site = site(number);
                format!(
                    "      - {{ record: fleet_host_expected, expr: vector(1), \
                     labels: {{ site: {site}, host: host-{number:03} }} }}\n"
                )
            })
            .collect();
        for folder in ["rules", "metricsql"] {
            fs::create_dir(self.path(folder)).expect("a folder");
            for name in ["faultline.alerts.yml", "faultline.recording.yml"] {
                let text = self.shorten_rules(&shipped(
                    &format!("grafana/prometheus/{folder}/{name}"),
                    &[],
                ));
                self.write(&format!("{folder}/{name}"), &text);
            }
            let hosts = shipped("grafana/prometheus/fleet/hosts.yml", &[]);
            let (head, _) = hosts.split_once("      - {").expect("a host");
            let text = self.shorten_rules(&format!("{head}{expected}"));
            self.write(&format!("{folder}/hosts.yml"), &text);
        }
        let [key, certificate] = ["centre.key", "centre.crt"].map(|name| self.path(name));
        let words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 \
            -subj /CN=centre -addext subjectAltName=IP:127.0.0.1";
        let mut words: Vec<&str> = words.split_whitespace().collect();
        words.extend(["-keyout", &key, "-out", &certificate]);
        run_to_success(Path::new("openssl"), &words)
    }

    /// Sets the `for` of the fleet's alerts to two minutes. Intervals of the rules scale with the
    /// run.
    fn shorten_rules(&self, rules: &str) -> String {
        let interval = format!("interval: {}ms", self.scaled(15.0).as_millis());
        let shorter = format!("for: {}ms", self.scaled(120.0).as_millis());
        let rules = rules.replace("interval: 15s", &interval);
        let mut parts = rules.split("alert: Fleet");
        let mut text = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            text += "alert: Fleet";
            text += &part.replacen("for: 15m", &shorter, 1);
        }
        text
    }
}

impl Agent {
    fn configuration(&self, address: &str) -> String {
        let target = |(number, address, path): &(usize, String, String)| {
            let labels = format!(
                "host: host-{number:03}, instance: {}-{number:03}, __metrics_path__: {path}",
                self.site
            );
            format!("      - targets: [\"{address}\"]\n        labels: {{ {labels} }}\n")
        };
        let targets: String = self.targets.iter().map(target).collect();
        let one = "      - targets: [\"127.0.0.1:9912\"]\n        \
                   labels: { instance: fra1-validator-1, hardware: unnamed }\n";
        let host = self.host.map_or_else(
            || "agent: collector".to_owned(),
            |number| format!("host: host-{number:03}"),
        );
        let interval = format!("scrape_interval: {}ms", self.interval.as_millis());
        shipped(
            "grafana/prometheus/fleet/vmagent.yml",
            &[
                (one, &targets),
                ("scrape_interval: 5s", &interval),
                ("127.0.0.1:8429", address),
                ("site: fra1", &format!("site: {}", self.site)),
                ("host: validator-1", &host),
            ],
        )
    }
}
