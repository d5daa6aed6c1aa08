//! A world in which time passes only while somebody waits, and which writes down what is done to it.

use super::script::Script;
use anyhow::Result;
use faultline_experiments::{
    folder::{ExperimentFolder, cgroup_name},
    host::HostFinding,
    journal::{Entry, JournalLine, Planned},
    judge::ProgramCacheTotals,
    plan::{Lane, Plan, Severity},
    runner::{Observer, PageCacheDropped, Recorder, RecorderRequest, StopRequest, System},
    search::{self, Reading, ReplayedSlot},
    targets::ScrapeTarget,
    watch::Timestamp,
};
use faultline_recording::{ProcessRow, Progress, TickRow};
use faultline_runner::{
    isolation::{CgroupName, CgroupState, End, Job, Launched, Launcher, LauncherAbilities, Limits},
    record::recorder::Addresses,
};
use std::{
    cell::RefCell,
    collections::BTreeMap,
    path::{Path, PathBuf},
    rc::Rc,
    time::Duration,
};

/// Slots a second.
const RATE: f64 = 2.5;
/// When a run executes unless the script says otherwise, and how much later it is at the tip.
const EXECUTES: f64 = 2.0;

pub struct Pretended {
    state: Rc<RefCell<State>>,
    launcher: Pretender,
}

struct State {
    now: Duration,
    log: String,
    journal: PathBuf,
    read: usize,
    script: Script,
    /// When each run was let go.
    began: BTreeMap<(u32, u32), Duration>,
    asked_to_end: BTreeMap<(u32, u32), Duration>,
    /// Whether a wish to stop was heeded in an earlier life.
    heeded: bool,
    /// Of memory, that a search moves.
    limit: Option<u64>,
}

impl State {
    fn log(&mut self, words: &str) {
        let text = std::fs::read_to_string(&self.journal).unwrap_or_default();
        for line in text.get(self.read..).unwrap_or_default().lines() {
            if let Ok(line) = serde_json::from_str::<JournalLine>(line) {
                self.log += &format!(
                    "{:>7.1}  > {}\n",
                    line.unix_ns as f64 / 1e9,
                    in_words(&line.entry)
                );
            }
        }
        self.read = text.len();
        if !words.is_empty() {
            self.log += &format!("{:>7.1}    {words}\n", self.now.as_secs_f64());
        }
    }

    /// Seconds since a run began; `None` before.
    fn age(&self, run: (u32, u32)) -> Option<f64> {
        Some((self.now - *self.began.get(&run)?).as_secs_f64())
    }

    fn over(&self, run: (u32, u32), what: &str) -> bool {
        self.script
            .of(run, what)
            .zip(self.age(run))
            .is_some_and(|(at, age)| age >= at)
    }

    fn end(&self, run: (u32, u32)) -> Option<End> {
        // Held back, it has not begun.
        let age = self.age(run).unwrap_or(-1.0);
        let due = |found: Option<(i32, f64)>| {
            found.filter(|(_, at)| age >= *at).map(|(number, _)| number)
        };
        if let Some(code) = due(self.script.number(run, "exit")) {
            return Some(End::Code(code));
        }
        if let Some(signal) = due(self.script.number(run, "signal")) {
            return Some(End::Signal(signal));
        }
        if self.over(run, "oom") {
            return Some(End::Signal(9));
        }
        let stubborn = self.script.of(run, "stubborn").is_some();
        self.asked_to_end
            .get(&run)
            .filter(|_| !stubborn)
            .map(|_| End::Signal(15))
    }
}

