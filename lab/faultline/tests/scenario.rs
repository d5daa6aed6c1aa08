//! A real follower is stopped, continued, starved, killed, started again and killed, while a daemon records it. A witness reads
//! the leader's slot, the follower's slot and the process state every 100 ms. At each tick, phase, slots behind and kept up must be
//! unknown or agree with the witness within two ticks: on the page, in the recording and in the report.
//!
//! The comparison is kept in `target/scenario/seconds.txt`, one line per tick, next to the recording and the report.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot prepare its scene fails"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "the witness has its own threads, clock and programs"
)]

#[path = "scenario/judge.rs"]
mod judge;
#[expect(dead_code, reason = "another test uses the rest of it")]
#[path = "real_experiments/page.rs"]
mod page;
#[path = "scenario/quota.rs"]
mod quota;
#[path = "scenario/report.rs"]
mod report;
#[path = "scenario/said.rs"]
mod said;
#[path = "scenario/truth.rs"]
mod truth;
#[path = "scenario/witness.rs"]
mod witness;

use faultline_recording::Recording;
use faultline_testkit::{
    Result,
    binaries::{Binaries, SKIP_MESSAGE},
    cluster::{Cluster, ClusterOptions},
    daemon::Daemon,
    eventually::eventually_ok,
    load::Load,
    process::signal,
};
use quota::CpuQuota;
use said::{Scraped, Scraper};
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};
use truth::{Moment, TICK, Thresholds, UNDER_WAY, seconds_at_tip, truth};
use witness::{Clock, Life, STEP, Witness};

/// Deadline of one step. Each takes less than a minute on a quiet machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// Small, so that each step is short. The times are no multiples of a tick, so that the jitter of a tick does not matter. A stopped
/// follower counts as behind after about 20 s: longer than the 15 s after which the daemon must show the phase as unknown.
const THRESHOLDS: Thresholds = Thresholds {
    at_tip_slots: 16,
    at_tip_for: 2.5,
    behind_slots: 40,
    behind_for: 2.5,
};

/// The follower is stopped while the leader makes this many slots: 40 s.
const FROZEN_SLOTS: u64 = 100;

/// The daemon records a stall when no slot has advanced for this long at the tip.
const STALL: f64 = 15.0;

/// Transactions per second, and the number of programs they call.
const LOAD: (u32, u32) = (40, 16);

struct Scene {
    // Fields are dropped in this order: the cgroup can only be removed after the follower has ended.
    scraper: Scraper,
    witness: Witness,
    daemon: Daemon,
    _load: Load,
    cluster: Cluster,
    quota: CpuQuota,
    steps: Vec<(f64, &'static str)>,
    /// Times at which the follower had been at the tip for long enough that the daemon must know.
    at_the_tip: Vec<f64>,
    folder: PathBuf,
    _nodes: tempfile::TempDir,
}

impl Scene {
    /// Starts the daemon first, then leader, load, witness and follower.
    fn start(quota: CpuQuota) -> Result<Self> {
        let folder =
            report::emptied(Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("scenario"));
        let temporary = tempfile::tempdir().expect("a temporary folder");
        let nodes = temporary.path().join("nodes");
        fs::create_dir(&nodes).expect("a folder for the nodes");
        let daemon = start_daemon(&folder, &nodes.join("follower"))?;
        let mut cluster = Cluster::start_leader(ClusterOptions {
            programs: LOAD.1,
            follower_metrics: Some(daemon.ingest_url()),
            folder: Some(nodes),
            ..ClusterOptions::default()
        })?;
        let load = Load::start(cluster.leader_rpc().address(), LOAD.0, LOAD.1)?;
        let witness = Witness::start(
            cluster.leader_rpc(),
            cluster.follower_rpc(),
            cluster.follower_ledger(),
        );
        let scraper = Scraper::start(daemon.metrics().to_owned(), witness.clock);
        witness.follows(cluster.start_follower()?);
        let steps = vec![(witness.now(), "started")];
        Ok(Self {
            scraper,
            witness,
            daemon,
            _load: load,
            cluster,
            quota,
            steps,
            at_the_tip: Vec::new(),
            folder,
            _nodes: temporary,
        })
    }

