//! The lock of a folder, and the error of a second holder.

use super::Scene;
use faultline_kernel::HostRoot;
use faultline_runner::isolation::folders::{Purpose, lock_folder};
use std::{os::unix::fs::symlink, path::Path};

fn locked(
    folder: &Path,
    purpose: Purpose,
) -> Result<faultline_runner::isolation::folders::FolderLock, String> {
    lock_folder(folder, purpose, &HostRoot::default()).map_err(|error| error.to_string())
}

#[test]
fn a_locked_folders_owner_is_reported_under_any_path() {
    // A child of another test has all open files of this process until it executes its program.
    let scene = Scene::alone();
    let ledger = scene.path("ledger");
    let link = scene.path("link");
    symlink(&ledger, &link).unwrap();
    let own = format!("process {} (`", std::process::id());
    let first = locked(&ledger, Purpose::Work).unwrap();
    for (folder, purpose) in [
        (&ledger, Purpose::Work),
        (&ledger, Purpose::Source),
        (&link, Purpose::Work),
    ] {
        let message = locked(folder, purpose).unwrap_err();
        assert!(
            message.contains(&own) && message.contains("in use by another experiment"),
            "{message}"
        );
    }
    // The holder may clear the folder, and other folders can be locked.
    scene.put("rocksdb/1.sst", "x");
    assert_eq!(scene.clear().unwrap().files, 1);
    locked(&scene.path("snapshots"), Purpose::Work).unwrap();
    drop(first);
    locked(&link, Purpose::Work).unwrap();
}

#[test]
fn a_folder_allows_shared_copying_but_no_concurrent_clearing() {
    let scene = Scene::alone();
    let retained = scene.path("outside");
    let both = (
        locked(&retained, Purpose::Source).unwrap(),
        locked(&retained, Purpose::Source).unwrap(),
    );
    assert!(
        locked(&retained, Purpose::Work)
            .unwrap_err()
            .contains("in use")
    );
    drop(both);
    locked(&retained, Purpose::Work).unwrap();
    assert!(
        locked(&scene.path("none"), Purpose::Work)
            .unwrap_err()
            .contains("none")
    );
}
