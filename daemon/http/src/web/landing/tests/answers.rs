use super::*;
use faultline_metrics::{AMBIGUOUS_PREFIX, Histogram, TIME_BOUNDS};

const EVIL: &str = "/tmp/<script>alert(1)</script>";

/// The page and the image of the same status.
fn both(tick: &Tick) -> [String; 2] {
    let now = at(tick.number as f64 + 0.3);
    let image = status_svg(&Status::of(
        tick,
        now,
        None,
        Default::default(),
        &Default::default(),
    ));
    [show(Some(tick), &History::default(), now), image]
}

pub fn with(mut tick: Tick, source: Source, readings: Vec<Reading>) -> Tick {
    let now = tick.number as f64;
    tick.batches.push(Arc::new(batch(source, now, readings)));
    tick
}

#[test]
fn verdicts_come_before_the_lines_of_metadata() {
    let stake = vec![
        reading(&metrics::votes::DELINQUENT, &[], 0.0),
        reading(&metrics::votes::VOTE_RANK, &[], 3.0),
    ];
    let tick = with(
        busy(90, "/opt/agave/bin/agave-validator"),
        Source::Votes,
        stake,
    );
    let [early, image] = both(&tick);
    let waits = "<span class=\"badge unknown\">unknown</span> <span><b>RAM:</b> to be judged in 1 min, after a minute of samples; 153 GiB";
    assert!(early.contains(waits), "{early}");
    let mut history = History::default();
    for seconds in [60, 0] {
        let mut tick = tick.clone();
        tick.at.uptime -= Duration::from_secs(seconds);
        history.receive(&Arc::new(tick));
    }
    let html = show(Some(&tick), &history, at(90.3));
    assert_well_formed(&html);
    let position = |text: &str| html.find(text).unwrap_or_else(|| panic!("{text}: {html}"));
    for line in [
        "<span class=\"badge good\">fine</span> <span><b>RAM:</b> 153 GiB of headroom now of 384 allowed; ",
        "<span class=\"badge unknown\">unknown</span> <span><b>Program cache:</b> the reloads are not known",
        "<span class=\"badge good\">fine</span> <span><b>Earns:</b> rank 3.",
    ] {
        assert!(position(line) < position("<dl>"), "{line}");
    }
    let plan =
        "<code>faultline experiment plan /usr/share/doc/faultline/examples/least-ram.toml</code>";
    assert!(html.contains(plan));
    for line in [
        "RAM: 153 GiB of headroom now",
        "Program cache: the reloads",
        "Earns: rank 3.",
    ] {
        assert!(image.contains(line), "{line}: {image}");
    }
    assert!(!image.contains("DEMO"));
}

#[test]
fn the_image_labels_a_demo_and_escapes_names() {
    let [_, image] = both(&busy(90, "/usr/bin/faultline-demo"));
    assert!(image.contains(">DEMO: simulated</text>"), "{image}");
    let [_, image] = both(&busy(90, EVIL));
    assert!(!image.contains("<script"), "{image}");
    assert_well_formed(&format!("<!DOCTYPE html>{image}"));
}

#[test]
fn several_validators_are_named_in_the_headline() {
    let found = "2 validators found: 77 agave-validator (ledger /l), 1200 agave-validator (ledger /<m>); none is \
        followed until target.ledger, target.unit or target.pid (--ledger, --unit, --pid) says which";
    let mut target = batch(
        Source::Target,
        3.0,
        vec![reading(&metrics::process::UP, &[], 0.0)],
    );
    target.problems = vec![Problem::new(
        Kind::Broken,
        format!("{AMBIGUOUS_PREFIX}{found}"),
    )];
    let tick = Tick {
        number: 3,
        at: at(3.0),
        batches: vec![Arc::new(target)],
    };
    let [html, image] = both(&tick);
    assert_well_formed(&html);
    for text in [
        "<title>2 validators found · faultline</title>",
        "<h1>2 validators found</h1>",
        "<p class=\"lead\">77 agave-validator (ledger /l), 1200 agave-validator (ledger /&lt;m&gt;); none is followed until target.ledger",
    ] {
        assert!(html.contains(text), "{text}: {html}");
    }
    assert!(image.contains("2 validators found"));
}