fn in_words(entry: &Entry) -> String {
    match entry {
        Entry::Planned(Planned { turns, .. }) => format!("planned, {} turns", turns.len()),
        Entry::Runner { .. } => "runner".to_owned(),
        Entry::TurnBegun { turn, attempt } => format!("turn {turn}, attempt {attempt}"),
        Entry::Step { run, step, .. } => format!("run {run}: {step:?}"),
        Entry::RunEnded { run, ending, .. } => {
            let notes: String = ending
                .notes
                .iter()
                .map(|note| format!(" [{note}]"))
                .collect();
            format!("run {run} ended: {}{notes}", ending.in_words())
        }
        Entry::Search {
            run,
            event: search::SearchEvent::Limit { headroom, why },
            ..
        } => {
            format!("run {run}: headroom {headroom:?}, {why}")
        }
        Entry::Search {
            run,
            event:
                search::SearchEvent::Dwell(search::DwellResult {
                    headroom,
                    verdict,
                    evidence,
                    ..
                }),
            ..
        } => {
            format!(
                "run {run}: {verdict:?} with headroom {headroom:?} after {} s",
                evidence.seconds
            )
        }
        Entry::SearchAnswer { run, answer, .. } => {
            format!("run {run} has searched: {:?}", answer.outcome)
        }
        Entry::Stopped { why } => format!("stopped: {why}"),
        Entry::Void { run, why, .. } => format!("run {run} is void: {why}"),
        Entry::Finished => "finished".to_owned(),
    }
}

impl Pretended {
    pub fn new(folder: &ExperimentFolder, script: Script) -> Self {
        let state = State {
            now: Duration::ZERO,
            log: String::new(),
            journal: folder.journal(),
            read: 0,
            script,
            began: BTreeMap::new(),
            asked_to_end: BTreeMap::new(),
            heeded: false,
            limit: None,
        };
        let state = Rc::new(RefCell::new(state));
        let launcher = Pretender {
            state: Rc::clone(&state),
            can: LauncherAbilities::default(),
        };
        Self { state, launcher }
    }

    pub fn log(&self, words: &str) {
        self.state.borrow_mut().log(words);
    }

    pub fn words(&self) -> String {
        self.state.borrow_mut().log("");
        self.state.borrow().log.clone()
    }

    /// Between two lives of a runner.
    pub fn rest(&self) {
        self.state.borrow_mut().heeded = true;
    }
}

/// Which run and attempt a group is of.
fn of(name: &CgroupName) -> (u32, u32) {
    let (run, attempt) = name
        .run
        .strip_prefix('r')
        .unwrap()
        .split_once("_a")
        .unwrap();
    (run.parse().unwrap(), attempt.parse().unwrap())
}

/// The same from the path of its recording.
fn of_recording(recording: &Path) -> Option<(u32, u32)> {
    let mut parts = recording.iter().rev().map(|part| part.to_str().unwrap());
    let (attempt, name) = (parts.nth(1)?, parts.next()?);
    Some((
        name.split('-').next()?.parse().ok()?,
        attempt.strip_prefix('a')?.parse().ok()?,
    ))
}

/// A tick so many seconds after a beginning.
fn tick(began: f64, at: f64) -> TickRow {
    TickRow {
        id: 1,
        session: 1,
        number: 1,
        unix_ns: ((began + at) * 1e9) as i64,
        uptime_ns: (at * 1e9) as i64,
        process: Some(1),
        phase: Some("catching_up".into()),
    }
}

impl System for Pretended {
    fn now(&self) -> Timestamp {
        let uptime = self.state.borrow().now;
        Timestamp {
            uptime,
            unix_ns: i64::try_from(uptime.as_nanos()).unwrap(),
        }
    }

    fn boot_id(&self) -> String {
        "boot".to_owned()
    }

    fn host_name(&self) -> String {
        "host".to_owned()
    }

    fn wait(&mut self, at_most: Duration) {
        let mut state = self.state.borrow_mut();
        let before = state.now.as_secs_f64();
        state.now += at_most;
        let asleep = state
            .script
            .asleep()
            .filter(|(at, _)| (before..state.now.as_secs_f64()).contains(at));
        if let Some((_, long)) = asleep {
            state.now += Duration::from_secs_f64(long);
        }
    }

    fn stop_request(&self) -> Option<StopRequest> {
        let state = self.state.borrow();
        let passed = |what: &str| {
            state
                .script
                .all(what)
                .is_some_and(|at| state.now.as_secs_f64() >= at)
        };
        let stop_request = StopRequest {
            by: "SIGINT".to_owned(),
            force: passed("asked twice"),
        };
        (!state.heeded && (passed("asked") || passed("asked twice"))).then_some(stop_request)
    }

    fn print(&mut self, words: &str) {
        if words.contains("left behind") {
            self.state.borrow_mut().log(words);
        }
    }

