use super::*;
use rustix::fs::CWD;
use std::{fs, os::unix::fs::symlink};

/// A folder `inside` with an entry of each kind, and next to it the targets of its links.
fn scene() -> (tempfile::TempDir, Folder) {
    let scene = tempfile::tempdir().unwrap();
    let path = |name: &str| scene.path().join(name);
    fs::create_dir_all(path("inside/folder")).unwrap();
    fs::create_dir(path("outside")).unwrap();
    fs::write(path("outside/file"), "text").unwrap();
    fs::write(path("inside/file"), "text").unwrap();
    symlink(path("outside"), path("inside/to-folder")).unwrap();
    symlink("folder", path("inside/to-folder-inside")).unwrap();
    symlink(path("outside/file"), path("inside/to-file")).unwrap();
    rustix::fs::mkfifoat(CWD, path("inside/fifo"), Mode::RUSR | Mode::WUSR).unwrap();
    let folder = Folder::open(&path("inside")).unwrap();
    (scene, folder)
}

#[test]
fn a_folder_replaced_by_a_link_is_not_entered() {
    let (_scene, folder) = scene();
    assert!(matches!(
        folder.enter(c"folder").unwrap(),
        OpenResult::Open(_)
    ));
    for name in [
        c"to-folder",
        c"to-folder-inside",
        c"to-file",
        c"file",
        c"fifo",
        c"missing",
    ] {
        assert!(
            matches!(folder.enter(name).unwrap(), OpenResult::Changed),
            "{name:?}"
        );
    }
}

#[test]
fn only_a_regular_file_is_opened_without_blocking() {
    let (_scene, folder) = scene();
    assert!(matches!(
        folder.open_file(c"file").unwrap(),
        OpenResult::Open(_)
    ));
    for name in [c"to-folder", c"to-file", c"folder", c"fifo", c"missing"] {
        assert!(
            matches!(folder.open_file(name).unwrap(), OpenResult::Changed),
            "{name:?}"
        );
    }
}

#[test]
fn a_symbolic_link_is_refused_as_the_root_of_a_walk() {
    let (scene, folder) = scene();
    let told = Folder::open(&scene.path().join("inside/to-folder"))
        .unwrap_err()
        .to_string();
    assert!(
        told.contains("is a symbolic link") && told.contains("outside"),
        "{told}"
    );
    assert!(Folder::open(&scene.path().join("inside/file")).is_err());
    assert_eq!(
        folder.stat(c"missing").unwrap().map(|stat| stat.st_size),
        None
    );
}

#[test]
fn a_walk_shows_each_regular_file_once() {
    let (_scene, folder) = scene();
    fs::write(folder.path.join("folder/deep"), "text").unwrap();
    let mut seen = Vec::new();
    walk_files(&folder, &mut |found| {
        if let WalkEntry::File(_, _, path) = found {
            seen.push(path.strip_prefix(&folder.path).unwrap().to_owned());
        }
        Ok(())
    })
    .unwrap();
    seen.sort();
    assert_eq!(seen, [Path::new("file"), Path::new("folder/deep")]);
}
