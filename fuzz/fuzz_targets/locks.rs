//! `/proc/locks`: no panic, and whoever holds a lock is found by its file.
#![no_main]

use faultline_fuzz::value;
use faultline_kernel::parse::locks::{self, LockKind, flock_holders};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| {
    let Some(locks) = value(text, locks::parse(text)) else { return };
    for lock in locks.iter().filter(|lock| lock.kind == LockKind::Flock) {
        let holders = flock_holders(&locks, lock.device, lock.inode);
        assert!(lock.pid.is_none_or(|pid| holders.contains(&pid)));
    }
});
