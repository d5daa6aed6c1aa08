use super::super::*;
use faultline_agave::{
    line::{LineSplitter, Point},
    points::KnownPoint,
};

/// The bodies of all pushes of the first three minutes.
fn bodies() -> Vec<String> {
    let mut pushes = RecordedPushes::new(
        Arc::new(RecordedLines::embedded(None).unwrap()),
        Duration::ZERO,
    );
    let mut uptime = Duration::from_secs(1);
    let mut bodies = Vec::new();
    while uptime < Duration::from_secs(180) {
        bodies.push(pushes.next_body(Stamp {
            uptime,
            unix: Duration::from_secs(1_800_000_000) + uptime,
        }));
        uptime = next_push_uptime(uptime);
    }
    bodies
}

fn points(body: &str) -> impl Iterator<Item = Point<'_>> {
    body.lines()
        .map(|line| Point::parse(line.as_bytes()).unwrap())
}

#[test]
fn times_only_increase_and_lie_between_the_pushes() {
    let mut before = 1_800_000_000_000_000_000;
    for body in bodies() {
        for point in points(&body) {
            let time = point.timestamp().unwrap();
            assert!(time >= before, "{point:?}");
            before = time;
        }
    }
    assert!(before > 1_800_000_160_000_000_000);
}

#[test]
fn every_push_ends_with_the_agents_own_point() {
    for body in bodies() {
        let last = points(&body).last().unwrap();
        let KnownPoint::AgentStats(agent) = KnownPoint::parse(&last).unwrap().unwrap() else {
            panic!("{last:?}")
        };
        assert_eq!(agent.points_written, Some(points(&body).count() as u64));
        assert_eq!(
            points(&body)
                .filter(|point| point.name() == "metrics")
                .count(),
            1
        );
        assert!(body.ends_with('\n'));
    }
}

#[test]
fn the_demo_pushes_its_version_once_before_the_first_block() {
    let bodies = bodies().concat();
    let names: Vec<String> = points(&bodies)
        .map(|point| point.name().to_owned())
        .filter(|name| KnownPoint::NAMES.contains(&name.as_str()))
        .collect();
    let first = names.iter().find(|name| *name != "metrics").unwrap();
    assert_eq!(first, "validator-new");
    assert_eq!(names.iter().filter(|name| *name == first).count(), 1);
}

#[test]
fn the_demo_starts_behind_the_tip_and_then_reaches_it() {
    let bodies = bodies();
    let newest = |body: &str, name: &str| {
        points(body)
            .filter(|point| point.name() == name)
            .filter_map(|point| point.field("slot"))
            .last()
            .map(|field| field.raw().trim_end_matches('i').parse::<u64>().unwrap())
    };
    let distance = |body: &String| {
        newest(body, "shred_insert_is_full")?.checked_sub(newest(body, "bank_frozen")?)
    };
    let distances: Vec<u64> = bodies.iter().filter_map(distance).collect();
    assert!((400..=460).contains(&distances[0]), "{distances:?}");
    assert!(
        distances.is_sorted_by(|a, b| a >= b || *b < 3),
        "{distances:?}"
    );
    assert!(*distances.last().unwrap() < 3, "{distances:?}");
}

#[test]
fn a_replayed_push_body_is_line_protocol_the_daemon_can_split() {
    let body = bodies().concat();
    let mut splitter = LineSplitter::new();
    let mut lines = 0;
    splitter.feed(body.as_bytes(), |line| lines += usize::from(line.is_ok()));
    assert_eq!(lines, body.lines().count());
}
