use super::{
    CountedRun, Experiment,
    headline::{self, ArmTally, invalid, runs},
    search::{self, Search},
    section,
};
use crate::{
    lock::{self, Holder},
    outcome::{Outcome, Validity},
};
use faultline_pages::{groups::by_key, model::Caveat};
use faultline_report::report::ReportContext;
use itertools::Itertools;

const MAX_NAMED: usize = 8;
const INVALID_REMEDY: &str = "Fix the cause, and run these again in a new experiment.";
const UNPROVEN_REMEDY: &str = "No datapoints of the program cache: check that the pushes arrive. \
     Files in memory at the beginning: end what else uses them, or `begin.page_cache = \"drop-all\"`. \
     A recorder that stalled: a separate disk for the experiment's folder, and CPU time to spare. \
     A run that lasted too long: neither stop the runner nor suspend the host.";

pub fn context<'e>(
    experiment: &'e Experiment,
    counted: &[CountedRun<'e>],
    searches: &[Search<'e>],
    unread: Vec<String>,
) -> ReportContext {
    let plan = &experiment.plan;
    let (tallies, kind) = (headline::tallies(experiment, counted), plan.workload.kind);
    let headline = search::headline(searches)
        .into_iter()
        .chain(headline::outcomes(&tallies, kind))
        .join(" ");
    ReportContext {
        title: format!("Experiment {}", plan.name),
        headline_prefix: headline::unfinished(&tallies),
        headline: Some(headline).filter(|text| !text.is_empty()),
        points: headline::points(&tallies, kind),
        caveats: caveats(experiment, &tallies, counted, unread),
        sections: search::section(searches)
            .into_iter()
            .chain([section::section(experiment, counted)])
            .collect(),
        arms: plan.arms.iter().map(|arm| arm.name.clone()).collect(),
    }
}

fn caveats(
    experiment: &Experiment,
    tallies: &[ArmTally<'_>],
    counted: &[CountedRun<'_>],
    unread: Vec<String>,
) -> Vec<Caveat> {
    let mut caveats = Vec::from_iter(unfinished(experiment, tallies));
    let unreadable = &experiment.journal_state.unreadable;
    if !unreadable.is_empty() {
        caveats.push(Caveat::new(
            format!(
                "Attempts at blocks that do not count, as their journals cannot be used: {}.",
                unreadable.join("; ")
            ),
            "Put the journals back, or move the folders away, and report again.",
        ));
    }
    if !unread.is_empty() {
        let unread = unread.join("; ");
        caveats.push(Caveat::new(
            format!("Recordings or logs that cannot be read: {unread}. Of these runs only the outcome is known."),
            "Try sqlite3 FILE .recover, or repeat the experiment.",
        ));
    }
    caveats.extend(invalid_or_unproven(counted));
    let early = |one: &&CountedRun<'_>| one.ending.outcome != Outcome::Completed && !invalid(one);
    let early: Vec<String> = counted.iter().filter(early).map(CountedRun::name).collect();
    if !early.is_empty() && early.len() < counted.len() {
        let early = listed(&early);
        caveats.push(Caveat::new(
            format!(
                "Ended before their time: {early}. Their averages are over the time until then."
            ),
            "Read the averages of these runs together with their outcome.",
        ));
    }
    for (warning, runs) in by_key(counted.iter().flat_map(warnings)) {
        caveats.push(Caveat::new(
            format!("{}: {warning}", listed(&runs)),
            "Fix the cause of the warnings, and run again.",
        ));
    }
    caveats
}

fn invalid_or_unproven(counted: &[CountedRun<'_>]) -> Vec<Caveat> {
    let (mut invalid, mut unproven) = (Vec::new(), Vec::new());
    for one in counted {
        match &one.ending.validity {
            Validity::Valid => {}
            Validity::Invalid(why) => invalid.push((why, one.name())),
            Validity::Unproven(why) => unproven.push((why, one.name())),
        }
    }
    let mut caveats = Vec::new();
    for (all, head, remedy) in [
        (
            invalid,
            "Left out, since it did not try what its arm says",
            INVALID_REMEDY,
        ),
        (
            unproven,
            "Not proven to be what its arm says",
            UNPROVEN_REMEDY,
        ),
    ] {
        for (why, runs) in by_key(all) {
            let what = format!("{head}: {}: {why}.", listed(&runs));
            caveats.push(Caveat::new(what, remedy));
        }
    }
    caveats
}

fn warnings(one: &CountedRun<'_>) -> Vec<(String, String)> {
    let warning = |note: &String| {
        note.strip_prefix("warning: ")
            .map(|warning| (warning.to_owned(), one.name()))
    };
    one.ending.notes.iter().filter_map(warning).collect()
}

fn unfinished(experiment: &Experiment, tallies: &[ArmTally<'_>]) -> Option<Caveat> {
    let (counted, all) = headline::progress(tallies);
    if counted >= all {
        return None;
    }
    let open = tallies
        .iter()
        .filter(|tally| tally.counted() < tally.planned)
        .map(|tally| format!("{} {} of {}", tally.arm, tally.counted(), tally.planned));
    let arms: Vec<String> = open.collect();
    let why = experiment
        .journal_state
        .stopped
        .as_ref()
        .map_or_else(String::new, |why| format!(" It was stopped: {why}."));
    // In any other state, nothing runs.
    let holder = lock::holder(&experiment.folder.lock());
    let is_running = matches!(holder, Ok(Holder::Process(_)));
    let remedy = if is_running || experiment.journal_state.running_blocks > 0 {
        "It is being run: report again later."
    } else {
        "Go on with faultline experiment resume, and report again."
    };
    let what = format!(
        "The experiment is not finished: {} of {} count so far ({}).{why}",
        counted,
        runs(all),
        arms.join(", ")
    );
    Some(Caveat::new(what, remedy))
}

fn listed(runs: &[String]) -> String {
    let named = runs.iter().take(MAX_NAMED).join("; ");
    match runs.len().saturating_sub(MAX_NAMED) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}
