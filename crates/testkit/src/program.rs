//! What the programs for people have in common: options in, an exit code out.

use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;

use crate::Result;

/// Told on wrong usage, as `sysexits.h` has it.
const WRONG_USAGE: u8 = 64;

/// Reads the program's options, then does its work. What goes wrong is said on standard error under `name`; wrong options
/// together with `usage`.
pub fn main<A>(
    name: &str,
    usage: &str,
    parse: impl FnOnce(&mut Options) -> std::result::Result<A, String>,
    run: impl FnOnce(A) -> Result<()>,
) -> ExitCode {
    let arguments = match parse(&mut Options::of(std::env::args().skip(1))) {
        Ok(arguments) => arguments,
        Err(problem) => {
            eprintln!("{problem}\n{usage}");
            return ExitCode::from(WRONG_USAGE);
        }
    };
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{name}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The command line, word by word.
#[derive(Debug)]
pub struct Options {
    rest: std::vec::IntoIter<String>,
    name: String,
}

impl Options {
    /// Over these words.
    pub fn of(words: impl IntoIterator<Item = String>) -> Self {
        Self { rest: words.into_iter().collect::<Vec<_>>().into_iter(), name: String::new() }
    }

    /// The next option's name; `None` after the last.
    pub fn next_name(&mut self) -> Option<&str> {
        self.name = self.rest.next()?;
        Some(&self.name)
    }

    /// The value of the option named last.
    ///
    /// # Errors
    /// In words, when none follows.
    pub fn value(&mut self) -> std::result::Result<String, String> {
        self.rest.next().ok_or_else(|| format!("{} needs a value", self.name))
    }

    /// The value of the option named last, a number.
    ///
    /// # Errors
    /// In words, when none follows or it is none.
    pub fn number<N: FromStr>(&mut self) -> std::result::Result<N, String> {
        let text = self.value()?;
        text.parse().map_err(|_| format!("{} {text}: not a number it takes", self.name))
    }

    /// The option named last is not known, in words.
    #[must_use]
    pub fn unknown(&self) -> String {
        format!("{}: unknown", self.name)
    }
}

/// A program in this one's folder.
#[must_use]
pub fn beside(program: &str) -> PathBuf {
    std::env::current_exe().unwrap_or_default().with_file_name(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_an_option_is_said_with_its_name() {
        let mut options = Options::of(["--rate", "many", "--rate", "7", "--rate"].map(str::to_owned));
        assert_eq!(options.next_name(), Some("--rate"));
        assert_eq!(options.number::<u32>(), Err("--rate many: not a number it takes".to_owned()));
        assert_eq!(options.next_name(), Some("--rate"));
        assert_eq!(options.number::<u32>(), Ok(7));
        assert_eq!(options.next_name(), Some("--rate"));
        assert_eq!(options.value(), Err("--rate needs a value".to_owned()));
        assert_eq!(options.unknown(), "--rate: unknown");
        assert_eq!(options.next_name(), None);
    }
}
