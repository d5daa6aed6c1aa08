//! `/proc/locks` (proc_locks(5)): who holds a lock on which file.

use crate::ParseError;
use crate::text::{Line, lines, number, words};

/// Which call made a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockKind {
    /// `flock(2)`, as the validator locks its ledger.
    Flock,
    /// `fcntl(2)`, of a process.
    Posix,
    /// `fcntl(2)`, of an open file.
    Ofd,
    /// Leases, delegations and what else a kernel may list.
    Other,
}

/// A lock that is held; those that are only waited for are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lock {
    /// Which call made it.
    pub kind: LockKind,
    /// Who holds it; `None` for the lock of an open file, and for a holder outside the reader's pid namespace.
    pub pid: Option<u32>,
    /// Major and minor number of the file system's device.
    pub device: (u32, u32),
    /// Number of the file in its file system.
    pub inode: u64,
}

/// # Errors
/// A line without the documented fields.
pub fn parse(text: &[u8]) -> Result<Vec<Lock>, ParseError> {
    let waited_for = |line: &Line<'_>| words(line.text).nth(1) == Some(b"->");
    lines(text)
        .filter(|line| !waited_for(line))
        .map(|line| lock(line.text).ok_or_else(|| line.error("expected a lock")))
        .collect()
}

/// The processes that hold a `flock` on one file.
#[must_use]
pub fn flock_holders(locks: &[Lock], device: (u32, u32), inode: u64) -> Vec<u32> {
    let on_file = |lock: &&Lock| lock.kind == LockKind::Flock && lock.device == device && lock.inode == inode;
    locks.iter().filter(on_file).filter_map(|lock| lock.pid).collect()
}

/// `2: FLOCK  ADVISORY  WRITE 4822 fe:00:9977980 0 EOF`
fn lock(line: &[u8]) -> Option<Lock> {
    let mut words = words(line).skip(1);
    let kind = match words.next()? {
        b"FLOCK" => LockKind::Flock,
        b"POSIX" => LockKind::Posix,
        b"OFDLCK" => LockKind::Ofd,
        _ => LockKind::Other,
    };
    let pid = words.nth(2)?;
    let mut file = words.next()?.split(|&b| b == b':');
    let mut hexadecimal = || u32::from_str_radix(str::from_utf8(file.next()?).ok()?, 16).ok();
    let device = (hexadecimal()?, hexadecimal()?);
    let pid = if pid == b"-1" { None } else { Some(u32::try_from(number(pid)?).ok()?).filter(|&pid| pid != 0) };
    Some(Lock { kind, pid, device, inode: number(file.next()?)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"1: POSIX  ADVISORY  WRITE 4822 fe:00:9977988 0 EOF\n\
        2: FLOCK  ADVISORY  WRITE 4822 fe:00:9977980 0 EOF\n\
        2: -> FLOCK  ADVISORY  WRITE 4900 fe:00:9977980 0 EOF\n\
        3: OFDLCK ADVISORY  READ -1 103:02:9977980 0 EOF\n\
        4: FLOCK  ADVISORY  WRITE 0 fe:00:9977980 0 EOF\n";

    #[test]
    fn the_holder_of_a_flock_is_found_and_the_one_who_waits_is_not() {
        let locks = parse(TEXT).unwrap();
        assert_eq!(locks.len(), 4);
        assert_eq!(flock_holders(&locks, (0xfe, 0), 9_977_980), [4822]);
        assert!(flock_holders(&locks, (0xfe, 0), 9_977_988).is_empty(), "a POSIX lock is not a flock");
    }

    #[test]
    fn a_lock_of_an_open_file_has_no_holder() {
        let locks = parse(TEXT).unwrap();
        assert_eq!(locks[2], Lock { kind: LockKind::Ofd, pid: None, device: (0x103, 2), inode: 9_977_980 });
        assert_eq!(locks[3].pid, None);
    }

    #[test]
    fn a_cut_line_is_an_error() {
        assert_eq!(parse(b"1: POSIX  ADVISORY\n").unwrap_err().line, 1);
    }
}
