//! What the experiment says before its recordings do: the outcomes, what is missing, what weakens it.

use super::told::words;
use super::{Counted, Experiment, section};
use crate::experiment::outcome::{Outcome, Validity};
use crate::experiment::plan::Kind;
use crate::report::Beside;
use crate::report::model::Caveat;

/// Names of runs in a sentence at most.
const NAMED: usize = 8;

/// All of it.
pub(crate) fn beside(experiment: &Experiment, counted: &[Counted<'_>], unread: Vec<String>) -> Beside {
    let headline = memory(experiment, counted);
    let mut points = Vec::new();
    points.extend(without(experiment, counted));
    Beside {
        title: format!("Experiment {}", experiment.plan.name),
        headline,
        points,
        caveats: caveats(experiment, counted, unread),
        section: Some(section::section(experiment, counted)),
    }
}

/// Runs of an arm, and how many of them had one outcome.
struct Tally<'e> {
    arm: &'e str,
    runs: usize,
    killed: usize,
    completed: usize,
}

fn tallies<'e>(experiment: &'e Experiment, counted: &[Counted<'_>]) -> Vec<Tally<'e>> {
    let of = |arm: &'e str| {
        let runs = || counted.iter().filter(|one| one.scheduled.arm == arm && !invalid(one));
        let with = |outcome: &Outcome| runs().filter(|one| one.ending.outcome == *outcome).count();
        Tally { arm, runs: runs().count(), killed: with(&Outcome::OutOfMemory), completed: with(&Outcome::Completed) }
    };
    experiment.plan.arms.iter().map(|arm| of(&arm.name)).collect()
}

pub(crate) fn invalid(one: &Counted<'_>) -> bool {
    matches!(one.ending.validity, Validity::Invalid(_))
}

