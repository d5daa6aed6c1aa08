//! The page cache of a real kernel, and the cgroups that are charged for it.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot prepare its scene fails"
)]
#![expect(clippy::disallowed_methods, reason = "a test starts programs itself")]

use faultline_kernel::HostRoot;
use faultline_runner::isolation::{cold, folders};
use faultline_testkit::eventually::{eventually, eventually_ok};
use std::{
    env, fs,
    io::{Read, Write},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

const FILES: u64 = 48;
const EACH: u64 = 1 << 20;
const PAGES: u64 = FILES * EACH / 4096;

/// The kernel may drop an unmapped page at any moment, also between a read and a measurement. Conditions that need the
/// pages to stay are retried for this long.
const LEFT_ALONE_WITHIN: Duration = Duration::from_secs(120);

/// Files on a real disk. `None` with a message if dropped pages stay, as in tmpfs, or `fincore` is missing.
fn ledger() -> Option<tempfile::TempDir> {
    let folder = tempfile::tempdir_in(env::current_dir().unwrap()).unwrap();
    fill(folder.path());
    let probe = folder.path().join("0/0");
    let file = fs::File::open(&probe).unwrap();
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    let message = Command::new("fincore")
        .args(["--noheadings", "--output", "PAGES"])
        .arg(probe)
        .output();
    match message.map(|message| String::from_utf8_lossy(&message.stdout).trim().to_owned()) {
        Ok(pages) if pages == "0" => {
            cold::drop_files(&[folder.path()]).unwrap();
            Some(folder)
        }
        Ok(pages) => {
            eprintln!(
                "SKIPPED: this file system keeps everything in the page cache ({pages} pages)"
            );
            None
        }
        Err(error) => {
            eprintln!("SKIPPED: no fincore here, of util-linux: {error}");
            None
        }
    }
}

fn fill(folder: &Path) {
    for number in 0..FILES {
        let path = folder.join(format!("{}/{number}", number % 4));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let piece = u8::try_from(number).unwrap();
        fs::write(path, vec![piece; EACH as usize]).unwrap();
    }
}

fn read(folder: &Path) {
    assert!(
        Command::new("sh")
            .args(["-c", "cat \"$1\"/*/* > /dev/null", "sh"])
            .arg(folder)
            .status()
            .unwrap()
            .success()
    );
}

#[test]
fn dropped_pages_are_uncached_and_inspection_does_not_reload_them() {
    let Some(folder) = ledger() else { return };
    let look = || cold::residency(&[folder.path()]).unwrap();
    let all = cold::Residency {
        files: FILES,
        pages: PAGES,
        resident_pages: PAGES,
    };
    eventually_ok(LEFT_ALONE_WITHIN, "what was read is in memory", || {
        read(folder.path());
        let found = look();
        if found == all {
            Ok(())
        } else {
            Err(format!("{found:?}"))
        }
    });
    let dropped = cold::drop_files(&[folder.path()]).unwrap();
    assert_eq!(
        (dropped.files, dropped.bytes, dropped.skipped),
        (FILES, FILES * EACH, Vec::new())
    );
    for _ in 0..3 {
        assert_eq!(
            look(),
            cold::Residency {
                resident_pages: 0,
                ..all
            }
        );
    }
    // These files are dirty: they are written to disk first.
    fill(folder.path());
    cold::drop_files(&[folder.path()]).unwrap();
    assert_eq!(look().share(), Some(0.0));
}

#[test]
fn a_partly_cached_file_counts_only_its_cached_pages() {
    let Some(folder) = ledger() else { return };
    eventually_ok(
        LEFT_ALONE_WITHIN,
        "ten pages and a few beside them are in memory",
        || {
            let mut file = fs::File::open(folder.path().join("0/0")).unwrap();
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random).unwrap();
            file.read_exact(&mut [0; 10 * 4096]).unwrap();
            let found = cold::residency(&[folder.path()]).unwrap();
            if (10..64).contains(&found.resident_pages) {
                Ok(())
            } else {
                Err(format!("{found:?}"))
            }
        },
    );
}

#[test]
fn a_mapped_page_in_use_stays_cached_and_is_reported() {
    let Some(folder) = ledger() else { return };
    let program = folder.path().join("cat");
    fs::copy("/bin/cat", &program).unwrap();
    // Another test that starts a program just now may hold the copy open for writing until it has.
    let mut running = eventually(Duration::from_secs(20), "the copy is a program", || {
        Command::new(&program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .ok()
    });
    // After an answer, the pages of the program are mapped. Before it, none may have been read.
    running.stdin.as_mut().unwrap().write_all(b"!").unwrap();
    running
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut [0])
        .unwrap();
    cold::drop_files(&[folder.path()]).unwrap();
    let found = cold::residency(&[folder.path()]).unwrap();
    running.kill().unwrap();
    running.wait().unwrap();
    assert!(
        found.resident_pages > 0 && found.resident_pages < 1000,
        "{found:?}"
    );
    cold::drop_files(&[folder.path()]).unwrap();
    assert_eq!(cold::residency(&[folder.path()]).unwrap().resident_pages, 0);
}

