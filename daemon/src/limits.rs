//! The daemon's own limits.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit of open files to the hard one, since two are held for each of the validator's threads; how many
/// may be open then.
pub fn raise_open_files() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum.unwrap_or(u64::MAX),
        Err(_) => limit.current.unwrap_or(u64::MAX),
    }
}

/// Lets the kernel keep no image of this process's memory, should it be killed for standing still: it holds passwords.
pub fn keep_no_core() {
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    if let Err(error) = setrlimit(Resource::Core, none) {
        tracing::debug!(%error, "cannot disable core dumps");
    }
}