    fn step(&mut self, what: &'static str) -> f64 {
        let now = self.witness.now();
        println!("{now:.1} s: {what}");
        self.steps.push((now, what));
        now
    }

    fn follower(&self) -> u32 {
        self.cluster.follower_pid().expect("a follower runs")
    }

    /// Waits until the distance has fulfilled a condition for this many seconds without a break. `meanwhile` is called at each look
    /// with the seconds waited so far.
    fn wait_for(
        &self,
        seconds: f64,
        what: &str,
        holds: impl Fn(u64) -> bool,
        mut meanwhile: impl FnMut(f64),
    ) {
        let (began, mut since) = (self.witness.now(), None);
        eventually_ok(PATIENCE, what, || {
            let (now, distance) = (self.witness.now(), self.witness.distance());
            meanwhile(now - began);
            if !distance.is_some_and(&holds) {
                since = None;
                return Err(distance);
            }
            if now - *since.get_or_insert(now) >= seconds {
                Ok(())
            } else {
                Err(distance)
            }
        });
    }

    /// Waits until the follower has been near the tip for 16 s longer than the phase needs. After a stall the daemon itself waits
    /// 8 s before it trusts a small distance.
    fn wait_until_at_the_tip(&mut self) {
        let near = THRESHOLDS.at_tip_slots - UNDER_WAY;
        let long = THRESHOLDS.at_tip_for + 16.0;
        self.wait_for(
            long,
            "the follower is at the tip",
            |behind| behind <= near,
            |_| (),
        );
        self.at_the_tip.push(self.witness.now());
    }

    fn wait_for_pages(&self, pages: usize) {
        let before = self.scraper.pages().len();
        eventually_ok(PATIENCE, "further pages", || {
            let now = self.scraper.pages().len();
            if now >= before + pages {
                Ok(())
            } else {
                Err(now)
            }
        });
    }