#[test]
fn an_image_that_waits_for_pushes_says_so_and_how_long() {
    // The process is older than the daemon, as after an exec.
    let start = EPOCH as f64 - 60.0;
    let daemon = vec![reading(&metrics::daemon::SELF_START_TIME, &[], start)];
    let tick = with(busy(90, "/v"), Source::Daemon, daemon);
    let mut history = History::default();
    history.receive(&Arc::new(tick.clone()));
    let html = show(Some(&tick), &history, at(90.3));
    let waits = "no datapoints in the 1 min 30 s since the daemon started";
    let section = html.find("<h2>Program cache").expect("a section");
    assert!(
        html[section..].contains(&format!("<p class=\"quiet\">{waits}</p>")),
        "{html}"
    );
    let plot = format!("<p class=\"range quiet\">{waits}</p>");
    assert_eq!(
        html.matches(&plot).count(),
        3,
        "hits, misses and evictions: {html}"
    );
}

#[test]
fn a_source_that_is_down_is_never_without_a_reason() {
    let mut silent = batch(Source::Rpc, 90.0, Vec::new());
    silent.up = false;
    let mut tick = busy(90, "/v");
    tick.batches.retain(|batch| batch.source != Source::Rpc);
    tick.batches.push(Arc::new(silent));
    let row = |tick: &Tick| {
        let [html, _] = both(tick);
        let row = html.split("<th scope=\"row\">rpc</th>").nth(1).unwrap();
        row.split("</tr>").next().unwrap().to_owned()
    };
    let waiting = row(&tick);
    assert!(
        waiting.contains("down") && waiting.contains("no values yet"),
        "{waiting}"
    );
    let success = &metrics::daemon::SOURCE_LAST_SUCCESS;
    let problems = &metrics::daemon::SOURCE_PROBLEMS;
    let accounts = vec![
        reading(success, &["rpc"], EPOCH as f64 + 60.0),
        reading(problems, &["rpc", "broken"], 4.0),
    ];
    let lost = row(&with(tick, Source::Daemon, accounts));
    assert!(
        lost.contains("4 broken") && lost.contains("no new values for 30.3 s"),
        "{lost}"
    );
    assert!(!lost.contains("none"), "{lost}");
}

#[test]
fn memory_says_whose_it_is() {
    let [html, _] = both(&busy(90, "/opt/agave/bin/agave-validator"));
    assert!(
        html.contains("<h2>Memory of agave-validator</h2>"),
        "{html}"
    );
    let mut tick = busy(90, "/v");
    tick.batches.retain(|batch| batch.source != Source::Target);
    assert!(both(&tick)[0].contains("<h2>Memory of this machine</h2>"));
}

/// Two slots a second. Each has twelve reloads, 8 ms in the cache and 20 ms of replay.
pub fn replaying(second: u64) -> Tick {
    let times = |metric, label: &'static str, seconds: f64| {
        let mut histogram = Histogram::new(&TIME_BOUNDS);
        (0..2 * second).for_each(|_| histogram.observe(seconds));
        Reading::new(
            metric,
            [label.into()],
            Value::Histogram(Arc::new(histogram)),
        )
    };
    let faults = (second * 50) as f64;
    let readings = vec![
        reading(
            &metrics::validator::CACHE_RELOADS,
            &[],
            (24 * second) as f64,
        ),
        times(&metrics::validator::CACHE_TIME, "replay", 0.008),
        times(&metrics::validator::REPLAY_TIME, "total", 0.020),
        reading(
            &metrics::pools::PAGE_FAULTS,
            &["solReplay<1>", "major"],
            faults,
        ),
    ];
    with(busy(second, "/v"), Source::Datapoints, readings)
}

#[test]
fn the_cache_card_has_means_per_slot_trends_and_pools_that_fault() {
    let mut history = History::default();
    (10..=90).for_each(|second| history.receive(&Arc::new(replaying(second))));
    let html = show(Some(&replaying(90)), &history, at(90.3));
    assert_well_formed(&html);
    for text in [
        "<strong>12 reloads, 8 ms of cache time, 20 ms of replay per slot</strong>",
        "<p class=\"quiet\">Major faults by pool: solReplay&lt;1&gt; 50/s.</p>",
        "Reloads per slot, five minutes, from 12 to 12",
        "Cache time per slot, five minutes, from 8 ms to 8 ms",
        "Replay time per slot, five minutes, from 20 ms to 20 ms",
    ] {
        assert!(html.contains(text), "{text}: {html}");
    }
}