    fn launcher(&self) -> &dyn Launcher {
        &self.launcher
    }

    fn host_findings(&mut self, _plan: &Plan, _unique_name: &str) -> Result<Vec<HostFinding>> {
        let state = self.state.borrow();
        let mut found = Vec::new();
        if state
            .script
            .all("busy")
            .is_some_and(|until| state.now.as_secs_f64() < until)
        {
            let what = "CPUs are busy".to_owned();
            found.push(HostFinding {
                severity: Severity::Refuse,
                is_temporary: true,
                what,
            });
        }
        if state.script.all("swap").is_some() {
            found.push(HostFinding {
                severity: Severity::Warn,
                is_temporary: false,
                what: "swap is on".to_owned(),
            });
        }
        Ok(found)
    }

    fn clear_folders(&mut self, _plan: &Plan, lane: &Lane) -> Result<Vec<String>> {
        self.log(&format!("clear lane {}", lane.name));
        Ok(Vec::new())
    }

    fn restore_folders(&mut self, _plan: &Plan, lane: &Lane, _from: &Path) -> Result<Vec<String>> {
        self.log(&format!("restore lane {}", lane.name));
        Ok(Vec::new())
    }

    fn drop_page_cache(&mut self, plan: &Plan, lane: &Lane) -> Result<PageCacheDropped> {
        self.log(&format!("cool lane {} ({:?})", lane.name, plan.page_cache));
        let warm = self.state.borrow().script.all("warm").is_some();
        Ok(PageCacheDropped {
            notes: Vec::new(),
            why_not_cold: warm.then(|| "it did not begin cold".to_owned()),
        })
    }

    fn start_recorder(&mut self, order: &RecorderRequest<'_>) -> Result<Box<dyn Recorder>> {
        let labels: Vec<String> = order
            .labels
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        let whom = order.pid.map_or("the ledger's validator".to_owned(), |_| {
            "the process".to_owned()
        });
        self.log(&format!("record {} of {whom}", labels.join(" ")));
        Ok(Box::new(Tape {
            state: Rc::clone(&self.state),
            run: of(&order.name),
            addresses: Addresses {
                metrics: "127.0.0.1:10".to_owned(),
                ingest: Some("127.0.0.1:9".to_owned()),
            },
        }))
    }

    fn observer(&mut self, _pid: u32, recording: &Path) -> Box<dyn Observer> {
        Box::new(Plant {
            state: Rc::clone(&self.state),
            run: of_recording(recording).unwrap(),
        })
    }

