use super::*;
use rustix::{
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::LocalModes,
};
use std::{
    fs::{File, OpenOptions},
    io::Read,
};

fn terminal() -> (File, File) {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap();
    let theirs = OpenOptions::new()
        .read(true)
        .write(true)
        .open(name.to_str().unwrap())
        .unwrap();
    (ours.into(), theirs)
}

/// What was written so far, up to the end of `LEAVE_SEQUENCE`.
fn written(ours: &mut File) -> String {
    let mut all = Vec::new();
    let mut byte = [0];
    while !all.ends_with(b"\x1b[?1049l") {
        ours.read_exact(&mut byte).unwrap();
        all.push(byte[0]);
    }
    String::from_utf8(all).unwrap()
}

#[test]
fn the_terminal_is_restored_after_a_panic_and_a_normal_exit() {
    for panics in [false, true] {
        let (mut ours, theirs) = terminal();
        let before = tcgetattr(&theirs).unwrap();
        let ended = std::panic::catch_unwind(|| {
            let _screen = Screen::enter(&theirs, &theirs).unwrap();
            let during = tcgetattr(&theirs).unwrap();
            assert!(
                !during
                    .local_modes
                    .intersects(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG)
            );
            assert!(!panics, "as planned");
        });
        assert_eq!(ended.is_err(), panics);
        assert_eq!(
            format!("{:?}", tcgetattr(&theirs).unwrap()),
            format!("{before:?}")
        );
        let all = written(&mut ours);
        assert!(
            all.starts_with("\x1b[?1049h") && all.contains("\x1b[?25h"),
            "{all:?}"
        );
        assert_eq!(all.matches("\x1b[?1049l").count(), 1);
    }
}

#[test]
fn a_non_terminal_is_refused_and_unchanged() {
    let file = tempfile::tempfile().unwrap();
    assert!(Screen::enter(&file, &file).is_err());
    assert_eq!(file.metadata().unwrap().len(), 0);
}
