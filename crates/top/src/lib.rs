//! `top`: a daemon's newest page as a view that goes on, for an operator on ssh.
//!
//! A thread asks for the page, [`state`] makes figures with a past of it, [`view`] makes a screen of these; neither of
//! them reads a clock or knows a terminal.

mod address;
pub mod args;
mod fetch;
mod keys;
mod live;
mod page;
mod rate;
mod screen;
mod session;
mod state;
mod view;

use crate::args::TopArgs;
use address::Address;
use faultline_command::args::WrongUsage;
use faultline_command::output::{print, say};
use fetch::{Access, Client, Fetcher};
use rustix::termios::{isatty, tcgetwinsize};
use session::Session;
use state::State;
use std::path::Path;
use std::time::Duration;
use view::{Look, Scene};

/// Columns of a screen that is not on a terminal.
const COLUMNS: u16 = 80;

/// Pages that a single screen waits for at most.
const MOST_PAGES: u32 = 4;

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

/// One screen after two pages, an interval apart: a rate needs two. Another page or two are asked for while a source has
/// told nothing newer than in the first one.
fn once(
    client: &Client,
    mut session: Session,
    address: &str,
    look: Look,
    interval: Duration,
) -> anyhow::Result<u8> {
    let mut first = None;
    for page in 1..=MOST_PAGES {
        let answer = match client.fetch() {
            Ok(answer) => answer,
            // Two pages are enough.
            Err(_) if page > 2 => break,
            Err(what) => anyhow::bail!("{address}: {what}"),
        };
        session.take(Ok(answer), live::moment());
        let told = session.state().newest().told_of();
        let news = first
            .as_ref()
            .is_some_and(|first: &Vec<_>| first.iter().all(|old| !told.contains(old)));
        if news || page == MOST_PAGES {
            break;
        }
        first.get_or_insert(told);
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
