use super::*;
use proptest::prelude::*;
use std::time::Duration;

fn at(seconds: u64) -> Stamp {
    Stamp {
        uptime: Duration::ZERO,
        unix: Duration::from_secs(seconds),
    }
}

/// A marked folder with files of ten bytes.
fn folder(names: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    prepare(folder.path()).unwrap();
    names
        .iter()
        .for_each(|name| fs::write(folder.path().join(name), "0123456789").unwrap());
    folder
}

fn names(folder: &Path) -> Vec<String> {
    let all = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut all: Vec<String> = all.filter(|name| name != MARKER_FILE).collect();
    all.sort();
    all
}

fn limits(max_saved: u64, max_saved_bytes: u64) -> Flight {
    Flight {
        max_saved,
        max_saved_bytes,
        ..Flight::default()
    }
}

const OLD: &str = "vm-exit-20261120T235959Z.fltl";
const ASKED: &str = "vm-request-20261121T000000Z.fltl";
const TWICE: &str = "vm-behind-20261121T000000Z_2.fltl";
const NEW: &str = "my-host-oom_kill-20261121T081309Z.fltl";

#[test]
fn only_the_oldest_automatic_saves_are_removed_to_free_space() {
    let others = [
        "ring.fltl",
        "notes.txt",
        "exit.fltl",
        "a-exit-yesterday.fltl",
        "x-exit-20261101T000000Z.sqlite",
    ];
    let folder = folder(&[&[OLD, ASKED, TWICE, NEW][..], &others].concat());
    fs::write(folder.path().join(format!("{OLD}-wal")), "beside").unwrap();
    assert_eq!(
        make_space(folder.path(), &limits(5, 1000), 10, SaveOrigin::Automatic),
        Ok(0)
    );
    assert_eq!(
        make_space(folder.path(), &limits(4, 1000), 10, SaveOrigin::Automatic),
        Ok(1)
    );
    let mut left = [&[ASKED, TWICE, NEW][..], &others].concat();
    left.sort_unstable();
    assert_eq!(names(folder.path()), left);
    assert_eq!(
        make_space(folder.path(), &limits(9, 30), 10, SaveOrigin::Automatic),
        Ok(1),
        "by bytes"
    );
    assert!(!folder.path().join(TWICE).exists() && folder.path().join(NEW).exists());
}

#[test]
fn requested_saves_are_never_removed_to_free_space() {
    let folder = folder(&[ASKED, NEW]);
    let refused =
        make_space(folder.path(), &limits(1, 1000), 10, SaveOrigin::Automatic).unwrap_err();
    assert!(refused.contains("max_saved (1)"), "{refused}");
    assert_eq!(names(folder.path()).len(), 2);
    assert!(make_space(folder.path(), &limits(9, 5), 10, SaveOrigin::Automatic).is_err());
}

#[test]
fn http_saves_use_half_the_space_and_remove_nothing() {
    let folder = folder(&[ASKED, OLD]);
    assert_eq!(
        make_space(folder.path(), &limits(4, 1000), 10, SaveOrigin::Http),
        Ok(0)
    );
    assert!(
        make_space(folder.path(), &limits(2, 1000), 10, SaveOrigin::Http)
            .unwrap_err()
            .contains("half")
    );
    assert!(make_space(folder.path(), &limits(9, 40), 10, SaveOrigin::Http).is_ok());
    assert!(make_space(folder.path(), &limits(9, 39), 10, SaveOrigin::Http).is_err());
    let refused = make_space(
        self::folder(&[]).path(),
        &limits(1, 1000),
        10,
        SaveOrigin::Http,
    );
    assert!(refused.is_err(), "automatic saves need the only place");
    let full = folder_with_unasked();
    assert!(
        make_space(full.path(), &limits(2, 1000), 10, SaveOrigin::Http)
            .unwrap_err()
            .contains("is full")
    );
    assert_eq!(names(full.path()), [NEW, OLD]);
}

fn folder_with_unasked() -> tempfile::TempDir {
    folder(&[OLD, NEW])
}

#[test]
fn a_signal_save_succeeds_where_http_saves_used_their_half() {
    let folder = folder(&[ASKED, OLD]);
    assert_eq!(
        make_space(folder.path(), &limits(2, 1000), 10, SaveOrigin::Signal),
        Ok(1)
    );
    assert_eq!(names(folder.path()), [ASKED]);
}

#[test]
fn a_flight_folder_without_marker_is_not_modified() {
    let folder = folder(&[OLD, NEW, RING_FILE, "vm-exit-20261120T000000Z.fltl.part"]);
    fs::remove_file(folder.path().join(MARKER_FILE)).unwrap();
    assert!(
        make_space(folder.path(), &limits(2, 1000), 10, SaveOrigin::Automatic)
            .unwrap_err()
            .contains(MARKER_FILE)
    );
    assert!(
        set_aside(folder.path(), "vm", at(0))
            .unwrap_err()
            .contains(MARKER_FILE)
    );
    remove_interrupted_saves(folder.path());
    assert_eq!(names(folder.path()).len(), 4);
    assert_eq!(
        make_space(folder.path(), &limits(3, 1000), 10, SaveOrigin::Automatic),
        Ok(0),
        "there is room as it is"
    );
}

