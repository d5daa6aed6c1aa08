//! The process that is followed, and what it is doing.

use crate::{
    StatusItem,
    Tone::{self, Bad, Good, Warn},
    readings::{Readings, label},
};
use faultline_metrics::{
    AMBIGUOUS_PREFIX, Reading, Source, Stamp,
    metrics::{cgroup, process as p, validator as v},
};
use faultline_text::{duration_f64, short, utc};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Label value of `agave_phase`, tone, explanation.
type Phase = (&'static str, Tone, &'static str);

static PHASES: [Phase; 13] = [
    ("absent", Warn, "There is no validator process."),
    (
        "initializing",
        Warn,
        "It initializes, or has not reported its phase yet.",
    ),
    (
        "searching",
        Warn,
        "It looks for a node to take a snapshot from.",
    ),
    ("downloading", Warn, "It downloads a snapshot."),
    (
        "unpacking",
        Warn,
        "It unpacks the snapshot and builds the accounts index.",
    ),
    ("replaying", Warn, "It replays the blocks of its ledger."),
    ("starting", Warn, "It starts its services."),
    (
        "waiting_for_supermajority",
        Warn,
        "It waits until enough stake is online.",
    ),
    (
        "halted",
        Bad,
        "It was configured to stop at a slot, and stopped.",
    ),
    (
        "catching_up",
        Warn,
        "It runs and has not been near the tip for long enough yet.",
    ),
    ("at_tip", Good, "It keeps up with the cluster."),
    ("behind", Bad, "It was at the tip and has fallen behind."),
    ("gone", Bad, "The process has exited."),
];

const STALLED_EXPLANATION: &str =
    "It was at the tip, and its slot has not advanced for 15 seconds or more.";
const UNKNOWN_EXPLANATION: &str = "For a while, nothing has shown that its slot advances.";

/// The phase says little during the migration.
const MIGRATING_EXPLANATION: &str = " The cluster migrates to Alpenglow: blocks hold only votes, nothing is rooted, and slots go backwards once.";

/// Label value of `agave_process_state`, warning if it needs one, value of the fact `Main thread`.
type ProcessState = (&'static str, Option<&'static str>, &'static str);

static PROCESS_STATES: [ProcessState; 8] = [
    ("running", None, "running (R)"),
    ("sleeping", None, "sleeping (S)"),
    (
        "disk_sleep",
        None,
        "in uninterruptible sleep (D), usually waiting for a disk",
    ),
    (
        "stopped",
        Some("stopped by a signal"),
        "stopped by a signal such as SIGSTOP (T); SIGCONT continues it",
    ),
    (
        "tracing_stop",
        Some("stopped by a debugger"),
        "stopped by a debugger (t)",
    ),
    (
        "zombie",
        Some("main thread exited"),
        "exited (Z); the process lives until its other threads have exited, too",
    ),
    (
        "dead",
        Some("being removed"),
        "being removed by the kernel (X)",
    ),
    ("idle", None, "idle (I)"),
];

/// Labels of `agave_target_info` with the names of the facts.
static LABELED_FACTS: [(&str, &str); 10] = [
    ("version", "Version"),
    ("client", "Client"),
    ("cluster", "Cluster"),
    ("identity", "Identity"),
    ("exe", "Program"),
    ("comm", "Process name"),
    ("cgroup", "cgroup"),
    ("experiment", "Experiment"),
    ("arm", "Arm"),
    ("run", "Run"),
];

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// `None` while the search has no result.
    pub is_followed: Option<bool>,
    /// The program's name; `None` while no process is followed.
    pub name: Option<String>,
    /// Why no process is followed.
    pub search_problem: Option<String>,
    /// Value of the label `phase`; `None` while it is unknown.
    pub phase: Option<String>,
    /// The phase, and what else an operator has to know at once.
    pub state: Vec<StatusItem>,
    pub explanation: String,
    pub facts: Vec<Fact>,
    pub restarts: BTreeMap<String, f64>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    pub name: String,
    pub value: String,
}

impl Target {
    pub(crate) fn of(readings: Readings<'_>, now: Stamp) -> Self {
        let is_followed = readings.flag(&p::UP);
        let info = readings
            .series(&p::TARGET_INFO)
            .next()
            .filter(|_| is_followed != Some(false));
        let name = info.map(program_name);
        let phase = readings.active_label(&v::PHASE);
        let restarts = readings
            .by_label(&p::RESTARTS)
            .map(|(reason, count)| (reason.to_owned(), count))
            .collect();
        let (item, explanation) = phase_item(readings).unzip();
        let mut state = Vec::from_iter(item);
        let mut explanation = explanation.unwrap_or_default().to_owned();
        state.extend(stop_reasons(readings).map(|words| StatusItem::new(words, Bad)));
        if readings.labeled_flag(&v::CONSENSUS, &["migrating"]) == Some(true) {
            state.push(StatusItem::new("migrates to Alpenglow", Warn));
            explanation.push_str(MIGRATING_EXPLANATION);
        }
        let flags = [
            (&v::HEALTHY, "healthy", StatusItem::new("not healthy", Bad)),
            (
                &v::KEPT_UP,
                "kept up",
                StatusItem::new("did not keep up", Warn),
            ),
        ];
        for (metric, words, otherwise) in flags {
            state.extend(readings.flag(metric).map(|flag| match flag {
                true => StatusItem::plain(words),
                false => otherwise,
            }));
        }
        state.extend(restarts_item(&restarts));
        Self {
            is_followed,
            search_problem: search_problem(readings).filter(|_| name.is_none()),
            phase: phase.map(str::to_owned),
            state,
            explanation,
            facts: info.map_or_else(Vec::new, |info| facts(readings, info, name.as_deref(), now)),
            name,
            restarts,
        }
    }