    /// Limits the follower's CPU time until it is far behind. The quota is lowered every 20 s, because machines differ.
    fn starve(&self) {
        self.quota
            .take(self.follower())
            .expect("a process can be moved");
        let far = THRESHOLDS.behind_slots + UNDER_WAY;
        let mut levels = [(0.0, 20), (20.0, 10), (40.0, 5), (60.0, 2)]
            .into_iter()
            .peekable();
        self.wait_for(
            THRESHOLDS.behind_for + 6.0,
            "the starved follower is far behind",
            |behind| behind > far,
            |waited| {
                if let Some((_, percent)) = levels.next_if(|(from, _)| waited >= *from) {
                    println!("{:.1} s: {percent} % of a CPU", self.witness.now());
                    self.quota.limit(Some(percent)).expect("a quota can be set");
                }
            },
        );
    }
}

fn start_daemon(folder: &Path, ledger: &Path) -> Result<Daemon> {
    let config = folder.join("faultlined.toml");
    let of = THRESHOLDS;
    let text = format!(
        "[threads]\ninterval = \"5s\"\n[rpc]\ninterval = \"1s\"\ntimeout = \"1s\"\n\
         [phase]\nat_tip_slots = {}\nat_tip_for = \"{}ms\"\nbehind_slots = {}\nbehind_for = \"{}ms\"\n\
         [flight]\nfolder = {:?}\nafter = \"2s\"\n",
        of.at_tip_slots,
        of.at_tip_for * 1e3,
        of.behind_slots,
        of.behind_for * 1e3,
        folder.join("flight").display().to_string()
    );
    fs::write(&config, text).expect("a configuration");
    let [config, ledger, run] =
        [&config, ledger, &folder.join("run.fltl")].map(|path| path.display().to_string());
    let daemon = Path::new(env!("CARGO_BIN_EXE_faultline")).with_file_name("faultlined");
    assert!(
        daemon.is_file(),
        "no {}: cargo build -p faultlined",
        daemon.display()
    );
    Daemon::start(
        &daemon.display().to_string(),
        &["--config", &config, "--ledger", &ledger, "--record", &run],
        folder,
    )
}

/// When these happened.
struct Times {
    stopped: f64,
    killed: f64,
    killed_again: f64,
}

/// The steps of the scenario.
fn play(scene: &mut Scene) -> Result<Times> {
    scene.wait_until_at_the_tip();
    let stopped = scene.step("SIGSTOP");
    signal(scene.follower(), "STOP")?;
    let wanted = scene.witness.leader_slot().map(|slot| slot + FROZEN_SLOTS);
    eventually_ok(PATIENCE, "the leader goes on", || {
        let slot = scene.witness.leader_slot();
        if slot >= wanted { Ok(()) } else { Err(slot) }
    });
    scene.step("SIGCONT");
    signal(scene.follower(), "CONT")?;
    scene.wait_until_at_the_tip();
    scene.step("starved");
    scene.starve();
    scene.step("released");
    scene.quota.limit(None).expect("a quota can be taken away");
    scene.wait_until_at_the_tip();
    let killed = scene.step("SIGKILL");
    scene.cluster.kill_follower()?;
    scene.wait_for_pages(8);
    scene.step("started again");
    let pid = scene.cluster.start_follower()?;
    scene.witness.follows(pid);
    scene.wait_until_at_the_tip();
    let killed_again = scene.step("SIGKILL");
    scene.cluster.kill_follower()?;
    scene.wait_for_pages(12);
    scene.step("the end");
    Ok(Times {
        stopped,
        killed,
        killed_again,
    })
}

#[test]
#[ignore = "takes four minutes: .ci/run --long, or cargo test --workspace --test scenario -- --ignored"]
fn page_recording_and_report_match_an_independent_observer() -> Result<()> {
    if Binaries::find().is_none() {
        eprintln!("{SKIP_MESSAGE}");
        return Ok(());
    }
    let Some(quota) = CpuQuota::new() else {
        eprintln!("SKIPPED: no cgroup with a CPU quota can be made here");
        return Ok(());
    };
    let mut scene = Scene::start(quota)?;
    let times = play(&mut scene)?;
    let Scene {
        scraper,
        witness,
        daemon,
        cluster,
        steps,
        at_the_tip,
        folder,
        ..
    } = scene;
    let (pages, sightings, clock) = (scraper.pages(), witness.sightings(), witness.clock);
    drop((scraper, witness));
    assert_eq!(daemon.stop()?, Some(0));
    drop(cluster);
    let (run, moments) = (folder.join("run.fltl"), truth(&sightings, THRESHOLDS));
    let judged = {
        let recording = Recording::open(&run).expect("a recording");
        judge::judge(said::recorded(&recording, clock), &moments, &sightings)
    };
    let table = judge::table(&judged, &moments, &steps);
    fs::write(folder.join("seconds.txt"), &table).expect("the table is kept");

    let mut wrong = judge::wrong(&judged);
    wrong.extend(judge::pages_apart(&pages, &judged));
    wrong.extend(judge::unknown_for_long(&judged, &at_the_tip));
    let happened = Happened {
        moments: &moments,
        times,
    };
    wrong.extend(happened.time_at_the_tip(&pages));
    wrong.extend(happened.events(&report::info(&run), clock));
    let death = happened.gone_after(happened.times.killed_again);
    let first_tick = judged.first().map_or(0.0, |tick| tick.at);
    wrong.extend(report::judge(
        &run,
        &folder.join("report"),
        happened.since_the_tip_until(death),
        death - first_tick,
    ));
    if !saved_for(&folder.join("flight"), "stall") {
        wrong.push("the flight recorder has saved nothing for the stall".to_owned());
    }
    assert!(
        wrong.is_empty(),
        "{table}\n{}\nkept in {}",
        wrong.join("\n"),
        folder.display()
    );
    Ok(())
}

fn saved_for(flight: &Path, reason: &str) -> bool {
    let names = fs::read_dir(flight)
        .expect("a flight folder")
        .flatten()
        .map(|entry| entry.file_name());
    { names }.any(|name| name.to_string_lossy().contains(&format!("-{reason}-")))
}

/// The truth, for checks that are not made tick by tick.
struct Happened<'a> {
    moments: &'a [Moment],
    times: Times,
}

