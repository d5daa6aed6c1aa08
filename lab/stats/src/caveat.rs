//! Caveats of a conclusion: a closed list, each with its facts and a remedy.

use crate::block::Reliability;
use serde::Serialize;

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Caveat {
    OneRunPerArm {
        arms: Vec<String>,
    },
    TooFewRuns {
        arms: Vec<String>,
        needed: usize,
    },
    DifferentLoad {
        lowest_tps: Option<f64>,
        highest_tps: Option<f64>,
    },
    DaemonGaps {
        run: String,
        gaps: usize,
        seconds: f64,
    },
    Restarts {
        run: String,
        restarts: usize,
    },
    DifferentVersions {
        versions: Vec<String>,
    },
    DifferentSlotTimes {
        /// (arm, length of a slot).
        arms: Vec<(String, String)>,
    },
    DifferentConsensus {
        /// (arm, protocol).
        arms: Vec<(String, String)>,
    },
    ConsensusChanged {
        run: String,
        protocols: String,
    },
    /// A version before 4.4 counts `hits` of the program cache differently.
    HitsNotComparable {
        versions: Vec<String>,
    },
    UnreliableInterval {
        run: String,
        metric: String,
        why: Reliability,
    },
    NotAtTip {
        run: String,
        /// `None` if unknown.
        seconds_at_tip: Option<f64>,
        /// From the first execution on.
        seconds: f64,
    },
    DifferentHardware {
        differences: Vec<String>,
    },
    DifferentKernel {
        kernels: Vec<String>,
    },
    NotInterleaved {
        first: String,
        then: String,
    },
    /// It is unknown whether anything was executed in some seconds of a run.
    UnknownSeconds {
        run: String,
        unknown: usize,
        /// All seconds from the first execution on.
        of: usize,
    },
    CacheSizeObserved {
        run: String,
        configured: u64,
        observed: u64,
    },
}

fn one_run(arms: &[String]) -> String {
    let who = if arms.len() == 1 {
        "One arm has"
    } else {
        "Arms have"
    };
    let arms = arms.join(", ");
    format!(
        "{who} a single run ({arms}): the variation between runs is unknown, so nothing is tested."
    )
}

fn different(what: &str, values: &[String], separator: &str) -> String {
    format!("{what}: {}.", values.join(separator))
}

fn slot_times(arms: &[(String, String)]) -> String {
    format!(
        "A slot took {}. A longer slot holds more work: what is counted by slot cannot be compared.",
        with_arms(arms)
    )
}

fn consensus(arms: &[(String, String)]) -> String {
    format!(
        "The consensus was {}. Votes of Alpenglow are no transactions: neither transactions nor what is counted by slot can be compared.",
        with_arms(arms)
    )
}

fn hits(versions: &[String]) -> String {
    format!(
        "Before 4.4 Agave counts the hits of the program cache in another way ({}); hits and hit ratios of these runs \
         cannot be compared.",
        versions.join(", ")
    )
}

fn with_arms(arms: &[(String, String)]) -> String {
    let arms = arms.iter().map(|(arm, what)| format!("{what} with {arm}"));
    arms.collect::<Vec<_>>().join(", ")
}

impl Caveat {
    pub fn what(&self) -> String {
        match self {
            Caveat::OneRunPerArm { arms } => one_run(arms),
            Caveat::TooFewRuns { arms, needed } => {
                let arms = arms.join(", ");
                format!("Two runs are too few for a test ({arms}); it needs {needed} in each arm.")
            }
            Caveat::DifferentLoad {
                lowest_tps,
                highest_tps,
            } => load(*lowest_tps, *highest_tps),
            Caveat::DaemonGaps { run, gaps, seconds } => {
                let (gaps, seconds) = (times(*gaps, "stretch", "stretches"), long(*seconds));
                format!("{run}: {gaps} not watched, {seconds} in all.")
            }
            Caveat::Restarts { run, restarts } => {
                let restarts = times(*restarts, "time", "times");
                format!("{run}: the validator was restarted {restarts}.")
            }
            Caveat::DifferentVersions { versions } => {
                different("The runs had different validators", versions, ", ")
            }
            Caveat::DifferentSlotTimes { arms } => slot_times(arms),
            Caveat::DifferentConsensus { arms } => consensus(arms),
            Caveat::ConsensusChanged { run, protocols } => format!(
                "{run}: the consensus changed ({protocols}). Transactions, and what is counted by slot, mean different things before and after."
            ),
            Caveat::HitsNotComparable { versions } => hits(versions),
            Caveat::UnreliableInterval { run, metric, why } => {
                format!("{run}, {metric}: {}.", unreliable(*why))
            }
            Caveat::NotAtTip {
                run,
                seconds_at_tip,
                seconds,
            } => at_tip(run, *seconds_at_tip, *seconds),
            Caveat::DifferentHardware { differences } => {
                different("The runs were on different machines", differences, "; ")
            }
            Caveat::DifferentKernel { kernels } => {
                different("The runs had different kernels", kernels, ", ")
            }
            Caveat::NotInterleaved { first, then } => format!(
                "All runs of {first} came before all of {then}: whatever changed meanwhile looks like an effect."
            ),
            Caveat::UnknownSeconds { run, unknown, of } => format!(
                "{run}: of {unknown} of {of} seconds it is not known whether anything was executed."
            ),
            Caveat::CacheSizeObserved {
                run,
                configured,
                observed,
            } => format!(
                "{run}: the program cache held {observed} entries, more than the {configured} it was meant to have."
            ),
        }
    }