    /// The program's name, or what the search found instead.
    pub fn headline(&self) -> &str {
        let problem = self.search_problem.as_deref();
        let ambiguous =
            problem.and_then(|problem| problem.strip_prefix(AMBIGUOUS_PREFIX)?.split(':').next());
        let name = self.name.as_deref().or(ambiguous);
        name.unwrap_or("waiting for a validator")
    }

    pub fn fact(&self, name: &str) -> Option<&str> {
        let fact = self.facts.iter().find(|fact| fact.name == name)?;
        Some(&fact.value)
    }
}

fn search_problem(readings: Readings<'_>) -> Option<String> {
    let mut batches = readings.tick.batches.iter();
    let target = batches.find(|batch| batch.source == Source::Target)?;
    Some(target.problems.last()?.what.clone())
}

fn program_name(info: &Reading) -> String {
    let exe = label(info, "exe").map(|exe| exe.trim_end_matches(" (deleted)"));
    let file = exe.and_then(|exe| exe.rsplit('/').next());
    let name = file.filter(|name| !name.is_empty());
    name.or_else(|| label(info, "comm"))
        .unwrap_or("a process without a name")
        .to_owned()
}

/// `None` for a process that is not a validator. A validator has a series for each phase; all are 0
/// while the phase is unknown.
fn phase_item(readings: Readings<'_>) -> Option<(StatusItem, &'static str)> {
    let active = readings.active_label(&v::PHASE);
    let known = PHASES.iter().find(|(name, ..)| active == Some(*name));
    if let Some((name, tone, explanation)) = known {
        return Some((StatusItem::new(name.replace('_', " "), *tone), explanation));
    }
    if !readings.has_phases() {
        return None;
    }
    let (words, explanation) = match readings.flag(&v::STALLED) {
        Some(true) => ("stalled", STALLED_EXPLANATION),
        _ => ("phase unknown", UNKNOWN_EXPLANATION),
    };
    Some((StatusItem::new(words, Bad), explanation))
}

fn process_state(readings: Readings<'_>) -> Option<&'static ProcessState> {
    let active = readings.active_label(&p::STATE)?;
    PROCESS_STATES.iter().find(|(name, ..)| *name == active)
}

fn is_frozen(readings: Readings<'_>) -> bool {
    readings.flag(&cgroup::FROZEN) == Some(true)
}

fn stop_reasons(readings: Readings<'_>) -> impl Iterator<Item = &'static str> {
    let (state, is_frozen) = (process_state(readings), is_frozen(readings));
    let stopped = state.and_then(|(_, words, _)| *words);
    // A short wait for a disk is normal. It is a hang if no phase shows that the process advances.
    let waits = state.is_some_and(|(name, ..)| *name == "disk_sleep") && !is_frozen;
    let hangs = waits && readings.has_phases() && readings.active_label(&v::PHASE).is_none();
    let stopped = stopped.or(hangs.then_some("hangs in the kernel"));
    let frozen = is_frozen.then_some("cgroup frozen");
    stopped.into_iter().chain(frozen)
}

/// `restarts 0`, `restarts 3 (exit 1, oom kill 2)`.
fn restarts_item(restarts: &BTreeMap<String, f64>) -> Option<StatusItem> {
    if restarts.is_empty() {
        return None;
    }
    let sum = restarts.values().sum();
    let reasons: Vec<String> = restarts
        .iter()
        .filter(|(_, count)| **count > 0.0)
        .map(|(reason, count)| format!("{} {}", reason.replace('_', " "), short(*count)))
        .collect();
    let reasons = match reasons.as_slice() {
        [] => String::new(),
        reasons => format!(" ({})", reasons.join(", ")),
    };
    Some(StatusItem::plain(format!(
        "restarts {}{reasons}",
        short(sum)
    )))
}

fn facts(readings: Readings<'_>, info: &Reading, name: Option<&str>, now: Stamp) -> Vec<Fact> {
    let start = readings.number(&p::START_TIME);
    let main_thread = process_state(readings).map(|(.., words)| match is_frozen(readings) {
        true => "frozen by its cgroup",
        false => *words,
    });
    let consensus = readings
        .active_label(&v::CONSENSUS)
        .zip(readings.active_label(&v::CONSENSUS_SIGN));
    let first_facts = [
        ("Running for", readings.process_age(now).map(duration_f64)),
        ("Started", start.map(|start| utc((start * 1e9) as i64))),
        (
            "Consensus",
            consensus.map(|(protocol, sign)| format!("{protocol}, by {sign}")),
        ),
    ];
    // The heading already shows the name.
    let labels = LABELED_FACTS.map(|(key, title)| {
        let value = label(info, key).filter(|value| name != Some(*value));
        (title, value.map(str::to_owned))
    });
    let last_fact = ("Main thread", main_thread.map(str::to_owned));
    let all = first_facts.into_iter().chain(labels).chain([last_fact]);
    all.filter_map(|(name, value)| {
        Some(Fact {
            name: name.to_owned(),
            value: value?,
        })
    })
    .collect()
}
