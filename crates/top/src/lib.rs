//! `top`: a daemon's newest status as a view that goes on, for an operator on ssh.
//!
//! A thread asks for the status, [`state`] makes figures with a past of it, [`view`] makes a screen of these; neither of
//! them reads a clock or knows a terminal.

mod address;
pub mod args;
mod fetch;
mod keys;
mod live;
mod rate;
mod screen;
mod session;
mod state;
mod view;

use crate::args::TopArgs;
use address::Address;
use faultline_catalog::Source;
use faultline_command::args::WrongUsage;
use faultline_command::clock;
use faultline_command::output::{print, say};
use faultline_status::Status;
use fetch::{Access, Client, Fetcher};
use rustix::termios::{isatty, tcgetwinsize};
use session::Session;
use state::State;
use std::path::Path;
use std::time::Duration;
use view::{Look, Scene};

/// Columns of a screen that is not on a terminal.
const COLUMNS: u16 = 80;

/// Pages that a single screen waits for at most: half a minute at the usual interval. Pushes of the validator are 10 s apart.
const MAX_PAGES: u32 = 30;
/// A wait for more pages is reported after this time.
const REPORT_AFTER: Duration = Duration::from_secs(2);

/// Shows a daemon's figures, until a key or a signal ends it, or once as text.
///
/// # Errors
/// [`WrongUsage`] for an address that is none; a file that cannot be used; with `--once`, a daemon that does not answer.
pub fn run(args: &TopArgs) -> anyhow::Result<u8> {
    let address = match &args.address {
        Some(text) => Address::read(text).map_err(WrongUsage)?,
        None => Address::of_this_host(Path::new(address::USUAL_SOCKET)),
    };
    let login = args.user.clone().zip(args.password_file.clone());
    let access = Access {
        login,
        authorities: args.ca.clone(),
    };
    if access.login.is_some() && !address.keeps_secrets() {
        say("the password crosses the network in the clear: an https address would keep it");
    }
    let client = Client::new(&address, &access, args.interval)?;
    let variable = |name: &str| std::env::var(name).ok();
    let look = Look::of_environment(variable);
    let session = Session::new(State::new(args.interval));
    let blind = variable("TERM").is_none_or(|terminal| terminal.is_empty() || terminal == "dumb");
    let live = !args.once && !blind && isatty(std::io::stdout()) && isatty(std::io::stdin());
    if live {
        let fetcher = Fetcher::start(client, args.interval)?;
        return live::run(&fetcher, session, &address.shown(), look);
    }
    once(&client, session, &address.shown(), look, args.interval)
}

/// One screen of two samples of each source: a rate needs both. A source without a second sample in [`MAX_PAGES`] pages shows
/// dashes.
fn once(
    client: &Client,
    mut session: Session,
    address: &str,
    look: Look,
    interval: Duration,
) -> anyhow::Result<u8> {
    let began = clock::uptime();
    let mut first: Vec<(Source, f64)> = Vec::new();
    let mut reported = false;
    for page in 1..=MAX_PAGES {
        match client.fetch() {
            Ok(page) => session.take(Ok(page), live::moment()),
            // Two pages are enough.
            Err(_) if page > 2 => break,
            Err(what) => anyhow::bail!("{address}: {what}"),
        }
        let times = sample_times(session.state().newest());
        if page == 1 {
            first = times;
        } else {
            let old = first.iter().filter(|sample| times.contains(sample));
            let names: Vec<&str> = old.map(|(source, _)| source.name()).collect();
            if names.is_empty() || page == MAX_PAGES {
                break;
            }
            let waited = clock::uptime().saturating_sub(began);
            if !reported && waited >= REPORT_AFTER && isatty(std::io::stderr()) {
                reported = true;
                let (names, most) = (names.join(", "), (interval * MAX_PAGES).as_secs());
                say(&format!(
                    "waiting for the next sample of {names}, {most} s at most"
                ));
            }
        }
        std::thread::sleep(interval);
    }
    let width = tcgetwinsize(std::io::stdout()).map_or(COLUMNS, |size| size.ws_col.max(COLUMNS));
    let scene = Scene {
        session: &session,
        address,
        now: live::moment(),
        look: look.without_colours(),
    };
    print(&view::plain(&scene, width))?;
    Ok(0)
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
        Some((source, status.values_from?))
    };
    sources.into_iter().filter_map(time).collect()
}

#[cfg(test)]
mod tests;
