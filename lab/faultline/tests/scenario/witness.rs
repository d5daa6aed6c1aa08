//! Reads every 100 ms the leader's slot, the follower's slot and the state of the follower's process; and once for each process,
//! when its admin socket first said that the start is over. Shares no code with the daemon.

use faultline_testkit::{proc, rpc::Rpc};
use std::{
    io::{BufRead, BufReader, Write},
    os::unix::net::UnixStream,
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// Seconds from one reading to the next.
pub const STEP: f64 = 0.1;
/// Longest wait for an answer. A stopped process does not answer.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Seconds since the test began. Ticks of the daemon are converted to it.
#[derive(Clone, Copy)]
pub struct Clock {
    began: Instant,
    began_unix: Duration,
}

impl Clock {
    pub fn start() -> Self {
        let began_unix = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .expect("a clock after 1970");
        Self {
            began: Instant::now(),
            began_unix,
        }
    }

    pub fn now(self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// Converts a recorded time, in nanoseconds since 1970.
    pub fn of_unix(self, nanoseconds: i64) -> f64 {
        let began = i64::try_from(self.began_unix.as_nanos()).expect("a time before 2262");
        (nanoseconds - began) as f64 / 1e9
    }
}

/// One request for a slot. The answer was true at some moment between the two times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Asked {
    pub asked: f64,
    pub heard: f64,
    /// The process that was asked; 0 for the leader.
    pub pid: u32,
    /// `None` if there was no answer.
    pub slot: Option<u64>,
    /// The newest slot of which the follower has shreds: the tip as it knows it. Not asked of the leader.
    pub received: Option<u64>,
}

/// State of the follower's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// There is no process, or only a zombie without other threads.
    Gone,
    /// Killed; some of its threads have not ended yet.
    Ending,
    /// Stopped by a signal.
    Stopped,
    Runs,
}

/// One look at the follower's process.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Glance {
    pub at: f64,
    pub pid: u32,
    pub life: Life,
}

/// Everything that was read, in the order of time.
#[derive(Debug, Clone, Default)]
pub struct Sightings {
    pub leader: Vec<Asked>,
    pub follower: Vec<Asked>,
    pub glances: Vec<Glance>,
    /// Process id, and when its admin socket first said that the start is over.
    pub started: Vec<(u32, f64)>,
}

/// The reading threads. They end when this is dropped.
pub struct Witness {
    pub clock: Clock,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    /// The follower's process id; 0 before the first start.
    pid: AtomicU32,
    sightings: Mutex<Sightings>,
}

impl Shared {
    fn sightings<T>(&self, work: impl FnOnce(&mut Sightings) -> T) -> T {
        work(
            &mut self
                .sightings
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        )
    }
}

impl Witness {
    /// Starts to read. [`Witness::follows`] gives the follower's process id; `ledger` is the follower's ledger folder.
    pub fn start(leader: Rpc, follower: Rpc, ledger: &Path) -> Self {
        let clock = Clock::start();
        let mut witness = Self {
            clock,
            shared: Arc::default(),
            threads: Vec::new(),
        };
        let ask = move |rpc: Rpc, pid| {
            let asked = clock.now();
            let slot = rpc.processed_slot().ok();
            Asked {
                asked,
                heard: clock.now(),
                pid,
                slot,
                received: None,
            }
        };
        let (leader, follower) = (leader.timeout(TIMEOUT), follower.timeout(TIMEOUT));
        witness.repeat(move |shared| {
            let asked = ask(leader, 0);
            shared.sightings(|sightings| sightings.leader.push(asked));
        });
        witness.repeat(move |shared| {
            let mut asked = ask(follower, shared.pid.load(Ordering::SeqCst));
            asked.received = follower.received_slot().ok();
            asked.heard = clock.now();
            shared.sightings(|sightings| sightings.follower.push(asked));
        });
        witness.repeat(move |shared| {
            let pid = shared.pid.load(Ordering::SeqCst);
            let (at, life) = (clock.now(), life(pid));
            shared.sightings(|sightings| sightings.glances.push(Glance { at, pid, life }));
        });
        let socket = ledger.join("admin.rpc");
        witness.repeat(move |shared| {
            let pid = shared.pid.load(Ordering::SeqCst);
            let known =
                shared.sightings(|sightings| sightings.started.iter().any(|(one, _)| *one == pid));
            if !known && start_is_over(&socket).unwrap_or(false) {
                shared.sightings(|sightings| sightings.started.push((pid, clock.now())));
            }
        });
        witness
    }

    /// Sets the follower's process id.
    pub fn follows(&self, pid: u32) {
        self.shared.pid.store(pid, Ordering::SeqCst);
    }

    pub fn now(&self) -> f64 {
        self.clock.now()
    }

    /// The leader's newest slot.
    pub fn leader_slot(&self) -> Option<u64> {
        self.shared
            .sightings(|sightings| sightings.leader.iter().rev().find_map(|asked| asked.slot))
    }

    /// Slots from the follower's newest answer to the leader's; `None` before this process has answered.
    pub fn distance(&self) -> Option<u64> {
        let pid = self.shared.pid.load(Ordering::SeqCst);
        let own = self.shared.sightings(|sightings| {
            sightings
                .follower
                .iter()
                .rev()
                .take_while(|asked| asked.pid == pid)
                .find_map(|asked| asked.slot)
        });
        Some(self.leader_slot()?.saturating_sub(own?))
    }

    /// Everything so far.
    pub fn sightings(&self) -> Sightings {
        self.shared.sightings(|sightings| sightings.clone())
    }

    fn repeat(&mut self, read: impl Fn(&Shared) + Send + 'static) {
        let (clock, shared) = (self.clock, Arc::clone(&self.shared));
        self.threads.push(std::thread::spawn(move || {
            let mut due = clock.now();
            while !shared.stop.load(Ordering::SeqCst) {
                read(&shared);
                due = (due + STEP).max(clock.now() - STEP);
                std::thread::sleep(Duration::from_secs_f64((due - clock.now()).max(0.0)));
            }
        }));
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        for thread in self.threads.drain(..) {
            drop(thread.join());
        }
    }
}

/// Asks the admin socket.
fn start_is_over(socket: &Path) -> std::io::Result<bool> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    stream.write_all(
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"startProgress\",\"params\":[]}\n",
    )?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer)?;
    Ok(answer.contains("\"Running\""))
}

fn life(pid: u32) -> Life {
    match proc::state(pid) {
        Ok('Z') if proc::thread_names(pid).is_ok_and(|names| names.len() > 1) => Life::Ending,
        Err(_) | Ok('Z' | 'X') => Life::Gone,
        Ok('T') => Life::Stopped,
        Ok(_) => Life::Runs,
    }
}
