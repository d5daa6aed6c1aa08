use super::*;
use crate::sinks::history::History;
use faultline_core::{config::TargetSelector, publish::Sink};
use faultline_metrics::{
    Batch, LabelText, Metric, Problem, ProblemKind as Kind, Reading, Source, Stamp, Tick, Value,
    metrics,
};
use faultline_status::StatusConfig;
use std::sync::Arc;

const GIB: f64 = 1_073_741_824.0;

/// Seconds since 1970 at uptime zero of these tests.
const EPOCH: u64 = 1_795_000_000;

fn at(seconds: f64) -> Stamp {
    let uptime = Duration::from_secs_f64(seconds);
    Stamp {
        uptime,
        unix: Duration::from_secs(EPOCH) + uptime,
    }
}

fn reading(metric: &'static Metric, labels: &[&'static str], value: f64) -> Reading {
    let label_values = labels.iter().map(|label| LabelText::from(*label)).collect();
    Reading {
        metric,
        label_values,
        tags: Box::default(),
        value: Value::Real(value),
    }
}

fn batch(source: Source, now: f64, readings: Vec<Reading>) -> Batch {
    Batch {
        readings,
        duration: Duration::from_micros(140),
        up: true,
        ..Batch::empty(source, at(now))
    }
}

/// A validator that uses about 300 GiB. The daemon may not connect to its admin socket, and its RPC
/// has been silent for a while.
fn busy(number: u64, exe: &'static str) -> Tick {
    let now = number as f64;
    let mut batches = validator(number, exe);
    batches.push(batch(Source::Host, now, Vec::new()));
    batches.push(batch(Source::Datapoints, now - 6.1, Vec::new()));
    batches.push(rpc(number));
    let mut admin = batch(Source::AdminRpc, now - 0.4, Vec::new());
    admin.up = false;
    admin.problems.push(Problem::new(
        Kind::Forbidden,
        "admin.rpc: permission denied; run as the validator's user",
    ));
    batches.push(admin);
    let phase = &metrics::validator::PHASE;
    let phases = vec![
        reading(phase, &["at_tip"], 1.0),
        reading(phase, &["behind"], 0.0),
        reading(phase, &["absent"], 0.0),
    ];
    batches.push(batch(Source::Conclusions, now, phases));
    let problems = &metrics::daemon::SOURCE_PROBLEMS;
    let daemon = vec![
        reading(problems, &["admin_rpc", "forbidden"], now),
        reading(problems, &["host", "absent"], 1.0),
        reading(
            &metrics::daemon::DEMO,
            &[],
            if exe.contains("demo") { 1.0 } else { 0.0 },
        ),
    ];
    batches.push(batch(Source::Daemon, now, daemon));
    Tick {
        number,
        at: at(now),
        batches: batches.into_iter().map(Arc::new).collect(),
    }
}

