use super::View;
use super::words::{count, date};
use faultline_catalog::{Reading, Tick, metrics};
use faultline_text::{escaped, time};
use std::fmt::{self, Write};
use std::time::Duration;

/// A phase as the page shows it: label value, tone, explanation.
type Phase = (&'static str, &'static str, &'static str);

/// The phases of `agave_phase`. Tones: good, busy, bad.
static PHASES: [Phase; 13] = [
    ("absent", "busy", "There is no validator process."),
    (
        "initializing",
        "busy",
        "The process has started and has not reported its phase yet.",
    ),
    (
        "searching",
        "busy",
        "It looks for a node to take a snapshot from.",
    ),
    ("downloading", "busy", "It downloads a snapshot."),
    (
        "unpacking",
        "busy",
        "It unpacks the snapshot and builds the accounts index.",
    ),
    ("replaying", "busy", "It replays the blocks of its ledger."),
    ("starting", "busy", "It starts its services."),
    (
        "waiting_for_supermajority",
        "busy",
        "It waits until enough stake is online.",
    ),
    (
        "halted",
        "bad",
        "It was configured to stop at a slot, and stopped.",
    ),
    (
        "catching_up",
        "busy",
        "It runs and has not been near the tip for long enough yet.",
    ),
    ("at_tip", "good", "It keeps up with the cluster."),
    ("behind", "bad", "It was at the tip and has fallen behind."),
    ("gone", "bad", "The process has exited."),
];

/// Shown below the phase, which says little during a migration.
const MIGRATING: &str = "<p class=\"lead\">The cluster migrates to Alpenglow: blocks hold only votes, nothing is rooted, \
     and slots go backwards once.</p>\n";

/// The states of `agave_process_state`: label value, badge if it needs attention, text.
static STATES: [(&str, Option<&str>, &str); 8] = [
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

static FACTS: [(&str, &str); 10] = [
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

pub(super) fn title(tick: &Tick) -> Option<String> {
    let info = followed(tick)?;
    let name =
        label(info, "exe").and_then(|exe| exe.trim_end_matches(" (deleted)").rsplit('/').next());
    let name = name
        .filter(|name| !name.is_empty())
        .or_else(|| label(info, "comm"));
    Some(name.unwrap_or("a process without a name").to_owned())
}

fn followed(tick: &Tick) -> Option<&Reading> {
    if tick.number_of(&metrics::process::UP, &[]) == Some(0.0) {
        return None;
    }
    tick.readings()
        .find(|reading| reading.metric == &metrics::process::TARGET_INFO)
}

/// `None` for an empty label, which means unknown.
fn label<'a>(info: &'a Reading, name: &str) -> Option<&'a str> {
    let at = info.metric.labels.iter().position(|label| *label == name)?;
    info.labels
        .get(at)
        .map(|text| text.as_str())
        .filter(|text| !text.is_empty())
}

pub(super) fn write(view: &View<'_>, tick: &Tick, out: &mut String) -> fmt::Result {
    out.push_str("<section class=\"hero\">\n");
    match (followed(tick), title(tick)) {
        (Some(info), Some(title)) => {
            write!(out, "<div class=\"title\"><h1>{}</h1>", escaped(&title))?;
            let state = state(tick);
            let frozen = tick.number_of(&metrics::cgroup::FROZEN, &[]) == Some(1.0);
            let stopped = state.and_then(|(_, badge, _)| *badge);
            // A short disk wait is normal; without a phase nothing shows other activity.
            let waits = state.is_some_and(|(name, ..)| *name == "disk_sleep") && !frozen;
            let hangs = waits && has_phases(tick) && current(tick).is_none();
            let stopped = stopped.or(hangs.then_some("hangs in the kernel"));
            for badge in stopped.into_iter().chain(frozen.then_some("cgroup frozen")) {
                write!(out, "<span class=\"badge bad\">{badge}</span>")?;
            }
            phase(tick, out)?;
            if tick.number_of(&metrics::validator::CONSENSUS, &["migrating"]) == Some(1.0) {
                out.push_str(MIGRATING);
            }
            out.push_str("<dl>\n");
            facts(view, tick, info, out)?;
            if let Some((.., words)) = state {
                fact(
                    out,
                    "Main thread",
                    if frozen {
                        "held by the freezer of its cgroup"
                    } else {
                        words
                    },
                )?;
            }
            out.push_str("</dl>\n");
        }
        _ => {
            out.push_str("<div class=\"title\"><h1>waiting for a validator</h1></div>\n");
            writeln!(
                out,
                "<p class=\"lead\">None was found. It is looked for {}, and followed as soon as it is there.</p>",
                escaped(&view.info.search)
            )?;
        }
    }
    out.push_str("</section>\n");
    Ok(())
}

fn consensus(tick: &Tick) -> Option<String> {
    let is_on = |reading: &&Reading| reading.value.number() == Some(1.0);
    let first_label = |metric| {
        let on = tick
            .readings()
            .filter(is_on)
            .find(|reading| reading.metric == metric)?;
        on.labels.first().map(|text| text.as_str())
    };
    let protocol = first_label(&metrics::validator::CONSENSUS)?;
    let sign = first_label(&metrics::validator::CONSENSUS_SIGN)?;
    Some(format!("{protocol}, by {sign}"))
}

fn state(tick: &Tick) -> Option<&'static (&'static str, Option<&'static str>, &'static str)> {
    STATES
        .iter()
        .find(|(name, ..)| tick.number_of(&metrics::process::STATE, &[name]) == Some(1.0))
}

