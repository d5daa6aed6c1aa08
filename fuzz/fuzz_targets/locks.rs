//! `/proc/locks`: no panic, and whoever holds a lock is found by its file.
#![no_main]

use faultline_fuzz::value;
use faultline_kernel::parse::locks::{self, flock_holders};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| {
    let Some(locks) = value(text, locks::parse(text)) else {
        return;
    };
    for lock in locks
        .iter()
        .filter(|lock| lock.lock_type.as_str() == "FLOCK")
    {
        let holders = flock_holders(&locks, (lock.devmaj, lock.devmin), lock.inode);
        assert!(
            lock.pid
                .is_none_or(|pid| pid <= 0 || holders.contains(&pid.cast_unsigned()))
        );
    }
});
