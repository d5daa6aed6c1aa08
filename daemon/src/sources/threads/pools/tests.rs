use super::*;
use proptest::prelude::*;

fn thread(tid: u32, comm: &str, majflt: u64, minflt: u64) -> ThreadSample {
    ThreadSample {
        tid,
        start_ticks: u64::from(tid),
        comm: Comm::new(comm.as_bytes()),
        minflt,
        majflt,
        utime_ticks: minflt,
        stime_ticks: 0,
        delayacct_blkio_ticks: 0,
        run_queue_delay: Some(Duration::from_micros(minflt)),
        voluntary_switches: None,
        involuntary_switches: None,
    }
}

fn major(pools: &Pools, name: &str) -> u64 {
    pools
        .each()
        .find(|(n, ..)| &**n == name)
        .map_or(0, |(_, _, totals)| totals.majflt)
}

#[test]
fn numbered_threads_form_a_pool() {
    let mut pools = Pools::default();
    pools.add(&[
        thread(1, "solScHandler00", 2, 0),
        thread(2, "solScHandler01", 3, 0),
        thread(3, "solBgAccounts", 7, 0),
    ]);
    pools.settle(0, 12);
    assert_eq!(
        (
            major(&pools, "solScHandler"),
            major(&pools, "solBgAccounts")
        ),
        (5, 7)
    );
    assert_eq!(pools.exited(), (0, 0));
}

#[test]
fn what_an_ended_thread_gained_unseen_is_in_exited_and_nothing_is_lost() {
    let mut pools = Pools::default();
    pools.add(&[thread(1, "a", 5, 0), thread(2, "b", 5, 0)]);
    pools.settle(0, 10);
    // Thread 2 made four more faults and ended; a new thread got its number.
    pools.add(&[
        thread(1, "a", 6, 0),
        ThreadSample {
            start_ticks: 99,
            ..thread(2, "b", 1, 0)
        },
    ]);
    pools.settle(0, 16);
    assert_eq!(
        (major(&pools, "a"), major(&pools, "b"), pools.exited().0),
        (6, 6, 4)
    );
}

#[test]
fn faults_between_the_two_readings_are_counted_once() {
    let mut pools = Pools::default();
    pools.add(&[thread(1, "a", 10, 0)]);
    pools.settle(0, 13);
    assert_eq!((major(&pools, "a"), pools.exited().0), (10, 3));
    pools.add(&[thread(1, "a", 13, 0)]);
    pools.settle(0, 13);
    assert_eq!((major(&pools, "a"), pools.exited().0), (10, 3));
    pools.add(&[thread(1, "a", 20, 0)]);
    pools.settle(0, 20);
    assert_eq!((major(&pools, "a"), pools.exited().0), (17, 3));
}

#[test]
fn more_pools_than_fit_are_folded_and_counted() {
    let mut pools = Pools::default();
    let name = |n: u32| {
        format!(
            "p{}",
            (0..6)
                .map(|bit| if n >> bit & 1 == 1 { 'x' } else { 'y' })
                .collect::<String>()
                + &"z".repeat((n / 64) as usize)
        )
    };
    let threads: Vec<ThreadSample> = (0..200).map(|n| thread(n, &name(n), 1, 0)).collect();
    pools.add(&threads);
    pools.settle(0, 200);
    assert_eq!(pools.each().count(), MOST_POOLS + 1);
    assert_eq!((major(&pools, OTHER), pools.folded()), (50, 50));
}

#[test]
fn switches_read_now_and_then_are_not_counted_twice() {
    let mut pools = Pools::default();
    let with = |n| ThreadSample {
        voluntary_switches: Some(n),
        ..thread(1, "a", 0, 0)
    };
    for sample in [with(10), thread(1, "a", 0, 0), with(15)] {
        pools.add(&[sample]);
    }
    assert_eq!(
        pools
            .each()
            .next()
            .and_then(|(_, _, totals)| totals.voluntary_switches),
        Some(15)
    );
}

proptest! {
    /// Threads live, fault, end and are replaced; the process counts everything.
    #[test]
    fn pools_equal_the_process_exactly_and_none_falls(
        steps in proptest::collection::vec((proptest::collection::vec((0u32..6, 0u64..5, any::<bool>()), 0..12), 0u64..4), 1..40)
    ) {
        let mut pools = Pools::default();
        let mut living: HashMap<u32, (u64, u64)> = (0..6).map(|tid| (tid, (0, 0))).collect();
        let mut process = 0;
        let mut before: HashMap<Arc<str>, u64> = HashMap::default();
        for (generation, (events, race)) in steps.into_iter().enumerate() {
            for (tid, faults, ends) in events {
                process += faults;
                let thread = living.get_mut(&tid).unwrap();
                thread.0 += faults;
                if ends {
                    *thread = (0, generation as u64 + 1);
                }
            }
            let samples: Vec<ThreadSample> = living
                .iter()
                .map(|(tid, (faults, start))| ThreadSample { start_ticks: *start, ..thread(*tid, ["a", "b", "c"][*tid as usize % 3], *faults, 0) })
                .collect();
            pools.add(&samples);
            // Faults between the reading of the threads and that of the process.
            process += race;
            living.get_mut(&0).unwrap().0 += race;
            pools.settle(0, process);
            let sum: u64 = pools.each().map(|(_, _, totals)| totals.majflt).sum::<u64>() + pools.exited().0;
            prop_assert_eq!(sum, process);
            for (name, _, totals) in pools.each() {
                let last = before.insert(Arc::clone(&name), totals.majflt).unwrap_or(0);
                prop_assert!(totals.majflt >= last, "{} fell", name);
            }
        }
    }
}
