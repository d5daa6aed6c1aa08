//! Folders that become symbolic links while they are cleared.

use super::Scene;
use faultline_kernel::HostRoot;
use faultline_rig::folders;
use rustix::fs::{CWD, RenameFlags};
use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};

/// Times that a folder became a link between the look at it and the step into it. With one that was stepped through, the
/// files outside are gone.
const CAUGHT: usize = 5;

/// Clearings after which it is given up to catch that moment.
const MOST_ROUNDS: usize = 20_000;

/// Folders in the ledger, each with a link that takes turns with it.
const PAIRS: usize = 16;

#[test]
fn a_folder_that_is_swapped_for_a_link_during_the_walk_leads_nowhere() {
    let scene = Scene::new();
    let nobody = tempfile::tempdir().unwrap();
    let root = HostRoot::below(nobody.path());
    let inside = |pair: usize| scene.path("ledger").join(pair.to_string());
    let link = |pair: usize| scene.path(&format!("link{pair}"));
    let done = AtomicBool::new(false);
    let mut caught = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                for pair in 0..PAIRS {
                    // In one step: while both are there, there is always one of the two under each name.
                    let _ = rustix::fs::renameat_with(CWD, inside(pair), CWD, link(pair), RenameFlags::EXCHANGE);
                }
            }
        });
        for _ in 0..MOST_ROUNDS {
            for pair in 0..PAIRS {
                // Either may be gone; whatever is missing comes back.
                let _ = fs::create_dir(inside(pair));
                let _ = symlink(scene.path("outside"), link(pair));
            }
            let cleared = folders::clear(&scene.path("ledger"), &root).unwrap_or_default();
            caught += cleared.kept.iter().filter(|kept| kept.why == "it changed while it was looked at").count();
            if caught >= CAUGHT || !scene.path("outside/file").exists() {
                break;
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    scene.outside_is_untouched();
    if caught == 0 {
        eprintln!("SKIPPED: no folder was swapped just between the look at it and the step into it");
    }
}
