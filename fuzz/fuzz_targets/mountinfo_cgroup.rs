//! `/proc/self/mountinfo` and `/proc/PID/cgroup`: no panic, and every line is one mount or one membership.
#![no_main]

use faultline_fuzz::value;
use faultline_kernel::parse::{cgroup, mountinfo};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| {
    let lines = text
        .split(|&byte| byte == b'\n')
        .filter(|line| !line.is_empty())
        .count();
    if let Some(mounts) = value(text, mountinfo::parse(text)) {
        assert_eq!(mounts.len(), lines);
        for mount in mounts {
            assert!(
                mount
                    .super_options
                    .split(',')
                    .all(|option| mount.has_super_option(option))
            );
        }
    }
    if let Some(memberships) = value(text, cgroup::memberships(text)) {
        assert_eq!(memberships.len(), lines);
        assert!(
            memberships
                .iter()
                .all(|one| !one.is_unified || one.controllers.is_empty())
        );
    }
});