    fn write_targets(&mut self, _file: &Path, targets: &[ScrapeTarget]) -> Result<()> {
        let text = |target| {
            serde_json::to_value(target).unwrap()["labels"]["instance"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        let all: Vec<String> = targets.iter().map(text).collect();
        self.log(&format!(
            "to be scraped: {}",
            if all.is_empty() {
                "nothing".to_owned()
            } else {
                all.join(", ")
            }
        ));
        Ok(())
    }

    fn progress(&mut self, recording: &Path) -> Option<Progress> {
        let state = self.state.borrow();
        let run = of_recording(recording)?;
        let age = state.age(run)?;
        let at = |what: &str, usual: f64| state.script.of(run, what).unwrap_or(usual);
        let executes = Some(at("executes", EXECUTES)).filter(|at| *at > 0.0 && age >= *at);
        let from_experiment = state
            .script
            .of(run, "silent")
            .map_or(age, |until| age.min(until));
        let moving = state
            .script
            .of(run, "slots")
            .map_or(from_experiment, |until| from_experiment.min(until));
        let began = state.began[&run].as_nanos();
        let tick = tick(0.0, from_experiment);
        Some(Progress {
            last_tick: Some(tick),
            was_followed: true,
            process_has_ended: false,
            first_transaction_unix_ns: executes
                .map(|at| i64::try_from(began).unwrap() + (at * 1e9) as i64),
            newest_slot: executes.map(|at| 100 + ((moving - at).max(0.0) * RATE) as u64),
            has_reached_tip: executes.is_some_and(|first| age >= at("tip", first + 3.0)),
        })
    }

    fn program_cache_totals(&mut self, _recording: &Path) -> Result<ProgramCacheTotals> {
        Ok(ProgramCacheTotals {
            points: 10,
            water_level: 462,
            water_level_evicting: 462,
            insertions: 700,
            evictions: 200,
        })
    }

    fn ticks(&mut self, recording: &Path) -> Result<Vec<TickRow>> {
        let state = self.state.borrow();
        let run = of_recording(recording).unwrap();
        let began = state.began[&run].as_secs_f64();
        let still = state.script.of(run, "still");
        let ticks = (0..=state.age(run).unwrap() as i64)
            .filter(|at| still.is_none_or(|from| (*at as f64) < from));
        Ok(ticks.map(|at| tick(began, at as f64)).collect())
    }

    fn processes(&mut self, recording: &Path) -> Result<Vec<ProcessRow>> {
        let run = of_recording(recording).unwrap();
        let unknown = self.state.borrow().script.of(run, "unknown").is_some();
        let manifest = if unknown {
            serde_json::json!({ "comm": "stv-2.1.14" })
        } else {
            serde_json::json!({ "comm": "agave-validator", "program": "agave-validator" })
        };
        Ok(vec![ProcessRow {
            id: 1,
            session: 1,
            pid: 12,
            started: None,
            seen: Duration::ZERO,
            manifest,
        }])
    }

    fn free_bytes(&self, _folder: &Path) -> Option<u64> {
        let state = self.state.borrow();
        let full = state
            .script
            .all("no room")
            .is_some_and(|at| !state.heeded && state.now.as_secs_f64() >= at);
        Some(if full { 0 } else { 1 << 40 })
    }
}

struct Pretender {
    state: Rc<RefCell<State>>,
    can: LauncherAbilities,
}

impl Launcher for Pretender {
    fn name(&self) -> &'static str {
        "pretended"
    }

    fn abilities(&self) -> &LauncherAbilities {
        &self.can
    }

    fn launch(&self, job: &Job) -> Result<Box<dyn Launched>> {
        let mut state = self.state.borrow_mut();
        let run = of(&job.name);
        let limits = format!(
            "memory_max={:?} cpus={:?}",
            job.limits.memory_max,
            job.limits.cpus.as_ref().map(ToString::to_string)
        );
        state.log(&format!(
            "launch {} {}: {limits}",
            job.name.run, job.name.role
        ));
        if state.script.of(run, "launch").is_some() {
            anyhow::bail!("there is no such program");
        }
        let mut limits = job.limits.clone();
        if state.script.of(run, "limits").is_some() {
            limits.memory_max = Some(1 << 40);
        }
        Ok(Box::new(Started {
            state: Rc::clone(&self.state),
            name: job.name.clone(),
            limits,
            open: true,
        }))
    }

    fn leftovers(&self, _unique_name: &str) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn sweep(&self, unique_name: &str, _grace: Duration) -> Result<Vec<String>> {
        let mut state = self.state.borrow_mut();
        state.log("sweep");
        let abandoned = state.script.runs_with("abandoned").into_iter();
        Ok(abandoned
            .map(|(run, attempt)| cgroup_name(unique_name, run, attempt, "validator").to_string())
            .collect())
    }
}

struct Started {
    state: Rc<RefCell<State>>,
    name: CgroupName,
    limits: Limits,
    open: bool,
}

impl Started {
    fn log(&self, what: &str) {
        self.state
            .borrow_mut()
            .log(&format!("{what} {} {}", self.name.run, self.name.role));
    }
}

impl Launched for Started {
    fn pid(&self) -> u32 {
        4711
    }

    fn open_exec_gate(&mut self, from_experiment: &[u8]) -> Result<()> {
        assert!(from_experiment.starts_with(b"SOLANA_METRICS_CONFIG=host=http://127.0.0.1:9"));
        self.log("go");
        let mut state = self.state.borrow_mut();
        let now = state.now;
        state.began.insert(of(&self.name), now);
        Ok(())
    }

    fn limits(&self) -> Result<Limits> {
        Ok(self.limits.clone())
    }

