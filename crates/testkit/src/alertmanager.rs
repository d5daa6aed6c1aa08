//! A real Alertmanager, and the notifications to its receivers.

use std::time::Duration;

use serde_json::Value;

use crate::{
    Error, Result, binaries,
    eventually::{Condition, wait_for},
    http,
    process::{Program, Running},
    prometheus::free_port,
    sink::Sink,
};

/// What to print when a test is skipped because there is no Alertmanager.
pub const SKIP_MESSAGE: &str =
    "SKIPPED: no prometheus-alertmanager in PATH (Debian package: prometheus-alertmanager)";

const STARTS_WITHIN: Duration = Duration::from_secs(60);

/// A notification to a receiver.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Notification {
    /// The receiver: `page`, `ticket`.
    pub receiver: String,
    pub alert: String,
    /// Whether the alert is resolved.
    pub resolved: bool,
}

/// A running Alertmanager; killed when dropped.
#[derive(Debug)]
pub struct Alertmanager {
    _running: Running,
    address: String,
    receivers: Sink,
    _folder: tempfile::TempDir,
}

impl Alertmanager {
    /// Whether it is in `PATH`, by Debian's name.
    pub fn is_installed() -> bool {
        binaries::in_search_path("prometheus-alertmanager").is_some()
    }

    /// Starts it and waits until it is ready. In the configuration, activates the commented `webhook_configs` and replaces
    /// their address `127.0.0.1:8080` by one of the test.
    ///
    /// # Errors
    /// [`Error::Missing`] with [`SKIP_MESSAGE`]; [`Error::Ended`] when it refuses its configuration; [`Error::Late`].
    pub fn start(configuration: &str) -> Result<Self> {
        let path = binaries::in_search_path("prometheus-alertmanager")
            .ok_or_else(|| Error::Missing(SKIP_MESSAGE.to_owned()))?;
        let (folder, receivers) = (
            tempfile::tempdir().map_err(Error::file(&std::env::temp_dir()))?,
            Sink::start()?,
        );
        let config = folder.path().join("alertmanager.yml");
        let text = configuration
            .replace("# webhook_configs:", "webhook_configs:")
            .replace("http://127.0.0.1:8080", &receivers.url());
        std::fs::write(&config, text).map_err(Error::file(&config))?;
        let address = format!("127.0.0.1:{}", free_port()?);
        let arguments = vec![
            format!("--config.file={}", config.display()),
            format!("--storage.path={}", folder.path().join("data").display()),
            format!("--web.listen-address={address}"),
            "--cluster.listen-address=".to_owned(),
            "--log.level=warn".to_owned(),
        ];
        let output = folder.path().join("alertmanager.out");
        let mut running = Running::start(&Program {
            path,
            arguments,
            environment: Vec::new(),
            output,
        })?;
        wait_for(STARTS_WITHIN, "alertmanager is ready", || {
            running.check()?;
            Ok(match http::get(&address, "/-/ready") {
                Ok(response) if response.status == 200 => Condition::Ready(()),
                Ok(response) => Condition::NotYet(response.text()),
                Err(error) => Condition::NotYet(error.to_string()),
            })
        })?;
        Ok(Self {
            _running: running,
            address,
            receivers,
            _folder: folder,
        })
    }

    /// Where it listens, `127.0.0.1:port`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// All notifications so far, in order.
    pub fn notifications(&self) -> Vec<Notification> {
        let mut notifications = Vec::new();
        for body in self.receivers.bodies() {
            let message: Value = serde_json::from_slice(&body).unwrap_or_default();
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            for alert in message["alerts"].as_array().into_iter().flatten() {
                let (receiver, name) = (
                    text(&message["receiver"]),
                    text(&alert["labels"]["alertname"]),
                );
                notifications.push(Notification {
                    receiver,
                    alert: name,
                    resolved: alert["status"] == "resolved",
                });
            }
        }
        notifications
    }
}
