use super::*;
use std::fs;

/// Magic numbers of ext4, XFS and Btrfs.
const ON_DISK: [i64; 3] = [0xef53, 0x5846_5342, 0x9123_683e];

/// Minor and major faults of this thread so far.
fn faults() -> (u64, u64) {
    let stat = fs::read_to_string("/proc/thread-self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    (fields[7].parse().unwrap(), fields[9].parse().unwrap())
}

#[test]
fn demo_memory_grows_to_its_limit_and_stays_near_it() {
    let at = |second| heap_blocks(Duration::from_secs(second));
    assert_eq!(
        [at(0), at(1), at(149), at(150), at(151), at(152)],
        [0, 1, 149, 150, 100, 101]
    );
    for second in 150..100_000 {
        assert!((MIN_BLOCKS..=MAX_BLOCKS).contains(&at(second)), "{second}");
    }
}

fn bytes(heap: &Heap) -> usize {
    heap.0.iter().map(|block| block.len()).sum()
}

#[test]
fn the_demo_heap_stays_within_its_limit() {
    let mut heap = Heap::default();
    heap.resize(3).unwrap();
    assert_eq!(bytes(&heap), 3 * BLOCK_BYTES);
    heap.resize(1).unwrap();
    assert_eq!(bytes(&heap), BLOCK_BYTES);
    heap.resize(usize::MAX).unwrap();
    assert_eq!(bytes(&heap), 300 << 20);
}

#[test]
fn the_demos_disk_reads_stay_low() {
    let all: Vec<usize> = (0..120)
        .map(|second| pages_to_read(Duration::from_secs(second)))
        .collect();
    assert_eq!((all.iter().min(), all.iter().max()), (Some(&5), Some(&35)));
}

#[test]
fn every_touched_page_is_a_minor_fault() {
    let (before, _) = faults();
    let memory = allocate_and_touch(64 * PAGE_BYTES).unwrap();
    assert!(faults().0 - before >= 64, "{}", memory.len());
}

#[test]
fn a_cold_file_is_unlinked_and_read_repeatedly() {
    let folder = tempfile::tempdir().unwrap();
    let mut file = ColdFile::make(&folder.path().join("cold")).unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    match file.read(FILE_PAGES + 10) {
        Ok(()) => assert_eq!(file.next_page, 10),
        // Before Linux 5.14.
        Err(error) => assert_eq!(error.kind(), io::ErrorKind::InvalidInput),
    }
}

#[test]
fn reading_a_cold_file_on_a_disk_makes_major_faults() {
    // In the folder of this program, because a folder for temporary files may be in memory.
    let program = std::env::current_exe().unwrap();
    let folder = tempfile::tempdir_in(program.parent().unwrap()).unwrap();
    let mut file = ColdFile::make(&folder.path().join("cold")).unwrap();
    let (_, before) = faults();
    let read = file.read(100);
    let kind = rustix::fs::statfs(folder.path()).unwrap().f_type;
    if read.is_ok() && ON_DISK.contains(&kind) {
        assert!(faults().1 - before >= 90, "{}", faults().1 - before);
    }
}
