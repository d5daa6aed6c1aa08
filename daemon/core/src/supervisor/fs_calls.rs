//! Runs each call on a path of the validator in a new thread: the file system may block for ever.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, channel},
    },
    time::Duration,
};
use thiserror::Error;
use tokio::sync::oneshot;

pub const FS_CALL_TIMEOUT: Duration = Duration::from_secs(2);

pub const UNRESPONSIVE_FILE_SYSTEM: &str = "its file system does not answer; is its mount dead?";

#[derive(Debug, Clone, Copy, PartialEq, Error)]
pub enum FsCallError {
    #[error("{UNRESPONSIVE_FILE_SYSTEM}")]
    TimedOut,
    #[error("the call on it panicked; please report this with the log")]
    Panicked,
    #[error("its file system does not answer an earlier request yet; is its mount dead?")]
    Busy,
    #[error("the system starts no thread for it; is a limit of tasks or memory reached?")]
    NoThread,
}

/// Shutdown does not wait for a call. New calls fail while one is pending, so at most one thread
/// hangs.
pub struct FsCalls {
    name: &'static str,
    is_busy: Arc<AtomicBool>,
}

struct BusyGuard(Arc<AtomicBool>);

impl Drop for BusyGuard {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl FsCalls {
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            is_busy: Arc::default(),
        }
    }

    /// Does not wait for the result.
    ///
    /// # Errors
    /// The previous call has not returned, or no thread can start.
    pub fn start<T: Send + 'static>(
        &self,
        call: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Receiver<T>, FsCallError> {
        let (sender, receiver) = channel();
        self.spawn(call, move |result| drop(sender.send(result)))?;
        Ok(receiver)
    }

    /// Blocks for at most `timeout`.
    ///
    /// # Errors
    /// The call panicked, it or the previous one has not returned, or no thread can start.
    pub fn call<T: Send + 'static>(
        &self,
        timeout: Duration,
        call: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, FsCallError> {
        let receiver = self.start(call)?;
        receiver.recv_timeout(timeout).map_err(|error| match error {
            RecvTimeoutError::Timeout => FsCallError::TimedOut,
            RecvTimeoutError::Disconnected => FsCallError::Panicked,
        })
    }

    pub async fn call_async<T: Send + 'static>(
        &self,
        timeout: Duration,
        call: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, FsCallError> {
        let (sender, receiver) = oneshot::channel();
        self.spawn(call, move |result| drop(sender.send(result)))?;
        match tokio::time::timeout(timeout, receiver).await {
            Ok(received) => received.map_err(|_| FsCallError::Panicked),
            Err(_) => Err(FsCallError::TimedOut),
        }
    }

    fn spawn<T>(
        &self,
        call: impl FnOnce() -> T + Send + 'static,
        send: impl FnOnce(T) + Send + 'static,
    ) -> Result<(), FsCallError> {
        if self.is_busy.swap(true, Ordering::Acquire) {
            return Err(FsCallError::Busy);
        }
        let busy = BusyGuard(Arc::clone(&self.is_busy));
        let body = move || {
            let result = call();
            // Before the receiver gets the result, because it may make the next call.
            drop(busy);
            send(result);
        };
        let thread = std::thread::Builder::new()
            .name(self.name.to_owned())
            .stack_size(super::THREAD_STACK);
        thread
            .spawn(body)
            .map(drop)
            .map_err(|_| FsCallError::NoThread)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    #[test]
    fn a_hanging_call_times_out_and_the_next_waits_for_its_thread() {
        let fs_calls = FsCalls::new("test");
        let (release, hangs) = channel::<()>();
        let hung = fs_calls.start(move || hangs.recv()).unwrap();
        assert_eq!(fs_calls.call(PATIENCE, || 8), Err(FsCallError::Busy));
        drop(release);
        assert!(hung.recv().unwrap().is_err(), "it returns late");
        assert_eq!(fs_calls.call(PATIENCE, || 9), Ok(9));
        assert_eq!(fs_calls.call(PATIENCE, || 10), Ok(10), "at once");
    }

    #[tokio::test]
    async fn a_panicking_fs_call_is_not_reported_as_a_timeout() {
        let fs_calls = FsCalls::new("test");
        let panics = || -> u8 { panic!("broken") };
        assert_eq!(fs_calls.call(PATIENCE, panics), Err(FsCallError::Panicked));
        let answer = fs_calls.call_async(PATIENCE, panics).await;
        assert_eq!(answer, Err(FsCallError::Panicked));
    }

    #[tokio::test]
    async fn a_task_times_out_on_a_hanging_fs_call() {
        let fs_calls = FsCalls::new("test");
        let (_release, hangs) = channel::<()>();
        let short = Duration::from_millis(1);
        let answer = fs_calls.call_async(short, move || hangs.recv()).await;
        assert_eq!(answer.map(drop), Err(FsCallError::TimedOut));
        let next = fs_calls.call_async(PATIENCE, || ()).await;
        assert_eq!(next, Err(FsCallError::Busy));
    }
}