fn validator(number: u64, exe: &'static str) -> Vec<Batch> {
    let now = number as f64;
    let wave = (now / 7.0).sin();
    let identity = "7Np41oeYqPefeNQEHSv1UDhYrehxin3NStELsSKCT4K2";
    let unit = "/system.slice/agave-validator.service";
    let info = [
        exe,
        "agave-validator",
        "4.0.2",
        "Agave",
        "mainnet-beta",
        identity,
        unit,
        "",
        "",
        "",
    ];
    let target = vec![
        reading(&metrics::process::UP, &[], 1.0),
        reading(&metrics::process::TARGET_INFO, &info, 1.0),
    ];
    let (resident, faults) = (&metrics::process::RESIDENT, &metrics::process::PAGE_FAULTS);
    let storm = if number > 70 { 400.0 } else { 0.0 };
    let process = vec![
        reading(&metrics::process::START_TIME, &[], EPOCH as f64 - 187_000.0),
        reading(resident, &["anon"], (212.0 + 0.02 * now + 0.3 * wave) * GIB),
        reading(resident, &["file"], (88.0 - 4.0 * wave) * GIB),
        reading(resident, &["shmem"], 0.02 * GIB),
        reading(faults, &["major"], 12_000.0 + now * now / 9.0 + storm),
        reading(faults, &["minor"], 9e6 + now * 41_000.0 + 9_000.0 * wave),
    ];
    let cgroup = vec![
        reading(&metrics::memory::HEADROOM, &["0"], 153.0 * GIB),
        reading(&metrics::memory::LEVEL_LIMIT, &["0"], 384.0 * GIB),
        reading(&metrics::memory::LEVEL_UNRECLAIMABLE, &["0"], 231.0 * GIB),
        reading(&metrics::memory::BINDING, &["0"], 1.0),
        reading(
            &metrics::memory::LEVEL_INFO,
            &["0", "/validator.slice"],
            1.0,
        ),
        reading(&metrics::memory::HEADROOM, &["machine"], 200.0 * GIB),
        reading(&metrics::memory::LEVEL_LIMIT, &["machine"], 512.0 * GIB),
        reading(
            &metrics::memory::LEVEL_UNRECLAIMABLE,
            &["machine"],
            312.0 * GIB,
        ),
    ];
    let threads = Batch {
        duration: Duration::from_micros(14_300),
        ..batch(Source::Threads, now - 3.2, Vec::new())
    };
    let (target, process) = (
        batch(Source::Target, now, target),
        batch(Source::Process, now, process),
    );
    vec![target, process, threads, batch(Source::Cgroup, now, cgroup)]
}

fn rpc(number: u64) -> Batch {
    let now = number as f64;
    let wave = (now / 7.0).sin();
    let readings = match number {
        50..62 => Vec::new(),
        _ => vec![
            reading(
                &metrics::validator::TRANSACTIONS,
                &[],
                now * 3_870.0 + 900.0 * wave,
            ),
            reading(
                &metrics::validator::SLOTS_BEHIND,
                &[],
                (2.0 + 2.0 * wave).round(),
            ),
        ],
    };
    batch(Source::Rpc, now - 0.2, readings)
}

fn info() -> PageInfo {
    PageInfo::new("0.1.0", &TargetSelector::Scan)
}

fn show(tick: Option<&Tick>, history: &History, now: Stamp) -> String {
    let newest = tick.map(|tick| tick.at);
    let stale = crate::web::check_health(newest, now, Duration::from_secs(1)).err();
    page(&View {
        status: tick.map(|tick| {
            Status::of(
                tick,
                now,
                None,
                history.trends().answer_inputs(),
                &StatusConfig::default(),
            )
        }),
        stale_reason: stale.map(|stale| stale.to_string()),
        tick_interval: Duration::from_secs(1),
        history,
        page_info: &info(),
    })
}

fn busy_page(exe: &'static str) -> String {
    let mut history = History::default();
    let ticks: Vec<Arc<Tick>> = (20..=90)
        .map(|number| Arc::new(busy(number, exe)))
        .collect();
    ticks.iter().for_each(|tick| history.receive(tick));
    show(ticks.last().map(|tick| &**tick), &history, at(90.3))
}

