//! A real Prometheus that scrapes the targets of a test.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    io::Write as _,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::PathBuf,
    process::{Command, Stdio},
    time::Duration,
};

use serde_json::Value;

use crate::{
    Error, Result, binaries,
    eventually::{Condition, wait_for},
    http,
    process::{Program, Running},
};

/// What to print when a test is skipped because there is no Prometheus.
pub const SKIP_MESSAGE: &str =
    "SKIPPED: no prometheus or no promtool in PATH (Debian package: prometheus)";

const STARTS_WITHIN: Duration = Duration::from_secs(60);
/// A query over a whole day takes seconds.
const QUERY_TIMEOUT: Duration = Duration::from_secs(60);

/// Targets, rules and intervals.
#[derive(Debug, Clone, Default)]
pub struct PrometheusOptions {
    /// Scraped at `/metrics` under the job `faultline`.
    pub targets: Vec<SocketAddr>,
    /// A label for each target, in their order; further targets have none.
    pub labels: Vec<(String, String)>,
    /// Files that name targets, as `file_sd_configs` reads them, each scraped under the job `faultline-experiment`.
    pub target_files: Vec<PathBuf>,
    /// Asks for protobuf and keeps native histograms (Prometheus 2.40 and newer).
    pub native_histograms: bool,
    /// Recording and alert rules.
    pub rule_files: Vec<PathBuf>,
    /// Where alerts are sent.
    pub alertmanager: Option<String>,
    /// Seconds between scrapes, and between evaluations of groups without an interval; `None`: one.
    pub interval: Option<u32>,
    /// The folder of the database, which may already have blocks; `None`: a new one.
    pub storage: Option<PathBuf>,
    /// Further arguments of its command line.
    pub arguments: Vec<String>,
}

/// One series of an answer: labels (the name as `__name__`) and value.
pub type Series = (BTreeMap<String, String>, f64);

/// Labels of a series, and its samples (seconds since 1970, value).
pub type TimeSeries = (BTreeMap<String, String>, Vec<(f64, f64)>);

/// A rule that Prometheus has loaded.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// The name of the alert, or of the series that it records.
    pub name: String,
    pub expression: String,
    /// Whether it is an alert; otherwise it records a series.
    pub is_alert: bool,
    /// Seconds for which the expression of an alert must hold before it fires: its `for`.
    pub for_seconds: f64,
    /// Seconds between two evaluations.
    pub interval: f64,
    /// Labels that the rule adds.
    pub labels: BTreeMap<String, String>,
}

/// A running Prometheus; killed when dropped.
#[derive(Debug)]
pub struct Prometheus {
    running: Running,
    address: String,
    _folder: tempfile::TempDir,
}

impl Prometheus {
    /// Whether `prometheus` and `promtool` are in `PATH`.
    pub fn is_installed() -> bool {
        binaries::in_search_path("prometheus").is_some()
            && binaries::in_search_path("promtool").is_some()
    }

    /// Starts it and waits until it is ready. See [`Prometheus::wait_until_up`] for the first scrape.
    ///
    /// # Errors
    /// [`Error::Missing`] with [`SKIP_MESSAGE`]; [`Error::Ended`] when it refuses its configuration; [`Error::Late`].
    pub fn start(options: &PrometheusOptions) -> Result<Self> {
        let path = binaries::in_search_path("prometheus")
            .ok_or_else(|| Error::Missing(SKIP_MESSAGE.to_owned()))?;
        let folder = tempfile::tempdir().map_err(Error::file(&std::env::temp_dir()))?;
        let config = folder.path().join("prometheus.yml");
        std::fs::write(&config, config_text(options)).map_err(Error::file(&config))?;
        let address = format!("127.0.0.1:{}", free_port()?);
        let storage = options
            .storage
            .clone()
            .unwrap_or_else(|| folder.path().join("data"));
        let mut arguments = vec![
            format!("--config.file={}", config.display()),
            format!("--storage.tsdb.path={}", storage.display()),
            format!("--web.listen-address={address}"),
            "--log.level=warn".to_owned(),
        ];
        if options.native_histograms {
            arguments.push("--enable-feature=native-histograms".to_owned());
        }
        arguments.extend_from_slice(&options.arguments);
        let output = folder.path().join("prometheus.out");
        let mut running = Running::start(&Program {
            path,
            arguments,
            environment: Vec::new(),
            output,
        })?;
        wait_for(STARTS_WITHIN, "prometheus is ready", || {
            running.check()?;
            Ok(match http::get(&address, "/-/ready") {
                Ok(response) if response.status == 200 => Condition::Ready(()),
                Ok(response) => Condition::NotYet(response.text()),
                Err(error) => Condition::NotYet(error.to_string()),
            })
        })?;
        Ok(Self {
            running,
            address,
            _folder: folder,
        })
    }

