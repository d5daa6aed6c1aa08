//! Why something could not be read.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use rustix::io::Errno;

/// Longest piece of the kernel's text quoted in an error, in characters.
const QUOTED_CHARS: usize = 80;

/// Why a value is missing. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// This kernel, this configuration or this kind of process does not have it.
    #[error("{}: absent: {why}", path.display())]
    Absent {
        path: Arc<Path>,
        /// The reason, for people.
        why: &'static str,
    },
    /// The kernel refused (`EACCES`, `EPERM`).
    #[error("{}: forbidden", path.display())]
    Forbidden { path: Arc<Path> },
    /// The process or the cgroup that the file belonged to is no more.
    #[error("{}: gone", path.display())]
    Gone { path: Arc<Path> },
    /// The text is not what the kernel's documentation promises, or reading failed in another way.
    #[error("{}", broken(path, *line, what, text))]
    Broken {
        path: Arc<Path>,
        /// Line of the text from 1; 0 when the read itself failed.
        line: usize,
        /// The offending text, at most 80 characters; empty when the read itself failed.
        text: String,
        /// What was expected, or the system's error.
        what: Cow<'static, str>,
    },
}

/// A failed read has no line and no text to show.
fn broken(path: &Path, line: usize, what: &str, text: &str) -> String {
    match line {
        0 => format!("{}: {what}", path.display()),
        line => format!("{}:{line}: {what}: {text:?}", path.display()),
    }
}

/// The four reasons without their detail: a label value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ErrorKind {
    /// See [`ReadError::Absent`].
    Absent,
    /// See [`ReadError::Forbidden`].
    Forbidden,
    /// See [`ReadError::Gone`].
    Gone,
    /// See [`ReadError::Broken`].
    Broken,
}

impl ErrorKind {
    /// Every kind, in the order of the label values.
    pub const ALL: [Self; 4] = [Self::Absent, Self::Forbidden, Self::Gone, Self::Broken];

    /// `absent`, `forbidden`, `gone` or `broken`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Forbidden => "forbidden",
            Self::Gone => "gone",
            Self::Broken => "broken",
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl ReadError {
    /// Which of the four reasons it is.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Absent { .. } => ErrorKind::Absent,
            Self::Forbidden { .. } => ErrorKind::Forbidden,
            Self::Gone { .. } => ErrorKind::Gone,
            Self::Broken { .. } => ErrorKind::Broken,
        }
    }

    /// The file it is about.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Self::Absent { path, .. }
            | Self::Forbidden { path }
            | Self::Gone { path }
            | Self::Broken { path, .. } => path,
        }
    }

    pub(crate) fn absent(path: impl Into<Arc<Path>>, why: &'static str) -> Self {
        Self::Absent {
            path: path.into(),
            why,
        }
    }

    /// Sorts a failed system call. `owner_is_there` is asked only where the number alone cannot tell a file that never
    /// was from one that vanished with its process or cgroup.
    pub(crate) fn from_errno(
        errno: Errno,
        path: &Arc<Path>,
        owner_is_there: impl FnOnce() -> bool,
    ) -> Self {
        let path = Arc::clone(path);
        match errno {
            Errno::SRCH => Self::Gone { path },
            Errno::NOENT | Errno::NODEV | Errno::NOTDIR => {
                if owner_is_there() {
                    Self::Absent {
                        path,
                        why: "no such file",
                    }
                } else {
                    Self::Gone { path }
                }
            }
            Errno::ACCESS | Errno::PERM => Self::Forbidden { path },
            // Pressure files of a kernel started with psi=0 exist, but answer with this.
            Errno::OPNOTSUPP => Self::Absent {
                path,
                why: "disabled in this kernel",
            },
            other => Self::Broken {
                path,
                line: 0,
                text: String::new(),
                what: Cow::Owned(std::io::Error::from(other).to_string()),
            },
        }
    }
}

/// A text that is not what the kernel's documentation promises.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}: {text:?}")]
pub struct ParseError {
    /// Line from 1.
    pub line: usize,
    /// The offending text, at most 80 characters; bytes that are not UTF-8 are replaced.
    pub text: String,
    pub what: &'static str,
}

impl ParseError {
    pub(crate) fn new(line: usize, text: &[u8], what: &'static str) -> Self {
        // Four bytes are the longest character; cutting first keeps a huge line from being copied.
        let head = text.get(..QUOTED_CHARS * 4).unwrap_or(text);
        Self {
            line,
            text: String::from_utf8_lossy(head)
                .chars()
                .take(QUOTED_CHARS)
                .collect(),
            what,
        }
    }

    /// The same error, naming the file.
    #[must_use]
    pub fn at(self, path: impl Into<Arc<Path>>) -> ReadError {
        ReadError::Broken {
            path: path.into(),
            line: self.line,
            text: self.text,
            what: Cow::Borrowed(self.what),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind_of(errno: Errno, owner_is_there: bool) -> ErrorKind {
        ReadError::from_errno(errno, &Arc::from(Path::new("/proc/1/io")), || {
            owner_is_there
        })
        .kind()
    }

    #[test]
    fn a_missing_file_is_absent_while_its_owner_lives_and_gone_after() {
        for errno in [Errno::NOENT, Errno::NODEV, Errno::NOTDIR] {
            assert_eq!(kind_of(errno, true), ErrorKind::Absent, "{errno}");
            assert_eq!(kind_of(errno, false), ErrorKind::Gone, "{errno}");
        }
    }

    #[test]
    fn each_system_error_has_one_of_the_four_reasons() {
        assert_eq!(kind_of(Errno::SRCH, true), ErrorKind::Gone);
        assert_eq!(kind_of(Errno::ACCESS, true), ErrorKind::Forbidden);
        assert_eq!(kind_of(Errno::PERM, true), ErrorKind::Forbidden);
        assert_eq!(kind_of(Errno::OPNOTSUPP, true), ErrorKind::Absent);
        assert_eq!(kind_of(Errno::IO, true), ErrorKind::Broken);
        assert_eq!(kind_of(Errno::MFILE, true), ErrorKind::Broken);
    }

    #[test]
    fn a_quoted_text_is_cut_at_eighty_characters_not_bytes() {
        let error = ParseError::new(3, "é".repeat(500).as_bytes(), "a number");
        assert_eq!(error.text.chars().count(), 80);
        assert!(error.text.chars().all(|c| c == 'é'));
    }

    #[test]
    fn a_broken_file_is_reported_with_path_line_text_and_expectation() {
        let error = ParseError::new(2, b"pgfault x", "a number").at(Path::new("/proc/vmstat"));
        assert_eq!(
            error.to_string(),
            r#"/proc/vmstat:2: a number: "pgfault x""#
        );
        assert_eq!(error.path(), Path::new("/proc/vmstat"));
    }
}
