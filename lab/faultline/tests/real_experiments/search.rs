//! The least memory of a real follower under load, found in one run, and fixed limits around it.

use crate::{
    MIB,
    facts::{Run, runs},
    nothing_is_left,
    stage::{Stage, report, results, turn},
    witness::{killed_for_memory, processes_naming},
};
use faultline_recording::EventKind;
use faultline_testkit::{Result, sink::Sink};
use serde_json::Value;
use std::{
    collections::BTreeSet,
    fs,
    ops::RangeInclusive,
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

/// The stage's plans end their runs by the clock, a search ends its own.
const BY_THE_CLOCK: &str = "duration = \"0s\"\n";
/// What the start of this follower needs and cannot be reclaimed: by hand 1,440 MiB when it has caught up.
const START: RangeInclusive<u64> = 1400 * MIB..=1560 * MIB;
/// What its start needs as a limit from the beginning, page cache included, in MiB: by hand; and limits that are tried for it.
const START_LIMIT: RangeInclusive<u64> = 1480..=1560;
const START_LIMITS: [u64; 5] = [1400, 1440, 1480, 1520, 1560];
/// How long runs last that only have to come to the tip, in seconds.
const STARTED: u32 = 10;
/// Transactions a second: so few that two cores have room for the leader, the load and the follower, whose threads of replay then
/// seldom wait for a CPU.
const RATE: u32 = 100;
/// How long runs under a fixed limit last, in seconds: unreclaimable memory grows all the time, so no limit is enough for ever.
const FIXED: u32 = 60;
/// The journal of a search that was made before; without it one is made.
const SEARCHED: &str = "FAULTLINE_SEARCHED";

/// The search's journal, once there is one: both tests need it.
static JOURNAL: Mutex<Option<PathBuf>> = Mutex::new(None);

/// The lines of the journal of a search of the follower's least memory.
fn searched(stage: &Stage) -> Result<Vec<Value>> {
    let mut journal = JOURNAL.lock().unwrap_or_else(PoisonError::into_inner);
    let file = match (&*journal, std::env::var_os(SEARCHED)) {
        (Some(file), _) => file.clone(),
        (None, Some(file)) => file.into(),
        (None, None) => search(stage)?,
    };
    let text = fs::read_to_string(&file).expect("a journal");
    *journal = Some(file);
    Ok(text
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line of JSON"))
        .collect())
}

/// Searches, to the end; the journal.
fn search(stage: &Stage) -> Result<PathBuf> {
    let experiment = results("real-experiments/search");
    let plan = experiment.with_file_name("search.toml");
    let upstream = Sink::start()?;
    stage.configuration(&plan, &upstream);
    let own = "[search]\nwhat = \"memory\"\nfrom = \"64M\"\nsettle = \"4s\"\ndwell = \"10s\"\nmost = \"12m\"\nhorizon = \"1h\"\n";
    let (ledger, lane) = (
        stage.ledger("search", 0),
        stage.lane("search", 0, &stage.places()[0]),
    );
    let text = stage.plan("search", &experiment, 0, &lane, own);
    assert!(text.contains(BY_THE_CLOCK), "{text}");
    fs::write(
        &plan,
        format!("replicates = 1\n{}", text.replace(BY_THE_CLOCK, "")),
    )
    .expect("a plan");
    let load = stage.load(RATE)?;
    let (killed, mut seen) = (killed_for_memory(), BTreeSet::new());
    stage.run(&plan, std::slice::from_ref(&ledger), || {
        seen.extend(processes_naming(&[&ledger, &experiment.join("runs")]))
    })?;
    load.stop();
    assert_eq!(killed_for_memory(), killed, "nothing is killed");
    nothing_is_left(&seen, &[&ledger, &experiment.join("runs")]);
    let runs = runs(&experiment);
    let [run] = runs.as_slice() else {
        panic!("{} runs", runs.len())
    };
    assert_eq!(run.outcome(), "completed", "{}", run.ending);
    report(&experiment, results("report-real-search"));
    Ok(experiment.join("journal.jsonl"))
}

fn answer(journal: &[Value]) -> &Value {
    let mut answers = journal
        .iter()
        .filter(|line| line["entry"] == "search_answer");
    let answer = &answers.next().expect("an answer")["answer"];
    assert!(answers.next().is_none(), "two answers");
    assert_eq!(
        answer["outcome"]["outcome"], "found",
        "{answer:#}\n{journal:#?}"
    );
    answer
}

#[test]
#[ignore = "takes seven minutes: .ci/run --long; experiment_search finds known answers there, and search::tests in the short run"]
fn a_followers_minimum_memory_is_found_in_one_run_without_a_kill() -> Result<()> {
    let Some(turn) = turn()? else { return Ok(()) };
    let journal = searched(&turn.stage)?;
    let answer = answer(&journal);
    println!("{answer:#}");
    let start = answer["start"].as_u64().expect("what the start needs");
    assert!(START.contains(&start), "{} MiB", start / MIB);
    Ok(())
}

/// What could not be reclaimed so many seconds after the tip, by the dwells around that time.
fn unreclaimable(journal: &[Value], seconds: f64) -> f64 {
    let dwells = journal
        .iter()
        .filter(|line| line["line"]["search"] == "dwell");
    let of = |line: &Value| {
        let evidence = &line["line"]["evidence"];
        let at = line["unix_ns"].as_f64().expect("a time") / 1e9;
        (
            at,
            evidence["seconds"].as_f64().expect("its length"),
            evidence["unreclaimable"].as_f64().expect("memory"),
        )
    };
    let dwells: Vec<(f64, f64, f64)> = dwells.map(of).collect();
    let (first, lasted, _) = dwells[0];
    let wanted = first - lasted + seconds;
    let after = dwells
        .iter()
        .position(|(at, ..)| *at >= wanted)
        .expect("a dwell at that time")
        .max(1);
    let ((a, _, low), (b, _, high)) = (dwells[after - 1], dwells[after]);
    low + (high - low) * (wanted - a) / (b - a)
}

/// Runs under these limits in MiB, from the beginning, so many times and seconds each; the folder of the experiment.
fn fixed(
    stage: &Stage,
    name: &str,
    (times, seconds): (u32, u32),
    limits: &[u64],
) -> Result<PathBuf> {
    let experiment = results(&format!("real-experiments/{name}"));
    let plan = experiment.with_file_name(format!("{name}.toml"));
    let upstream = Sink::start()?;
    stage.configuration(&plan, &upstream);
    let arm = |mib: &u64| format!("\n[[arm]]\nname = \"{mib}M\"\nmemory_max = \"{mib}M\"\n");
    let own: String = limits.iter().map(arm).collect();
    let (ledger, lane) = (
        stage.ledger(name, 0),
        stage.lane(name, 0, &stage.places()[0]),
    );
    fs::write(
        &plan,
        format!(
            "replicates = {times}\n{}",
            stage.plan(name, &experiment, seconds, &lane, &own)
        ),
    )
    .expect("a plan");
    let load = stage.load(RATE)?;
    stage.run(&plan, std::slice::from_ref(&ledger), || {})?;
    load.stop();
    Ok(experiment)
}

/// The search tells the unreclaimable memory of a start. As a limit it needs more: some page cache as well.
#[test]
#[ignore = "takes three minutes: .ci/run --long"]
fn a_follower_reaches_the_tip_under_a_limit_leaving_some_page_cache() -> Result<()> {
    let Some(turn) = turn()? else { return Ok(()) };
    let experiment = fixed(&turn.stage, "start", (1, STARTED), &START_LIMITS)?;
    let runs = runs(&experiment);
    let came = |run: &Run| run.happened(EventKind::AtTip) > 0;
    for run in &runs {
        println!(
            "{}: {}, at the tip: {}; {:?}",
            run.arm,
            run.outcome(),
            came(run),
            run.evidence("/memory_peak")
        );
    }
    let limit = |run: &Run| {
        run.arm
            .trim_end_matches('M')
            .parse::<u64>()
            .expect("a limit")
    };
    let needs = runs
        .iter()
        .filter(|run| came(run))
        .map(limit)
        .min()
        .expect("one came to the tip");
    assert!(
        runs.iter().all(|run| came(run) == (limit(run) >= needs)),
        "{needs} MiB"
    );
    assert!(START_LIMIT.contains(&needs), "{needs} MiB");
    Ok(())
}

/// 5 % of the whole limit: 5 % of the headroom are 2 MiB, by which this follower grows in three seconds.
#[test]
#[ignore = "takes seven minutes, and the search before it: .ci/run --long"]
fn limits_5_percent_above_the_result_keep_up_and_below_fail() -> Result<()> {
    let Some(turn) = turn()? else { return Ok(()) };
    let stage = &turn.stage;
    let journal = searched(stage)?;
    let outcome = &answer(&journal)["outcome"];
    let least = |end: &str| {
        unreclaimable(&journal, f64::from(FIXED)) + outcome[end].as_f64().expect("an end")
    };
    let whole = |bytes: f64| bytes as u64 / MIB;
    let (above, below) = (whole(1.05 * least("high")), whole(0.95 * least("low")));
    println!("{below} MiB, and {above} MiB");
    let experiment = fixed(stage, "fixed", (3, FIXED), &[above, below])?;
    let page = report(&experiment, results("report-real-fixed"));
    let runs = |mib: u64, column: &str| {
        let limit = (mib as f64 / 1024.0).to_string();
        page.cell("limits", &format!("{column} [runs]"), &limit)
            .parse::<u32>()
            .expect("a count")
    };
    println!(
        "above: {} kept up; below: {} failed",
        runs(above, "Kept up"),
        runs(below, "Failed")
    );
    assert_eq!(runs(above, "Kept up"), 3);
    assert!(runs(below, "Failed") >= 2);
    Ok(())
}
