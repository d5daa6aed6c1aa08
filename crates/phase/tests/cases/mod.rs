//! The cases of `cases.txt`.

use faultline_phase::{Evidence, Phase, Process, Stage};
use std::time::Duration;

pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) steps: Vec<Step>,
    pub(crate) kept_up: Option<bool>,
    pub(crate) seconds: Vec<(Phase, u64)>,
}

#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) seconds: u64,
    what: &'static str,
    argument: &'static str,
    /// After it.
    pub(crate) phase: Option<Phase>,
}

/// Every case.
pub(crate) fn cases() -> Vec<Case> {
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
    /// The evidence of each second, from 1 on.
    pub(crate) fn evidence(&self) -> Vec<(Duration, Evidence)> {
        let mut world = World {
            tip: 20_000,
            own: 0,
            known: 0,
            seconds: 0,
        };
        let seconds = self
            .steps
            .iter()
            .flat_map(|step| std::iter::repeat_n(step, step.seconds as usize));
        let evidence = seconds.map(|step| world.second(step.what, step.argument));
        (1..).map(Duration::from_secs).zip(evidence).collect()
    }
}

/// A cluster that makes five slots in two seconds, and a validator in it.
struct World {
    /// Twice the tip.
    tip: u64,
    own: u64,
    /// The tip as the validator knows it.
    known: u64,
    seconds: u64,
}

impl World {
    fn second(&mut self, what: &str, argument: &str) -> Evidence {
        self.seconds += 1;
        if what != "halts" {
            self.tip += 5;
        }
        let (tip, number) = (self.tip / 2, argument.parse().unwrap_or(0));
        let further = (self.own + number).min(tip);
        (self.own, self.known) = match what {
            "follows" | "only_pushes" => (tip - number, tip),
            "silent" => (tip - 1, tip),
            "stopped" | "halts" => (self.own, self.known),
            "hangs" => (self.own, tip),
            "hears_no_tip" => (self.own + 2, self.known),
            "catches_up" => (further, tip),
            "hurries" => (further, further + 2),
            "stays_back" => (self.own + self.seconds % 2, tip),
            "ended" | "starts" | "only_runs" => (tip - 400, tip),
            _ => panic!("no such step: {what}"),
        };
        let answers = Evidence {
            process: Process::Alive,
            stage: Some(Stage::Running),
            slot: Some(self.own),
            tip: Some(self.known),
        };
        let silent = Evidence {
            slot: None,
            tip: None,
            ..answers
        };
        match what {
            "ended" => Evidence::default(),
            "starts" => Evidence {
                stage: Phase::named(argument).map(Stage::Reported),
                ..silent
            },
            "stopped" => Evidence {
                process: Process::Stopped,
                ..silent
            },
            "only_runs" | "silent" => silent,
            "only_pushes" if !self.seconds.is_multiple_of(10) => silent,
            _ => answers,
        }
    }
}
