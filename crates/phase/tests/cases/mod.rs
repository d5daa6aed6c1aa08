//! The cases of `cases.txt`.

use faultline_phase::{Phase, PhaseEvidence, Process, Stage};
use std::time::Duration;

pub struct Case {
    pub name: &'static str,
    pub steps: Vec<Step>,
    pub kept_up: Option<bool>,
    pub seconds: Vec<(Phase, u64)>,
}

#[derive(Debug)]
pub struct Step {
    pub seconds: u64,
    what: &'static str,
    argument: &'static str,
    pub phase: Option<Phase>,
}

pub fn cases() -> Vec<Case> {
    let lines = include_str!("../cases.txt").lines();
    let lines: Vec<&str> = lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .collect();
    lines
        .chunks(3)
        .map(|lines| case(lines).expect(lines[0]))
        .collect()
}

fn case(lines: &[&'static str]) -> Option<Case> {
    let [name, steps, end] = lines else {
        return None;
    };
    let (kept_up, seconds) = end.trim().split_once("; ")?;
    let seconds = seconds.split(", ").map(|text| {
        let (phase, seconds) = text.split_once(' ')?;
        Some((Phase::named(phase)?, seconds.parse().ok()?))
    });
    Some(Case {
        name,
        steps: steps.split(", ").map(step).collect::<Option<_>>()?,
        kept_up: match kept_up {
            "yes" => Some(true),
            "no" => Some(false),
            "not known" => None,
            _ => return None,
        },
        seconds: seconds.collect::<Option<_>>()?,
    })
}

fn step(text: &'static str) -> Option<Step> {
    let (what, phase) = text.split_once(": ")?;
    let mut words = what.split_whitespace();
    Some(Step {
        seconds: words.next()?.parse().ok()?,
        what: words.next()?,
        argument: words.next().unwrap_or_default(),
        phase: match phase {
            "unknown" => None,
            name => Some(Phase::named(name)?),
        },
    })
}

impl Case {
    /// Slots that clusters make in ten seconds, at the slot times for which it holds.
    pub fn paces(&self) -> &'static [u64] {
        if self.name.starts_with("at 0.4 s") {
            &[25]
        } else {
            &[10, 25, 50]
        }
    }

    /// The evidence of each second, from 1 on, in a cluster that makes so many slots in ten seconds.
    pub fn evidence(&self, in_ten: u64) -> Vec<(Duration, PhaseEvidence)> {
        let mut world = World {
            in_ten,
            tip: 100_000,
            own: 0,
            known: 0,
        };
        let seconds = self
            .steps
            .iter()
            .flat_map(|step| std::iter::repeat_n(step, step.seconds as usize));
        (1..)
            .zip(seconds)
            .map(|(second, step)| {
                let evidence = world.second(second, step.what, step.argument);
                (Duration::from_secs(second), evidence)
            })
            .collect()
    }
}

/// A cluster, and a validator in it. Slots are counted in tenths.
struct World {
    in_ten: u64,
    tip: u64,
    own: u64,
    /// The tip as the validator knows it.
    known: u64,
}

impl World {
    /// The slots in tenths that a validator replays, where a step names them for a cluster of 2.5 slots a second.
    fn replayed(&self, slots: u64) -> u64 {
        slots * 10 * self.in_ten / 25
    }

    fn second(&mut self, second: u64, what: &str, argument: &str) -> PhaseEvidence {
        if what == "purges" {
            self.tip -= 10 * argument.parse().unwrap_or(0);
        } else if what != "halts" {
            self.tip += self.in_ten;
        }
        let (tip, number) = (self.tip, argument.parse().unwrap_or(0));
        let further = (self.own + self.replayed(number)).min(tip);
        (self.own, self.known) = match what {
            "follows" | "only_pushes" => (tip - number * 10, tip),
            "silent" => (tip - 10, tip),
            "purges" | "rebuilds" => (tip, tip),
            "stopped" | "halts" => (self.own, self.known),
            "hangs" => (self.own, tip),
            "hears_no_tip" => (self.own + self.replayed(2), self.known),
            "catches_up" => (further, tip),
            "hurries" => (further, further + 20),
            "stays_back" => (self.own + self.replayed(1) / 2, tip),
            "ended" | "starts" | "only_runs" => (tip - self.replayed(400), tip),
            _ => panic!("no such step: {what}"),
        };
        let answers = PhaseEvidence {
            process: Process::Alive,
            stage: Some(Stage::Running),
            slot: Some(self.own / 10),
            tip: Some(self.known / 10),
            is_healthy: true,
        };
        let silent = PhaseEvidence {
            slot: None,
            tip: None,
            ..answers
        };
        match what {
            "ended" => PhaseEvidence::default(),
            "starts" => PhaseEvidence {
                stage: Phase::named(argument).map(Stage::Reported),
                ..silent
            },
            "stopped" => PhaseEvidence {
                process: Process::Stopped,
                ..silent
            },
            "only_runs" | "silent" => silent,
            "purges" | "rebuilds" => PhaseEvidence {
                tip: None,
                ..answers
            },
            "only_pushes" if !second.is_multiple_of(10) => silent,
            _ => answers,
        }
    }
}
