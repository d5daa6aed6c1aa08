use super::*;
use std::{
    fs,
    os::unix::{fs::symlink, net::UnixListener},
};

fn create(file: &mut ReadyFile) {
    file.create(
        vec!["127.0.0.1:1".to_owned(), "/run/m.sock".to_owned()],
        None,
    )
    .unwrap();
}

fn read(path: &Path) -> serde_json::Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn target(pid: u32) -> Option<TargetProcess> {
    Some(TargetProcess {
        pid,
        start_ticks: 7,
    })
}

fn names(folder: &Path) -> Vec<OsString> {
    fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect()
}

#[test]
fn the_ready_file_names_the_process_and_is_removed_on_drop() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ready");
    let mut file = ReadyFile::open(&path).unwrap();
    assert_eq!(names(folder.path()), <[OsString; 0]>::default());
    create(&mut file);
    let expected = serde_json::json!({
        "format": 1, "pid": std::process::id(), "metrics": ["127.0.0.1:1", "/run/m.sock"], "ingest": null, "target": null,
    });
    assert_eq!(read(&path), expected);
    for (followed, expected) in [
        (target(4), serde_json::json!({ "pid": 4, "start_ticks": 7 })),
        (None, serde_json::Value::Null),
        (target(5), serde_json::json!({ "pid": 5, "start_ticks": 7 })),
    ] {
        file.update(followed);
        assert_eq!(read(&path)["target"], expected);
        assert_eq!(names(folder.path()), ["ready"]);
    }
    let before = fs::read(&path).unwrap();
    fs::write(&path, "mine").unwrap();
    file.update(target(5));
    assert_eq!(
        fs::read(&path).unwrap(),
        b"mine",
        "what has not changed is not written"
    );
    file.update(target(6));
    assert_ne!(fs::read(&path).unwrap(), before);
    drop(file);
    assert_eq!(names(folder.path()), <[OsString; 0]>::default());
}

#[test]
fn a_ready_file_link_is_replaced_and_its_target_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let (other, path) = (folder.path().join("other"), folder.path().join("ready"));
    fs::write(&other, "precious").unwrap();
    symlink(&other, &path).unwrap();
    let mut file = ReadyFile::open(&path).unwrap();
    // The partial file's name may be a link, too.
    symlink(&other, folder.path().join(file.temp_name())).unwrap();
    create(&mut file);
    assert!(!path.is_symlink() && path.is_file());
    fs::remove_file(&path).unwrap();
    symlink(&other, &path).unwrap();
    file.update(target(4));
    assert_eq!(read(&path)["target"]["pid"], 4);
    drop(file);
    assert_eq!(
        (names(folder.path()), fs::read(&other).unwrap()),
        (vec!["other".into()], b"precious".to_vec())
    );
}

#[test]
fn an_unwritable_ready_file_is_a_named_error_leaving_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("folder")).unwrap();
    fs::write(at("file"), "").unwrap();
    let _socket = UnixListener::bind(at("socket")).unwrap();
    let before = names(folder.path());
    for (name, why) in [
        ("none/ready", "No such file"),
        ("file/ready", "Not a directory"),
        ("folder", "Is a directory"),
        ("folder/..", "Is a directory"),
        ("socket", "not a regular file"),
    ] {
        let error = ReadyFile::open(&at(name)).unwrap_err();
        let message = error.to_string();
        assert!(
            message.contains(&at(name).display().to_string()) && message.contains(why),
            "{message}"
        );
        assert!(error.is_permanent());
    }
    assert_eq!(names(folder.path()), before);
}

#[test]
fn an_unwritable_ready_file_is_removed_and_recreated_later() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ready");
    let mut file = ReadyFile::open(&path).unwrap();
    create(&mut file);
    // A folder at the partial file's name: it is not removed like a file.
    let obstacle = folder.path().join(file.temp_name());
    fs::create_dir(&obstacle).unwrap();
    file.update(target(4));
    assert!(
        !path.exists(),
        "it would name another process than the one that is followed"
    );
    file.update(target(4));
    assert!(!path.exists());
    fs::remove_dir(&obstacle).unwrap();
    file.update(target(4));
    assert_eq!(read(&path)["target"]["pid"], 4);
}
