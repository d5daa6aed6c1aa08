use rustix::{
    fs::{FlockOperation, flock},
    io::{Errno, Result},
};
use std::{os::fd::AsFd, time::Duration};

const RETRIES: usize = 50;
const RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// Retries the nonblocking `operation` for a second while another process has the lock. A lock
/// outlives a killed process until the child that it forked calls `exec`.
pub fn flock_with_retries(file: impl AsFd, operation: FlockOperation) -> Result<()> {
    for _ in 0..RETRIES {
        match flock(&file, operation) {
            Err(Errno::WOULDBLOCK) => std::thread::sleep(RETRY_INTERVAL),
            result => return result,
        }
    }
    flock(&file, operation)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn a_lock_that_is_soon_released_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let [first, second] = [(); 2].map(|()| File::create(&path).unwrap());
        let exclusive = FlockOperation::NonBlockingLockExclusive;
        flock_with_retries(&first, exclusive).unwrap();
        assert_eq!(
            flock_with_retries(&second, exclusive),
            Err(Errno::WOULDBLOCK)
        );
        let release_thread = std::thread::Builder::new().spawn(move || {
            std::thread::sleep(RETRY_INTERVAL);
            drop(first);
        });
        assert_eq!(flock_with_retries(&second, exclusive), Ok(()));
        release_thread.unwrap().join().unwrap();
    }
}