    fn set_memory_limit(&mut self, memory: Option<u64>) -> Result<Option<u64>> {
        let mut state = self.state.borrow_mut();
        let run = of(&self.name);
        // What follows growth is not worth a line, nor what is tried again.
        if memory.is_none() != state.limit.is_none() {
            state.log(&format!(
                "{} the limit of {}",
                if memory.is_some() { "set" } else { "lift" },
                self.name.run
            ));
        }
        state.limit = memory;
        if state.over(run, "relimit") {
            anyhow::bail!("memory.high: no such file");
        }
        Ok(memory)
    }

    fn poll_end(&mut self) -> Result<Option<End>> {
        Ok(self.state.borrow().end(of(&self.name)))
    }

    fn has_no_process(&mut self) -> Result<bool> {
        let state = self.state.borrow();
        let run = of(&self.name);
        // What it left behind ends when it is asked.
        let leaves =
            state.script.of(run, "leaves").is_some() && !state.asked_to_end.contains_key(&run);
        Ok(!leaves && state.end(run).is_some())
    }

    fn terminate(&mut self) -> Result<()> {
        self.log("ask to end");
        let mut state = self.state.borrow_mut();
        let now = state.now;
        state.asked_to_end.insert(of(&self.name), now);
        Ok(())
    }

    fn cgroup_state(&mut self) -> Result<CgroupState> {
        let state = self.state.borrow();
        let run = of(&self.name);
        if let (Some((seconds, at)), Some(age)) =
            (state.script.number(run, "unseen "), state.age(run))
            && (at..at + f64::from(seconds)).contains(&age)
        {
            anyhow::bail!("systemd does not answer");
        }
        let kills = u64::from(state.over(of(&self.name), "oom"));
        let memory_events = BTreeMap::from([("oom_kill".to_owned(), kills)]);
        Ok(CgroupState {
            end: state.end(of(&self.name)),
            memory_events,
            ..CgroupState::default()
        })
    }

    fn close(mut self: Box<Self>) -> Result<CgroupState> {
        self.open = false;
        self.log("close");
        let cgroup_state = self.cgroup_state()?;
        // What did not end by itself was killed.
        Ok(CgroupState {
            end: cgroup_state.end.or(Some(End::Signal(9))),
            ..cgroup_state
        })
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if self.open {
            self.log("drop");
        }
    }
}

struct Tape {
    state: Rc<RefCell<State>>,
    run: (u32, u32),
    addresses: Addresses,
}

impl Recorder for Tape {
    fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    fn poll_end(&mut self) -> Result<Option<(End, String)>> {
        let ended = self.state.borrow().over(self.run, "recorder");
        Ok(ended.then(|| (End::Signal(9), "its last words".to_owned())))
    }

    fn warnings(&mut self) -> Vec<String> {
        Vec::new()
    }

    fn mark(&mut self, name: &str, kind: &str) -> Result<()> {
        self.state.borrow_mut().log(&format!("mark {kind}: {name}"));
        Ok(())
    }

    fn wait_for_end_event(&mut self) {
        self.state.borrow_mut().log(&format!(
            "wait until the end of run {} is recorded",
            self.run.0
        ));
    }

    fn finish(self: Box<Self>) -> Result<()> {
        self.state
            .borrow_mut()
            .log(&format!("end the recorder of run {}", self.run.0));
        Ok(())
    }
}

/// Needs 100 MiB that cannot be reclaimed, and 48 MiB of page cache to keep up.
struct Plant {
    state: Rc<RefCell<State>>,
    run: (u32, u32),
}

impl Observer for Plant {
    fn read(&mut self, at: Duration) -> Reading {
        let state = self.state.borrow();
        let age = state.age(self.run).unwrap_or_default();
        let unreclaimable = 100 << 20;
        let memory = state.limit.unwrap_or(unreclaimable + (96 << 20));
        let squeezed = memory < unreclaimable + (48 << 20);
        let slots = (age * RATE) as u64;
        Reading {
            at,
            unreclaimable: Some(unreclaimable),
            memory: Some(memory),
            slots_behind: Some(if squeezed { 30 } else { 0 }),
            tip_slot: Some(slots),
            refaults: Some(0),
            replays: vec![ReplayedSlot {
                at,
                replay_us: 2000.0,
            }],
            ..Reading::default()
        }
    }
}
