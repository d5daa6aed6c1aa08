//! Where folders lie and how full they are, while openat2 is answered as if the kernel did not have it: by strace, as systemd's
//! `RestrictSUIDSGID=` does it.

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
    let asked = rustix::fs::openat2(CWD, "/", OFlags::PATH, Mode::empty(), ResolveFlags::IN_ROOT);
    assert_eq!(asked.err(), Some(Errno::NOSYS), "strace answers");
    let (host, folder) = (HostRoot::default(), tempfile::tempdir().unwrap());
    let size = rustix::fs::statvfs(folder.path())
        .map(|told| told.f_blocks * told.f_frsize)
        .unwrap();
    std::fs::create_dir(folder.path().join("data")).unwrap();
    // Absolute: in the root of a process it leads to a folder below that.
    std::os::unix::fs::symlink("/data", folder.path().join("ledger")).unwrap();
    let mounts = Mounts::read(&host, Some(std::process::id())).unwrap();
    let found = locate_folder(folder.path(), Path::new("/ledger"), &mounts.reader).unwrap();
    assert_eq!(found.space.map(|space| space.size), Some(size), "{found:?}");
    std::os::unix::fs::symlink(folder.path().join("data"), folder.path().join("accounts")).unwrap();
    let accounts = folder.path().join("accounts");
    // In this process's own root as a validator's, and under its own path.
    for pid in [Some(std::process::id()), None] {
        let found = filesystem::find_file_system(&host, pid, &accounts, &mounts).unwrap();
        assert_eq!(found.space.map(|space| space.size), Some(size), "{found:?}");
    }
}
