use super::*;
use crate::tests::status;
use faultline_status::{LastMinute, TimeHistogram};
use faultline_testkit::expose;

const BEFORE: &str = include_str!("../../../faultline/tests/fixtures/top/ten_seconds_before.prom");
const PAGE: &str = include_str!("../../../faultline/tests/fixtures/top/at_tip.prom");

fn at(seconds: u64) -> Moment {
    Moment {
        uptime: Duration::from_secs(seconds),
        unix_ns: 0,
    }
}

fn after(pages: &[&str]) -> State {
    let mut state = State::new(Duration::from_secs(1));
    for (i, page) in pages.iter().enumerate() {
        state.add_result(Ok(status(page)), at(i as u64));
    }
    state
}

/// A rate by hand, from two captured pages.
fn by_hand(name: &str, labels: &[(&str, &str)], looked: (&str, &[(&str, &str)])) -> f64 {
    let [before, page] = [BEFORE, PAGE].map(|page| expose::parse_text(page).unwrap());
    let rise = |name, labels| page.get(name, labels).unwrap() - before.get(name, labels).unwrap();
    rise(name, labels) / rise(looked.0, looked.1)
}

const SUCCESS: &str = "faultline_source_last_success_timestamp_seconds";

#[track_caller]
fn is_close(value: Option<f64>, expected: f64) {
    let value = value.unwrap();
    assert!(
        (value - expected).abs() <= 1e-6 * expected.abs().max(1.0),
        "{value} is not {expected}"
    );
}

#[test]
fn rates_are_counter_differences_between_two_source_samples() {
    let state = after(&[BEFORE, PAGE]);
    let process = (SUCCESS, &[("source", "process")][..]);
    let faults = "agave_process_page_faults_total";
    is_close(
        state.value(Figure::MajorFaults),
        by_hand(faults, &[("type", "major")], process),
    );
    is_close(
        state.value(Figure::MinorFaults),
        by_hand(faults, &[("type", "minor")], process),
    );
    is_close(
        state.value(Figure::Transactions),
        by_hand(
            "agave_transactions_total",
            &[],
            (SUCCESS, &[("source", "rpc")]),
        ),
    );
    let push = ("faultline_last_push_timestamp_seconds", &[][..]);
    is_close(
        state.value(Figure::CacheReloads),
        by_hand("agave_program_cache_reloads_total", &[], push),
    );
    is_close(
        state.value(Figure::CacheEvictions),
        by_hand("agave_program_cache_evictions_total", &[], push),
    );
    let pools = state.thread_pools(PoolOrder::Faults);
    let replay = pools
        .iter()
        .find(|pool| pool.name == "solReplayStage")
        .unwrap();
    let labels = [("pool", "solReplayStage"), ("type", "major")];
    let threads = (SUCCESS, &[("source", "threads")][..]);
    is_close(
        replay.major_faults,
        by_hand("agave_thread_pool_page_faults_total", &labels, threads),
    );
    let cpu = |mode| {
        by_hand(
            "agave_thread_pool_cpu_seconds_total",
            &[("pool", "solReplayStage"), ("mode", mode)],
            threads,
        )
    };
    is_close(replay.cpu, cpu("user") + cpu("system"));
}

#[test]
fn time_per_slot_is_averaged_over_slots_between_two_pushes() {
    let state = after(&[BEFORE, PAGE]);
    let [before, page] = [BEFORE, PAGE].map(|page| expose::parse_text(page).unwrap());
    let rise =
        |name: &str, label| page.get(name, &[label]).unwrap() - before.get(name, &[label]).unwrap();
    let mean = |name: &str, label| {
        rise(&format!("{name}_sum"), label) / rise(&format!("{name}_count"), label)
    };
    is_close(
        state.cache_time.mean,
        mean("agave_program_cache_time_seconds", ("path", "replay")),
    );
    is_close(
        state.replay_time.mean,
        mean("agave_replay_slot_seconds", ("part", "total")),
    );
    let p95 = state.cache_time.p95.unwrap();
    assert!((0.001..0.1).contains(&p95), "{p95}");
    assert_eq!(after(&[PAGE]).cache_time.mean, None);
}

