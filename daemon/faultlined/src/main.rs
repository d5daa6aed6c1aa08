use anyhow::{Context, Result};
use clap::{CommandFactory, Parser};
use faultline_core::{
    config::{self, ConfigError},
    resource_limits,
    socket::InheritedSockets,
};
use faultline_text::counted;
use faultlined::{
    app::{self, App, ConfigLoader, Options},
    cli::{Cli, Command, ConfigArgs, OnceArgs, RunArgs},
    demo, once,
    ready_file::ReadyFile,
};
use itertools::Itertools;
use std::{
    io::{self, ErrorKind, IsTerminal, Write},
    path::Path,
    process::ExitCode,
};
use tracing_subscriber::{EnvFilter, filter::LevelFilter};

/// A second stop signal came, or a task failed or did not stop in time.
const EXIT_FORCED: u8 = 2;
/// Usage or configuration must be corrected first. `EX_USAGE` in sysexits.h.
const EXIT_USAGE: u8 = 64;

/// Enough for the runtime, the sockets, the signals and the files of a start.
const MIN_OPEN_FILES: u64 = 64;

const DAEMON_CRATES: [&str; 6] = [
    "faultline_core",
    "faultline_datapoints",
    "faultline_http",
    "faultline_log_tail",
    "faultline_recorder",
    "faultline_sources",
];

fn main() -> ExitCode {
    if demo::is_child() {
        return demo::child_main();
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let is_error = error.use_stderr();
            let _ = error.print();
            return if is_error {
                ExitCode::from(EXIT_USAGE)
            } else {
                ExitCode::SUCCESS
            };
        }
    };
    let exit_code = match cli.command {
        Command::Run(args) => run(args),
        Command::Once(args) => run_once(&args),
        Command::CheckConfig(args) => check(&args),
        Command::PrintConfig => print(config::DEFAULT_TEXT),
        Command::Manual { folder } => manual(&folder),
    };
    exit_code.unwrap_or_else(|error| report_failure(&error))
}

fn run(args: RunArgs) -> Result<ExitCode> {
    log_to_stderr();
    let config = match app::check_config(args.read()) {
        Ok(config) => config,
        Err(config_errors) => return Ok(report_config_errors(&config_errors)),
    };
    for what in app::security_warnings(&config) {
        tracing::warn!(what, "insecure configuration");
    }
    resource_limits::disable_core_dumps();
    let max_open_files = resource_limits::raise_open_file_limit();
    if max_open_files < MIN_OPEN_FILES {
        return Ok(report_config_errors(&[ConfigError::new(format!(
            "the limit of open files is {max_open_files}; set at least {MIN_OPEN_FILES} (ulimit -n, or LimitNOFILE= in the unit)"
        ))]));
    }
    let ready_file = args
        .ready_file
        .as_deref()
        .map(ReadyFile::open)
        .transpose()?;
    let options = Options {
        demo: args.demo,
        inherited: InheritedSockets::take()?,
        load_config: args
            .file
            .config
            .is_some()
            .then(|| -> ConfigLoader { Box::new(move || app::check_config(args.read())) }),
    };
    let is_graceful = App::build(config, options)?.run(ready_file)?;
    Ok(if is_graceful {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(EXIT_FORCED)
    })
}

fn run_once(args: &OnceArgs) -> Result<ExitCode> {
    let (config, config_errors) = args.target.read(&args.file, None);
    if !config_errors.is_empty() {
        return Ok(report_config_errors(&config_errors));
    }
    if args.metrics {
        let tick = once::metrics::sample(&config)?;
        return print(&if args.json {
            once::metrics::json(&tick)
        } else {
            once::metrics::table(&tick)
        });
    }
    let report = once::examine(&config)?;
    let success = print(&if args.json {
        report.json()
    } else {
        report.text()
    })?;
    Ok(match report.attention_count() {
        0 => success,
        _ => ExitCode::FAILURE,
    })
}

