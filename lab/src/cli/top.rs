//! `top`.

use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

/// `top`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  faultline top
  faultline top 127.0.0.2:9912
  faultline top node1:9912 --interval 5s
  faultline top https://node1:9912 --user prometheus --password-file password --ca ca.pem
  faultline top --once | mail -s validator me

Keys: h help, s sort the pools, p pause, q quit. NO_COLOR is respected. If the daemon does not answer, top retries. With \
--once, or if standard input or output is not a terminal, one screen is printed as text after two requests, one interval apart \
(up to four if nothing changed); rates of pushed metrics (every 10 s) then need --interval 15s.")]
pub struct TopArgs {
    /// HOST:PORT, an http or https URL, or unix:PATH [default: unix:/run/faultlined/metrics.sock if that can be connected
    /// to, else http://127.0.0.1:9912/metrics].
    #[arg(value_name = "ADDRESS")]
    pub address: Option<String>,
    /// Refresh interval (minimum 100ms).
    #[arg(long, short, value_name = "TIME", value_parser = super::parse_interval, default_value = "1s")]
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

#[cfg(test)]
mod tests {
    use crate::cli::{Cli, Command};
    use clap::Parser;
    use std::time::Duration;

    #[test]
    fn a_user_needs_a_password_and_an_interval_is_a_second_unless_told() {
        let parse = |words: &[&str]| Cli::try_parse_from(["faultline", "top"].iter().chain(words));
        let Command::Top(args) = parse(&[]).unwrap().command else { panic!("top") };
        assert_eq!((args.address, args.interval, args.once), (None, Duration::from_secs(1), false));
        assert!(parse(&["--user", "me"]).is_err() && parse(&["--password-file", "f"]).is_err());
        assert!(parse(&["node:1", "--interval", "10ms"]).is_err());
        assert!(parse(&["node:1", "-i", "5s", "--once", "--user", "me", "--password-file", "f"]).is_ok());
    }
}
