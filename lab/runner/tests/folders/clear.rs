//! What is deleted and what never is.

use super::{NOW, Scene, is_root, mount::Mount, names, seen};
use faultline_kernel::HostRoot;
use faultline_runner::isolation::folders::{self, MARKER, SkippedEntry};
use proptest::prelude::*;
use rustix::fs::{CWD, FlockOperation, Mode};
use std::{
    fs,
    os::unix::{
        fs::{MetadataExt, symlink},
        net::UnixListener,
    },
    path::Path,
};

fn keypair() -> String {
    format!("{:?}", (0..64).collect::<Vec<u8>>())
}

fn retained(all: &[SkippedEntry]) -> Vec<(String, &'static str)> {
    let mut all: Vec<_> = all
        .iter()
        .map(|one| {
            (
                one.path.file_name().unwrap().to_str().unwrap().to_owned(),
                one.reason,
            )
        })
        .collect();
    all.sort();
    all
}

#[test]
fn clearing_removes_everything_except_keypairs_and_tower_files() {
    let scene = Scene::new();
    scene.put("rocksdb/000001.sst", &"x".repeat(100_000));
    scene.put("rocksdb/CURRENT", "");
    scene.put("snapshots/remote/snapshot-1-abc.tar.zst", "archive");
    scene.put("numbers.json", "[1, 2, 3]");
    scene.put("tower-1_9-abc.bin", "votes");
    scene.put("deep/er/validator-Keypair.json", "anything");
    scene.put("deep/er/other", "goes");
    scene.put("my-identity-2.json", "anything");
    scene.put("secret", &format!("\n {}", keypair()));
    let _listener = UnixListener::bind(scene.path("ledger/admin.rpc")).unwrap();
    rustix::fs::mkfifoat(CWD, scene.path("ledger/fifo"), Mode::RUSR).unwrap();
    let before = seen(&scene.path("ledger"));

    let mut would = scene.would_clear().unwrap();
    assert_eq!(seen(&scene.path("ledger")), before, "it only looks");
    let cleared = scene.clear().unwrap();
    let after = seen(&scene.path("ledger"));
    let gone = before
        .iter()
        .filter(|(name, what)| *what != "/" && !after.contains_key(*name));
    let gone: Vec<_> = gone
        .map(|(name, _)| scene.path("ledger").join(name))
        .collect();
    would.listed.sort_unstable();
    assert_eq!(std::mem::take(&mut would.listed), gone);
    assert_eq!(cleared, would);
    assert_eq!(cleared.files, 7);
    assert!(
        (100_000..200_000).contains(&cleared.bytes),
        "{}",
        cleared.bytes
    );
    let stayed = [
        "deep",
        "deep/er",
        "deep/er/validator-Keypair.json",
        "my-identity-2.json",
        "secret",
        "tower-1_9-abc.bin",
    ];
    assert_eq!(names(&scene.path("ledger")), stayed);
    let message = [
        ("my-identity-2.json", "a keypair by its name"),
        ("secret", "a keypair"),
        ("tower-1_9-abc.bin", "a tower file"),
        ("validator-Keypair.json", "a keypair by its name"),
    ];
    assert_eq!(
        retained(&cleared.retained),
        message.map(|(name, why)| (name.to_owned(), why))
    );
    assert!(folders::check(&scene.path("ledger")).is_ok());
    assert_eq!(scene.clear().unwrap().files, 0);
}

#[test]
fn links_are_removed_but_their_targets_stay() {
    let scene = Scene::new();
    symlink(scene.path("outside"), scene.path("ledger/folder")).unwrap();
    symlink(scene.path("outside/file"), scene.path("ledger/file")).unwrap();
    symlink("/no/such/place", scene.path("ledger/nowhere")).unwrap();
    fs::hard_link(scene.path("outside/file"), scene.path("ledger/hard")).unwrap();
    assert_eq!(scene.clear().unwrap().files, 4);
    assert!(names(&scene.path("ledger")).is_empty());
    scene.outside_is_untouched();
}

#[test]
fn clearing_skips_other_mounts_even_of_the_same_file_system() {
    let scene = Scene::alone();
    let (disk, again) = (scene.path("ledger/a/disk"), scene.path("ledger/a/again"));
    for path in [&disk, &again] {
        fs::create_dir_all(path).unwrap();
    }
    let Some(_disk) = Mount::of_bytes(&disk, 1 << 20) else {
        return;
    };
    let Some(_again) = Mount::bound(&again, &scene.path("outside")) else {
        return;
    };
    fs::write(disk.join("file"), "other disk").unwrap();
    scene.put("a/file", "goes");
    let cleared = scene.clear().unwrap();
    assert_eq!(cleared.files, 1);
    let why = "another file system, or a mount point";
    assert_eq!(
        retained(&cleared.retained),
        [("again".to_owned(), why), ("disk".to_owned(), why)]
    );
    assert_eq!(fs::read_to_string(disk.join("file")).unwrap(), "other disk");
    scene.outside_is_untouched();
}

#[test]
fn a_folder_of_experiments_inside_of_another_is_not_cleared_with_it() {
    let scene = Scene::new();
    folders::init(&scene.path("ledger/accounts"), NOW).unwrap();
    scene.put("accounts/run/1.2", "account");
    let cleared = scene.clear().unwrap();
    assert_eq!(
        retained(&cleared.retained),
        [(
            "accounts".to_owned(),
            "it is marked as a folder of experiments itself"
        )]
    );
    assert!(scene.path("ledger/accounts/run/1.2").exists());
}

