use super::*;
use faultline_agave::points::KnownPoint;
use std::collections::BTreeSet;

fn recording() -> RecordedLines {
    RecordedLines::embedded(None).unwrap()
}

/// The slots in the field `key` of the lines of `name`, in four repetitions.
fn slots(track: Track, name: &str, key: &str) -> Vec<u64> {
    let lines = recording().lines_between(track, Duration::ZERO, RECORDING_LENGTH * 4);
    let points = lines
        .iter()
        .map(|(_, line)| Point::parse(line.as_bytes()).unwrap());
    points
        .filter(|point| point.name() == name)
        .filter_map(|point| integer_field(&point, key))
        .collect()
}

#[test]
fn demo_slots_stay_consecutive_across_repetitions() {
    for (track, name, key) in [
        (Track::Validator, "bank_frozen", "slot"),
        (Track::Validator, "cost_tracker_stats", "bank_slot"),
        (Track::Validator, "bank-forks_set_root", "slot"),
        (
            Track::Validator,
            "block-commitment-cache",
            "highest-confirmed-slot",
        ),
        (Track::Cluster, "shred_insert_is_full", "slot"),
    ] {
        let slots = slots(track, name, key);
        assert!(slots.len() > 4 * 110, "{name}: {}", slots.len());
        for pair in slots.windows(2) {
            assert_eq!(pair[0] + 1, pair[1], "{name}.{key}");
        }
    }
}

#[test]
fn every_demo_line_is_understood_by_the_daemon() {
    let recording = recording();
    let (mut known, mut lines) = (0, 0);
    for track in [Track::Validator, Track::Cluster] {
        for (_, line) in recording.lines_between(track, Duration::ZERO, RECORDING_LENGTH * 2) {
            let point = Point::parse(line.as_bytes()).unwrap();
            point.check().unwrap();
            assert_eq!(point.tag("host_id"), Some(IDENTITY));
            assert!(
                line.starts_with(&format!("{},host_id={IDENTITY}", point.name())),
                "{line}"
            );
            lines += 1;
            if let Some(point) = KnownPoint::parse(&point) {
                point.unwrap();
                known += 1;
            }
        }
    }
    assert!(known > 1500 && lines > known, "{known} of {lines}");
}

#[test]
fn the_demo_cache_that_keeps_evicting_stays_full() {
    let lines = recording().lines_between(Track::Validator, Duration::ZERO, RECORDING_LENGTH * 2);
    let points = lines
        .iter()
        .map(|(_, line)| Point::parse(line.as_bytes()).unwrap());
    let caches = points.filter(|point| point.name() == "loaded-programs-cache-stats");
    let levels: Vec<_> = caches
        .map(|point| {
            (
                integer_field(&point, "water_level"),
                integer_field(&point, "evictions") > Some(0),
            )
        })
        .collect();
    assert!(
        levels.len() > 200 && levels.iter().all(|level| *level == (Some(922), true)),
        "{levels:?}"
    );
}

#[test]
fn a_demo_cache_that_holds_all_programs_reloads_none() {
    let per_slot = |entries, name: &str, key: &str| {
        let lines = RecordedLines::embedded(Some(CacheSize(entries)))
            .unwrap()
            .lines_between(Track::Validator, Duration::ZERO, RECORDING_LENGTH);
        let sum: u64 = lines
            .iter()
            .map(|(_, line)| Point::parse(line.as_bytes()).unwrap())
            .filter(|point| point.name() == name)
            .filter_map(|point| integer_field(&point, key))
            .sum();
        sum / 120
    };
    let cache = "loaded-programs-cache-stats";
    for (entries, level, reloads) in [(512, 461, 11), (711, 640, 0), (1024, 640, 0)] {
        assert_eq!(per_slot(entries, cache, "water_level"), level, "{entries}");
        for key in ["reloads", "misses", "evictions"] {
            assert_eq!(per_slot(entries, cache, key), reloads, "{key} of {entries}");
        }
    }
    let replay = |entries, key| per_slot(entries, "replay-slot-stats", key);
    let saved = replay(512, "program_cache_us") - replay(1024, "program_cache_us");
    assert!(saved > 3_000, "{saved}");
    let elapsed = replay(512, "replay_total_elapsed") - replay(1024, "replay_total_elapsed");
    assert!(elapsed.abs_diff(saved) < 2, "{elapsed} {saved}");
}

