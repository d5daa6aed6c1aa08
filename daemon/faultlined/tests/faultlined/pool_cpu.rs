//! CPU time by pool of a real program whose threads use a known amount in small pieces.

use crate::support::{compiled, fake_daemon::FakeDaemon, start};
use faultline_core::config::{Config, TargetSelector};
use faultline_metrics::{
    Tick,
    metrics::{pools as q, process as p},
};
use faultline_testkit::{Result, eventually::eventually_ok};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(300);
/// Long enough that every source samples again.
const LONG: Duration = Duration::from_secs(31);
/// Seconds of CPU of each of the two pools whose threads do not end.
const WORK: f64 = 40.0 * 0.037;

/// 40 threads use 37 ms each in user mode, and 40 others in the kernel. These threads do not end.
/// Meanwhile 60 threads, one after the other, use 7 ms and end. All sleep after each tenth of a
/// millisecond. The program prints `done` at the end.
const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>
static int zero;
static long used(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}
static void work(long nanos, int in_kernel) {
    static __thread char buffer[16384];
    struct timespec pause = {0, 1000000};
    for (long rest = used() + 100000; used() < nanos;) {
        if (in_kernel) read(zero, buffer, sizeof buffer);
        else for (volatile int n = 0; n < 20000; n++);
        if (used() > rest) { nanosleep(&pause, 0); rest = used() + 100000; }
    }
}
static void *in_user(void *unused) { work(37000000, 0); for (;;) pause(); return unused; }
static void *in_kernel(void *unused) { work(37000000, 1); for (;;) pause(); return unused; }
static void *ends(void *unused) { work(7000000, 0); return unused; }
static pthread_t begin(const char *name, void *(*run)(void *)) {
    pthread_t thread;
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 131072);
    prctl(PR_SET_NAME, name);
    pthread_create(&thread, &small, run, 0);
    prctl(PR_SET_NAME, "main");
    return thread;
}
int main(void) {
    zero = open("/dev/zero", O_RDONLY);
    for (int n = 0; n < 40; n++) { begin("inUser", in_user); begin("inKernel", in_kernel); }
    for (int n = 0; n < 60; n++) pthread_join(begin("ends", ends), 0);
    sleep(1);
    puts("done");
    fflush(stdout);
    for (;;) pause();
}
"#;

fn cpu(tick: &Tick, pool: &str) -> [f64; 2] {
    ["user", "system"].map(|mode| tick.value_of(&q::CPU, &[pool, mode]).unwrap_or_default())
}

fn within(seen: f64, expected: f64) -> bool {
    (seen / expected - 1.0).abs() < 0.01
}

/// A thread of 37 ms has at most three whole ticks of the kernel. A thread of 7 ms has none.
#[test]
fn pool_cpu_times_match_their_threads_and_sum_to_the_process() -> Result<()> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let Some(program) = compiled(folder.path(), "works", SOURCE) else {
        println!("SKIPPED: no C compiler (cc)");
        return Ok(());
    };
    let running = start(program, &[], folder.path())?;
    let mut config = Config::default();
    config.target.selector = TargetSelector::Pid(running.pid());
    let mut daemon = FakeDaemon::real(&config);
    daemon.find();
    let output = folder.path().join("output");
    eventually_ok(PATIENCE, "all threads have worked", || {
        let tick = daemon.tick_after(LONG);
        let output = std::fs::read_to_string(&output).unwrap_or_default();
        if output.contains("done") {
            Ok(())
        } else {
            Err((output, cpu(&tick, "inUser")))
        }
    });
    let tick = daemon.tick_after(LONG);
    let (user, kernel) = (cpu(&tick, "inUser"), cpu(&tick, "inKernel"));
    for seen in [user, kernel] {
        assert!(
            within(seen.iter().sum(), WORK),
            "{user:?} {kernel:?}, not {WORK}"
        );
    }
    assert!(
        user[0] > user[1] && kernel[0] < kernel[1],
        "{user:?} {kernel:?}"
    );
    let ended: f64 = ["ends", "exited"]
        .iter()
        .flat_map(|pool| cpu(&tick, pool))
        .sum();
    assert!(ended > 60.0 * 0.007 * 0.9, "{ended}");
    let all = |name: &str| -> f64 {
        let readings = tick
            .readings()
            .filter(|reading| reading.metric.name == name);
        readings.filter_map(|reading| reading.value.number()).sum()
    };
    let (pools, process) = (all(q::CPU.name), all(p::CPU.name));
    assert!(within(pools, process), "{pools} of {process}");
    Ok(())
}
