//! The terminal as a screen. At the end, also after an error or a panic, it is restored.

use crate::{
    fetch::Fetcher,
    session::{Session, handle_key, keys},
    state::Moment,
    view::{Scene, Theme, draw},
};
use anyhow::{Context, Result};
use faultline_common::{clock, signals::Signals};
use ratatui::{Terminal, backend::TermionBackend};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::retry_on_intr,
    termios::{OptionalActions, Termios, tcgetattr, tcsetattr},
};
use std::{
    fs::File,
    io::{self, Stdin, Write, stdin, stdout},
    mem,
    os::fd::{AsFd, OwnedFd},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// Poll interval of responses and of the terminal's size; keys and signals wake at once.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

pub fn now() -> Moment {
    Moment {
        uptime: clock::uptime(),
        unix_ns: clock::unix_ns(),
    }
}

/// Returns 0 after a key or at the end of the input, else 128 plus the number of a signal.
pub fn run(fetcher: &Fetcher, mut session: Session, address: &str, theme: Theme) -> Result<u8> {
    let mut signals = Signals::listen().context("signals")?;
    let mut screen = Screen::enter(stdin(), stdout()).context("the terminal")?;
    let mut terminal = Terminal::new(TermionBackend::new(stdout())).context("the terminal")?;
    let exit_code = loop {
        while let Some(result) = fetcher.next_result() {
            session.add_result(result, now());
        }
        if mem::take(&mut session.must_suspend) {
            drop(screen);
            suspend();
            screen = Screen::enter(stdin(), stdout()).context("the terminal")?;
            session.must_redraw = true;
        }
        if mem::take(&mut session.must_redraw) {
            // `clear` would ask the terminal where its cursor is, and read the answer from the
            // input, among the keys.
            let area = terminal.size().context("the terminal")?.into();
            terminal.resize(area).context("the terminal")?;
        }
        let scene = Scene {
            session: &session,
            address,
            now: now(),
            theme,
        };
        terminal
            .draw(|frame| draw(&scene, frame.area(), frame.buffer_mut()))
            .context("the terminal")?;
        if let Some(signal) = signals
            .wait(Some(stdin().as_fd()), POLL_INTERVAL)
            .context("signals")?
            .into_iter()
            .find(|signal| signal.is_end_request())
        {
            break u8::try_from(128 + signal.number).unwrap_or(u8::MAX);
        }
        match read_input(&stdin()).context("the terminal")? {
            Some(bytes)
                if keys(&bytes)
                    .into_iter()
                    .try_for_each(|key| handle_key(&mut session, key))
                    .is_continue() => {}
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
fn suspend() {
    let _ = signal_hook::low_level::raise(signal_hook::consts::SIGTSTP);
}

/// Input since the last poll, often empty; `None` at the end of the input.
fn read_input(input: &Stdin) -> io::Result<Option<Vec<u8>>> {
    let mut polled = [PollFd::new(input, PollFlags::IN)];
    let zero_timeout = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    if retry_on_intr(|| poll(&mut polled, Some(&zero_timeout)))? == 0 {
        return Ok(Some(Vec::new()));
    }
    let mut bytes = vec![0; 256];
    let length = retry_on_intr(|| rustix::io::read(input, &mut bytes))?;
    bytes.truncate(length);
    Ok((length > 0).then_some(bytes))
}

/// Alternate screen, cleared, without a cursor.
const ENTER_SEQUENCE: &[u8] = b"\x1b[?1049h\x1b[2J\x1b[?25l";
/// Plain colors, the cursor, the primary screen.
const LEAVE_SEQUENCE: &[u8] = b"\x1b[0m\x1b[?25h\x1b[?1049l";

/// Switches the terminal to the alternate screen and to raw input, until it is dropped.
struct Screen(Arc<SavedTerminal>);

struct SavedTerminal {
    input: OwnedFd,
    output: File,
    settings: Termios,
    is_restored: AtomicBool,
}

impl Screen {
    /// Uses the terminal that `input` reads from and `output` writes to. On a panic, it is restored
    /// before the message.
    fn enter(input: impl AsFd, output: impl AsFd) -> io::Result<Self> {
        let settings = tcgetattr(&input)?;
        let input = input.as_fd().try_clone_to_owned()?;
        let output = File::from(output.as_fd().try_clone_to_owned()?);
        let mut raw = settings.clone();
        raw.make_raw();
        tcsetattr(&input, OptionalActions::Now, &raw)?;
        let screen = Self(Arc::new(SavedTerminal {
            input,
            output,
            settings,
            is_restored: AtomicBool::new(false),
        }));
        let saved = Arc::downgrade(&screen.0);
        let previous_hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if let Some(saved) = saved.upgrade() {
                saved.restore();
            }
            previous_hook(panic);
        }));
        (&screen.0.output).write_all(ENTER_SEQUENCE)?;
        Ok(screen)
    }
}

impl SavedTerminal {
    fn restore(&self) {
        if !self.is_restored.swap(true, Ordering::Relaxed) {
            let _ = (&self.output).write_all(LEAVE_SEQUENCE);
            let _ = tcsetattr(&self.input, OptionalActions::Flush, &self.settings);
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.0.restore();
    }
}

#[cfg(test)]
mod tests;
