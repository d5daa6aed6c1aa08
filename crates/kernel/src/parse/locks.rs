use procfs::{FromRead, Lock, LockType, Locks};

use crate::{
    Parsed,
    text::{Line, lines, words},
};

/// `/proc/locks`. Leaves out waiting locks, which [`Lock`] does not distinguish from granted ones.
pub fn parse(text: &[u8]) -> Parsed<Vec<Lock>> {
    let is_waiting = |line: &Line<'_>| words(line.text).nth(1) == Some(b"->");
    // Parses line by line, because procfs-core's errors have no line number.
    let lock = |line: Line<'_>| Locks::from_read(line.text).ok()?.0.pop();
    lines(text)
        .filter(|line| !is_waiting(line))
        .map(|line| lock(line).ok_or_else(|| line.error("expected a lock")))
        .collect()
}

/// Pids that hold a `flock` on one file, such as a validator on its ledger lock. Processes outside
/// the reader's pid namespace have pid 0 and are left out.
pub fn flock_holders(locks: &[Lock], device: (u32, u32), inode: u64) -> Vec<u32> {
    let on_file = |lock: &&Lock| {
        lock.lock_type == LockType::FLock
            && (lock.devmaj, lock.devmin) == device
            && lock.inode == inode
    };
    let pid = |lock: &Lock| u32::try_from(lock.pid?).ok().filter(|pid| *pid != 0);
    locks.iter().filter(on_file).filter_map(pid).collect()
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
    fn the_flock_owner_is_found_but_not_its_waiter() {
        let locks = parse(TEXT).unwrap();
        assert_eq!(locks.len(), 4);
        assert_eq!(flock_holders(&locks, (0xfe, 0), 9_977_980), [4822]);
        assert!(
            flock_holders(&locks, (0xfe, 0), 9_977_988).is_empty(),
            "a POSIX lock is not a flock"
        );
    }

    #[test]
    fn an_open_file_description_lock_has_no_owner_pid() {
        let locks = parse(TEXT).unwrap();
        assert_eq!((&locks[2].lock_type, locks[2].pid), (&LockType::ODF, None));
        assert!(flock_holders(&locks, (0x103, 2), 9_977_980).is_empty());
    }

    #[test]
    fn a_truncated_line_is_an_error() {
        assert_eq!(parse(b"1: POSIX  ADVISORY\n").unwrap_err().line, 1);
    }
}