    /// Waits until a scrape of every target has succeeded.
    ///
    /// # Errors
    /// [`Error::Late`] with the targets' last scrape errors.
    pub fn wait_until_up(&mut self, deadline: Duration) -> Result<()> {
        wait_for(deadline, "prometheus has scraped every target", || {
            self.running.check()?;
            let answer = self.get("/api/v1/targets?state=active")?;
            let targets = answer["activeTargets"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            let up = !targets.is_empty() && targets.iter().all(|target| target["health"] == "up");
            let errors = targets
                .iter()
                .map(|target| format!("{} {}", target["health"], target["lastError"]));
            Ok(if up {
                Condition::Ready(())
            } else {
                Condition::NotYet(errors.collect::<Vec<_>>().join("; "))
            })
        })
    }

    /// Runs an instant query. A scalar is one series without labels. Native histograms are refused: use functions such as
    /// `histogram_count`.
    ///
    /// # Errors
    /// [`Error::Malformed`] with the message of Prometheus if it refuses the expression; otherwise as [`http::get`].
    pub fn query(&self, expression: &str) -> Result<Vec<Series>> {
        let data = self.get(&format!(
            "/api/v1/query?query={}",
            percent_encoded(expression)
        ))?;
        let refuse = || Error::malformed("not a vector or scalar of numbers", &data.to_string());
        if data["resultType"] == "scalar" {
            return Ok(vec![(
                BTreeMap::new(),
                number(&data["result"]).ok_or_else(refuse)?,
            )]);
        }
        let series = data["result"].as_array().ok_or_else(refuse)?;
        series
            .iter()
            .map(|one| {
                Ok((
                    labels_of(&one["metric"]),
                    number(&one["value"]).ok_or_else(refuse)?,
                ))
            })
            .collect()
    }

    /// The alerts that fire now, by name.
    ///
    /// # Errors
    /// As [`Prometheus::query`].
    pub fn firing(&self) -> Result<BTreeSet<String>> {
        let alerts = self.firing_with_labels()?.into_iter();
        Ok(alerts
            .filter_map(|mut labels| labels.remove("alertname"))
            .collect())
    }

    /// The loaded rules, as Prometheus reports them.
    ///
    /// # Errors
    /// As [`Prometheus::query`].
    pub fn rules(&self) -> Result<Vec<Rule>> {
        let answer = self.get("/api/v1/rules")?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let groups = answer["groups"].as_array().into_iter().flatten();
        let rule = |group: &Value, rule: &Value| {
            let labels = rule["labels"].as_object().into_iter().flatten();
            Rule {
                name: text(&rule["name"]),
                expression: text(&rule["query"]),
                is_alert: rule["type"] == "alerting",
                for_seconds: rule["duration"].as_f64().unwrap_or_default(),
                interval: group["interval"].as_f64().unwrap_or_default(),
                labels: labels
                    .map(|(name, value)| (name.clone(), text(value)))
                    .collect(),
            }
        };
        Ok(groups
            .flat_map(|group| {
                group["rules"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .map(|one| rule(group, one))
            })
            .collect())
    }

    /// The alerts that fire now, each with its labels.
    ///
    /// # Errors
    /// As [`Prometheus::query`].
    pub fn firing_with_labels(&self) -> Result<Vec<BTreeMap<String, String>>> {
        let answer = self.get("/api/v1/alerts")?;
        let firing = answer["alerts"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|alert| alert["state"] == "firing");
        Ok(firing.map(|alert| labels_of(&alert["labels"])).collect())
    }

    /// Labels and health (`up`, `down`, `unknown`) of the active targets.
    ///
    /// # Errors
    /// As [`Prometheus::query`].
    pub fn targets(&self) -> Result<Vec<(BTreeMap<String, String>, String)>> {
        let answer = self.get("/api/v1/targets?state=active")?;
        let health = |target: &Value| target["health"].as_str().unwrap_or_default().to_owned();
        let targets = answer["activeTargets"].as_array().into_iter().flatten();
        Ok(targets
            .map(|target| (labels_of(&target["labels"]), health(target)))
            .collect())
    }

    /// Number of series of an expression between two times (seconds since 1970), evaluated every `step` seconds.
    ///
    /// # Errors
    /// As [`Prometheus::query`].
    pub fn count_series(
        &self,
        expression: &str,
        (from, to): (f64, f64),
        step: u32,
    ) -> Result<usize> {
        let expression = percent_encoded(expression);
        let data = self.get(&format!(
            "/api/v1/query_range?query={expression}&start={from}&end={to}&step={step}"
        ))?;
        let refuse = || Error::malformed("not a matrix", &data.to_string());
        Ok(data["result"].as_array().ok_or_else(refuse)?.len())
    }

    /// Samples of each series of an expression between two times; arguments as of
    /// [`Prometheus::count_series`].
    ///
    /// # Errors
    /// As [`Prometheus::query`].
    pub fn samples_in_range(
        &self,
        expression: &str,
        (from, to): (f64, f64),
        step: u32,
    ) -> Result<Vec<TimeSeries>> {
        let expression = percent_encoded(expression);
        self.matrix(&format!(
            "/api/v1/query_range?query={expression}&start={from}&end={to}&step={step}"
        ))
    }

    /// The raw samples of all series with this name in the `seconds` before `before`.
    ///
    /// # Errors
    /// As [`Prometheus::query`].
    pub fn samples(&self, name: &str, before: f64, seconds: u32) -> Result<Vec<TimeSeries>> {
        let expression = percent_encoded(&format!("{{__name__={name:?}}}[{seconds}s]"));
        self.matrix(&format!("/api/v1/query?query={expression}&time={before}"))
    }

    fn matrix(&self, path: &str) -> Result<Vec<TimeSeries>> {
        let data = self.get(path)?;
        let refuse = || Error::malformed("not a matrix", &data.to_string());
        let sample = |pair: &Value| Some((pair.get(0)?.as_f64()?, number(pair)?));
        let series = data["result"]
            .as_array()
            .ok_or_else(refuse)?
            .iter()
            .map(|one| {
                let values = one["values"]
                    .as_array()?
                    .iter()
                    .map(sample)
                    .collect::<Option<Vec<_>>>()?;
                Some((labels_of(&one["metric"]), values))
            });
        series.collect::<Option<Vec<_>>>().ok_or_else(refuse)
    }

    /// Where it listens, `127.0.0.1:port`.
    pub fn address(&self) -> &str {
        &self.address
    }

    fn get(&self, path: &str) -> Result<Value> {
        let response = http::Request::new("GET", path)
            .timeout(QUERY_TIMEOUT)
            .send(&self.address)?;
        let mut answer: Value = serde_json::from_slice(&response.body)
            .map_err(|_| Error::malformed("not JSON", &response.text()))?;
        if answer["status"] == "success" {
            Ok(answer["data"].take())
        } else {
            Err(Error::malformed(
                "prometheus refuses",
                answer["error"].as_str().unwrap_or_default(),
            ))
        }
    }
}

/// Checks a classic text page with `promtool check metrics`, including its linter.
///
/// # Errors
/// The output of `promtool`, or [`SKIP_MESSAGE`] without it.
pub fn promtool_check_metrics(page: &str) -> std::result::Result<(), String> {
    let promtool = binaries::in_search_path("promtool").ok_or(SKIP_MESSAGE)?;
    let say = |error: std::io::Error| error.to_string();
    let mut command = Command::new(promtool);
    command
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().map_err(say)?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(page.as_bytes()).map_err(say)?;
    }
    let output = child.wait_with_output().map_err(say)?;
    let output_text = [output.stdout, output.stderr].concat();
    if output.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&output_text).into_owned())
    }
}

