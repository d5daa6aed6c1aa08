//! Derives from the readings how far the follower was behind, which phases can be right, and whether it kept up.
//!
//! Slots only grow, so between two readings a slot lies between the two values. Every distance is therefore a range, and where a
//! range crosses a threshold more than one phase can be right. The definitions are those of
//! `daemon/core/src/config/default.toml`; no code of the daemon is used.

use crate::witness::{Asked, Glance, Life, Sightings};

/// Share of the time at the tip from which on a validator has kept up.
const KEPT_UP: f64 = 0.99;
/// The daemon's sampling interval, in seconds.
pub const TICK: f64 = 1.0;
/// Tolerance of a distance, in slots. The leader's RPC gives its last finished slot, while shreds of the next slot, and at its end
/// of the one after that, already arrive at the follower; one more for the time that an answer takes.
pub const UNDER_WAY: u64 = 3;

/// A follower that replays more slots than this in a second is catching up: the cluster here makes about two.
const CATCHING_UP: u64 = 5;

/// The daemon's `[phase]` configuration, times in seconds.
#[derive(Debug, Clone, Copy)]
pub struct Thresholds {
    pub at_tip_slots: u64,
    pub at_tip_for: f64,
    pub behind_slots: u64,
    pub behind_for: f64,
}

/// Lowest and highest possible value.
pub type Range = (u64, u64);

/// The phases that can be right.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Phases {
    pub gone: bool,
    /// Any phase of a start.
    pub start: bool,
    pub catching_up: bool,
    pub at_tip: bool,
    pub behind: bool,
}

impl Phases {
    const GONE: Self = Self {
        gone: true,
        start: false,
        catching_up: false,
        at_tip: false,
        behind: false,
    };
    const STARTING: Self = Self {
        gone: false,
        start: true,
        catching_up: true,
        at_tip: false,
        behind: false,
    };
    const AT_TIP: Self = Self {
        gone: false,
        start: false,
        catching_up: false,
        at_tip: true,
        behind: false,
    };

    pub fn allow(self, word: &str) -> bool {
        match word {
            "absent" | "gone" => self.gone,
            "catching_up" => self.catching_up,
            "at_tip" => self.at_tip,
            "behind" => self.behind,
            _ => self.start,
        }
    }

    /// The phases, joined for the table.
    pub fn words(self) -> String {
        let all = [
            (self.gone, "gone"),
            (self.start, "start"),
            (self.catching_up, "catching_up"),
            (self.at_tip, "at_tip"),
            (self.behind, "behind"),
        ];
        all.iter()
            .filter(|(is, _)| *is)
            .map(|(_, word)| *word)
            .collect::<Vec<_>>()
            .join("|")
    }
}

/// What was true at one moment.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    pub at: f64,
    pub life: Life,
    /// The leader's slot; `None` before its first and after its last answer.
    pub leader: Option<Range>,
    /// The follower's slot; `None` before this process has answered.
    pub slot: Option<Range>,
    /// Slots behind.
    pub distance: Option<Range>,
    pub phases: Phases,
    /// Only `at_tip` is right, and the process runs.
    pub surely_at_tip: bool,
    /// Whether "kept up" can be true, and whether it can be false. Neither before it was first at the tip.
    pub kept_up: (bool, bool),
}

/// What was true at each look at the process.
pub fn truth(sightings: &Sightings, thresholds: Thresholds) -> Vec<Moment> {
    let mut life = LifeOf::default();
    let mut still_since = None;
    let mut moments = Vec::with_capacity(sightings.glances.len());
    for glance in &sightings.glances {
        still_since = (glance.life != Life::Runs).then(|| still_since.unwrap_or(glance.at));
        let (slot, distance) = positions(sightings, glance, still_since.unwrap_or(glance.at));
        if life.pid != glance.pid || glance.life == Life::Gone {
            life = LifeOf {
                pid: glance.pid,
                ..LifeOf::default()
            };
        }
        if glance.life != Life::Gone {
            // While it starts it is in no phase of a running validator, whatever the distance.
            let runs = sightings
                .started
                .iter()
                .any(|(pid, at)| *pid == glance.pid && *at <= glance.at);
            life.first_slot = life.first_slot.or(slot.map(|(lowest, _)| lowest));
            life.replayed = slot
                .zip(life.first_slot)
                .map_or(0, |((lowest, _), first)| lowest.saturating_sub(first));
            life.advances(glance.at, slot);
            life.goes_on(glance, distance.filter(|_| runs), thresholds);
        }
        moments.push(Moment {
            at: glance.at,
            life: glance.life,
            leader: leader(sightings, glance.at),
            slot,
            distance,
            phases: match glance.life {
                Life::Gone => Phases::GONE,
                Life::Ending => Phases {
                    gone: true,
                    ..life.phases
                },
                _ => life.phases,
            },
            surely_at_tip: life.surely_at_tip,
            kept_up: life.kept_up(glance.at),
        });
    }
    moments
}