#[test]
fn the_demo_recording_is_alpenglow_with_200_ms_slots() {
    let recording = recording();
    assert_eq!(
        SLOT_TIME * u32::try_from(recording.block_count()).unwrap(),
        RECORDING_LENGTH
    );
    let names: BTreeSet<String> = [Track::Validator, Track::Cluster]
        .into_iter()
        .flat_map(|track| recording.lines_between(track, Duration::ZERO, RECORDING_LENGTH))
        .map(|(_, line)| Point::parse(line.as_bytes()).unwrap().name().to_owned())
        .collect();
    assert!(names.contains("event_handler_stats"));
    for name in ["optimistic_slot", "tower-vote"] {
        assert!(!names.contains(name), "{name}");
    }
    let [root, confirmed] = ["highest-super-majority-root", "highest-confirmed-slot"]
        .map(|key| slots(Track::Validator, "block-commitment-cache", key));
    assert_eq!(root, confirmed);
}

#[test]
fn the_replayed_demo_contains_no_original_slot() {
    let lines = recording().lines_between(Track::Validator, Duration::ZERO, RECORDING_LENGTH);
    for (_, line) in lines {
        let point = Point::parse(line.as_bytes()).unwrap();
        for key in SLOT_FIELDS {
            let slot = integer_field(&point, key).unwrap_or(0);
            assert!(!(500..DEMO_FIRST_SLOT - 1000).contains(&slot), "{line}");
        }
    }
}

#[test]
fn count_fields_named_after_slots_are_not_shifted() {
    let line = "shrink_ancient_stats,host_id=x slot=7i,num_slots_shrunk=1000i 1";
    let pieces = line_parts(&Point::parse(line.as_bytes()).unwrap(), 1000, None).unwrap();
    let line = Line {
        position: Duration::ZERO,
        parts: pieces,
    }
    .render(132);
    assert_eq!(
        line,
        format!("shrink_ancient_stats,host_id={IDENTITY} slot=7i,num_slots_shrunk=1000i")
    );
}

#[test]
fn demo_slots_and_transactions_never_decrease_and_match_the_lines() {
    let recording = recording();
    let mut before = (0, 0);
    for tenth in 0..1800 {
        let now = recording.newest_slot(Duration::from_millis(tenth * 100));
        assert!(now >= before && now.1 >= before.1, "{before:?} {now:?}");
        before = now;
    }
    assert_eq!(
        recording.newest_slot(RECORDING_LENGTH * 3).0,
        slots(Track::Validator, "bank_frozen", "slot")[3 * recording.blocks.len() - 1]
    );
    let one: u64 = slots(Track::Validator, "cost_tracker_stats", "transaction_count")
        .iter()
        .take(recording.blocks.len())
        .sum();
    assert!((5_000..10_000).contains(&one), "{one}");
    assert!(
        recording
            .newest_slot(RECORDING_LENGTH * 3)
            .1
            .abs_diff(3 * one)
            < one / 20
    );
}

#[test]
fn playing_the_demo_in_parts_equals_playing_it_at_once() {
    let recording = recording();
    let whole: Vec<_> =
        recording.lines_between(Track::Validator, Duration::ZERO, RECORDING_LENGTH * 3);
    let mut parts = Vec::new();
    let step = Duration::from_millis(3_700);
    for part in 0..24 {
        parts.extend(recording.lines_between(
            Track::Validator,
            step * part,
            (step * (part + 1)).min(RECORDING_LENGTH * 3),
        ));
    }
    assert_eq!(parts, whole);
}
