//! Reads replay times from the follower's datapoints and CPU times from the scheduler.

use std::{collections::BTreeMap, fs, time::Duration};

use faultline_testkit::{Error, Result, proc, sink::Sink};

/// Prefixes of the names of replay threads in all versions: replay loop, scheduler, handlers and pools.
const REPLAY_THREADS: [&str; 2] = ["solReplay", "solSc"];

/// A replayed slot, from `replay-slot-stats`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Replayed {
    /// Nanoseconds since 1970 by the follower's clock.
    pub at: i64,
    /// Microseconds from the start of replay to its end, including waits for shreds.
    pub elapsed: f64,
    /// Microseconds to verify and execute transactions, including loads of programs, summed over threads.
    pub working: f64,
}

/// All slots that the follower pushed to the sink.
pub fn replay_points(sink: &Sink) -> Vec<Replayed> {
    let mut points = Vec::new();
    sink.find_map(|arrival| {
        let text = String::from_utf8_lossy(&arrival.body);
        points.extend(text.lines().filter_map(replayed));
        None::<()>
    });
    points
}

fn replayed(line: &str) -> Option<Replayed> {
    let rest = line.strip_prefix("replay-slot-stats,")?;
    let field = |name: &str| {
        let (_, after) = rest.split_once(name)?;
        after.split_once('i')?.0.parse::<f64>().ok()
    };
    let at = line.rsplit(' ').next()?.parse().ok()?;
    let parts = [
        "entry_transaction_verification_time",
        "program_cache_us",
        "load_us",
        "execute_us",
        "store_us",
    ];
    let of = |name: &str| field(&format!(" {name}=")).or_else(|| field(&format!(",{name}=")));
    let working = parts.iter().filter_map(|name| of(name)).sum();
    Some(Replayed {
        at,
        elapsed: of("replay_total_elapsed")?,
        working,
    })
}

/// The one-minute load average; 0 if it cannot be read.
pub fn host_load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ')
        .next()
        .and_then(|load| load.parse().ok())
        .unwrap_or_default()
}

/// CPU times and run-queue delays at one moment.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// By thread id: nanoseconds of CPU and of run-queue delay.
    replay: BTreeMap<u32, (u64, u64)>,
    /// CPU of all threads of the daemon, in nanoseconds.
    daemon: u64,
}

impl Snapshot {
    /// Reads those of a follower and, if it runs, of the daemon.
    pub fn take((follower, daemon): (u32, Option<u32>)) -> Result<Self> {
        let replay = threads(follower)?
            .into_iter()
            .filter(|(_, name, _)| REPLAY_THREADS.iter().any(|start| name.starts_with(start)))
            .map(|(tid, _, times)| (tid, times))
            .collect();
        let daemon = daemon.map_or(Ok(0), |pid| {
            Ok(threads(pid)?
                .iter()
                .map(|(_, _, (ran, _))| ran)
                .sum::<u64>())
        })?;
        Ok(Self { replay, daemon })
    }

    /// Run-queue delay and CPU time of the replay threads that are in both snapshots.
    pub fn replay_since(&self, before: &Self) -> (Duration, Duration) {
        let both = self
            .replay
            .iter()
            .filter_map(|(tid, after)| Some((before.replay.get(tid)?, after)));
        let (ran, waited) = both.fold((0, 0), |(ran, waited), (before, after)| {
            (
                ran + after.0.saturating_sub(before.0),
                waited + after.1.saturating_sub(before.1),
            )
        });
        (Duration::from_nanos(waited), Duration::from_nanos(ran))
    }

    pub fn daemon_since(&self, before: &Self) -> Duration {
        Duration::from_nanos(self.daemon.saturating_sub(before.daemon))
    }
}

type Thread = (u32, String, (u64, u64));

/// Thread id, name, and the first two numbers of `schedstat`; threads that end meanwhile are left out.
fn threads(pid: u32) -> Result<Vec<Thread>> {
    let folder = format!("/proc/{pid}/task");
    let entries = fs::read_dir(&folder).map_err(|source| Error::File {
        path: folder.into(),
        source,
    })?;
    let read = |entry: &fs::DirEntry| {
        let tid = entry.file_name().to_str()?.parse().ok()?;
        let name = fs::read_to_string(entry.path().join("comm"))
            .ok()?
            .trim_end()
            .to_owned();
        let text = fs::read_to_string(entry.path().join("schedstat")).ok()?;
        let mut numbers = text
            .split_whitespace()
            .map_while(|number| number.parse().ok());
        Some((tid, name, (numbers.next()?, numbers.next()?)))
    };
    Ok(entries.flatten().filter_map(|entry| read(&entry)).collect())
}

/// A line of the daemon's status in bytes; 0 if the line is missing.
pub fn memory(pid: u32, name: &str) -> Result<u64> {
    Ok(proc::status_bytes(pid, name)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_read_from_the_followers_own_line() {
        let line = "replay-slot-stats,host_id=J2 slot=801i,load_us=7i,entry_transaction_verification_time=100i,\
                    replay_total_elapsed=371713i,execute_accessories_load_us=9i,execute_us=20i 1795225877297926586";
        let expected = Replayed {
            at: 1_795_225_877_297_926_586,
            elapsed: 371_713.0,
            working: 127.0,
        };
        assert_eq!(replayed(line), Some(expected));
        assert_eq!(
            replayed("replay-slot-end-to-end-stats,host_id=J2 slot=801i 1"),
            None
        );
        assert_eq!(replayed("replay-slot-stats,host_id=J2 slot=801i"), None);
    }

    #[test]
    fn only_threads_seen_twice_count() {
        let before = Snapshot {
            replay: BTreeMap::from([(1, (100, 10)), (2, (5, 5))]),
            daemon: 7,
        };
        let after = Snapshot {
            replay: BTreeMap::from([(1, (150, 30)), (3, (900, 900))]),
            daemon: 10,
        };
        assert_eq!(
            after.replay_since(&before),
            (Duration::from_nanos(20), Duration::from_nanos(50))
        );
        assert_eq!(after.daemon_since(&before), Duration::from_nanos(3));
    }
}
