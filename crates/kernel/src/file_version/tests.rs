use super::*;
use std::{
    fs::{self, File, Permissions},
    os::unix::fs::{PermissionsExt, symlink},
    path::PathBuf,
    time::{Duration, SystemTime},
};

fn old_file(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    set_old(&path);
    path
}

fn set_old(path: &Path) {
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
    File::options()
        .write(true)
        .open(path)
        .unwrap()
        .set_modified(old)
        .unwrap();
}

/// Waits until the clock of the file system has advanced.
fn next_tick(folder: &Path) {
    let path = folder.join("clock");
    let changed = || {
        fs::write(&path, "").unwrap();
        version(&path).changed
    };
    let begin = changed();
    while changed() == begin {}
}

fn version(path: &Path) -> FileVersion {
    FileVersion::of_path(path).unwrap()
}

#[test]
fn a_file_that_is_only_read_keeps_its_version() {
    let folder = tempfile::tempdir().unwrap();
    let path = old_file(folder.path(), "file", "one");
    let before = version(&path);
    next_tick(folder.path());
    assert_eq!(fs::read_to_string(&path).unwrap(), "one");
    assert_eq!(version(&path), before);
}

#[test]
fn file_versions_detect_changes_despite_unchanged_time_and_length() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let path = old_file(folder, "file", "one");
    let link = folder.join("link");
    symlink(&path, &link).unwrap();
    let changes: [(&str, &dyn Fn()); 4] = [
        ("written in place", &|| {
            fs::write(&path, "two").unwrap();
            set_old(&path);
        }),
        ("replaced", &|| {
            fs::rename(old_file(folder, "new", "six"), &path).unwrap();
        }),
        ("a link is switched", &|| {
            let other = old_file(folder, "other", "ten");
            symlink(other, folder.join("next")).unwrap();
            fs::rename(folder.join("next"), &link).unwrap();
        }),
        ("readable again", &|| {
            fs::set_permissions(&link, Permissions::from_mode(0o640)).unwrap();
        }),
    ];
    for (what, change) in changes {
        let before = version(&link);
        let seen = |path: &Path| {
            let metadata = fs::metadata(path).unwrap();
            (metadata.modified().unwrap(), metadata.len())
        };
        let kept = seen(&link);
        next_tick(folder);
        change();
        assert_eq!(seen(&link), kept, "{what}");
        assert_ne!(version(&link), before, "{what}");
    }
}
