//! `top`: shows a daemon's newest status live in a terminal.
//!
//! A thread requests the status. [`state`] keeps the figures and their history, and [`view`] draws
//! them. Neither reads a clock or knows the terminal.

mod address;
pub mod args;
mod fetch;
mod live;
mod session;
mod state;
mod view;

use crate::args::TopArgs;
use address::Address;
use anyhow::Result;
use faultline_common::{
    args::UsageError,
    clock,
    output::{print, say},
};
use faultline_metrics::Source;
use faultline_status::Status;
use fetch::{Client, Fetcher};
use itertools::Itertools;
use rustix::termios::{isatty, tcgetwinsize};
use session::Session;
use state::State;
use std::{io, path::Path, time::Duration};
use view::{Scene, Theme};

const DEFAULT_COLUMNS: u16 = 80;

/// Requests for a single screen: half a minute at the default interval.
const MAX_REQUESTS: u32 = 30;
const REPORT_AFTER: Duration = Duration::from_secs(2);

/// Runs until a key or a signal ends it, or prints one screen. Fails with [`UsageError`] for an
/// invalid address.
pub fn run(args: &TopArgs) -> Result<u8> {
    let address = match &args.address {
        Some(text) => Address::parse(text).map_err(UsageError)?,
        None => Address::of_this_host(Path::new(address::DEFAULT_SOCKET)),
    };
    if args.user.is_some() && !address.is_safe_for_password() {
        say("the password crosses the network in the clear: use an https address");
    }
    let client = Client::new(&address, args)?;
    let variable = |name: &str| std::env::var(name).ok();
    let theme = Theme::of_environment(variable);
    let session = Session::new(State::new(args.interval));
    let is_dumb_terminal =
        variable("TERM").is_none_or(|terminal| terminal.is_empty() || terminal == "dumb");
    if !args.once && !is_dumb_terminal && isatty(io::stdout()) && isatty(io::stdin()) {
        let fetcher = Fetcher::start(client, args.interval)?;
        return live::run(&fetcher, session, &address.shown(), theme);
    }
    once(&client, session, &address.shown(), theme, args.interval)
}

fn once(
    client: &Client,
    mut session: Session,
    address: &str,
    theme: Theme,
    interval: Duration,
) -> Result<u8> {
    sample_twice(client, &mut session, address, interval)?;
    let width =
        tcgetwinsize(io::stdout()).map_or(DEFAULT_COLUMNS, |size| size.ws_col.max(DEFAULT_COLUMNS));
    let scene = Scene {
        session: &session,
        address,
        now: live::now(),
        theme: theme.without_colors(),
    };
    print(&view::render_as_text(&scene, width))?;
    Ok(0)
}

/// Requests the status until each source has two samples, because a rate needs both, or until a
/// request fails. Fails if one of the first two fails.
fn sample_twice(
    client: &Client,
    session: &mut Session,
    address: &str,
    interval: Duration,
) -> Result<()> {
    let start = clock::uptime();
    let mut first_samples = Vec::new();
    let mut is_reported = false;
    for request in 1..=MAX_REQUESTS {
        match client.fetch() {
            Err(error) if request <= 2 => anyhow::bail!("{address}: {error}"),
            result => session.add_result(result, live::now()),
        }
        if session.state().error.is_some() {
            break;
        }
        let times = sample_times(&session.state().status);
        if request == 1 {
            first_samples = times;
        } else {
            let names = first_samples
                .iter()
                .filter(|sample| times.contains(sample))
                .map(|(source, _)| source.name())
                .join(", ");
            if names.is_empty() || request == MAX_REQUESTS {
                break;
            }
            let waited = clock::uptime().saturating_sub(start);
            if !is_reported && waited >= REPORT_AFTER && isatty(io::stderr()) {
                is_reported = true;
                let max_seconds = (interval * MAX_REQUESTS).as_secs();
                say(&format!(
                    "waiting for the next sample of {names}, {max_seconds} s at most"
                ));
            }
        }
        std::thread::sleep(interval);
    }
    Ok(())
}

/// The sources of rates that are up, each with the time of its newest values.
fn sample_times(status: &Status) -> Vec<(Source, f64)> {
    let sources = [
        Source::Process,
        Source::Threads,
        Source::Cgroup,
        Source::Rpc,
        Source::Datapoints,
    ];
    let time = |source| {
        let status = status.source(source).filter(|status| status.is_up)?;
        Some((source, status.newest_values_at?))
    };
    sources.into_iter().filter_map(time).collect()
}

#[cfg(test)]
mod tests;