/// Panics if an element is not closed in order. So a page that passes has the structure of its
/// source.
fn assert_well_formed(html: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = html.strip_prefix("<!DOCTYPE html>").expect("a doctype");
    while let Some(start) = rest.find('<') {
        let end = start + rest[start..].find('>').expect("a tag that ends");
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "</{name}>");
        } else if !tag.ends_with('/') && !tag.starts_with("meta") {
            open.push(tag.split_whitespace().next().expect("a name"));
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn the_landing_page_describes_the_followed_validator() {
    let html = busy_page("/opt/agave/bin/agave-validator");
    assert_well_formed(&html);
    for text in [
        "<h1>agave-validator</h1>",
        "<span class=\"badge good\">at tip</span>",
        "4.0.2",
        "7Np41oeYqPefeNQEHSv1UDhYrehxin3NStELsSKCT4K2",
        "<dt>Running for</dt><dd>2 d 4 h</dd>",
        "<dt>Started</dt><dd>2026-11-16",
        "<strong>153.0 GiB of 384.0 GiB are left in its cgroup /validator.slice</strong>",
        "<p class=\"quiet\">200.0 GiB of 512.0 GiB are left in this machine.</p>",
        "<span class=\"state bad\">down</span>",
        "90 forbidden",
        "permission denied; run as the validator&#39;s user",
    ] {
        assert!(html.contains(text), "{text} is not in {html}");
    }
    assert!(!html.contains("DEMO") && !html.contains("STALE"));
}

/// The page of a validator whose main thread is in this state.
fn page_in(state: &'static str, frozen: f64) -> String {
    let mut tick = busy(90, "/opt/agave/bin/agave-validator");
    let both = [
        reading(&metrics::process::STATE, &[state], 1.0),
        reading(&metrics::cgroup::FROZEN, &[], frozen),
    ];
    tick.batches
        .push(Arc::new(batch(Source::Process, 90.0, both.to_vec())));
    show(Some(&tick), &History::default(), at(90.3))
}

#[test]
fn a_stopped_validator_or_exited_main_thread_has_its_own_badge() {
    let bad = |words: &str| format!("<span class=\"badge bad\">{words}</span>");
    for (state, badge, words) in [
        ("stopped", "stopped by a signal", "SIGCONT continues it"),
        (
            "tracing_stop",
            "stopped by a debugger",
            "stopped by a debugger (t)",
        ),
        (
            "zombie",
            "main thread exited",
            "until its other threads have exited",
        ),
    ] {
        let html = page_in(state, 0.0);
        assert_well_formed(&html);
        assert!(html.contains(&bad(badge)) && html.contains(words), "{html}");
    }
    let html = page_in("disk_sleep", 0.0);
    assert!(
        html.contains("<dd>in uninterruptible sleep (D), usually waiting for a disk</dd>"),
        "{html}"
    );
    assert!(
        !html.contains("badge bad"),
        "waiting for a disk is normal: {html}"
    );
    let mut unknown = busy(90, "/v");
    let phase = reading(&metrics::validator::PHASE, &["absent"], 0.0);
    unknown
        .batches
        .retain(|batch| batch.source != Source::Conclusions);
    unknown
        .batches
        .push(Arc::new(batch(Source::Conclusions, 90.0, vec![phase])));
    let waits = reading(&metrics::process::STATE, &["disk_sleep"], 1.0);
    unknown
        .batches
        .push(Arc::new(batch(Source::Process, 90.0, vec![waits])));
    let html = show(Some(&unknown), &History::default(), at(90.3));
    assert!(
        html.contains(&bad("hangs in the kernel")),
        "without a phase it hangs: {html}"
    );
    // The state that version 1 shows for a frozen process.
    let html = page_in("disk_sleep", 1.0);
    assert!(
        html.contains(&bad("cgroup frozen")) && html.contains("<dd>frozen by its cgroup</dd>"),
        "{html}"
    );
}

#[test]
fn the_landing_page_shows_program_cache_entries_and_plots() {
    let mut tick = busy(90, "/opt/agave/bin/agave-validator");
    let (capacity, v) = (&metrics::validator::CACHE_CAPACITY, Source::Datapoints);
    let cache = |readings| Tick {
        batches: vec![Arc::new(batch(v, 90.0, readings))],
        ..busy(90, "/v")
    };
    let full = [
        reading(&metrics::validator::CACHE_LOADED, &[], 461.0),
        reading(capacity, &["observed"], 512.0),
    ];
    tick.batches.push(Arc::new(batch(v, 90.0, full.to_vec())));
    let html = show(Some(&tick), &History::default(), at(90.3));
    assert_well_formed(&html);
    assert!(
        html.contains("<strong>461 of 512 entries, 90 %</strong>"),
        "{html}"
    );
    let html = show(
        Some(&cache(vec![reading(capacity, &["configured"], 512.0)])),
        &History::default(),
        at(90.3),
    );
    assert!(html.contains("<strong>capacity 512 entries"), "{html}");
    let differ = vec![
        reading(capacity, &["configured"], 1024.0),
        reading(capacity, &["observed"], 512.0),
    ];
    assert!(
        show(Some(&cache(differ)), &History::default(), at(90.3))
            .contains("a capacity of 512 entries")
    );
    let html = busy_page("/opt/agave/bin/agave-validator");
    for of in ["hits", "misses", "evictions"] {
        assert!(
            html.contains(&format!("Program cache {of} per second")),
            "{html}"
        );
    }
}

#[test]
fn every_source_has_one_row() {
    let mut tick = busy(90, "/opt/agave/bin/agave-validator");
    // The daemon's own cost, and its counts of all sources.
    tick.batches
        .push(Arc::new(batch(Source::Daemon, 90.0, Vec::new())));
    let html = show(Some(&tick), &History::default(), at(90.3));
    assert_eq!(
        html.matches("<th scope=\"row\">daemon</th>").count(),
        1,
        "{html}"
    );
}

#[test]
fn the_process_age_is_right_before_a_tick_notices_a_clock_step() {
    let tick = busy(25, "/opt/agave-validator");
    let set_back = Stamp {
        unix: Duration::from_secs(EPOCH - 200_000),
        ..at(25.3)
    };
    for now in [at(25.3), set_back] {
        let html = show(Some(&tick), &History::default(), now);
        assert!(
            html.contains("<dt>Started</dt><dd>2026-11-16")
                && html.contains("<dt>Running for</dt><dd>2 d 4 h</dd>"),
            "{html}"
        );
    }
}

#[test]
fn names_and_problems_cannot_become_markup() {
    let html = busy_page("/tmp/<script>alert(\"demo\")<\\script>");
    assert_well_formed(&html);
    assert!(!html.contains("<script"));
    assert!(html.contains("&lt;script&gt;alert(&quot;demo&quot;)"));
}

#[test]
fn the_landing_page_loads_no_external_resources_and_no_scripts() {
    let html = busy_page("/opt/agave-validator");
    for forbidden in [
        "src=",
        "<link",
        "@import",
        "url(",
        "<script",
        "onload",
        "javascript:",
    ] {
        assert!(!html.contains(forbidden), "{forbidden}");
    }
    assert!(html.contains("http-equiv=\"refresh\" content=\"5\""));
}

#[test]
fn the_landing_page_labels_a_demo() {
    let html = busy_page("/usr/bin/faultline-demo");
    for next in [
        "<strong>DEMO</strong>",
        "--record",
        "faultline report",
        "faultline try",
    ] {
        assert!(html.contains(next), "{next}");
    }
}

#[test]
fn the_landing_page_reports_that_sampling_has_stopped() {
    let tick = busy(25, "/opt/agave-validator");
    let html = show(Some(&tick), &History::default(), at(67.0));
    assert!(
        html.contains("Sampling has stopped: the newest tick is 42 s old"),
        "{html}"
    );
    assert_well_formed(&html);
}

#[test]
fn without_a_target_the_landing_page_shows_the_search_method() {
    let empty = batch(
        Source::Target,
        3.0,
        vec![reading(&metrics::process::UP, &[], 0.0)],
    );
    let tick = Tick {
        number: 3,
        at: at(3.0),
        batches: vec![Arc::new(empty)],
    };
    let html = show(Some(&tick), &History::default(), at(3.5));
    assert_well_formed(&html);
    assert!(
        html.contains("<h1>waiting for a validator</h1>") && html.contains("among all processes")
    );
    assert!(!html.contains("<h2>Memory") && !html.contains("<h2>The last minute"));
}

#[test]
fn before_the_first_tick_the_landing_page_is_served() {
    let html = show(None, &History::default(), at(0.2));
    assert_well_formed(&html);
    assert!(html.contains("<h1>starting</h1>"));
}

#[test]
fn a_stale_value_is_not_shown_as_current() {
    let mut history = History::default();
    let ticks: Vec<Arc<Tick>> = (20..60)
        .map(|number| Arc::new(busy(number, "/opt/agave-validator")))
        .collect();
    ticks.iter().for_each(|tick| history.receive(tick));
    let html = show(ticks.last().map(|tick| &**tick), &history, at(59.3));
    assert!(html.contains("no data for 10 s"), "{html}");
}

mod answers;
mod states;
