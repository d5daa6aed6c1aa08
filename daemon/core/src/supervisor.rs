//! Starts all threads and programs, and all tasks but those of connections and blocking calls. A
//! [`WorkerGroup`] names and stops its threads and tasks.

#![expect(
    clippy::disallowed_methods,
    reason = "this module is where threads, tasks and programs are started"
)]

mod fs_calls;

pub use fs_calls::{FS_CALL_TIMEOUT, FsCallError, FsCalls, UNRESPONSIVE_FILE_SYSTEM};

use parking_lot::{Condvar, Mutex};
use rustix::{
    event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll},
    io::Errno,
};
use std::{
    future::Future,
    io,
    os::fd::{BorrowedFd, OwnedFd},
    sync::Arc,
    thread::JoinHandle,
    time::Duration,
};
use tokio::sync::watch;

/// Maximum wait of [`Stop::wait_readable`] if the stop signal has no descriptor.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Maximum time to wait for a [`WorkerGroup::abandonable_thread`] at shutdown.
const ABANDON_AFTER: Duration = Duration::from_secs(1);

/// Stack of a plain thread: enough to read and write files.
const THREAD_STACK: usize = 512 * 1024;
/// Stack of a thread that runs a task: the default of a tokio worker.
const TASK_STACK: usize = 2 * 1024 * 1024;

/// A stop signal, which is never reset. Clones share it.
#[derive(Clone)]
pub struct Stop(Arc<StopState>);

struct StopState {
    /// For [`Stop::sleep`].
    flag: Mutex<bool>,
    changed: Condvar,
    /// For tasks and [`Stop::is_set`].
    sender: watch::Sender<bool>,
    /// Becomes readable with the signal. `None` if no descriptor was free.
    descriptor: Option<OwnedFd>,
}

impl Default for Stop {
    fn default() -> Self {
        Self(Arc::new(StopState {
            flag: Mutex::new(false),
            changed: Condvar::new(),
            sender: watch::Sender::new(false),
            descriptor: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok(),
        }))
    }
}

impl Stop {
    pub fn set(&self) {
        *self.0.flag.lock() = true;
        self.0.changed.notify_all();
        // Before the write to the descriptor: threads that it wakes call `is_set`.
        self.0.sender.send_replace(true);
        if let Some(descriptor) = &self.0.descriptor {
            // The write can only fail by overflow, after 2^64 signals.
            let _ = rustix::io::write(descriptor, &1_u64.to_ne_bytes());
        }
    }

    pub fn is_set(&self) -> bool {
        *self.0.sender.borrow()
    }

    pub async fn wait(&self) {
        // The sender lives in self, so that the channel cannot close.
        let _ = self.0.sender.subscribe().wait_for(|stopped| *stopped).await;
    }

    /// Blocks for `duration` or until the signal; true if it is set.
    pub fn sleep(&self, duration: Duration) -> bool {
        let mut stopped = self.0.flag.lock();
        let changed = &self.0.changed;
        changed.wait_while_for(&mut stopped, |stopped| !*stopped, duration);
        *stopped
    }

