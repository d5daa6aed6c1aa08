//! What is copied, and what is not.

use super::{Scene, is_root, mount::Mount, names, seen};
use faultline_runner::isolation::folders::{self, UserAndGroup, restore};
use std::{
    fs,
    io::{Seek, SeekFrom, Write},
    os::unix::{
        fs::{FileExt, MetadataExt, PermissionsExt, symlink},
        net::UnixListener,
    },
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

/// A source folder: an archive, a key-value store, a file with a hole, a link to the inside.
fn retained(scene: &Scene) -> PathBuf {
    let from = scene.path("kept");
    fs::create_dir_all(from.join("rocksdb")).unwrap();
    fs::create_dir(from.join("empty")).unwrap();
    fs::write(from.join("snapshot-100-abc.tar.zst"), "full").unwrap();
    fs::write(
        from.join("incremental-snapshot-100-200-abc.tar.zst"),
        "incremental",
    )
    .unwrap();
    fs::write(from.join("genesis.bin"), "genesis").unwrap();
    fs::write(from.join("rocksdb/snapshot-1"), "not an archive").unwrap();
    fs::set_permissions(from.join("genesis.bin"), fs::Permissions::from_mode(0o640)).unwrap();
    fs::write(
        from.join("rocksdb/000001.sst"),
        (0..300_000_u32)
            .flat_map(u32::to_le_bytes)
            .collect::<Vec<u8>>(),
    )
    .unwrap();
    symlink("../genesis.bin", from.join("rocksdb/link")).unwrap();
    sparse(&from.join("account"));
    from
}

/// 64 MiB, of which two pieces are written.
fn sparse(path: &Path) {
    let mut file = fs::File::create(path).unwrap();
    for at in [8 << 20, 48 << 20] {
        file.seek(SeekFrom::Start(at)).unwrap();
        file.write_all(&[7; 10_000]).unwrap();
    }
    file.set_len(64 << 20).unwrap();
    file.sync_all().unwrap();
}

#[test]
fn a_restored_folder_equals_the_retained_one_with_archives_among_snapshots() {
    let scene = Scene::new();
    let from = retained(&scene);
    fs::write(from.join("ledger.lock"), "").unwrap();
    let _listener = UnixListener::bind(from.join("admin.rpc")).unwrap();
    let measured = folders::measure(&from).unwrap();
    assert_eq!((measured.files, measured.skipped.len()), (6, 1));

    let done = restore(
        &from,
        &scene.path("ledger"),
        Some(&scene.path("snapshots")),
        None,
    )
    .unwrap();
    assert_eq!((done.files, done.skipped.len()), (6, 1));
    let mut expected = seen(&from);
    for name in ["ledger.lock", "admin.rpc"] {
        expected.remove(name);
    }
    let archives = expected.split_off("incremental-snapshot-100-200-abc.tar.zst");
    let (archives, rest): (Vec<_>, Vec<_>) = archives
        .into_iter()
        .partition(|(name, _)| name.contains(".tar."));
    expected.extend(rest);
    assert_eq!(seen(&scene.path("ledger")), expected);
    assert_eq!(
        seen(&scene.path("snapshots"))
            .into_iter()
            .collect::<Vec<_>>(),
        archives
    );

    let meta = |path: PathBuf| fs::metadata(path).unwrap();
    let (genesis, copied) = (
        meta(from.join("genesis.bin")),
        meta(scene.path("ledger/genesis.bin")),
    );
    assert_eq!(
        (copied.mode(), copied.mtime()),
        (genesis.mode(), genesis.mtime())
    );
    assert!(
        meta(scene.path("ledger/account")).blocks() <= meta(from.join("account")).blocks() + 64,
        "holes stay holes"
    );
    // Cleared and filled again, it is the same.
    scene.clear().unwrap();
    folders::clear(
        &scene.path("snapshots"),
        &faultline_kernel::HostRoot::default(),
    )
    .unwrap();
    let again = restore(&from, &scene.path("ledger"), None, None).unwrap();
    assert_eq!(again.files, 6);
    assert!(scene.path("ledger/snapshot-100-abc.tar.zst").exists());
}

#[test]
fn another_file_system_gets_the_same_bytes_and_holes() {
    let scene = Scene::alone();
    let from = retained(&scene);
    let disk = scene.path("disk");
    fs::create_dir(&disk).unwrap();
    let Some(_mount) = Mount::of_bytes(&disk, 32 << 20) else {
        return;
    };
    folders::init(&disk, super::NOW).unwrap();
    restore(&from, &disk, None, None).unwrap();
    assert_eq!(seen(&disk), seen(&from));
}

#[test]
fn a_restore_exceeding_free_space_is_refused_before_copying() {
    let scene = Scene::alone();
    let from = retained(&scene);
    let disk = scene.path("disk");
    fs::create_dir(&disk).unwrap();
    let Some(_mount) = Mount::of_bytes(&disk, 1 << 20) else {
        return;
    };
    folders::init(&disk, super::NOW).unwrap();
    let message = restore(&from, &disk, None, None).unwrap_err().to_string();
    assert!(
        message.contains("bytes free") && message.contains("free space"),
        "{message}"
    );
    assert!(names(&disk).is_empty());
}

#[test]
fn each_hard_link_needs_the_disk_space_of_a_whole_file() {
    let scene = Scene::new();
    let from = retained(&scene);
    let one_link = folders::measure(&from).unwrap().bytes;
    let file = from.join("rocksdb/000001.sst");
    fs::hard_link(&file, from.join("rocksdb/000002.sst")).unwrap();
    let file_bytes = fs::metadata(&file).unwrap().blocks() * 512;
    assert_eq!(
        folders::measure(&from).unwrap().bytes,
        one_link + file_bytes
    );
}

#[test]
fn restore_keeps_tower_files_and_keypairs_and_rejects_other_existing_files() {
    let scene = Scene::new();
    let from = retained(&scene);
    fs::write(from.join("tower-1_9-abc.bin"), "old votes").unwrap();
    scene.put("tower-1_9-abc.bin", "new votes");
    let done = restore(&from, &scene.path("ledger"), None, None).unwrap();
    assert_eq!(
        done.skipped
            .iter()
            .map(|one| one.reason)
            .collect::<Vec<_>>(),
        ["a tower file"]
    );
    assert_eq!(
        fs::read_to_string(scene.path("ledger/tower-1_9-abc.bin")).unwrap(),
        "new votes"
    );
    let message = restore(&from, &scene.path("ledger"), None, None)
        .unwrap_err()
        .to_string();
    assert!(message.contains("clear the folder first"), "{message}");
}

#[test]
fn links_pointing_outside_are_refused() {
    for target in ["/etc/passwd", "../../outside/file", "../kept/../../outside"] {
        let scene = Scene::new();
        let from = retained(&scene);
        symlink(target, from.join("rocksdb/out")).unwrap();
        let message = restore(&from, &scene.path("ledger"), None, None)
            .unwrap_err()
            .to_string();
        assert!(
            message.contains("rocksdb/out is a symbolic link that leads out"),
            "{message}"
        );
        assert!(folders::measure(&from).is_err() && names(&scene.path("ledger")).is_empty());
    }
}

#[test]
fn restore_fills_only_marked_folders_and_never_from_inside_itself() {
    let scene = Scene::new();
    let from = retained(&scene);
    assert!(
        restore(&from, &scene.path("outside"), None, None)
            .unwrap_err()
            .to_string()
            .contains("is not marked")
    );
    assert!(
        restore(
            &from,
            &scene.path("ledger"),
            Some(&scene.path("outside")),
            None
        )
        .is_err()
    );
    scene.put("inside/file", "text");
    let message = restore(
        &scene.path("ledger/inside"),
        &scene.path("ledger"),
        None,
        None,
    )
    .unwrap_err()
    .to_string();
    assert!(message.contains("are one inside the other"), "{message}");
    scene.outside_is_untouched();
}

#[test]
fn all_restored_files_belong_to_the_named_user() {
    if !is_root() {
        eprintln!("SKIPPED: only root gives files away");
        return;
    }
    let scene = Scene::new();
    let from = retained(&scene);
    restore(
        &from,
        &scene.path("ledger"),
        None,
        Some(UserAndGroup {
            uid: 65_534,
            gid: 65_533,
        }),
    )
    .unwrap();
    for name in [
        "",
        "genesis.bin",
        "rocksdb",
        "rocksdb/link",
        "rocksdb/000001.sst",
        "empty",
    ] {
        let meta = fs::symlink_metadata(scene.path("ledger").join(name)).unwrap();
        assert_eq!((meta.uid(), meta.gid()), (65_534, 65_533), "{name}");
    }
}

/// Restores while a thread writes to the file `account` without a change of its modification time.
/// Also returns whether a write began and ended inside the copy.
fn restore_during_writes(scene: &Scene, from: &Path) -> (anyhow::Result<folders::Restored>, bool) {
    let (source, copy) = (from.join("account"), scene.path("ledger/account"));
    let before = fs::metadata(&source).unwrap();
    let written = before.modified().unwrap();
    // The copier reads the source's state before it creates the copy. It sets the time of the
    // copy before it reads the source's state again.
    let is_being_copied =
        || fs::metadata(&copy).is_ok_and(|copy| copy.modified().is_ok_and(|time| time != written));
    let write = || {
        let file = fs::File::options().write(true).open(&source).unwrap();
        file.write_all_at(&[8], 4_096).unwrap();
        file.set_modified(written).unwrap();
        let after = file.metadata().unwrap();
        // The kernel's file times advance once in several milliseconds.
        (after.ctime(), after.ctime_nsec()) != (before.ctime(), before.ctime_nsec())
    };
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut wrote_inside = false;
            while !is_over.load(Ordering::Relaxed) {
                wrote_inside |= is_being_copied() && write() && is_being_copied();
            }
            wrote_inside
        });
        let restored = restore(from, &scene.path("ledger"), None, None);
        is_over.store(true, Ordering::Relaxed);
        (restored, writer.join().unwrap())
    })
}

#[test]
fn a_file_modified_during_restore_is_refused_despite_unchanged_time_and_length() {
    let scene = Scene::new();
    let from = scene.path("kept");
    fs::create_dir(&from).unwrap();
    fs::write(from.join("account"), vec![7; 64 << 20]).unwrap();
    let deadline = Instant::now() + Duration::from_secs(120);
    let mut refusals = 0;
    while refusals < 10 {
        if Instant::now() >= deadline {
            // With reflinks, a copy is one system call.
            eprintln!("SKIPPED: only {refusals} copies had a write in time");
            return;
        }
        scene.clear().unwrap();
        let (restored, wrote_inside) = restore_during_writes(&scene, &from);
        if !wrote_inside {
            continue;
        }
        let message = restored.err().map(|error| error.to_string());
        assert!(
            message
                .as_ref()
                .is_some_and(|text| text.contains("changed while it was copied")),
            "{message:?}"
        );
        refusals += 1;
    }
}
