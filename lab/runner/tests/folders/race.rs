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

/// Clearings. A walk that steps over links is caught in about every second run of this test, and in every run of those of
/// `tree`; this one shows that nothing else in the way of a clearing does.
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
                    // In one step: while both are there, there is always one of the two under each name.
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
                // Either may be gone; whatever is missing comes back.
                let _ = fs::create_dir(inside(pair));
                let _ = symlink(scene.path("outside"), link(pair));
            }
            // What it says does not matter here: a folder that keeps changing may be told as kept.
            let _ = folders::clear(&scene.path("ledger"), &root);
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(swaps.into_inner() > 0, "nothing was swapped");
    scene.outside_is_untouched();
}