    pub fn remedy(&self) -> &'static str {
        match self {
            Caveat::OneRunPerArm { .. } => "Run each arm at least three times.",
            Caveat::TooFewRuns { .. } => "Run each arm at least once more.",
            Caveat::DifferentLoad { .. } => {
                "Run the arms at the same time on equal machines, or replay one ledger range, so that slots can be paired."
            }
            Caveat::DaemonGaps { .. } => {
                "Give the daemon its own core and a disk with free space, and run again."
            }
            Caveat::Restarts { .. } => {
                "Find out why, and run again; or look only at the time after the last restart."
            }
            Caveat::DifferentVersions { .. } => "Use one validator binary for all arms.",
            Caveat::DifferentConsensus { .. } => {
                "Run all arms on one cluster at one time, or compare memory and rates (--per-second)."
            }
            Caveat::DifferentSlotTimes { .. } => {
                "Compare rates (--per-second), or run all arms on one cluster at one time."
            }
            Caveat::ConsensusChanged { .. } => {
                "Read the time series before and after the migration apart, or record again without one."
            }
            Caveat::HitsNotComparable { .. } => {
                "Compare misses, evictions and times, or use 4.4 or later in all arms."
            }
            Caveat::UnreliableInterval { .. } => "Record longer.",
            Caveat::NotAtTip { .. } => {
                "Compare only the time at the tip, or record until every run got there."
            }
            Caveat::DifferentHardware { .. } => {
                "Use one machine for all arms, or swap the machines between arms."
            }
            Caveat::DifferentKernel { .. } => "Boot the same kernel for all arms.",
            Caveat::NotInterleaved { .. } => {
                "Alternate the arms (A B B A), or draw their order by lot."
            }
            Caveat::UnknownSeconds { .. } => {
                "Let the validator push its metrics to the daemon all the time."
            }
            Caveat::CacheSizeObserved { .. } => {
                "Check that this binary has the limit that the label says; a cache may also overshoot between two prunings."
            }
        }
    }
}

/// The first pair of arms of which one was over before the other began. `runs` has (begin on any
/// clock, arm). Two arms with a single run each are left out: see [`Caveat::OneRunPerArm`].
pub fn not_interleaved(runs: &[(f64, &str)]) -> Option<Caveat> {
    let mut arms: Vec<(&str, f64, f64, usize)> = Vec::new();
    for (at, arm) in runs {
        match arms.iter_mut().find(|(name, ..)| name == arm) {
            Some((_, first, last, n)) => {
                (*first, *last, *n) = (first.min(*at), last.max(*at), *n + 1)
            }
            None => arms.push((arm, *at, *at, 1)),
        }
    }
    arms.sort_by(|a, b| a.1.total_cmp(&b.1));
    let apart =
        |pair: &&[(&str, f64, f64, usize)]| pair[0].2 < pair[1].1 && pair[0].3 > 1 && pair[1].3 > 1;
    let pair = arms.windows(2).find(apart)?;
    Some(Caveat::NotInterleaved {
        first: pair[0].0.to_owned(),
        then: pair[1].0.to_owned(),
    })
}

/// Whether `hits` of this version (`2.1.14`, `4.0.0-beta.1`) are counted as before 4.4; `None` if
/// it is no version.
pub fn counts_hits_as_before_4_4(version: &str) -> Option<bool> {
    let mut parts = version.trim_start_matches('v').split(['.', '-', ' ']);
    let major: u32 = parts.next()?.parse().ok()?;
    let minor: u32 = parts.next()?.parse().ok()?;
    Some((major, minor) < (4, 4))
}

fn load(lowest: Option<f64>, highest: Option<f64>) -> String {
    let mut text = String::from(
        "The runs did not process the same slots, so the network's load differs between them",
    );
    if let (Some(lowest), Some(highest)) = (lowest, highest) {
        text.push_str(&format!(
            ": {} to {} transactions per second",
            grouped(lowest),
            grouped(highest)
        ));
    }
    text.push('.');
    text
}

fn at_tip(run: &str, at_tip: Option<f64>, seconds: f64) -> String {
    match at_tip {
        None => format!("{run}: it is not known whether it was at the tip."),
        Some(at_tip) if at_tip <= 0.0 => format!("{run}: it never got to the tip."),
        Some(at_tip) => format!(
            "{run}: at the tip for {} of {}.",
            long(at_tip),
            long(seconds)
        ),
    }
}

pub fn unreliable(why: Reliability) -> String {
    match why {
        Reliability::Reliable => "the interval is reliable".to_owned(),
        Reliability::TooShort { n_eff } => format!(
            "the run is worth only {n_eff:.0} independent values, so the interval covers less often than it says"
        ),
        Reliability::TooRare => {
            "it happened in too few stretches of the run for an interval that can be trusted".to_owned()
        }
        Reliability::Drifts => {
            "the series drifts, or is correlated for longer than the run can show, so the interval is too narrow"
                .to_owned()
        }
        Reliability::Constant => "every value is the same, so there is nothing to make an interval from".to_owned(),
    }
}

fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut grouped = String::with_capacity(digits.len() * 4 / 3 + 1);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0
            && digit.is_ascii_digit()
            && (digits.len() - index).is_multiple_of(3)
            && !grouped.ends_with('-')
        {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

fn times(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

fn long(seconds: f64) -> String {
    match seconds {
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}