/// Where memory killed: which arms it killed, and which it did not.
fn memory(experiment: &Experiment, counted: &[Counted<'_>]) -> Option<String> {
    let tallies = tallies(experiment, counted);
    let named = |which: &dyn Fn(&Tally<'_>) -> Option<usize>| {
        let said = tallies.iter().filter_map(|tally| {
            let count = which(tally).filter(|count| *count > 0)?;
            Some(format!("{} ({count} of {})", tally.arm, runs(tally.runs)))
        });
        said.collect::<Vec<_>>().join(", ")
    };
    let killed = named(&|tally| Some(tally.killed));
    if killed.is_empty() {
        return None;
    }
    let fine = named(&|tally| (tally.killed == 0).then_some(tally.completed));
    let done = if experiment.plan.workload.kind == Kind::Replay { "Did all of its work" } else { "Ran its whole time" };
    Some(if fine.is_empty() {
        format!("Killed for want of memory: {killed}. No arm ran without a kill.")
    } else {
        format!("Killed for want of memory: {killed}. {done}: {fine}.")
    })
}

/// Arms of which no run counts, or which never completed one.
fn without(experiment: &Experiment, counted: &[Counted<'_>]) -> Vec<String> {
    let mut said = Vec::new();
    for tally in tallies(experiment, counted) {
        if tally.runs == 0 {
            said.push(format!("{} has no run that counts.", tally.arm));
        } else if tally.completed == 0 {
            let mut how: Vec<String> = Vec::new();
            for one in counted.iter().filter(|one| one.scheduled.arm == tally.arm && !invalid(one)) {
                let word = words(&one.ending.outcome, experiment.plan.workload.kind);
                if !how.contains(&word) {
                    how.push(word);
                }
            }
            let of = if tally.runs == 1 { "Its run was" } else { "Its runs were" };
            said.push(format!("{} never came to its end. {of}: {}.", tally.arm, how.join("; ")));
        }
    }
    said
}

fn caveats(experiment: &Experiment, counted: &[Counted<'_>], unread: Vec<String>) -> Vec<Caveat> {
    let mut caveats = Vec::new();
    let mut say = |what: String, remedy: &str| caveats.push(Caveat { what, remedy: remedy.to_owned() });
    if let Some(what) = unfinished(experiment, counted) {
        say(what, "Go on with faultline experiment resume, and report again.");
    }
    if !unread.is_empty() {
        say(
            format!(
                "Recordings or logs that cannot be read: {}. Of these runs only the outcome is known.",
                unread.join("; ")
            ),
            "Try faultline info --salvage, or repeat the experiment.",
        );
    }
    let why = |which: fn(&Validity) -> Option<&str>| {
        let of = |one: &Counted<'_>| which(&one.ending.validity).map(|why| (why.to_owned(), name(one)));
        together(counted.iter().filter_map(of))
    };
    for (why, runs) in why(|validity| if let Validity::Invalid(why) = validity { Some(why) } else { None }) {
        say(
            format!("Left out, since it did not try what its arm says: {}: {why}.", listed(&runs)),
            "Mend the cause, and run these again in a new experiment.",
        );
    }
    for (why, runs) in why(|validity| if let Validity::Unproven(why) = validity { Some(why) } else { None }) {
        say(
            format!("Whether it tried what its arm says could not be seen: {}: {why}.", listed(&runs)),
            "Run longer, or with more load, until the cache fills.",
        );
    }
    let early = |one: &&Counted<'_>| one.ending.outcome != Outcome::Completed && !invalid(one);
    let early: Vec<String> = counted.iter().filter(early).map(name).collect();
    if !early.is_empty() && early.len() < counted.len() {
        say(
            format!("Ended before their time: {}. Their averages are over the time until then.", listed(&early)),
            "Read the averages of these runs together with their outcome.",
        );
    }
    for (warning, runs) in together(counted.iter().flat_map(warnings)) {
        say(format!("{}: {warning}", listed(&runs)), "Make the host as the plan's [host] wants it, and run again.");
    }
    caveats
}

/// What the runner wrote down as a warning.
fn warnings(one: &Counted<'_>) -> Vec<(String, String)> {
    let warning = |note: &String| note.strip_prefix("warning: ").map(|warning| (warning.to_owned(), name(one)));
    one.ending.notes.iter().filter_map(warning).collect()
}

fn unfinished(experiment: &Experiment, counted: &[Counted<'_>]) -> Option<String> {
    let all: usize = experiment.standing.turns.iter().map(|turn| turn.runs.len()).sum();
    if counted.len() >= all {
        return None;
    }
    let mut arms = Vec::new();
    for arm in &experiment.plan.arms {
        let planned = experiment.standing.turns.iter().flat_map(|turn| &turn.runs);
        let planned = planned.filter(|scheduled| scheduled.arm == arm.name).count();
        let there = counted.iter().filter(|one| one.scheduled.arm == arm.name).count();
        if there < planned {
            arms.push(format!("{} {there} of {planned}", arm.name));
        }
    }
    let why = experiment.standing.stopped.as_ref().map_or_else(String::new, |why| format!(" It was stopped: {why}."));
    Some(format!(
        "The experiment is not finished: {} of {} count so far ({}).{why}",
        counted.len(),
        runs(all),
        arms.join(", ")
    ))
}

/// The same words of several runs, once.
fn together(said: impl Iterator<Item = (String, String)>) -> Vec<(String, Vec<String>)> {
    let mut all: Vec<(String, Vec<String>)> = Vec::new();
    for (words, run) in said {
        match all.iter_mut().find(|(known, _)| *known == words) {
            Some((_, runs)) => runs.push(run),
            None => all.push((words, vec![run])),
        }
    }
    all
}

fn listed(runs: &[String]) -> String {
    match runs.get(NAMED..) {
        Some(more) if !more.is_empty() => {
            format!("{} and {} more", runs.iter().take(NAMED).cloned().collect::<Vec<_>>().join("; "), more.len())
        }
        _ => runs.join("; "),
    }
}

/// `512G, run 2`.
pub(crate) fn name(one: &Counted<'_>) -> String {
    let twin = if one.scheduled.second { " (A/A)" } else { "" };
    format!("{}{twin}, run {}", one.scheduled.arm, one.scheduled.replicate)
}

fn runs(count: usize) -> String {
    if count == 1 { "1 run".to_owned() } else { format!("{count} runs") }
}
