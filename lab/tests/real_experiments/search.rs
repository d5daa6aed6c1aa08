//! The least memory of a real follower under load, found in one run.

use crate::facts::runs;
use crate::stage::{results, turn};
use crate::witness::{about, killed_for_memory};
use crate::{MIB, RATE, nothing_is_left};
use faultline_testkit::Result;
use faultline_testkit::sink::Sink;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;

/// The stage's plans end their runs by the clock, a search ends its own.
const BY_THE_CLOCK: &str = "duration = \"0s\"\n";
/// What the start of this follower needs, as measured by hand.
const START: std::ops::RangeInclusive<u64> = 1480 * MIB..=1560 * MIB;

#[test]
#[ignore = "takes up to a quarter of an hour: .ci/run --long; experiment_search finds known answers there, and search::tests in the short run"]
fn the_least_memory_of_a_follower_is_found_in_one_run_without_a_kill() -> Result<()> {
    let Some(turn) = turn()? else { return Ok(()) };
    let stage = &turn.stage;
    let experiment = results("real-experiments/search");
    let plan = experiment.with_file_name("search.toml");
    let upstream = Sink::start()?;
    stage.configuration(&plan, &upstream);
    let own = "[search]\nwhat = \"memory\"\nfrom = \"100M\"\nsettle = \"4s\"\ndwell = \"10s\"\nmost = \"12m\"\nhorizon = \"1h\"\n";
    let (ledger, lane) = (stage.ledger("search", 0), stage.lane("search", 0, &stage.places()[0]));
    let text = stage.plan("search", &experiment, 0, &lane, own);
    assert!(text.contains(BY_THE_CLOCK), "{text}");
    fs::write(&plan, format!("replicates = 1\n{}", text.replace(BY_THE_CLOCK, ""))).expect("a plan");
    let load = stage.load(RATE)?;
    let (killed, mut seen) = (killed_for_memory(), BTreeSet::new());
    stage.run(&plan, std::slice::from_ref(&ledger), || seen.extend(about(&[&ledger, &experiment.join("runs")])))?;
    load.stop();
    assert_eq!(killed_for_memory(), killed, "nothing is killed");
    nothing_is_left(&seen, &[&ledger, &experiment.join("runs")]);
    let runs = runs(&experiment);
    let [run] = runs.as_slice() else { panic!("{} runs", runs.len()) };
    assert_eq!(run.outcome(), "completed", "{}", run.ending);
    let journal = fs::read_to_string(experiment.join("journal.jsonl")).expect("a journal");
    let lines = journal.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line of JSON"));
    let answers: Vec<Value> = lines.filter(|line| line["entry"] == "search_answer").collect();
    let [answer] = answers.as_slice() else { panic!("{} answers:\n{journal}", answers.len()) };
    let answer = &answer["answer"];
    println!("{answer:#}");
    assert_eq!(answer["outcome"]["outcome"], "found", "{journal}");
    let start = answer["start"].as_u64().expect("what the start needs");
    assert!(START.contains(&start), "{} MiB", start / MIB);
    Ok(())
}