fn config_text(options: &PrometheusOptions) -> String {
    let every = options.interval.unwrap_or(1);
    let timeout = every.min(10);
    let mut text = format!(
        "global:\n  scrape_interval: {every}s\n  scrape_timeout: {timeout}s\n  evaluation_interval: {every}s\n"
    );
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
    let rules: Vec<String> = options
        .rule_files
        .iter()
        .map(|file| quoted(&file.to_string_lossy()))
        .collect();
    text += &format!("rule_files: [{}]\n", rules.join(", "));
    if let Some(address) = &options.alertmanager {
        text += &format!(
            "alerting: {{ alertmanagers: [{{ static_configs: [{{ targets: [{}] }}] }}] }}\n",
            quoted(address)
        );
    }
    text += "scrape_configs:\n  - job_name: faultline\n    static_configs:\n";
    for (at, target) in options.targets.iter().enumerate() {
        text += &format!("      - targets: [{}]\n", quoted(&target.to_string()));
        if let Some((name, value)) = options.labels.get(at) {
            text += &format!("        labels: {{ {name}: {} }}\n", quoted(value));
        }
    }
    if !options.target_files.is_empty() {
        let files: Vec<String> = options
            .target_files
            .iter()
            .map(|file| quoted(&file.to_string_lossy()))
            .collect();
        let files = files.join(", ");
        text += &format!(
            "  - job_name: faultline-experiment\n    file_sd_configs: [{{ files: [{files}], refresh_interval: 10s }}]\n"
        );
    }
    text
}

fn labels_of(object: &Value) -> BTreeMap<String, String> {
    let labels = object.as_object().into_iter().flatten();
    labels
        .map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned()))
        .collect()
}

/// `[time, "number"]`.
fn number(pair: &Value) -> Option<f64> {
    pair.get(1)?.as_str()?.parse().ok()
}

fn percent_encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
                encoded.push(char::from(byte))
            }
            // Writing to a String cannot fail.
            _ => write!(encoded, "%{byte:02X}").unwrap_or_default(),
        }
    }
    encoded
}

pub(crate) fn free_port() -> Result<u16> {
    let broken = |source| Error::Connection {
        address: "127.0.0.1:0".to_owned(),
        source,
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(broken)?;
    Ok(listener.local_addr().map_err(broken)?.port())
}
