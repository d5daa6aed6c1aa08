//! The validator's points for a recording: each with its own time and all its fields.

use faultline_recording::Point;
use std::sync::Arc;

/// Maximum stored points of a pending sender: enough for some minutes of normal load.
const MAX_PENDING_POINTS: usize = 1024;

pub enum PointMessage {
    Point(Box<Point>),
    Dropped(u64),
}

pub struct PointRecorder(Arc<dyn Fn(PointMessage) + Send + Sync>);

impl PointRecorder {
    /// `record` must not block.
    pub fn new(record: impl Fn(PointMessage) + Send + Sync + 'static) -> Self {
        Self(Arc::new(record))
    }

    pub fn add(&self, point: Box<Point>) {
        (self.0)(PointMessage::Point(point));
    }

    pub fn add_pending(&self, pending: PendingPoints) {
        for point in pending.points {
            self.add(Box::new(point));
        }
        (self.0)(PointMessage::Dropped(pending.dropped));
    }
}

/// Points of a sender that may be the followed validator; bounded.
#[derive(Default)]
pub struct PendingPoints {
    points: Vec<Point>,
    dropped: u64,
}

impl PendingPoints {
    pub fn add(&mut self, point: Box<Point>) {
        if self.points.len() < MAX_PENDING_POINTS {
            self.points.push(*point);
        } else {
            self.dropped += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use faultline_agave::{line::Point as Line, points::KnownPoint};
    use faultline_recording::SetRootPoint;
    use std::{
        sync::mpsc::{Receiver, channel},
        time::Duration,
    };

    fn receiver() -> (PointRecorder, Receiver<PointMessage>) {
        let (sender, receiver) = channel();
        (
            PointRecorder::new(move |what| sender.send(what).unwrap()),
            receiver,
        )
    }

    #[test]
    fn a_recorded_point_keeps_its_fields_and_omits_missing_ones() {
        let line = Line::parse(b"bank-forks_set_root,host_id=a elapsed_ms=3i,slot=9i 77").unwrap();
        let known = KnownPoint::parse(&line).unwrap().unwrap();
        let point = Point::new(&known, 77, Duration::from_secs(2)).unwrap();
        let expected = SetRootPoint {
            time_unix_ns: 77,
            received: Duration::from_secs(2),
            slot: Some(9),
            elapsed_ms: Some(3),
            ..SetRootPoint::default()
        };
        assert_eq!(point, Point::SetRoot(expected));
    }

    #[test]
    fn pending_points_are_bounded_and_overflow_is_counted() {
        let ((points, receiver), mut retained) = (receiver(), PendingPoints::default());
        let point = || Box::new(Point::SetRoot(SetRootPoint::default()));
        (0..MAX_PENDING_POINTS + 3).for_each(|_| retained.add(point()));
        points.add_pending(retained);
        let dropped = receiver
            .try_iter()
            .fold((0, 0), |(points, dropped), what| match what {
                PointMessage::Point(_) => (points + 1, dropped),
                PointMessage::Dropped(count) => (points, dropped + count),
            });
        assert_eq!(dropped, (MAX_PENDING_POINTS, 3));
    }

    #[test]
    fn datapoint_kinds_that_are_only_summed_are_not_recorded() {
        let line = Line::parse(b"bank_frozen,host_id=a slot=9i 77").unwrap();
        let known = KnownPoint::parse(&line).unwrap().unwrap();
        assert_eq!(Point::new(&known, 77, Duration::ZERO), None);
    }

    #[test]
    fn pending_points_are_recorded_only_once_their_sender_is_ours() {
        use crate::validator::intake::Intake;
        use faultline_metrics::Stamp;
        let ((points, receiver), intake) = (
            receiver(),
            Intake::new(&faultline_core::config::Datapoints::default()),
        );
        intake.set_recorder(points);
        intake.follow_validator(None);
        let push = |host: &str, time: u64| {
            let mut push = intake.begin_trusted(Stamp::default());
            push.add_line(
                format!("bank-forks_set_root,host_id={host} slot={time}i {time}").as_bytes(),
            );
            intake.commit(push, Stamp::default());
        };
        let times = || -> Vec<i64> {
            let points = receiver.try_iter().filter_map(|what| match what {
                PointMessage::Point(point) => Some(point),
                PointMessage::Dropped(_) => None,
            });
            let time = |point: Box<Point>| {
                if let Point::SetRoot(root) = *point {
                    root.time_unix_ns
                } else {
                    0
                }
            };
            points.map(time).collect()
        };
        push("ours", 1);
        push("other", 2);
        assert_eq!(times(), Vec::<i64>::new());
        intake.set_reported_identity("ours", Stamp::default());
        assert_eq!(times(), [1]);
        push("ours", 3);
        push("ours", 3);
        push("other", 4);
        assert_eq!(times(), [3], "a duplicate and a stranger's are left out");
    }
}
