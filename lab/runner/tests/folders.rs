//! Folders of experiments on real file systems: what is deleted, what never is, what is copied.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot prepare its scene fails"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "a test starts programs and threads itself"
)]

#[path = "support/mount.rs"]
mod mount;

#[path = "folders/clear.rs"]
mod clear;
#[path = "folders/lock.rs"]
mod lock;
#[path = "folders/marker.rs"]
mod marker;
#[path = "folders/race.rs"]
mod race;
#[path = "folders/restore.rs"]
mod restore;

use anyhow::Result;
use faultline_kernel::HostRoot;
use faultline_runner::isolation::folders;
use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
    time::Duration,
};

const NOW: Duration = Duration::from_secs(1_795_000_000);

/// A child has every open file of this process until it executes its program. Folders cannot be cleared meanwhile.
static STARTS: RwLock<()> = RwLock::new(());

enum Turn {
    Shared(#[expect(dead_code, reason = "held")] RwLockReadGuard<'static, ()>),
    Alone(#[expect(dead_code, reason = "held")] RwLockWriteGuard<'static, ()>),
}

/// A folder with two marked folders, `ledger` and `snapshots`, and with `outside`, which must not change.
struct Scene(
    tempfile::TempDir,
    #[expect(dead_code, reason = "held")] Turn,
);

impl Scene {
    fn new() -> Self {
        Self::at(Turn::Shared(
            STARTS.read().unwrap_or_else(PoisonError::into_inner),
        ))
    }

    /// For a test that mounts something.
    fn alone() -> Self {
        Self::at(Turn::Alone(
            STARTS.write().unwrap_or_else(PoisonError::into_inner),
        ))
    }

    fn at(turn: Turn) -> Self {
        let scene = Self(tempfile::tempdir().unwrap(), turn);
        for name in ["ledger", "snapshots"] {
            assert_eq!(
                folders::init(&scene.path(name), NOW).unwrap(),
                folders::InitResult::Created
            );
        }
        fs::create_dir_all(scene.path("outside/deep")).unwrap();
        fs::write(scene.path("outside/file"), "precious").unwrap();
        fs::write(scene.path("outside/deep/file"), "precious too").unwrap();
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Makes a file in the ledger, with the folders above it.
    fn put(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path("ledger").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    fn outside_is_untouched(&self) {
        assert_eq!(
            fs::read_to_string(self.path("outside/file")).unwrap(),
            "precious"
        );
        assert_eq!(
            fs::read_to_string(self.path("outside/deep/file")).unwrap(),
            "precious too"
        );
    }

    fn clear(&self) -> Result<folders::ClearSummary> {
        folders::clear(&self.path("ledger"), &HostRoot::default())
    }

    fn would_clear(&self) -> Result<folders::ClearSummary> {
        folders::would_clear(&self.path("ledger"), &HostRoot::default())
    }
}

/// All entries below a folder except the marker, by relative path: the text of files, the target of links, `/` for
/// folders. It walks by paths, independently of the tested code.
fn seen(folder: &Path) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(next) = waiting.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            let name = path
                .strip_prefix(folder)
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned();
            let meta = fs::symlink_metadata(&path).unwrap();
            let what = if meta.is_dir() {
                waiting.push(path.clone());
                "/".to_owned()
            } else if meta.is_symlink() {
                format!("-> {}", fs::read_link(&path).unwrap().display())
            } else if meta.is_file() {
                String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned()
            } else {
                "special".to_owned()
            };
            if name != folders::MARKER {
                all.insert(name, what);
            }
        }
    }
    all
}

fn names(folder: &Path) -> Vec<String> {
    seen(folder).into_keys().collect()
}

fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}
