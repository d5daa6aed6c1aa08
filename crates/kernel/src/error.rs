use std::{borrow::Cow, path::Path, sync::Arc};

use rustix::io::Errno;

const QUOTED_CHARS: usize = 80;

pub type Result<T, E = ReadError> = std::result::Result<T, E>;

pub type Parsed<T> = Result<T, ParseError>;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// This kernel, configuration or kind of process does not have the file or value.
    #[error("{}: absent: {why}", path.display())]
    Absent { path: Arc<Path>, why: &'static str },
    /// `EACCES` or `EPERM`.
    #[error("{}: forbidden", path.display())]
    Forbidden { path: Arc<Path> },
    /// The process or cgroup of the file does not exist any more.
    #[error("{}: gone", path.display())]
    Gone { path: Arc<Path> },
    /// The text violates the kernel's documentation, or reading failed in another way.
    #[error("{}", broken(path, *line, what, text))]
    Broken {
        path: Arc<Path>,
        /// From 1; 0 if the read itself failed.
        line: usize,
        /// The offending text, at most 80 characters; empty if the read itself failed.
        text: String,
        what: Cow<'static, str>,
    },
}

fn broken(path: &Path, line: usize, what: &str, text: &str) -> String {
    match line {
        0 => format!("{}: {what}", path.display()),
        line => format!("{}:{line}: {what}: {text:?}", path.display()),
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ErrorKind {
    Absent,
    Forbidden,
    Gone,
    Broken,
}

pub fn if_present<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Err(ReadError::Absent { .. }) => Ok(None),
        result => result.map(Some),
    }
}

impl ReadError {
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Absent { .. } => ErrorKind::Absent,
            Self::Forbidden { .. } => ErrorKind::Forbidden,
            Self::Gone { .. } => ErrorKind::Gone,
            Self::Broken { .. } => ErrorKind::Broken,
        }
    }

    pub(crate) fn absent(path: impl Into<Arc<Path>>, why: &'static str) -> Self {
        Self::Absent {
            path: path.into(),
            why,
        }
    }

    /// A missing file is `Absent` if its process or cgroup exists, else `Gone`. For other errors
    /// `owner_exists` is not called.
    pub(crate) fn from_errno(
        errno: Errno,
        path: &Arc<Path>,
        owner_exists: impl FnOnce() -> bool,
    ) -> Self {
        let path = Arc::clone(path);
        match errno {
            Errno::SRCH => Self::Gone { path },
            Errno::NOENT | Errno::NODEV | Errno::NOTDIR => {
                if owner_exists() {
                    Self::Absent {
                        path,
                        why: "no such file",
                    }
                } else {
                    Self::Gone { path }
                }
            }
            Errno::ACCESS | Errno::PERM => Self::Forbidden { path },
            // With psi=0, pressure files exist but reading them fails with this.
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

#[derive(Debug, PartialEq, thiserror::Error)]
#[error("line {line}: {what}: {text:?}")]
pub struct ParseError {
    /// From 1.
    pub line: usize,
    /// At most 80 characters, lossy UTF-8.
    pub text: String,
    pub what: &'static str,
}

impl ParseError {
    pub(crate) fn new(line: usize, text: &[u8], what: &'static str) -> Self {
        // Cutting first avoids a copy of a huge line.
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

    fn kind_of(errno: Errno, owner_exists: bool) -> ErrorKind {
        ReadError::from_errno(errno, &Arc::from(Path::new("/proc/1/io")), || owner_exists).kind()
    }

    #[test]
    fn a_missing_file_is_absent_while_its_process_lives_then_gone() {
        for errno in [Errno::NOENT, Errno::NODEV, Errno::NOTDIR] {
            assert_eq!(kind_of(errno, true), ErrorKind::Absent, "{errno}");
            assert_eq!(kind_of(errno, false), ErrorKind::Gone, "{errno}");
        }
    }

    #[test]
    fn each_system_error_maps_to_one_of_four_error_kinds() {
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
        let error =
            ParseError::new(2, b"pgfault x", "expected a number").at(Path::new("/proc/vmstat"));
        assert_eq!(
            error.to_string(),
            r#"/proc/vmstat:2: expected a number: "pgfault x""#
        );
    }
}