#[test]
fn a_missing_slot_or_decreasing_total_has_no_mean() {
    let mean_after = |sum, count| {
        let push = |seconds: f64, sum, count| {
            let mut status = status(PAGE);
            let source = { status.sources.iter_mut() }.find(|one| one.name == "datapoints");
            let time = &mut source.unwrap().newest_values_at;
            *time = time.map(|time| time + seconds);
            status.slots.cache = Some(TimeHistogram {
                sum,
                count,
                buckets: Vec::new(),
            });
            status
        };
        let mut state = after(&[]);
        state.add_result(Ok(push(0.0, 1.0, 5.0)), at(0));
        state.add_result(Ok(push(10.0, sum, count)), at(10));
        state.cache_time.mean
    };
    assert_eq!(mean_after(2.0, 7.0), Some(0.5));
    assert_eq!(mean_after(1.0, 5.0), None);
    assert_eq!(mean_after(0.5, 2.0), None);
}

#[test]
fn a_repeated_scrape_keeps_rates_and_a_missing_one_leaves_a_gap() {
    let mut state = after(&[BEFORE, PAGE, PAGE]);
    assert_eq!(
        state.value(Figure::CacheReloads),
        after(&[BEFORE, PAGE]).value(Figure::CacheReloads)
    );
    let past = |state: &State| state.history(Figure::CacheReloads).unwrap().last(10);
    assert_eq!(past(&state).len(), 3);
    state.add_result(Err("gone".to_owned()), at(3));
    assert_eq!(past(&state).last(), Some(&None));
    assert!(
        state.value(Figure::CacheReloads).is_some(),
        "what was told last stays until there is something newer"
    );
}

/// After a first answer whose last minute has a gap. Anonymous memory is the age of its row.
fn with_last_minute(interval: Duration) -> State {
    let mut first = status(PAGE);
    let ages: Vec<f64> = (0..=60).rev().map(f64::from).collect();
    let anon = ages.iter().map(|age| Some(*age).filter(|age| *age != 3.0));
    let values = [
        (Figure::Anon, anon.collect()),
        (Figure::CacheReloads, vec![Some(7.0); 61]),
    ];
    first.last_minute = LastMinute {
        values: values.into(),
        ages,
    };
    let mut state = State::new(interval);
    state.add_result(Ok(first), at(0));
    state
}

#[test]
fn the_recorded_minute_precedes_the_first_answer() {
    let values = |millis, most| {
        let state = with_last_minute(Duration::from_millis(millis));
        state.history(Figure::Anon).unwrap().last(most)
    };
    let now = after(&[PAGE]).value(Figure::Anon);
    let ages = |ages: [f64; 2]| ages.map(Some);
    assert_eq!(values(1_000, 5)[..2], [Some(4.0), None]);
    assert_eq!(values(1_000, 3)[..2], ages([2.0, 1.0]));
    assert_eq!(values(1_000, 600).len(), 61);
    assert_eq!(
        values(20_000, 600),
        [Some(60.0), Some(40.0), Some(20.0), now]
    );
    assert_eq!(values(500, 4)[..2], ages([2.0, 1.0]));
    assert_eq!(values(100, 600).len(), 600);
    assert_eq!(values(90_000, 600), [now]);
}

#[test]
fn the_recorded_rate_is_shown_until_the_next_sample() {
    let mut state = with_last_minute(Duration::from_secs(1));
    assert_eq!(state.value(Figure::CacheReloads), Some(7.0));
    assert_eq!(state.value(Figure::MajorFaults), None);
    let mut same = status(PAGE);
    let mut next = same.clone();
    state.add_result(Ok(same.clone()), at(1));
    assert_eq!(state.value(Figure::CacheReloads), Some(7.0));
    let source = { next.sources.iter_mut() }.find(|one| one.name == "datapoints");
    let time = &mut source.unwrap().newest_values_at;
    *time = time.map(|time| time + 10.0);
    *next.figures.get_mut(&Figure::CacheReloads).unwrap() += 20.0;
    state.add_result(Ok(next), at(2));
    is_close(state.value(Figure::CacheReloads), 2.0);
    same.time += 600.0;
    state = with_last_minute(Duration::from_secs(1));
    state.add_result(Ok(same), at(3));
    assert_eq!(
        state.value(Figure::CacheReloads),
        None,
        "pushes have stopped"
    );
}