/// `None` while it is unknown, and for non-validators.
fn current(tick: &Tick) -> Option<&'static Phase> {
    PHASES
        .iter()
        .find(|(name, ..)| tick.number_of(&metrics::validator::PHASE, &[name]) == Some(1.0))
}

/// A validator has all phase series, all 0 while unknown; other processes have none.
fn has_phases(tick: &Tick) -> bool {
    tick.number_of(&metrics::validator::PHASE, &["absent"])
        .is_some()
}

fn phase(tick: &Tick, out: &mut String) -> fmt::Result {
    let Some((name, tone, about)) = current(tick) else {
        if !has_phases(tick) {
            out.push_str("</div>\n");
            return Ok(());
        }
        let (badge, lead) = match tick.number_of(&metrics::validator::STALLED, &[]) {
            Some(1.0) => (
                "stalled",
                "It was at the tip, and its slot has not advanced for 15 seconds or more.",
            ),
            _ => (
                "phase unknown",
                "It has not shown for a while that its slot advances.",
            ),
        };
        writeln!(
            out,
            "<span class=\"badge bad\">{badge}</span></div>\n<p class=\"lead\">{lead}</p>"
        )?;
        return Ok(());
    };
    writeln!(
        out,
        "<span class=\"badge {tone}\">{}</span></div>",
        name.replace('_', " ")
    )?;
    write!(out, "<p class=\"lead\">{about}")?;
    if let Some(slots) = tick.number_of(&metrics::validator::SLOTS_BEHIND, &[]) {
        let word = if slots == 1.0 { "slot" } else { "slots" };
        write!(
            out,
            " <span class=\"nowrap\">{} {word} behind.</span>",
            count(slots)
        )?;
    }
    out.push_str("</p>\n");
    Ok(())
}

fn facts(view: &View<'_>, tick: &Tick, info: &Reading, out: &mut String) -> fmt::Result {
    if let Some(start) = tick.number_of(&metrics::process::START_TIME, &[]) {
        // After the wall clock was set, the start and the current time may differ in their clocks.
        let was_set = tick
            .number_of(&metrics::daemon::CLOCK_STEPS, &[])
            .is_some_and(|steps| steps > 0.0);
        let running = Duration::try_from_secs_f64(view.now.unix_seconds() - start)
            .ok()
            .filter(|_| !was_set);
        match running {
            Some(running) => fact(
                out,
                "Running for",
                &format!("{}, since {}", time(running), date(start)),
            )?,
            None => fact(out, "Started", &date(start))?,
        }
    }
    let restarts: f64 = tick
        .readings()
        .filter(|reading| reading.metric == &metrics::process::RESTARTS)
        .filter_map(|reading| reading.value.number())
        .sum();
    if restarts > 0.0 {
        fact(out, "Restarts seen", &count(restarts))?;
    }
    if let Some(consensus) = consensus(tick) {
        fact(out, "Consensus", &consensus)?;
    }
    let heading = title(tick);
    for (name, title) in FACTS {
        if let Some(value) = label(info, name).filter(|value| heading.as_deref() != Some(*value)) {
            fact(out, title, value)?;
        }
    }
    Ok(())
}

fn fact(out: &mut String, title: &str, value: &str) -> fmt::Result {
    writeln!(
        out,
        "<div><dt>{title}</dt><dd>{}</dd></div>",
        escaped(value)
    )
}
