//! A full disk gives an error, loses nothing committed, and writing continues with free space.

use crate::{
    made_up::{arm, assert_is_a_beginning, at, synthetic_run::SyntheticRun, write},
    readers::Mount,
};
use faultline_recording::{Error, Recording, Writer, backup};
use std::fs;

/// Writes until the disk is full. Returns the number of committed seconds, and the one that was not.
fn fill(
    writer: &mut Writer,
    synthetic: &mut SyntheticRun,
) -> (usize, crate::made_up::synthetic_run::Second) {
    let mut committed = 0;
    loop {
        let second = synthetic.next().expect("the disk never becomes full");
        match write(writer, &second).and_then(|()| writer.commit()) {
            Ok(_) => committed += 1,
            Err(error) => {
                assert!(error.is_full(), "{error}");
                assert!(error.to_string().contains("no space left"), "{error}");
                return (committed, second);
            }
        }
        if committed % 10 == 0
            && let Err(error) = writer.checkpoint()
        {
            assert!(error.is_full(), "{error}");
        }
    }
}

#[test]
fn a_recording_at_its_size_limit_errors_then_continues_when_raised() {
    let folder = crate::made_up::folder();
    let path = folder.path().join("run.db");
    let arm = arm(600);
    let mut synthetic = SyntheticRun::new(arm.clone());
    let mut writer = Writer::create(&path, &synthetic.header()).unwrap();
    writer.set_max_bytes(400_000).unwrap();
    let (committed, second) = fill(&mut writer, &mut synthetic);
    assert!(committed > 10);
    assert!(matches!(
        writer.tick(second.tick.as_ref().unwrap()).unwrap_err(),
        Error::RollBackFirst { .. }
    ));
    writer.rollback();
    assert_eq!(
        assert_is_a_beginning(&Recording::open(&path).unwrap(), &arm),
        committed
    );
    // Still full.
    assert!(
        write(&mut writer, &second)
            .and_then(|()| writer.commit())
            .unwrap_err()
            .is_full()
    );
    writer.rollback();
    writer.set_max_bytes(1 << 30).unwrap();
    write(&mut writer, &second).unwrap();
    crate::made_up::write_all(&mut writer, &mut synthetic);
    writer.finish(synthetic.ended()).unwrap();
    assert_eq!(Recording::open(&path).unwrap().ticks().unwrap().len(), 600);
}

#[test]
fn a_full_disk_keeps_committed_rows_and_writing_resumes_with_space() {
    let Some(disk) = Mount::of_bytes(3 << 20) else {
        return;
    };
    let path = disk.path().join("run.db");
    let ballast = disk.path().join("ballast");
    fs::write(&ballast, vec![1; 1 << 20]).unwrap();
    let arm = arm(100_000);
    let mut synthetic = SyntheticRun::new(arm.clone());
    let mut writer = Writer::create(&path, &synthetic.header()).unwrap();
    let (committed, second) = fill(&mut writer, &mut synthetic);
    assert!(writer.rollback() < 1000);
    assert_eq!(
        assert_is_a_beginning(&Recording::open(&path).unwrap(), &arm),
        committed
    );
    let save = backup(&path, &disk.path().join("saved.db"), &[], |_, _| ()).unwrap_err();
    assert!(save.is_full(), "{save}");
    let names = disk.path().read_dir().unwrap().flatten();
    let mut names = names.map(|entry| entry.file_name().into_string().unwrap());
    assert!(!names.any(|name| name.contains(".part")));
    fs::remove_file(&ballast).unwrap();
    write(&mut writer, &second).unwrap();
    writer.commit().unwrap();
    let (more, _) = fill(&mut writer, &mut synthetic);
    assert!(more > 0);
    // Killed now.
    std::mem::forget(writer);
    let recording = Recording::open(&path).unwrap();
    let ticks = recording.ticks().unwrap();
    assert_eq!(ticks.len(), committed + 1 + more);
    assert!(
        ticks
            .iter()
            .zip(1..)
            .all(|(tick, number)| tick.number == number)
    );
}

#[test]
fn a_recording_that_fails_to_start_leaves_no_file() {
    let Some(disk) = Mount::of_bytes(128 << 10) else {
        return;
    };
    let path = disk.path().join("run.db");
    fs::write(disk.path().join("ballast"), vec![1; 100 << 10]).unwrap();
    let error = Writer::create(&path, &SyntheticRun::new(arm(1)).header()).unwrap_err();
    assert!(error.is_full(), "{error}");
    assert_eq!(fs::read_dir(disk.path()).unwrap().count(), 1);
    let nowhere = Writer::create(
        &disk.path().join("no/such/folder.db"),
        &SyntheticRun::new(arm(1)).header(),
    );
    assert!(matches!(nowhere.unwrap_err(), Error::Missing { .. }));
    let _ = at(0);
}
