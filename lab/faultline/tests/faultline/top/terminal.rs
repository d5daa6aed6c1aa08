//! A terminal with a program on it: a pseudo-terminal on one side, an emulator that draws on the other.

use faultline_testkit::eventually::eventually_ok;
use rustix::{
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Termios, Winsize, tcgetattr, tcsetwinsize},
};
use std::{
    fs::File,
    io::{Read, Write},
    num::NonZeroU16,
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

const PATIENCE: Duration = Duration::from_secs(60);
/// What stood on the terminal before the program came.
const BEFORE: &str = "user@host:~$ faultline top";

/// A running program and what it has drawn; killed when dropped.
pub struct Terminal {
    child: Child,
    ours: File,
    theirs: File,
    settings: Termios,
    emulator: vt100::Parser,
}

impl Terminal {
    /// Starts it as a shell does.
    pub fn start(command: &mut Command, columns: u16, rows: u16) -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
        rustix::io::ioctl_fionbio(&ours, true).unwrap();
        let mut theirs = File::options().read(true).write(true).open(name).unwrap();
        theirs.write_all(BEFORE.as_bytes()).unwrap();
        let settings = tcgetattr(&theirs).unwrap();
        let emulator = vt100::Parser::new(size(rows), size(columns), 0);
        tcsetwinsize(&ours, winsize(columns, rows)).unwrap();
        let end = || Stdio::from(theirs.try_clone().unwrap());
        let child = command
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .unwrap();
        Self {
            child,
            ours: ours.into(),
            theirs,
            settings,
            emulator,
        }
    }

    /// Types.
    pub fn keys(&mut self, keys: &str) {
        self.ours.write_all(keys.as_bytes()).unwrap();
    }

    /// Writes on the terminal beside the program.
    pub fn scribble(&mut self, words: &str) {
        write!(self.theirs, "\x1b[3;1H{words}").unwrap();
    }

    /// Makes it larger or smaller.
    pub fn resize(&mut self, columns: u16, rows: u16) {
        self.emulator.set_size(size(rows), size(columns));
        tcsetwinsize(&self.ours, winsize(columns, rows)).unwrap();
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What stands on it now.
    pub fn screen(&mut self) -> String {
        let mut read = [0; 4096];
        while let Ok(count @ 1..) = self.ours.read(&mut read) {
            self.emulator.process(&read[..count]);
        }
        self.emulator.screen().contents()
    }

    /// Whether anything on it has a colour.
    pub fn is_coloured(&self) -> bool {
        let screen = self.emulator.screen();
        let (rows, columns) = screen.size();
        let cells =
            (0..rows.get()).flat_map(|row| (0..columns.get()).map(move |column| (row, column)));
        cells
            .filter_map(|(row, column)| screen.cell(row, column))
            .any(|cell| cell.fgcolor() != vt100::Color::Default)
    }

    /// Waits until the screen is as wanted, and gives it.
    #[track_caller]
    pub fn until(&mut self, what: &str, wanted: impl Fn(&str) -> bool) -> String {
        eventually_ok(PATIENCE, what, || {
            let screen = self.screen();
            if wanted(&screen) {
                Ok(screen)
            } else {
                Err(screen)
            }
        })
    }

    /// Waits until words stand somewhere.
    #[track_caller]
    pub fn shows(&mut self, words: &str) -> String {
        self.until(words, |screen| screen.contains(words))
    }

    /// Waits for the end, and looks that the terminal is as it was before.
    #[track_caller]
    pub fn is_given_back(&mut self) -> ExitStatus {
        let ended = eventually_ok(PATIENCE, "it ends", || {
            match self.child.try_wait().unwrap() {
                Some(status) => Ok(status),
                None => Err(self.screen()),
            }
        });
        assert_eq!(self.screen().trim_end(), BEFORE);
        let screen = self.emulator.screen();
        assert!(!screen.alternate_screen() && !screen.hide_cursor());
        assert_eq!(
            format!("{:?}", tcgetattr(&self.theirs).unwrap()),
            format!("{:?}", self.settings)
        );
        ended
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn size(length: u16) -> NonZeroU16 {
    NonZeroU16::new(length).unwrap()
}

fn winsize(columns: u16, rows: u16) -> Winsize {
    Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}