#[test]
fn rates_of_pushes_end_30_s_after_the_last_push() {
    for (age, has_rate) in [(29.0, true), (31.0, false)] {
        let mut late = status(PAGE);
        late.time = late
            .source(Source::Datapoints)
            .unwrap()
            .newest_values_at
            .unwrap()
            + age;
        let mut state = after(&[BEFORE, PAGE]);
        state.add_result(Ok(late), at(2));
        assert_eq!(
            state.value(Figure::BlockTransactions).is_some(),
            has_rate,
            "{age} s"
        );
    }
}

#[test]
fn the_push_after_a_pause_of_45_s_has_a_rate_over_the_pause() {
    let mut late = status(PAGE);
    let source = late.sources.iter_mut();
    let pushes = source.filter(|source| source.name == Source::Datapoints.name());
    pushes.for_each(|source| source.newest_values_at = source.newest_values_at.map(|at| at + 35.0));
    late.time += 35.0;
    let mut state = after(&[BEFORE]);
    state.add_result(Ok(late), at(36));
    assert!(state.value(Figure::BlockTransactions).is_some());
}

#[test]
fn a_rate_is_never_between_the_cgroups_of_two_processes() {
    let refaults = |start: f64| {
        let mut state = after(&[BEFORE]);
        let mut next = status(PAGE);
        *next.figures.get_mut(&Figure::ProcessStart).unwrap() += start;
        state.add_result(Ok(next), at(10));
        state.value(Figure::Refaults)
    };
    assert!(refaults(0.0).is_some());
    assert_eq!(refaults(100.0), None);
}

#[test]
fn after_a_daemon_restart_no_rates_are_invented() {
    let anew = PAGE.replace(
        "\nprocess_start_time_seconds 1",
        "\nprocess_start_time_seconds 2",
    );
    let state = after(&[BEFORE, &anew]);
    assert_eq!(
        (
            state.value(Figure::Transactions),
            state.value(Figure::CacheReloads)
        ),
        (None, None)
    );
    assert_eq!(state.cache_time.mean, None);
    assert!(
        state.value(Figure::MajorFaults).is_some(),
        "the kernel's counters are as old as the validator"
    );
    assert!(
        state
            .events
            .iter()
            .any(|event| event.text == "faultlined was started anew")
    );
}

#[test]
fn a_step_of_the_daemons_clock_is_no_restart() {
    let daemon = "faultlined was started anew";
    let validator = "the validator was started anew";
    for (ticks, restarts, expected) in [
        (5, 0.0, &[][..]),
        (5, 1.0, &["restart of the validator: exit", validator]),
        (0, 0.0, &[validator, daemon]),
    ] {
        let mut state = after(&[PAGE]);
        let mut next = status(PAGE);
        next.tick += ticks;
        *next.target.restarts.get_mut("exit").unwrap() += restarts;
        for start in [Figure::ProcessStart, Figure::DaemonStart] {
            *next.figures.get_mut(&start).unwrap() += 7200.0;
        }
        state.add_result(Ok(next), at(5));
        let events = state.events.iter().map(|event| &*event.text);
        assert!(events.eq(expected.iter().copied()), "{ticks} {restarts}");
    }
}

#[test]
fn the_top_states_memory_is_bounded() {
    let mut state = State::new(Duration::from_secs(1));
    for second in 0..2_000 {
        let other = if second % 2 == 0 {
            PAGE.replace("agave_up 1", "agave_up 0")
        } else {
            PAGE.to_owned()
        };
        if second < 100 {
            state.add_result(Ok(status(&other)), at(second));
        } else {
            state.add_result(Err("x".to_owned()), at(second));
        }
    }
    assert_eq!(state.events.len(), MAX_EVENTS);
    assert!(
        Figure::ALL
            .iter()
            .all(|figure| state.history(*figure).unwrap().last(10_000).len() <= 600)
    );
}