    /// Blocks until `fd` is readable or the signal is set, for at most `duration`; true if `fd` is
    /// readable. Without a stop descriptor, returns after [`STOP_POLL_INTERVAL`] at the latest.
    pub fn wait_readable(&self, fd: BorrowedFd<'_>, duration: Duration) -> Result<bool, Errno> {
        let stop_descriptor = self.0.descriptor.as_ref();
        let mut poll_fds = vec![PollFd::new(&fd, PollFlags::IN)];
        poll_fds.extend(stop_descriptor.map(|descriptor| PollFd::new(descriptor, PollFlags::IN)));
        let duration = if stop_descriptor.is_some() {
            duration
        } else {
            duration.min(STOP_POLL_INTERVAL)
        };
        let timeout = Timespec {
            tv_sec: duration.as_secs().cast_signed(),
            tv_nsec: duration.subsec_nanos().into(),
        };
        match poll(&mut poll_fds, Some(&timeout)) {
            Ok(_) => Ok(poll_fds
                .first()
                .is_some_and(|poll_fd| !poll_fd.revents().is_empty())),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Members that stop together: threads and tasks.
pub struct WorkerGroup {
    pub name: &'static str,
    stop: Stop,
    runtime: tokio::runtime::Handle,
    threads: Vec<MemberThread>,
    tasks: Vec<(&'static str, tokio::task::JoinHandle<()>)>,
}

struct MemberThread {
    name: &'static str,
    handle: JoinHandle<()>,
    may_hang: bool,
}

impl WorkerGroup {
    pub fn new(name: &'static str, runtime: &tokio::runtime::Handle) -> Self {
        Self {
            name,
            stop: Stop::default(),
            runtime: runtime.clone(),
            threads: Vec::new(),
            tasks: Vec::new(),
        }
    }

    /// For code outside the group that stops with it.
    pub fn stop_signal(&self) -> Stop {
        self.stop.clone()
    }

    /// The kernel truncates the name to 15 bytes.
    pub fn thread(
        &mut self,
        name: &'static str,
        body: impl FnOnce(Stop) + Send + 'static,
    ) -> io::Result<()> {
        self.spawn(name, THREAD_STACK, false, body)
    }

    /// For a thread that reads paths of the validator, whose file system may hang.
    /// [`WorkerGroup::end`] abandons a hanging thread.
    pub fn abandonable_thread(
        &mut self,
        name: &'static str,
        body: impl FnOnce(Stop) + Send + 'static,
    ) -> io::Result<()> {
        self.spawn(name, THREAD_STACK, true, body)
    }

    /// Runs a task on its own thread. On the shared runtime each of its wake-ups would wake another
    /// worker too.
    pub fn task_thread<F>(
        &mut self,
        name: &'static str,
        max_blocking_calls: usize,
        body: impl FnOnce(Stop) -> F + Send + 'static,
    ) -> io::Result<()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(max_blocking_calls)
            .build()?;
        self.spawn(name, TASK_STACK, false, move |stop| {
            // A spawned task wakes itself without a system call, unlike the future of `block_on`.
            let task = runtime.spawn(async { body(stop).await });
            let ended = runtime.block_on(task);
            tracing::debug!(name, ?ended, "the task of a thread ended");
            // A blocking call may still run; nothing waits for its result.
            runtime.shutdown_background();
        })
    }

    fn spawn(
        &mut self,
        name: &'static str,
        stack: usize,
        may_hang: bool,
        body: impl FnOnce(Stop) + Send + 'static,
    ) -> io::Result<()> {
        let stop = self.stop.clone();
        let handle = std::thread::Builder::new()
            .name(name.to_owned())
            .stack_size(stack)
            .spawn(move || body(stop))?;
        self.threads.push(MemberThread {
            name,
            handle,
            may_hang,
        });
        Ok(())
    }

    pub fn task<F>(&mut self, name: &'static str, body: impl FnOnce(Stop) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.tasks
            .push((name, self.runtime.spawn(body(self.stop.clone()))));
    }

    /// The name of a thread or task that has ended. Before the stop signal this is a failure,
    /// such as a panic.
    pub fn ended_member(&self) -> Option<&'static str> {
        let threads = self.threads.iter();
        let threads = threads.map(|thread| (thread.name, thread.handle.is_finished()));
        let tasks = self.tasks.iter();
        let tasks = tasks.map(|(name, task)| (*name, task.is_finished()));
        let mut members = threads.chain(tasks);
        members.find_map(|(name, is_finished)| is_finished.then_some(name))
    }

    /// Stops the members. Returns the names of members that did not end within `grace`, except
    /// abandoned threads.
    pub async fn end(mut self, grace: Duration) -> Vec<&'static str> {
        self.stop.set();
        tokio::pin! {
            let deadline = tokio::time::sleep(grace);
            let abandon_deadline = tokio::time::sleep(grace.min(ABANDON_AFTER));
        }
        let mut poll = tokio::time::interval(Duration::from_millis(5));
        loop {
            self.threads.retain(|thread| !thread.handle.is_finished());
            self.tasks.retain(|(_, handle)| !handle.is_finished());
            let threads = self.threads.iter().filter(|thread| !thread.may_hang);
            let tasks = self.tasks.iter().map(|(name, _)| *name);
            let busy: Vec<_> = threads.map(|thread| thread.name).chain(tasks).collect();
            if busy.is_empty() && self.threads.is_empty() {
                return busy;
            }
            tokio::select! {
                _ = poll.tick() => {}
                () = &mut abandon_deadline, if busy.is_empty() => {
                    for MemberThread { name, .. } in &self.threads {
                        tracing::warn!(
                            group = self.name,
                            thread = name,
                            "thread abandoned, because a file system does not answer"
                        );
                    }
                    return busy;
                }
                () = &mut deadline => {
                    tracing::error!(
                        group = self.name,
                        busy = busy.join(", "),
                        "did not stop in time"
                    );
                    self.tasks.iter().for_each(|(_, handle)| handle.abort());
                    return busy;
                }
            }
        }
    }
}

pub fn async_command(name: &str) -> tokio::process::Command {
    let mut command = tokio::process::Command::new(name);
    command.kill_on_drop(true);
    command
}

/// For callers on a thread, which must reap the child themselves.
pub fn sync_command(name: impl AsRef<std::ffi::OsStr>) -> std::process::Command {
    std::process::Command::new(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_worker_group_ends_when_all_its_tasks_have_ended() {
        let mut workers = WorkerGroup::new("test", &tokio::runtime::Handle::current());
        workers
            .thread(
                "blocking",
                |stop| while !stop.sleep(Duration::from_secs(60)) {},
            )
            .unwrap();
        workers.task("waiting", |stop| async move { stop.wait().await });
        workers
            .task_thread("apart", 1, |stop| async move { stop.wait().await })
            .unwrap();
        assert_eq!(workers.ended_member(), None);
        assert!(workers.end(Duration::from_secs(20)).await.is_empty());
    }

    #[test]
    fn waiting_on_a_descriptor_wakes_for_stop_signal_or_readiness() {
        let (stop, other) = (Stop::default(), eventfd(0, EventfdFlags::CLOEXEC).unwrap());
        let long = Duration::from_secs(60);
        assert_eq!(
            stop.wait_readable(other.as_fd(), Duration::from_millis(1)),
            Ok(false),
            "neither"
        );
        rustix::io::write(&other, &1_u64.to_ne_bytes()).unwrap();
        assert_eq!(
            stop.wait_readable(other.as_fd(), long),
            Ok(true),
            "the descriptor"
        );
        rustix::io::read(&other, &mut [0; 8]).unwrap();
        let setter = std::thread::spawn({
            let stop = stop.clone();
            move || stop.set()
        });
        assert_eq!(
            stop.wait_readable(other.as_fd(), long),
            Ok(false),
            "the signal, long before the time is over"
        );
        assert!(stop.is_set());
        setter.join().unwrap();
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_thread_hanging_on_a_path_does_not_block_shutdown() {
        let mut workers = WorkerGroup::new("test", &tokio::runtime::Handle::current());
        let (_release, hangs) = std::sync::mpsc::channel::<()>();
        workers
            .abandonable_thread("hung", move |_| while hangs.recv().is_ok() {})
            .unwrap();
        assert!(workers.end(Duration::from_millis(20)).await.is_empty());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_task_that_does_not_stop_is_named() {
        let mut workers = WorkerGroup::new("test", &tokio::runtime::Handle::current());
        workers.task("deaf", |_| std::future::pending());
        assert_eq!(workers.end(Duration::from_millis(20)).await, ["deaf"]);
    }
}
