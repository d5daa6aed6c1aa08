//! Mounts and free space of folders if the kernel lacks openat2. strace makes the call fail, as
//! systemd's `RestrictSUIDSGID=` does.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot prepare its scene fails"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "a test starts itself again under strace"
)]

use faultline_kernel::{
    HostRoot,
    filesystem::{self, Mounts},
    locate_folder,
};
use rustix::{
    fs::{CWD, Mode, OFlags, ResolveFlags},
    io::Errno,
};
use std::{
    path::Path,
    process::{Command, Stdio},
};

const INJECT: [&str; 2] = ["-e", "inject=openat2:error=ENOSYS"];

#[test]
fn folders_behind_links_are_resolved_without_openat2() {
    let strace = || {
        let mut strace = Command::new("strace");
        strace
            .args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=openat2"])
            .args(INJECT)
            .stdin(Stdio::null());
        strace
    };
    if !strace()
        .arg("true")
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
    {
        eprintln!("SKIPPED: strace (Debian package strace) is missing or may not trace here");
        return;
    }
    let this = std::env::current_exe().unwrap();
    let output = strace()
        .arg(this)
        .args(["--exact", "resolve_folders_without_openat2", "--ignored"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}"
    );
}

#[test]
#[ignore = "no test: the other one starts it under strace"]
fn resolve_folders_without_openat2() {
    let result = rustix::fs::openat2(CWD, "/", OFlags::PATH, Mode::empty(), ResolveFlags::IN_ROOT);
    assert_eq!(result.err(), Some(Errno::NOSYS), "strace answers");
    let (host, folder) = (HostRoot::default(), tempfile::tempdir().unwrap());
    let size = rustix::fs::statvfs(folder.path())
        .map(|space| space.f_blocks * space.f_frsize)
        .unwrap();
    std::fs::create_dir(folder.path().join("data")).unwrap();
    // An absolute link: inside the root of a process, it leads to a folder below that root.
    std::os::unix::fs::symlink("/data", folder.path().join("ledger")).unwrap();
    let mounts = Mounts::read(&host, Some(std::process::id())).unwrap();
    let found = locate_folder(folder.path(), Path::new("/ledger"), &mounts.reader).unwrap();
    assert_eq!(found.space.map(|space| space.size), Some(size), "{found:?}");
    std::os::unix::fs::symlink(folder.path().join("data"), folder.path().join("accounts")).unwrap();
    let accounts = folder.path().join("accounts");
    // With this process as the validator, in its own root, and without a process.
    for pid in [Some(std::process::id()), None] {
        let found = filesystem::find_file_system(&host, pid, &accounts, &mounts).unwrap();
        assert_eq!(found.space.map(|space| space.size), Some(size), "{found:?}");
    }
}
