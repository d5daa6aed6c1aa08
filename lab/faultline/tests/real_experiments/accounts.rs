//! Two sizes of the accounts read cache.

use crate::{
    RATE,
    facts::{Run, runs},
    one,
    page::Page,
    stage::{report, results, turn},
    witness::sum,
};
use faultline_recording::PerTickTable;
use faultline_testkit::{Result, sink::Sink};
use std::fs;

/// What reports the read cache, once a second.
const TIMINGS: &str = "accounts_db_store_timings";

/// Length of a run, in seconds.
const LENGTH: u32 = 60;

/// In MiB, when eviction stops and begins. The accounts that the load uses have 11 MB.
const SIZES: [(&str, &str); 2] = [("small", "1,2"), ("large", "200,210")];

/// Columns of the recording and of the report's table, and the field that both are summed from.
const COUNTERS: [(&str, &str, &str); 3] = [
    ("read_cache_hits", "Hits", "read_only_accounts_cache_hits"),
    (
        "read_cache_misses",
        "Misses",
        "read_only_accounts_cache_misses",
    ),
    (
        "read_cache_evictions",
        "Evictions",
        "read_only_accounts_cache_evicts",
    ),
];

/// The newest value of a column.
fn last(run: &Run, column: &str) -> u64 {
    let columns = run
        .recording
        .columns(PerTickTable::Validator, &[column])
        .expect("a column");
    let known: Vec<f64> = columns.values.concat().into_iter().flatten().collect();
    known
        .last()
        .copied()
        .unwrap_or_else(|| panic!("no {column}")) as u64
}

fn raw(run: &Run, bodies: &[Vec<u8>], field: &str) -> u64 {
    sum(bodies, TIMINGS, &run.identity(), field, &run.times()).total
}

/// The recording has what was pushed; the report counts from the first executed transaction on.
fn the_counters_are_those_of_the_raw_lines(run: &Run, bodies: &[Vec<u8>], page: &Page) {
    for (column, title, field) in COUNTERS {
        let (recorded, raw, from_experiment) = (
            last(run, column),
            raw(run, bodies, field),
            page.added_up("read-cache", title, &run.arm),
        );
        println!(
            "{}: {title}: recorded {recorded}, raw lines {raw}, the report {from_experiment}",
            run.arm
        );
        assert_eq!(recorded, raw, "{}: {title}", run.arm);
        assert!(
            (0.7 * raw as f64..=raw as f64).contains(&from_experiment),
            "{}: {title}: {from_experiment} of {raw}",
            run.arm
        );
    }
}

#[test]
#[ignore = "takes three minutes: .ci/run --long"]
fn a_smaller_account_cache_misses_equally_in_report_and_raw_lines() -> Result<()> {
    let Some(turn) = turn()? else { return Ok(()) };
    let stage = &turn.stage;
    let experiment = results("real-experiments/read-cache");
    let plan = experiment.with_file_name("read-cache.toml");
    let upstream = Sink::start()?;
    stage.configuration(&plan, &upstream);
    let arms_of = SIZES.map(|(arm, size)| {
        format!("\n[[arm]]\nname = \"{arm}\"\narguments = [\"--accounts-db-read-cache-limit-mb\", \"{size}\"]\n")
    });
    let own = format!(
        "[report]\nprimary = \"read-cache-misses\"\n{}",
        arms_of.concat()
    );
    let lane = stage.lane("read-cache", 0, &stage.places()[0]);
    let text = stage.plan("read-cache", &experiment, LENGTH, &lane, &own);
    fs::write(&plan, format!("replicates = 1\n{text}")).expect("a plan");
    let load = stage.load(RATE)?;
    stage.run(&plan, &[stage.ledger("read-cache", 0)], || {})?;
    load.stop();
    let (runs, bodies) = (runs(&experiment), upstream.bodies());
    let page = report(&experiment, results("report-read-cache"));
    for run in &runs {
        assert_eq!(run.outcome(), "completed", "{}", run.ending);
        the_counters_are_those_of_the_raw_lines(run, &bodies, &page);
    }
    let [small, large] = SIZES.map(|(arm, _)| one(&runs, arm));
    let [evictions, misses] = [COUNTERS[2].2, COUNTERS[1].2]
        .map(|field| [small, large].map(|run| raw(run, &bodies, field)));
    println!("evictions {evictions:?}, misses {misses:?}");
    assert!(evictions[0] > 0 && evictions[1] == 0, "{evictions:?}");
    assert!(misses[0] > 2 * misses[1], "{misses:?}");
    page.says("## Accounts");
    page.opens()
}
