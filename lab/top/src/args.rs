use clap::Args;
use faultline_common::args::parse_interval;
use std::{path::PathBuf, time::Duration};

/// `top`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  faultline top
  faultline top 127.0.0.2:9912
  faultline top node1:9912 --interval 5s
  faultline top https://node1:9912 --user prometheus --password-file password --ca ca.pem
  faultline top --once | mail -s validator me

Keys: h help, s sort the thread pools, p pause, q quit. NO_COLOR is respected. If the daemon does not answer, top retries. With \
--once, or without a terminal, top prints one screen as text. Rates need two samples, so top waits for at most 30 \
refresh intervals: threads are sampled every 5 s, datapoints arrive every 10 s.")]
pub struct TopArgs {
    /// HOST:PORT, an http or https URL, or unix:PATH
    /// [default: unix:/run/faultlined/metrics.sock if that can be connected to, else http://127.0.0.1:9912].
    #[arg(value_name = "ADDRESS")]
    pub address: Option<String>,
    /// Refresh interval (minimum 100ms).
    #[arg(
        long,
        short,
        value_name = "TIME",
        value_parser = parse_interval,
        default_value = "1s",
        allow_hyphen_values = true
    )]
    pub interval: Duration,
    /// Print one screen as text.
    #[arg(long)]
    pub once: bool,
    /// User name, if the daemon requires a password.
    #[arg(long, value_name = "NAME", requires = "password_file")]
    pub user: Option<String>,
    /// File with the password.
    #[arg(long, value_name = "FILE", requires = "user")]
    pub password_file: Option<PathBuf>,
    /// CA certificates to trust instead of the system's, as PEM.
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
}