#[test]
fn only_top_level_links_are_followed_and_missing_paths_ignored() {
    let Some(folder) = ledger() else { return };
    let beside = tempfile::tempdir_in(env::current_dir().unwrap()).unwrap();
    symlink(folder.path(), beside.path().join("ledger")).unwrap();
    eventually_ok(LEFT_ALONE_WITHIN, "what lies behind a link stays", || {
        read(folder.path());
        cold::drop_files(&[beside.path()]).unwrap();
        let found = cold::residency(&[folder.path()]).unwrap();
        if found.resident_pages == PAGES {
            Ok(())
        } else {
            Err(format!("{found:?}"))
        }
    });
    assert_eq!(
        cold::residency(&[beside.path()]).unwrap(),
        cold::Residency::default()
    );
    cold::drop_files(&[&beside.path().join("ledger")]).unwrap();
    assert_eq!(cold::residency(&[folder.path()]).unwrap().resident_pages, 0);
    assert_eq!(
        cold::drop_files(&[Path::new("/no/such/folder")]).unwrap(),
        cold::Dropped::default()
    );
    assert_eq!(
        cold::residency(&[Path::new("/no/such/folder")])
            .unwrap()
            .share(),
        None
    );
}

#[test]
fn a_sparse_file_hole_counts_no_pages() {
    let Some(folder) = ledger() else { return };
    fs::File::create(folder.path().join("hole"))
        .unwrap()
        .set_len(1 << 30)
        .unwrap();
    let found = cold::residency(&[folder.path()]).unwrap();
    assert_eq!((found.files, found.pages), (FILES + 1, PAGES));
}

#[test]
fn drop_caches_empties_the_page_cache_or_reports_its_absence() {
    let host = tempfile::tempdir().unwrap();
    let root = HostRoot::below(host.path());
    let message = cold::drop_all(&root).unwrap_err().to_string();
    assert!(message.contains("sys/vm/drop_caches"), "{message}");
    let file = host.path().join("proc/sys/vm/drop_caches");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "").unwrap();
    cold::drop_all(&root).unwrap();
    assert_eq!(fs::read_to_string(file).unwrap(), "3\n");
}

/// A memory cgroup of a test, of version 1 or 2. Needs root.
struct TestCgroup {
    folder: PathBuf,
    cache: &'static str,
}

impl TestCgroup {
    fn new(name: &str) -> Option<Self> {
        let v1 = Path::new("/sys/fs/cgroup/memory");
        let (top, cache) = if v1.is_dir() {
            (v1, "cache ")
        } else {
            (Path::new("/sys/fs/cgroup"), "file ")
        };
        // The name of a cgroup is in use until its removal is complete.
        static CGROUPS: AtomicU32 = AtomicU32::new(0);
        let number = CGROUPS.fetch_add(1, Ordering::Relaxed);
        let folder = top.join(format!(
            "faultline_test_cold_{name}_{}_{number}",
            std::process::id()
        ));
        let made = fs::create_dir(&folder).is_ok();
        let cgroup = Self { folder, cache };
        if made && cgroup.stat().is_some() {
            return Some(cgroup);
        }
        eprintln!("SKIPPED: no memory cgroup can be made here; that takes root");
        None
    }

    fn stat(&self) -> Option<u64> {
        let text = fs::read_to_string(self.folder.join("memory.stat")).ok()?;
        text.lines()
            .find_map(|line| line.strip_prefix(self.cache)?.trim().parse().ok())
    }

    /// Reads all files in a new cgroup. Returns the page cache charged to it, in bytes.
    fn charged(name: &str, ledger: &Path) -> Option<u64> {
        let cgroup = Self::new(name)?;
        let script = "echo 0 > \"$1/cgroup.procs\" && exec cat \"$2\"/*/* > /dev/null";
        let status = Command::new("sh")
            .args(["-c", script, "sh"])
            .arg(&cgroup.folder)
            .arg(ledger)
            .status()
            .unwrap();
        assert!(status.success());
        cgroup.stat()
    }
}

impl Drop for TestCgroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.folder);
    }
}

#[test]
fn cache_charges_are_equal_only_after_dropping_the_page_cache() {
    let Some(kept) = ledger() else { return };
    let scene = tempfile::tempdir_in(env::current_dir().unwrap()).unwrap();
    let ledger = scene.path().join("ledger");
    folders::init(&ledger, Duration::ZERO).unwrap();
    let both: [&Path; 2] = [kept.path(), &ledger];
    let restored = || {
        // A child of another test has all open files of this process until it executes its program.
        eventually_ok(LEFT_ALONE_WITHIN, "a ledger that nobody has open", || {
            folders::clear(&ledger, &HostRoot::default())
                .map(drop)
                .map_err(|error| error.to_string())
        });
        folders::restore(kept.path(), &ledger, None, None).unwrap();
    };
    let cool = || {
        cold::drop_files(&both).unwrap();
        let share = cold::residency(&both).unwrap().share().unwrap();
        assert!(share < 0.01, "{share}");
    };

    if TestCgroup::new("any").is_none() {
        return;
    }
    restored();
    let after_restore = eventually_ok(
        LEFT_ALONE_WITHIN,
        "two cold arms are charged the same",
        || {
            cool();
            let after_restore = TestCgroup::charged("first", &ledger).unwrap();
            // Another arm has read the same files, so they are dropped again.
            cool();
            let after_another = TestCgroup::charged("second", &ledger).unwrap();
            let same = after_restore.abs_diff(after_another) * 20 <= after_restore;
            let message = format!("{after_restore} and {after_another} of {}", FILES * EACH);
            if same && after_restore >= FILES * EACH {
                Ok(after_restore)
            } else {
                Err(message)
            }
        },
    );

    // Without dropping, an arm is charged next to nothing, both after a restore and after another arm.
    eventually_ok(
        LEFT_ALONE_WITHIN,
        "two warm arms are charged little",
        || {
            let warm_after_arm = TestCgroup::charged("third", &ledger).unwrap();
            restored();
            let warm_after_restore = TestCgroup::charged("fourth", &ledger).unwrap();
            let most = warm_after_arm.max(warm_after_restore);
            if most * 2 < after_restore {
                Ok(())
            } else {
                Err(format!("{most} instead of {after_restore}"))
            }
        },
    );
}
