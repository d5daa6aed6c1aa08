use super::*;
use crate::tests::host_constants;
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
        on_cpu: Some(Duration::from_micros(minflt)),
        run_queue_delay: Some(Duration::from_micros(minflt)),
        voluntary_switches: None,
        involuntary_switches: None,
    }
}

fn add(pools: &mut Pools, threads: &[ThreadSample]) {
    pools.add(threads.iter().copied(), None, &host_constants());
}

/// A read of every thread.
fn add_all(pools: &mut Pools, threads: &[ThreadSample], process: Option<CpuTime>) {
    pools.add(threads.iter().copied(), process, &host_constants());
    pools.update_exited_cpu(process);
}

fn major(pools: &Pools, name: &str) -> u64 {
    pools
        .pools
        .iter()
        .find(|pool| &*pool.name == name)
        .map_or(0, |pool| pool.totals.faults[0])
}

#[test]
fn numbered_threads_form_a_pool() {
    let mut pools = Pools::default();
    add(
        &mut pools,
        &[
            thread(1, "solScHandler00", 2, 0),
            thread(2, "solScHandler01", 3, 0),
            thread(3, "solBgAccounts", 7, 0),
        ],
    );
    pools.distribute_faults(0, 12, true);
    assert_eq!(
        (
            major(&pools, "solScHandler"),
            major(&pools, "solBgAccounts")
        ),
        (5, 7)
    );
    assert_eq!(pools.exited_faults, [0, 0]);
}

#[test]
fn threads_called_like_the_pool_of_ended_threads_form_one_other_pool() {
    let mut pools = Pools::default();
    let threads = [(1, "exited1"), (2, "exited2"), (3, "exited_threads")];
    let threads = threads.map(|(tid, name)| thread(tid, name, 1, 0));
    add(&mut pools, &threads);
    let names: Vec<(&str, u64)> = pools
        .pools
        .iter()
        .map(|pool| (&*pool.name, pool.threads))
        .collect();
    assert_eq!(names, [("exited_threads", 3)]);
}

#[test]
fn unsampled_counts_of_an_ended_thread_go_to_exited() {
    let mut pools = Pools::default();
    add(&mut pools, &[thread(1, "a", 5, 0), thread(2, "b", 5, 0)]);
    pools.distribute_faults(0, 10, true);
    // Thread 2 made four more faults and ended; a new thread got its number.
    add(
        &mut pools,
        &[
            thread(1, "a", 6, 0),
            ThreadSample {
                start_ticks: 99,
                ..thread(2, "b", 1, 0)
            },
        ],
    );
    pools.distribute_faults(0, 16, true);
    assert_eq!(
        (
            major(&pools, "a"),
            major(&pools, "b"),
            pools.exited_faults[0]
        ),
        (6, 6, 4)
    );
}

#[test]
fn faults_between_thread_and_process_samples_are_counted_once() {
    let mut pools = Pools::default();
    add(&mut pools, &[thread(1, "a", 10, 0)]);
    pools.distribute_faults(0, 13, true);
    assert_eq!((major(&pools, "a"), pools.exited_faults[0]), (10, 3));
    add(&mut pools, &[thread(1, "a", 13, 0)]);
    pools.distribute_faults(0, 13, true);
    assert_eq!((major(&pools, "a"), pools.exited_faults[0]), (10, 3));
    add(&mut pools, &[thread(1, "a", 20, 0)]);
    pools.distribute_faults(0, 20, true);
    assert_eq!((major(&pools, "a"), pools.exited_faults[0]), (17, 3));
}

#[test]
fn faults_of_unread_threads_are_assigned_to_their_pool_later() {
    let mut pools = Pools::default();
    add(&mut pools, &[thread(1, "a", 10, 0)]);
    pools.distribute_faults(0, 10, true);
    add(&mut pools, &[thread(1, "a", 10, 0)]);
    pools.distribute_faults(0, 14, false);
    assert_eq!((major(&pools, "a"), pools.exited_faults[0]), (10, 0));
    add(&mut pools, &[thread(1, "a", 13, 0)]);
    pools.distribute_faults(0, 14, true);
    assert_eq!((major(&pools, "a"), pools.exited_faults[0]), (13, 1));
}

#[test]
fn excess_thread_pools_are_folded_and_counted() {
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
    add(&mut pools, &threads);
    pools.distribute_faults(0, 200, true);
    assert_eq!(pools.pools.len(), MAX_NAMED_POOLS + 1);
    assert_eq!((major(&pools, OTHER), pools.folded_names), (50, 50));
}