#[test]
fn a_folder_without_its_marker_is_not_cleared() {
    let scene = Scene::new();
    scene.put("file", "stays");
    fs::remove_file(scene.path("ledger").join(MARKER)).unwrap();
    for message in [scene.clear().unwrap_err(), scene.would_clear().unwrap_err()] {
        assert!(message.to_string().contains("is not marked"), "{message}");
    }
    assert!(scene.path("ledger/file").exists());
    // A link to a marked folder is not that folder.
    symlink(scene.path("snapshots"), scene.path("link")).unwrap();
    fs::write(scene.path("snapshots/file"), "stays").unwrap();
    assert!(folders::clear(&scene.path("link"), &HostRoot::default()).is_err());
    assert!(scene.path("snapshots/file").exists());
}

#[test]
fn a_locked_ledger_at_any_depth_is_not_deleted() {
    // This host has no processes, so only the lock can refuse.
    let nobody = tempfile::tempdir().unwrap();
    let root = HostRoot::below(nobody.path());
    for name in ["ledger.lock", "node/ledger.lock"] {
        let scene = Scene::new();
        scene.put("a", "stays");
        scene.put("z", "stays");
        let lock = fs::File::open(scene.put(name, "")).unwrap();
        rustix::fs::flock(&lock, FlockOperation::LockExclusive).unwrap();
        let message = folders::clear(&scene.path("ledger"), &root)
            .unwrap_err()
            .to_string();
        assert!(
            message.contains("ledger.lock is locked: a validator runs on this ledger"),
            "{message}"
        );
        assert!(scene.path("ledger/a").exists() && scene.path("ledger/z").exists());
        drop(lock);
        let cleared = folders::clear(&scene.path("ledger"), &root).unwrap();
        assert_eq!((cleared.files, cleared.retained), (2, Vec::new()));
        assert!(
            scene.path("ledger").join(name).exists(),
            "who waits for the lock waits for this file"
        );
    }
}

#[test]
fn a_folder_with_a_file_open_in_a_process_is_not_cleared() {
    let scene = Scene::new();
    // A process that only lists the folder does not use it.
    let _listed = fs::File::open(scene.path("ledger")).unwrap();
    let open = fs::File::open(scene.put("rocksdb/LOG", "stays")).unwrap();
    let message = scene.clear().unwrap_err().to_string();
    assert!(
        message.contains(&format!("process {}", std::process::id()))
            && message.contains("rocksdb/LOG"),
        "{message}"
    );
    assert!(scene.path("ledger/rocksdb/LOG").exists());
    drop(open);
    assert_eq!(scene.clear().unwrap().files, 1);
}

#[test]
fn an_undeletable_file_is_an_error_naming_it() {
    if !is_root() {
        eprintln!("SKIPPED: only root makes a file that cannot be deleted");
        return;
    }
    let scene = Scene::new();
    let path = scene.put("deep/stuck", "immutable");
    let file = fs::File::open(&path).unwrap();
    let flags = rustix::fs::ioctl_getflags(&file).unwrap();
    if rustix::fs::ioctl_setflags(&file, flags | rustix::fs::IFlags::IMMUTABLE).is_err() {
        eprintln!("SKIPPED: this file system has no immutable files");
        return;
    }
    drop(file);
    let message = scene.clear().unwrap_err().to_string();
    rustix::fs::ioctl_setflags(fs::File::open(&path).unwrap(), flags).unwrap();
    assert!(message.contains("deep/stuck"), "{message}");
}

#[test]
fn a_folder_passed_to_a_new_owner_belongs_to_it() {
    if !is_root() {
        eprintln!("SKIPPED: only root gives folders away");
        return;
    }
    let scene = Scene::new();
    let owner = folders::UserAndGroup {
        uid: 65_534,
        gid: 65_533,
    };
    folders::set_folder_owner(&scene.path("ledger"), owner).unwrap();
    let meta = fs::metadata(scene.path("ledger")).unwrap();
    assert_eq!((meta.uid(), meta.gid()), (65_534, 65_533));
    assert!(folders::set_folder_owner(&scene.path("outside"), owner).is_err());
}

/// The rule of the documentation, implemented independently.
fn is_protected(path: &Path) -> bool {
    let name = path.file_name().unwrap().to_str().unwrap().to_lowercase();
    let json = path
        .extension()
        .is_some_and(|end| end.eq_ignore_ascii_case("json"));
    name.starts_with("tower") || (json && (name.contains("keypair") || name.contains("identity")))
}

fn any_name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{1,3}",
        "(tower|TOWER)[-a-z]{0,3}",
        "[a-b]{0,2}(keypair|Identity)[a-b]{0,2}\\.(json|bin)"
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn clearing_any_tree_keeps_exactly_the_protected_files(
        files in prop::collection::vec(prop::collection::vec(any_name(), 1..5), 0..24)
    ) {
        let scene = Scene::new();
        let ledger = scene.path("ledger");
        for parts in files {
            let path = parts.iter().fold(ledger.clone(), |path, part| path.join(part));
            // If one path needs a file where another needs a folder, the first one stays.
            if fs::create_dir_all(path.parent().unwrap()).is_ok() && !path.exists() {
                fs::write(path, "text").unwrap();
            }
        }
        let is_file = |name: &String| scene.path("ledger").join(name).is_file();
        let expected: Vec<String> =
            names(&ledger).into_iter().filter(is_file).filter(|name| is_protected(Path::new(name))).collect();
        let cleared = scene.clear().unwrap();
        let left: Vec<String> = names(&ledger).into_iter().filter(is_file).collect();
        prop_assert_eq!(&left, &expected);
        prop_assert_eq!(cleared.retained.len(), expected.len());
        let folders = |name: &String| expected.iter().any(|file| file.starts_with(&format!("{name}/")) || file == name);
        prop_assert!(names(&ledger).iter().all(folders), "{:?}", names(&ledger));
        scene.outside_is_untouched();
    }
}
