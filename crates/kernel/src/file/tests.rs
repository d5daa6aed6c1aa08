use super::*;
use crate::ErrorKind;
use std::fs;

fn open(path: &Path, until: ReadUntil) -> OpenFile {
    let folder = FileOwner::Folder(Arc::from(path.parent().unwrap()));
    OpenFile::open(folder, Arc::from(path), until).unwrap()
}

#[test]
fn a_file_larger_than_the_buffer_is_read_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large");
    let text: Vec<u8> = (0..50_000u32)
        .flat_map(|n| format!("key{n} {n}\n").into_bytes())
        .collect();
    fs::write(&path, &text).unwrap();
    for until in [
        ReadUntil::ShortRead,
        ReadUntil::EmptyRead,
        ReadUntil::Line(b"none "),
    ] {
        let mut buffer = Vec::new();
        assert_eq!(open(&path, until).read(&mut buffer).unwrap(), text);
    }
}

#[test]
fn no_piece_is_read_after_the_last_wanted_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pieces");
    let lines =
        |from: u32, to: u32| -> String { (from..to).map(|n| format!("key{n} {n}\n")).collect() };
    // A kernel file returns text up to a page at a time. In this test, the end of the buffer cuts
    // the text.
    let mut first = lines(1000, 1300) + "wanted 1\n";
    first += &lines(1300, 1314);
    let padding = INITIAL_CAPACITY - first.len();
    first += &format!("{}\n", "x".repeat(padding - 1));
    fs::write(&path, first.clone() + &lines(2000, 3000)).unwrap();
    let until = ReadUntil::Line(b"wanted ");
    let mut buffer = Vec::with_capacity(INITIAL_CAPACITY);
    assert_eq!(
        open(&path, until).read(&mut buffer).unwrap(),
        first.as_bytes()
    );
}

#[test]
fn a_large_enough_buffer_is_reused_without_allocation() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, vec![b'x'; 10_000]).unwrap();
    let file = open(&path, ReadUntil::EmptyRead);
    let mut buffer = Vec::new();
    file.read(&mut buffer).unwrap();
    let (address, capacity) = (buffer.as_ptr(), buffer.capacity());
    for _ in 0..10 {
        file.read(&mut buffer).unwrap();
    }
    assert_eq!((address, capacity), (buffer.as_ptr(), buffer.capacity()));
}

#[test]
fn a_second_read_returns_the_current_file_content() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let mut buffer = Vec::new();
    fs::write(&path, "a longer text\n").unwrap();
    let file = open(&path, ReadUntil::ShortRead);
    assert_eq!(file.read(&mut buffer).unwrap(), b"a longer text\n");
    fs::write(&path, "short\n").unwrap();
    assert_eq!(file.read(&mut buffer).unwrap(), b"short\n");
}

#[test]
fn an_empty_file_is_read_as_empty_text() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("empty");
    fs::write(&path, "").unwrap();
    assert_eq!(
        open(&path, ReadUntil::ShortRead)
            .read(&mut Vec::new())
            .unwrap(),
        b""
    );
}

#[test]
fn a_file_created_later_is_found_by_the_next_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("late");
    let mut slot = LazyFile::new(
        FileOwner::Folder(Arc::from(folder.path())),
        path.clone(),
        ReadUntil::ShortRead,
    );
    let mut buffer = Vec::new();
    assert_eq!(
        slot.parse(&mut buffer, |_| Ok(())).unwrap_err().kind(),
        ErrorKind::Absent
    );
    fs::write(&path, "7\n").unwrap();
    assert_eq!(slot.parse(&mut buffer, crate::parse::number).unwrap(), 7);
}

#[test]
fn a_file_whose_folder_was_removed_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("cgroup");
    let mut slot = LazyFile::new(
        FileOwner::Folder(Arc::from(home.as_path())),
        home.join("file"),
        ReadUntil::ShortRead,
    );
    assert_eq!(
        slot.parse(&mut Vec::new(), |_| Ok(())).unwrap_err().kind(),
        ErrorKind::Gone
    );
}

#[test]
fn a_parse_error_names_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("oom_score");
    fs::write(&path, "many\n").unwrap();
    let error = open(&path, ReadUntil::ShortRead)
        .parse(&mut Vec::new(), crate::parse::number)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Broken);
    let named = format!("{}:1: ", path.display());
    assert!(error.to_string().starts_with(&named), "{error}");
}
