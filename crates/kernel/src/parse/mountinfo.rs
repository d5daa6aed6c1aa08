//! `/proc/PID/mountinfo` (proc_pid_mountinfo(5)).

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use crate::ParseError;
use crate::text::{lines, words};

/// One mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Which folder of the file system is mounted; `/` unless it is a bind mount or a namespace.
    pub root: PathBuf,
    /// Where it is mounted.
    pub mount_point: PathBuf,
    /// Type of the file system, such as `cgroup2`.
    pub fs_type: String,
    /// Options of the file system, such as `rw,memory`.
    pub super_options: String,
}

impl Mount {
    /// Whether the file system was mounted with this option.
    #[must_use]
    pub fn has_option(&self, name: &str) -> bool {
        self.super_options.split(',').any(|option| option == name)
    }
}

/// # Errors
/// A line without the documented fields.
pub fn parse(text: &[u8]) -> Result<Vec<Mount>, ParseError> {
    lines(text).map(|line| mount(line.text).ok_or_else(|| line.error("expected a mount"))).collect()
}

fn mount(line: &[u8]) -> Option<Mount> {
    let mut words = words(line).skip(3);
    let root = unescape(words.next()?);
    let mount_point = unescape(words.next()?);
    // Options, then any number of optional fields up to a lone hyphen.
    words.find(|&word| word == b"-")?;
    let fs_type = String::from_utf8_lossy(words.next()?).into_owned();
    let super_options = String::from_utf8_lossy(words.nth(1)?).into_owned();
    Some(Mount { root, mount_point, fs_type, super_options })
}

/// Spaces, tabs, newlines and backslashes are written as a backslash and three octal digits.
fn unescape(word: &[u8]) -> PathBuf {
    let mut plain = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((&byte, after)) = rest.split_first() {
        let octal = if byte == b'\\' { after.get(..3).and_then(octal_byte) } else { None };
        plain.push(octal.unwrap_or(byte));
        rest = if octal.is_some() { after.get(3..).unwrap_or_default() } else { after };
    }
    PathBuf::from(OsString::from_vec(plain))
}

fn octal_byte(digits: &[u8]) -> Option<u8> {
    u8::from_str_radix(str::from_utf8(digits).ok()?, 8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_captured_hybrid_host_shows_both_cgroup_versions() {
        let mounts = parse(include_bytes!("../../tests/text/linux-6.18/mountinfo")).unwrap();
        let memory = mounts.iter().find(|mount| mount.fs_type == "cgroup" && mount.has_option("memory")).unwrap();
        assert_eq!(memory.mount_point, PathBuf::from("/sys/fs/cgroup/memory"));
        let unified = mounts.iter().find(|mount| mount.fs_type == "cgroup2").unwrap();
        assert_eq!(unified.mount_point, PathBuf::from("/sys/fs/cgroup/unified"));
    }

    #[test]
    fn optional_fields_and_escaped_spaces_are_understood() {
        let line = br"36 35 98:0 /mnt1 /mnt\0402 rw,noatime master:1 shared:2 - cgroup2 /dev/root rw,nsdelegate";
        let mounts = parse(line).unwrap();
        assert_eq!(mounts[0].root, PathBuf::from("/mnt1"));
        assert_eq!(mounts[0].mount_point, PathBuf::from("/mnt 2"));
        assert!(mounts[0].has_option("nsdelegate") && !mounts[0].has_option("delegate"));
    }

    #[test]
    fn a_line_without_its_second_half_is_an_error() {
        assert!(parse(b"36 35 98:0 / / rw,noatime master:1\n").is_err());
    }
}