impl Happened<'_> {
    fn until(&self, at: f64) -> &[Moment] {
        &self.moments[..self.moments.partition_point(|moment| moment.at <= at)]
    }

    fn moment(&self, at: f64) -> Option<&Moment> {
        self.until(at).last()
    }

    /// When the process that was killed at `killed` had ended.
    fn gone_after(&self, killed: f64) -> f64 {
        let gone = |moment: &&Moment| moment.at >= killed && moment.life == Life::Gone;
        self.moments.iter().find(gone).expect("it was killed").at
    }

    /// The moments from the first at the tip to `end`.
    fn since_the_tip_until(&self, end: f64) -> &[Moment] {
        let moments = self.until(end);
        let first = moments
            .iter()
            .position(|moment| moment.surely_at_tip)
            .expect("it was at the tip");
        &moments[first..]
    }

    /// Checks the seconds of the phase `at_tip` on the last page before the first kill. Until then the phase changed five times, and
    /// each change may be seen two ticks late.
    fn time_at_the_tip(&self, pages: &[Scraped]) -> Option<String> {
        let page = pages.iter().rfind(|page| page.heard <= self.times.killed)?;
        let (at_least, at_most, _) = seconds_at_tip(self.until(page.heard));
        let (said, margin) = (page.at_tip_seconds, 5.0 * 2.0 * TICK);
        let right = said >= at_least - margin && said <= at_most + margin;
        (!right).then(|| {
            format!("the phase at_tip gained {said:.0} s, true: {at_least:.0}..{at_most:.0} s")
        })
    }

    /// Checks the recorded events `exit` and `stall`.
    fn events(&self, info: &Value, clock: Clock) -> Vec<String> {
        let all = info["events"].as_array().expect("events");
        let of = |kind: &str| {
            let events = all.iter().filter(|event| event["kind"] == kind);
            events
                .filter_map(|event| event["unix_ns"].as_i64())
                .map(|at| clock.of_unix(at))
                .collect::<Vec<f64>>()
        };
        let mut wrong = Vec::new();
        let ends =
            [self.times.killed, self.times.killed_again].map(|killed| self.gone_after(killed));
        let recorded = of("exit");
        let near = |(at, end): (&f64, &f64)| *at >= end - STEP && *at <= end + 2.0 * TICK;
        if recorded.len() != ends.len() || !recorded.iter().zip(&ends).all(near) {
            wrong.push(format!("recorded ends at {recorded:.1?}, true: {ends:.1?}"));
        }
        let stalls = of("stall");
        // The daemon sees the last slot up to a poll and a tick late, and records the stall at the next tick.
        let noticed =
            self.times.stopped + STALL - 2.0 * TICK..=self.times.stopped + STALL + 3.0 * TICK;
        if !stalls.iter().any(|at| noticed.contains(at)) {
            wrong.push(format!(
                "recorded stalls at {stalls:.1?}, none at {noticed:.1?}"
            ));
        }
        let moved = |at: &&f64| {
            let slots = |at: f64| self.moment(at).and_then(|moment| moment.slot);
            let (before, now) = (slots(*at - STALL + 3.0 * TICK), slots(**at));
            before.zip(now).is_none_or(|(before, now)| now.0 > before.1)
        };
        wrong.extend(
            stalls
                .iter()
                .filter(moved)
                .map(|at| format!("a stall at {at:.1} s, but the slot advanced")),
        );
        wrong
    }
}