/// The newest slot received until then, and the first one requested from then on.
fn around(all: &[Asked], at: f64) -> (Option<u64>, Option<u64>) {
    let heard = all.partition_point(|asked| asked.heard <= at);
    let asked = all.partition_point(|asked| asked.asked < at);
    (
        all[..heard].iter().rev().find_map(|asked| asked.slot),
        all[asked..].iter().find_map(|asked| asked.slot),
    )
}

fn leader(sightings: &Sightings, at: f64) -> Option<Range> {
    let (before, after) = around(&sightings.leader, at);
    before.zip(after)
}

/// The follower's slot and distance. It did not run after `acted`. Its slot cannot exceed the leader's, whose answer may be one slot
/// late.
fn positions(sightings: &Sightings, glance: &Glance, acted: f64) -> (Option<Range>, Option<Range>) {
    let first = sightings
        .follower
        .partition_point(|asked| asked.asked < glance.at);
    let of_pid = |asked: &&Asked| asked.pid == glance.pid;
    let (before, after) = sightings.follower.split_at(first);
    let known = |asked: &Asked| asked.slot.filter(|_| asked.heard <= glance.at);
    let lowest = before.iter().rev().take_while(of_pid).find_map(known);
    let next = after.iter().take_while(of_pid).find_map(|asked| asked.slot);
    let (Some(lowest), Some(leader), Some((_, newest))) = (
        lowest,
        self::leader(sightings, glance.at),
        self::leader(sightings, acted),
    ) else {
        return (None, None);
    };
    let highest = next.unwrap_or(u64::MAX).min(newest + 1).max(lowest);
    let distance = (
        leader.0.saturating_sub(highest),
        leader.1.saturating_sub(lowest),
    );
    (
        Some((lowest, highest)),
        (glance.life != Life::Gone).then_some(distance),
    )
}

/// Since when a condition has been fulfilled without a break.
#[derive(Debug, Clone, Copy, Default)]
struct Lasting(Option<f64>);

impl Lasting {
    fn holds(&mut self, now: f64, holds: bool) {
        self.0 = holds.then(|| self.0.unwrap_or(now));
    }

    fn for_long(self, now: f64, long: f64) -> bool {
        self.0.is_some_and(|since| now - since >= long)
    }
}

/// State of one process.
#[derive(Debug, Clone, Copy)]
struct LifeOf {
    pid: u32,
    phases: Phases,
    surely_at_tip: bool,
    /// The first slot it gave, and how many it has replayed since.
    first_slot: Option<u64>,
    replayed: u64,
    /// The highest of its slots, and when it was first given.
    newest: Option<(u64, f64)>,
    /// Its slot about a second ago, and when it was last seen to be catching up.
    lately: Option<(u64, f64)>,
    caught_up: Option<f64>,
    maybe_near: Lasting,
    surely_near: Lasting,
    maybe_far: Lasting,
    surely_far: Lasting,
    /// When it can first have been at the tip, and how long it certainly was elsewhere since.
    first_maybe: Option<f64>,
    elsewhere: f64,
    /// When it was first certainly at the tip, and how long that was uncertain since.
    first_surely: Option<f64>,
    in_doubt: f64,
    last: Option<f64>,
}

impl Default for LifeOf {
    fn default() -> Self {
        let (maybe_near, surely_near, maybe_far, surely_far) = Default::default();
        Self {
            pid: 0,
            phases: Phases::STARTING,
            surely_at_tip: false,
            first_slot: None,
            replayed: 0,
            newest: None,
            lately: None,
            caught_up: None,
            maybe_near,
            surely_near,
            maybe_far,
            surely_far,
            first_maybe: None,
            elsewhere: 0.0,
            first_surely: None,
            in_doubt: 0.0,
            last: None,
        }
    }
}

