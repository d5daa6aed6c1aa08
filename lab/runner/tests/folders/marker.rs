//! Which folders are marked.

use super::{NOW, Scene};
use faultline_runner::isolation::folders::{InitResult, MARKER, check, init};
use std::{fs, os::unix::fs::symlink};

#[test]
fn only_a_created_or_empty_folder_gets_a_marker() {
    let scene = tempfile::tempdir().unwrap();
    let path = |name: &str| scene.path().join(name);
    assert_eq!(init(&path("made"), NOW).unwrap(), InitResult::Created);
    assert_eq!(init(&path("made"), NOW).unwrap(), InitResult::AlreadyMarked);
    assert!(check(&path("made")).is_ok());

    fs::create_dir_all(path("fresh/lost+found")).unwrap();
    assert_eq!(init(&path("fresh"), NOW).unwrap(), InitResult::Marked);

    fs::create_dir(path("full")).unwrap();
    fs::write(path("full/genesis.bin"), "").unwrap();
    let message = init(&path("full"), NOW).unwrap_err().to_string();
    assert!(
        message.contains("genesis.bin") && message.contains("not empty"),
        "{message}"
    );
    assert!(!path("full").join(MARKER).exists());

    let message = init(&path("no/such"), NOW).unwrap_err().to_string();
    assert!(
        message.contains("the folder above it is missing"),
        "{message}"
    );

    symlink(path("made"), path("link")).unwrap();
    let message = init(&path("link"), NOW).unwrap_err().to_string();
    assert!(
        message.contains("symbolic link") && message.contains("made"),
        "{message}"
    );
    assert!(check(&path("link")).is_err());

    fs::write(path("file"), "").unwrap();
    assert!(init(&path("file"), NOW).is_err() && check(&path("file")).is_err());
}

#[test]
fn a_marker_file_contains_its_meaning_and_creation_time() {
    let scene = Scene::new();
    let text = fs::read_to_string(scene.path("ledger").join(MARKER)).unwrap();
    let marker: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(marker["created_unix"], NOW.as_secs());
    assert!(
        marker["about"]
            .as_str()
            .unwrap()
            .contains("deletes everything in this folder")
    );
}

#[test]
fn a_marker_is_valid_only_in_the_folder_it_was_created_in() {
    let scene = Scene::new();
    let copy = scene.path("outside");
    fs::copy(scene.path("ledger").join(MARKER), copy.join(MARKER)).unwrap();
    let message = check(&copy).unwrap_err().to_string();
    assert!(
        message.contains("copied here from another folder"),
        "{message}"
    );
    assert!(init(&copy, NOW).is_err());

    // A folder that is moved is the same folder.
    fs::rename(scene.path("ledger"), scene.path("moved")).unwrap();
    assert!(check(&scene.path("moved")).is_ok());
}

#[test]
fn only_a_regular_file_with_valid_content_is_a_marker() {
    let scene = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    init(&other.path().join("marked"), NOW).unwrap();
    let marker = scene.path().join(MARKER);
    for text in [
        "",
        "{}",
        "[1, 2",
        r#"{"kind":"faultline-flight","about":"","created_unix":1,"inode":1}"#,
    ] {
        fs::write(&marker, text).unwrap();
        assert!(check(scene.path()).is_err(), "{text}");
    }
    fs::remove_file(&marker).unwrap();
    symlink(other.path().join("marked").join(MARKER), &marker).unwrap();
    assert!(check(scene.path()).is_err());
    fs::remove_file(&marker).unwrap();
    fs::create_dir(&marker).unwrap();
    assert!(check(scene.path()).is_err());
}
