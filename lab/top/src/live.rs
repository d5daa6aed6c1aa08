use crate::{
    fetch::Fetcher,
    keys::{handle_key, keys},
    screen::Screen,
    session::Session,
    state::Moment,
    view::{Scene, Theme, draw},
};
use anyhow::{Context, Result};
use faultline_common::{clock, signals::Signals};
use ratatui::{Terminal, backend::TermionBackend};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::{
    io::{Stdin, stdin, stdout},
    mem,
    os::fd::AsFd,
    time::Duration,
};

/// Poll interval of answers and of the terminal's size; keys and signals wake at once.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

pub fn moment() -> Moment {
    Moment {
        uptime: clock::uptime(),
        unix_ns: clock::unix_ns(),
    }
}

/// Exit code: 0 after a key, 128 and its number after a signal.
pub fn run(fetcher: &Fetcher, mut session: Session, address: &str, theme: Theme) -> Result<u8> {
    let mut signals = Signals::listen().context("signals")?;
    let mut screen = Screen::enter(stdin(), stdout()).context("the terminal")?;
    let mut terminal = Terminal::new(TermionBackend::new(stdout())).context("the terminal")?;
    let exit_code = loop {
        while let Some(answer) = fetcher.answer() {
            session.take(answer, moment());
        }
        if mem::take(&mut session.suspend) {
            drop(screen);
            stop();
            screen = Screen::enter(stdin(), stdout()).context("the terminal")?;
            session.redraw = true;
        }
        if mem::take(&mut session.redraw) {
            // `clear` would ask the terminal for its cursor, and wait for the answer among the
            // keys.
            let area = terminal.size().context("the terminal")?.into();
            terminal.resize(area).context("the terminal")?;
        }
        let scene = Scene {
            session: &session,
            address,
            now: moment(),
            theme,
        };
        terminal
            .draw(|frame| draw(&scene, frame.area(), frame.buffer_mut()))
            .context("the terminal")?;
        let received_signal = signals
            .wait(Some(stdin().as_fd()), POLL_INTERVAL)
            .context("signals")?;
        if let Some(signal) = received_signal
            .into_iter()
            .find(|signal| signal.is_end_request())
        {
            break u8::try_from(128 + signal.number).unwrap_or(u8::MAX);
        }
        match read_input(&stdin()).context("the terminal")? {
            Some(read)
                if keys(&read)
                    .into_iter()
                    .all(|key| handle_key(&mut session, key)) => {}
            _ => break 0,
        }
    };
    // Dropping it shows the cursor, which must happen before the terminal is restored.
    drop(terminal);
    drop(screen);
    Ok(exit_code)
}

/// Suspends this program like ctrl-Z, until the shell continues it. Does nothing without job
/// control.
fn stop() {
    let _ = signal_hook::low_level::raise(signal_hook::consts::SIGTSTP);
}

/// Input since the last poll, often empty; `None` at the end of the input.
fn read_input(input: &Stdin) -> std::io::Result<Option<Vec<u8>>> {
    let mut polled = [PollFd::new(input, PollFlags::IN)];
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    if rustix::io::retry_on_intr(|| poll(&mut polled, Some(&at_once)))? == 0 {
        return Ok(Some(Vec::new()));
    }
    let mut read = vec![0; 256];
    let length = rustix::io::retry_on_intr(|| rustix::io::read(input, &mut read))?;
    read.truncate(length);
    Ok((length > 0).then_some(read))
}