impl LifeOf {
    fn advances(&mut self, now: f64, slot: Option<Range>) {
        if let Some((lowest, _)) = slot
            && self.newest.is_none_or(|(before, _)| lowest > before)
        {
            self.newest = Some((lowest, now));
        }
        let Some((lowest, _)) = slot else { return };
        let (before, at) = *self.lately.get_or_insert((lowest, now));
        if lowest.saturating_sub(before) as f64 > CATCHING_UP as f64 * (now - at).max(TICK) {
            self.caught_up = Some(now);
        }
        if now - at >= TICK {
            self.lately = Some((lowest, now));
        }
    }

    fn goes_on(&mut self, glance: &Glance, distance: Option<Range>, thresholds: Thresholds) {
        let now = glance.at;
        let passed = now - self.last.replace(now).unwrap_or(now);
        if self.first_maybe.is_some() && !self.phases.at_tip {
            self.elsewhere += passed;
        }
        if self.first_surely.is_some() && !self.surely_at_tip {
            self.in_doubt += passed;
        }
        let holds = |what: fn(Range, Thresholds) -> bool| {
            distance.is_some_and(|range| what(range, thresholds))
        };
        // Before it has replayed that many slots it may be near only because the leader is young, without having heard of its tip.
        let came = self.replayed >= thresholds.at_tip_slots;
        // Nor does the daemon call it at the tip while its slot stands still.
        let moves = self.newest.is_some_and(|(_, at)| now - at <= TICK);
        // The time near the tip counts from the end of catching up, which the daemon sees by the next answer.
        let caught_up = self.caught_up.is_none_or(|at| now - at > TICK);
        let near = came
            && moves
            && caught_up
            && holds(|(_, highest), of| highest + UNDER_WAY <= of.at_tip_slots);
        self.surely_near.holds(now, near);
        self.maybe_near.holds(
            now,
            holds(|(lowest, _), of| lowest <= of.at_tip_slots + UNDER_WAY),
        );
        self.surely_far.holds(
            now,
            holds(|(lowest, _), of| lowest > of.behind_slots + UNDER_WAY),
        );
        self.maybe_far.holds(
            now,
            holds(|(_, highest), of| highest + UNDER_WAY > of.behind_slots),
        );
        self.change(now, thresholds);
        self.surely_at_tip = near && glance.life == Life::Runs && self.phases == Phases::AT_TIP;
        if self.phases.at_tip {
            self.first_maybe.get_or_insert(now);
        }
        if self.surely_at_tip {
            self.first_surely.get_or_insert(now);
        }
    }

    /// The daemon checks durations at ticks: a change is possible after the configured time and certain one tick later. Where the
    /// phase was unknown it says `behind` at once; that it waits otherwise is left to its own tests.
    fn change(&mut self, now: f64, of: Thresholds) {
        if self.maybe_near.for_long(now, of.at_tip_for) {
            self.phases.at_tip = true;
        }
        if self.surely_near.for_long(now, of.at_tip_for + TICK) {
            self.phases = Phases::AT_TIP;
        }
        if self.maybe_far.for_long(now, 0.0) && self.phases.at_tip {
            self.phases.behind = true;
        }
        if self.surely_far.for_long(now, of.behind_for + TICK) {
            self.phases.at_tip = false;
        }
    }

    fn kept_up(&self, now: f64) -> (bool, bool) {
        let share = |since: Option<f64>, without: f64| {
            since.map(|since| {
                if now > since {
                    1.0 - without / (now - since)
                } else {
                    1.0
                }
            })
        };
        let at_most = share(self.first_maybe, self.elsewhere);
        let at_least = share(self.first_surely, self.in_doubt);
        // Where it was never certainly at the tip, it may have been, and elsewhere since.
        let not = at_least.or(at_most).is_some_and(|share| share < KEPT_UP);
        (at_most.is_some_and(|share| share >= KEPT_UP), not)
    }
}

/// Minimum and maximum of the seconds at the tip, and all seconds, between the first and the last moment.
pub fn seconds_at_tip(moments: &[Moment]) -> (f64, f64, f64) {
    let seconds = |holds: fn(&Moment) -> bool| {
        let pairs = moments.iter().zip(moments.iter().skip(1));
        pairs
            .filter(|(moment, _)| holds(moment))
            .map(|(moment, next)| next.at - moment.at)
            .sum::<f64>()
    };
    (
        seconds(|moment| moment.surely_at_tip),
        seconds(|moment| moment.phases.at_tip),
        seconds(|_| true),
    )
}

#[cfg(test)]
#[path = "truth/tests.rs"]
mod tests;
