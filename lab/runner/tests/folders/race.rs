//! Folders that become symbolic links while they are cleared.

use super::Scene;
use faultline_kernel::HostRoot;
use faultline_runner::isolation::folders;
use rustix::fs::{CWD, RenameFlags};
use std::{
    fs,
    os::unix::fs::symlink,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};

/// Number of clearings. If the walk followed links, about every second run of this test would fail, and every run of the
/// tests of `file_tree`. This test shows that no other part of a clearing follows a link.
const ROUNDS: usize = 400;

/// Folders in the ledger, each with a link that takes turns with it.
const PAIRS: usize = 16;

#[test]
fn a_folder_swapped_for_a_link_during_clearing_is_not_followed() {
    let scene = Scene::new();
    let nobody = tempfile::tempdir().unwrap();
    let root = HostRoot::below(nobody.path());
    let inside = |pair: usize| scene.path("ledger").join(pair.to_string());
    let link = |pair: usize| scene.path(&format!("link{pair}"));
    let (done, swaps) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                for pair in 0..PAIRS {
                    // An atomic exchange: under each name, there is always either the folder or the link.
                    let swapped = rustix::fs::renameat_with(
                        CWD,
                        inside(pair),
                        CWD,
                        link(pair),
                        RenameFlags::EXCHANGE,
                    );
                    swaps.fetch_add(usize::from(swapped.is_ok()), Ordering::Relaxed);
                }
            }
        });
        for _ in 0..ROUNDS {
            for pair in 0..PAIRS {
                // A clearing may have removed either; a missing one is created again.
                let _ = fs::create_dir(inside(pair));
                let _ = symlink(scene.path("outside"), link(pair));
            }
            // The result does not matter: a folder that changes may be reported as retained.
            let _ = folders::clear(&scene.path("ledger"), &root);
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(swaps.into_inner() > 0, "nothing was swapped");
    scene.outside_is_untouched();
}