#[test]
fn context_switches_sampled_occasionally_are_counted_once() {
    let mut pools = Pools::default();
    let with = |n| ThreadSample {
        voluntary_switches: Some(n),
        ..thread(1, "a", 0, 0)
    };
    for sample in [with(10), thread(1, "a", 0, 0), with(15)] {
        add(&mut pools, &[sample]);
    }
    assert_eq!(
        pools
            .pools
            .first()
            .and_then(|pool| pool.totals.voluntary_switches),
        Some(15)
    );
}

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// A thread with this CPU time in milliseconds, and with whole ticks of 10 ms by mode.
fn worked(tid: u32, comm: &str, on_cpu: u64, utime_ticks: u64, stime_ticks: u64) -> ThreadSample {
    ThreadSample {
        on_cpu: Some(ms(on_cpu)),
        utime_ticks,
        stime_ticks,
        ..thread(tid, comm, 0, 0)
    }
}

fn cpu(pools: &Pools, name: &str) -> [Duration; 2] {
    let cpu = match name {
        EXITED => pools.exited_cpu,
        _ => pools
            .pools
            .iter()
            .find(|pool| &*pool.name == name)
            .map(|pool| pool.cpu_by_mode),
    };
    cpu.map_or([Duration::ZERO; 2], |cpu| [cpu.user, cpu.system])
}

fn process(user: u64, system: u64) -> Option<CpuTime> {
    Some(CpuTime {
        user: ms(user),
        system: ms(system),
    })
}

#[test]
fn threads_using_less_than_a_clock_tick_have_cpu_time() {
    let mut pools = Pools::default();
    let threads: Vec<_> = (0..600).map(|n| worked(n, "idle", 7, 0, 0)).collect();
    add_all(&mut pools, &threads, process(3150, 1050));
    assert_eq!(
        cpu(&pools, "idle"),
        [ms(3150), ms(1050)],
        "split as the process"
    );
    assert_eq!(cpu(&pools, EXITED), [ms(0); 2]);
}

#[test]
fn cpu_time_is_split_by_tick_ratio_and_no_mode_decreases() {
    let mut pools = Pools::default();
    add(&mut pools, &[worked(1, "a", 109, 6, 4)]);
    assert_eq!(
        cpu(&pools, "a"),
        [ms(109).mul_f64(0.6), ms(109).mul_f64(0.4)]
    );
    let before = cpu(&pools, "a");
    // All ticks since then are user time: the kernel's own share has fallen.
    add(&mut pools, &[worked(1, "a", 209, 16, 4)]);
    let after = cpu(&pools, "a");
    assert_eq!(after.iter().sum::<Duration>(), ms(209));
    assert!(
        after[0] > before[0] && after[1] == before[1],
        "{before:?}, {after:?}"
    );
}

#[test]
fn cpu_time_of_threads_ended_between_samples_counts_as_exited() {
    let mut pools = Pools::default();
    let both = [worked(1, "a", 50, 5, 0), worked(2, "b", 50, 5, 0)];
    add_all(&mut pools, &both, process(100, 0));
    // Thread 2 worked for 30 ms more and ended. Thread 1 worked for 7 ms after the process was
    // read.
    add_all(&mut pools, &[worked(1, "a", 67, 6, 0)], process(110, 30));
    assert_eq!(cpu(&pools, EXITED), [ms(0), ms(23)]);
    add_all(&mut pools, &[worked(1, "a", 67, 6, 0)], process(117, 30));
    assert_eq!(cpu(&pools, EXITED), [ms(0), ms(30)]);
    assert_eq!(cpu(&pools, "b"), [ms(50), ms(0)]);
}

