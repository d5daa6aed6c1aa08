//! Decides when to save the ring automatically, from events and their times. Reads no clock.

use super::handle::SaveReason;
use std::time::Duration;

/// Pending saves. Times are uptimes.
#[derive(Debug, Clone)]
pub struct Triggers {
    /// Delay from the event to the save, so that the save includes what follows the event.
    after: Duration,
    pause: Duration,
    pending: Option<(SaveReason, Duration)>,
    last: Option<Duration>,
}

impl Triggers {
    pub fn new(after: Duration, pause: Duration) -> Self {
        Triggers {
            after,
            pause,
            pending: None,
            last: None,
        }
    }

    /// Adds an event. If a save is pending, the event joins it, and the trigger with the highest
    /// priority counts. A higher priority restarts the delay. An event soon after a save waits for
    /// the pause to end; the ring still contains it then.
    pub fn add_event(&mut self, trigger: SaveReason, at: Duration) {
        let pause_ends =
            { self.last }.map_or(Duration::ZERO, |last| last.saturating_add(self.pause));
        let due = at.saturating_add(self.after).max(pause_ends);
        self.pending = Some(match self.pending {
            Some((before, planned)) if before <= trigger => (before, planned),
            Some((_, planned)) => (trigger, planned.max(due)),
            None => (trigger, due),
        });
    }

    /// Returns each trigger once.
    pub fn due(&mut self, now: Duration) -> Option<SaveReason> {
        let (trigger, _) = self.pending.take_if(|(_, due)| *due <= now)?;
        self.last = Some(now);
        Some(trigger)
    }

    pub fn take_pending(&mut self) -> Option<SaveReason> {
        self.pending.take().map(|(trigger, _)| trigger)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use faultline_recording::EventKind;
    use proptest::prelude::*;

    fn triggers() -> Triggers {
        Triggers::new(s(10), s(300))
    }

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn only_oom_kills_exits_stalls_and_falling_behind_trigger_a_save() {
        let asking = EventKind::ALL
            .iter()
            .filter_map(|kind| Some((*kind, SaveReason::of(*kind)?)))
            .collect::<Vec<_>>();
        let expected = [
            (EventKind::Exit, SaveReason::Exit),
            (EventKind::OomKill, SaveReason::OomKill),
            (EventKind::Behind, SaveReason::Behind),
            (EventKind::Stall, SaveReason::Stall),
        ];
        assert_eq!(asking, expected);
    }

    #[test]
    fn a_save_waits_for_the_aftermath_and_occurs_once() {
        let mut triggers = triggers();
        assert_eq!(triggers.due(s(100)), None);
        triggers.add_event(SaveReason::Exit, s(100));
        assert_eq!(triggers.due(s(109)), None);
        assert_eq!(triggers.due(s(110)), Some(SaveReason::Exit));
        assert_eq!(
            (triggers.due(s(111)), triggers.take_pending()),
            (None, None)
        );
    }

    #[test]
    fn simultaneous_triggers_save_once_named_after_the_most_severe() {
        let mut triggers = triggers();
        triggers.add_event(SaveReason::Behind, s(100));
        triggers.add_event(SaveReason::OomKill, s(105));
        triggers.add_event(SaveReason::Exit, s(107));
        assert_eq!(
            triggers.due(s(114)),
            None,
            "the kill has an aftermath of its own"
        );
        assert_eq!(triggers.due(s(115)), Some(SaveReason::OomKill));
        assert_eq!(triggers.due(s(1000)), None);
    }

    #[test]
    fn a_trigger_soon_after_a_save_is_delayed_not_lost() {
        let mut triggers = triggers();
        triggers.add_event(SaveReason::Exit, s(100));
        assert_eq!(triggers.due(s(110)), Some(SaveReason::Exit));
        triggers.add_event(SaveReason::Exit, s(150));
        assert_eq!(triggers.due(s(160)), None);
        assert_eq!(triggers.due(s(410)), Some(SaveReason::Exit));
    }

    #[test]
    fn pending_triggers_are_returned_at_shutdown() {
        let mut triggers = triggers();
        triggers.add_event(SaveReason::OomKill, s(100));
        assert_eq!(
            (triggers.take_pending(), triggers.due(s(200))),
            (Some(SaveReason::OomKill), None)
        );
    }

    #[test]
    fn repeated_triggers_are_saved_once_per_pause() {
        let mut triggers = triggers();
        let mut saves = Vec::new();
        for now in 0..1000 {
            if [146, 157, 457, 756].contains(&now) {
                triggers.add_event(SaveReason::Behind, s(now));
            }
            saves.extend(triggers.due(s(now)).map(|_| now));
        }
        assert_eq!(saves, [156, 456, 756]);
    }

    proptest! {
        /// Whatever happens: no two saves closer than the pause, none before its aftermath, and none forgotten.
        #[test]
        fn no_trigger_event_is_lost_and_the_save_pause_is_kept(events in proptest::collection::vec((0_u64..2000, 0..4_usize), 1..40)) {
            let all = [SaveReason::Stall, SaveReason::Behind, SaveReason::Exit, SaveReason::OomKill];
            let mut triggers = triggers();
            let mut saves: Vec<u64> = Vec::new();
            for now in 0..3000 {
                for (_, which) in events.iter().filter(|(at, _)| *at == now) {
                    triggers.add_event(all[*which], s(now));
                }
                saves.extend(triggers.due(s(now)).map(|_| now));
            }
            prop_assert!(saves.windows(2).all(|pair| pair[1] - pair[0] >= 300), "{saves:?}");
            for (at, _) in &events {
                // Ten seconds, three times more if it grows heavier, after the pause.
                let saved = saves.iter().find(|save| *save >= at);
                prop_assert!(saved.is_some_and(|save| save - at <= 340), "{at}: {saves:?}");
            }
        }
    }
}
