//! Allocates memory until the OOM killer kills it, to test the exported memory headroom.
//!
//! grow anon START RATE         anonymous memory
//! grow locked START RATE FILE  page cache of FILE, locked into memory
//! grow file START RATE FILE    writes FILE: page cache, or memory of ramfs and tmpfs
//!
//! Allocates START bytes at once, then RATE bytes a second, and frees nothing.

use std::{fs::File, io::Write, os::fd::AsRawFd, time::Duration};

unsafe extern "C" {
    fn mmap(at: *mut u8, length: usize, access: i32, flags: i32, file: i32, offset: i64) -> *mut u8;
    fn mlock(at: *const u8, length: usize) -> i32;
}

const PAGE: usize = 4096;
const STEPS_A_SECOND: usize = 20;

struct Growth {
    memory: Vec<Vec<u8>>,
    file: Option<File>,
    locks: bool,
    written: usize,
    /// Bytes below a page that the last call of `add` left over.
    remainder: usize,
}

impl Growth {
    fn add(&mut self, bytes: usize) {
        let wanted = self.remainder + bytes;
        let bytes = wanted / PAGE * PAGE;
        self.remainder = wanted - bytes;
        if bytes == 0 {
            return;
        }
        let Some(file) = &mut self.file else {
            self.memory.push(vec![1; bytes]);
            return;
        };
        file.write_all(&vec![1; bytes]).expect("the file can be written");
        if self.locks {
            // Makes the pages clean before the lock, so that no counter of dirty pages includes them.
            file.sync_data().expect("the file can be written");
            const READ: i32 = 1;
            const SHARED: i32 = 1;
            // SAFETY: a new mapping of a file that is not truncated; nothing else refers to it.
            let locked = unsafe {
                let at = mmap(
                    std::ptr::null_mut(),
                    bytes,
                    READ,
                    SHARED,
                    file.as_raw_fd(),
                    self.written as i64,
                );
                mlock(at, bytes)
            };
            assert_eq!(locked, 0, "memory can be locked");
        }
        self.written += bytes;
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |position: usize| -> usize {
        arguments[position].parse().expect("a number of bytes")
    };
    let (start, rate) = (number(2), number(3));
    let mut growth = Growth {
        memory: Vec::new(),
        file: arguments.get(4).map(|path| {
            File::options().read(true).write(true).create(true).truncate(true).open(path).expect("a file")
        }),
        locks: arguments[1] == "locked",
        written: 0,
        remainder: 0,
    };
    for _ in 0..16 {
        growth.add(start / 16);
    }
    loop {
        std::thread::sleep(Duration::from_secs(1) / STEPS_A_SECOND as u32);
        growth.add(rate / STEPS_A_SECOND);
    }
}