#[test]
fn more_than_a_clock_tick_of_unreported_cpu_time_requires_a_read_of_every_thread() {
    let mut pools = Pools::default();
    let both = [worked(1, "a", 50, 5, 0), worked(2, "idle", 0, 0, 0)];
    add_all(&mut pools, &both, process(50, 0));
    let busy = [worked(1, "a", 60, 6, 0), worked(2, "idle", 0, 0, 0)];
    pools.add(busy.into_iter(), process(69, 0), &host_constants());
    assert!(!pools.check_unreported_cpu(process(69, 0)), "9 ms");
    assert!(pools.check_unreported_cpu(process(70, 0)));
    assert!(!pools.check_unreported_cpu(None));
    assert_eq!(cpu(&pools, EXITED), [ms(0); 2], "not every thread was read");
    let read = [worked(1, "a", 60, 6, 0), worked(2, "idle", 9, 0, 0)];
    add_all(&mut pools, &read, process(70, 0));
    assert_eq!(cpu(&pools, EXITED), [ms(1), ms(0)]);
    assert!(!pools.check_unreported_cpu(process(70, 0)));
    let busy = [worked(1, "a", 4_060, 6, 0), worked(2, "idle", 9, 0, 0)];
    pools.add(busy.into_iter(), process(4_100, 0), &host_constants());
    assert!(
        !pools.check_unreported_cpu(process(4_100, 0)),
        "below one percent"
    );
    assert!(pools.check_unreported_cpu(process(4_120, 0)));
}

#[test]
fn without_schedstat_cpu_time_is_in_ticks_and_unknown_for_exited_threads() {
    let mut pools = Pools::default();
    let ticks = ThreadSample {
        on_cpu: None,
        ..worked(1, "a", 0, 3, 1)
    };
    add_all(&mut pools, &[ticks], process(48, 20));
    assert_eq!(cpu(&pools, "a"), [ms(30), ms(10)]);
    assert_eq!(pools.exited_cpu, None);
    assert!(!pools.check_unreported_cpu(process(1_000, 0)));
}

proptest! {
    /// Threads work, end and are replaced; the process counts everything, in whole ticks.
    #[test]
    fn cpu_time_of_all_pools_sums_to_the_process_and_never_decreases(
        steps in proptest::collection::vec((proptest::collection::vec((0u32..6, 0u64..40, any::<bool>(), any::<bool>()), 0..12), 0u64..9), 1..40)
    ) {
        let mut pools = Pools::default();
        let mut living: HashMap<u32, ([u64; 2], u64)> = (0..6).map(|tid| (tid, ([0, 0], 0))).collect();
        let mut all = [0, 0];
        let mut before: HashMap<String, [Duration; 2]> = HashMap::default();
        for (generation, (events, race)) in steps.into_iter().enumerate() {
            for (tid, time, system, ends) in events {
                all[usize::from(system)] += time;
                let thread = living.get_mut(&tid).unwrap();
                thread.0[usize::from(system)] += time;
                if ends {
                    *thread = ([0, 0], generation as u64 + 1);
                }
            }
            let seen = process(all[0] / 10 * 10, all[1] / 10 * 10);
            // Work between the reads of the process and of the threads.
            all[0] += race;
            living.get_mut(&0).unwrap().0[0] += race;
            let samples: Vec<ThreadSample> = living
                .iter()
                .map(|(tid, ([user, system], start))| ThreadSample {
                    start_ticks: *start,
                    ..worked(*tid, ["a", "b", "c"][*tid as usize % 3], user + system, user / 10, system / 10)
                })
                .collect();
            add_all(&mut pools, &samples, seen);
            let sum: Duration = ["a", "b", "c", EXITED].iter().flat_map(|name| cpu(&pools, name)).sum();
            prop_assert!(sum <= ms(all[0] + all[1]) && sum >= seen.unwrap().total(), "{sum:?} of {all:?}");
            for name in ["a", "b", "c", EXITED] {
                let now = cpu(&pools, name);
                let last = before.insert(name.to_owned(), now).unwrap_or_default();
                prop_assert!(now[0] >= last[0] && now[1] >= last[1], "{} fell", name);
            }
        }
    }

    /// Threads live, fault, end and are replaced; the process counts everything.
    #[test]
    fn pool_faults_sum_exactly_to_the_process_and_never_decrease(
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
            add(&mut pools, &samples);
            // Faults between the reads of the threads and of the process.
            process += race;
            living.get_mut(&0).unwrap().0 += race;
            pools.distribute_faults(0, process, true);
            let sum: u64 = pools.pools.iter().map(|pool| pool.totals.faults[0]).sum::<u64>() + pools.exited_faults[0];
            prop_assert_eq!(sum, process);
            for Pool { name, totals, .. } in pools.pools.iter() {
                let last = before.insert(Arc::clone(name), totals.faults[0]).unwrap_or(0);
                prop_assert!(totals.faults[0] >= last, "{} fell", name);
            }
        }
    }
}