#[test]
fn leftovers_of_an_interrupted_save_are_removed_and_other_files_kept() {
    let folder = folder(&[
        "vm-exit-20261120T000000Z.fltl.part",
        "vm-exit-20261120T000000Z.fltl.part-wal",
        "vm-exit-20261120T000000Z.fltl.part-shm",
        "vm-exit-20261121T000000Z.fltl.part-journal",
        "vm-exit-20261121T000000Z.fltl.4711-0.part",
        "vm-exit-20261121T000000Z.fltl.4711-0.part-journal",
        "film.part",
        "ring.fltl.part",
        OLD,
    ]);
    remove_interrupted_saves(folder.path());
    assert_eq!(names(folder.path()), ["film.part", "ring.fltl.part", OLD]);
}

#[test]
fn a_flight_folder_must_be_marked_empty_or_missing() {
    let top = tempfile::tempdir().unwrap();
    let inner = top.path().join("flight");
    assert_eq!(check_folder(&inner), Ok(()));
    assert!(!inner.exists());
    assert!(
        check_folder(&inner.join("deeper"))
            .unwrap_err()
            .contains("above")
    );
    prepare(&inner).unwrap();
    fs::write(inner.join("anything"), "").unwrap();
    assert_eq!(check_folder(&inner), Ok(()));
    prepare(&inner).unwrap();
    assert!(check_folder(top.path()).unwrap_err().contains(MARKER_FILE));
    assert!(
        check_folder(&inner.join("anything"))
            .unwrap_err()
            .contains("cannot be used")
    );
}

#[test]
fn a_flight_folder_that_this_user_may_not_write_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let top = tempfile::tempdir().unwrap();
    let marked = top.path().join("marked");
    prepare(&marked).unwrap();
    let empty = top.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let folders = [empty.clone(), top.path().join("missing")];
    let set_mode = |folder: &Path, mode| {
        fs::set_permissions(folder, fs::Permissions::from_mode(mode)).unwrap();
    };
    for folder in [&marked, &empty, top.path()] {
        set_mode(folder, 0o555);
    }
    // Only this thread changes its user.
    let as_user = move || {
        if rustix::process::geteuid().is_root() {
            let nobody = rustix::process::Uid::from_raw(65534);
            rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
        }
        let uid = rustix::process::geteuid().as_raw();
        // The recorder retries.
        prepare(&marked).unwrap();
        assert!(check_writable(&marked).is_err());
        (uid, folders.map(|folder| prepare(&folder).unwrap_err()))
    };
    let (uid, errors) = std::thread::Builder::new()
        .spawn(as_user)
        .unwrap()
        .join()
        .unwrap();
    set_mode(top.path(), 0o755);
    for error in errors {
        let what = error.to_string();
        let is_clear = what.contains("Permission denied") && what.contains("chown");
        assert!(is_clear && what.contains(&format!("user {uid}")), "{what}");
    }
}

#[test]
fn saved_file_names_contain_host_reason_and_time_without_overwriting() {
    let folder = folder(&[]);
    let first = unused_path(folder.path(), "vm", "exit", at(1_795_248_789)).unwrap();
    assert_eq!(first.file_name().unwrap(), "vm-exit-20261121T081309Z.fltl");
    fs::write(&first, "").unwrap();
    let second = unused_path(folder.path(), "vm", "exit", at(1_795_248_789)).unwrap();
    assert_eq!(
        second.file_name().unwrap(),
        "vm-exit-20261121T081309Z_2.fltl"
    );
    assert_eq!(
        parse_name("vm-exit-20261121T081309Z_2.fltl"),
        Some(("20261121T081309Z_2", true))
    );
}

#[test]
fn a_flight_ring_is_moved_aside_with_its_log_files() {
    let folder = folder(&[RING_FILE, "ring.fltl-wal", "ring.fltl-shm"]);
    set_aside(folder.path(), "vm", at(0)).unwrap();
    let aside = "vm-set_aside-19700101T000000Z.fltl";
    assert_eq!(last_saved_at(folder.path()), None, "nothing was saved");
    assert_eq!(
        names(folder.path()),
        [
            aside.to_owned(),
            format!("{aside}-shm"),
            format!("{aside}-wal")
        ]
    );
}

proptest! {
    /// No text of a request may give its recording the name of an automatic one, which can be
    /// deleted.
    #[test]
    fn no_save_request_text_makes_its_recording_automatic(text in any::<String>(), seconds in 0_u64..10_000_000_000) {
        let folder = Path::new("");
        let path = unused_path(folder, "vm", &format!("request_{}", file_name_part(&text)), at(seconds)).unwrap();
        let name = path.to_str().unwrap();
        prop_assert!(!name.contains('/'), "{name}");
        prop_assert_eq!(parse_name(name).map(|(_, automatic)| automatic), Some(false));
    }

    #[test]
    fn any_file_name_in_the_flight_folder_is_handled(name in any::<String>()) {
        let _ = parse_name(&name);
        let _ = parse_name(&format!("{name}.fltl"));
    }
}