fn check(args: &ConfigArgs) -> Result<ExitCode> {
    let (config, mut config_errors) = args.read();
    config_errors.extend(app::find_config_errors(&config, &config_errors));
    // Another error may have the same cause.
    if config_errors.is_empty() {
        config_errors.extend(app::content_error(&config));
    }
    let error_exit_code = report_config_errors(&config_errors);
    let warnings = app::warnings(&config);
    for warning in &warnings {
        print_error(&format!("warning: {warning}"));
    }
    let config_name = args.config.as_ref().map_or_else(
        || "the default configuration".to_owned(),
        |file| file.display().to_string(),
    );
    let warning_count = counted(warnings.len() as f64, "warning");
    match (config_errors.len(), warnings.len()) {
        (0, 0) => print(&format!("{config_name} is fine\n")),
        (0, _) => print(&format!("{config_name}: no errors, {warning_count}\n")),
        (errors, _) => {
            let error_count = counted(errors as f64, "error");
            print_error(&format!("{config_name}: {error_count}, {warning_count}"));
            Ok(error_exit_code)
        }
    }
}

fn manual(folder: &Path) -> Result<ExitCode> {
    let about = "configuration of the daemon faultlined: every key with its default";
    let name = "faultlined.toml";
    let text = config::DEFAULT_TEXT;
    faultline_cli_docs::write(Cli::command(), "1", folder)?;
    faultline_cli_docs::write_file_page(name, about, text, folder)?;
    std::fs::write(folder.join(name), text)?;
    Ok(ExitCode::SUCCESS)
}

/// Applies a directive for `faultlined` to all of the daemon's crates. A later directive of a crate
/// takes precedence.
fn expand_filter(filter: &str) -> String {
    filter
        .split(',')
        .filter_map(|directive| directive.trim().strip_prefix("faultlined="))
        .flat_map(|level| DAEMON_CRATES.map(|name| format!("{name}={level}")))
        .chain([filter.to_owned()])
        .join(",")
}

fn parse_filter(filter: &str) -> Option<EnvFilter> {
    // `EnvFilter` reads a bare word as a target, and then logs nothing else.
    let is_directive = |text: &str| text.contains('=') || text.parse::<LevelFilter>().is_ok();
    if !filter.split(',').all(is_directive) {
        return None;
    }
    let default = LevelFilter::INFO.into();
    EnvFilter::builder()
        .with_default_directive(default)
        .parse(expand_filter(filter))
        .ok()
}

fn log_to_stderr() {
    let filter = std::env::var("FAULTLINE_LOG").unwrap_or_default();
    let filter = parse_filter(&filter).unwrap_or_else(|| {
        print_error(&format!(
            "FAULTLINE_LOG: {filter:?} is ignored: write LEVEL or faultlined=LEVEL, where LEVEL is off, error, warn, info, debug or trace"
        ));
        EnvFilter::new("info")
    });
    let is_terminal = io::stderr().is_terminal();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(is_terminal)
        .with_target(false)
        // A failed write to the log cannot be logged.
        .log_internal_errors(false)
        .init();
}

fn print(text: &str) -> Result<ExitCode> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(error).context("standard output")
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

fn report_config_errors(config_errors: &[ConfigError]) -> ExitCode {
    for error in config_errors {
        print_error(&format!("configuration: {error}"));
    }
    ExitCode::from(EXIT_USAGE)
}

fn report_failure(error: &anyhow::Error) -> ExitCode {
    let mut message = String::new();
    for cause in error.chain().map(ToString::to_string) {
        // Some errors include their cause.
        if !message.contains(&cause) {
            message += if message.is_empty() { "" } else { ": " };
            message += &cause;
        }
    }
    print_error(&format!("faultlined: {message}"));
    if app::is_permanent(error) {
        ExitCode::from(EXIT_USAGE)
    } else {
        ExitCode::FAILURE
    }
}

/// Ignores write errors: standard error may be a file on a full disk.
fn print_error(message: &str) {
    let _ = writeln!(io::stderr(), "{message}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_filter_for_the_daemon_includes_its_crates() {
        let filter = expand_filter("warn,faultlined=debug");
        assert!(filter.starts_with("faultline_core=debug,"));
        assert!(filter.ends_with("faultline_sources=debug,warn,faultlined=debug"));
        assert_eq!(expand_filter("info"), "info");
        assert_eq!(
            expand_filter("faultlined::app=trace"),
            "faultlined::app=trace"
        );
    }
}
