//! Changes of a node that are not faults: the samples of its series in Prometheus before and after
//! them.

use crate::{
    faults::{self, Fault},
    recording::HOUR,
};

/// Shorter than the range of every `last_over_time` in the rules.
const GAP_SECONDS: f64 = 90.0;
/// Time from a restart of Prometheus or of the daemon to the next scrape.
const RESTART_SECONDS: f64 = 45.0;
/// Seconds from a validator's end to its start, to `catching_up`, and to the tip.
const STARTS: f64 = 45.0;
const CATCHES_UP: f64 = 600.0;
const AT_TIP: f64 = 900.0;
/// Seconds for which the daemon repeats a response about votes.
const ANSWERS_LIVE: f64 = 180.0;
/// Series that are absent while there is no process.
const OF_PROCESS: [&str; 11] = [
    "agave_accounts_storages",
    "agave_healthy",
    "agave_memory_effective_limit_bytes",
    "agave_memory_level_limit_bytes",
    "agave_memory_level_unreclaimable_bytes",
    "agave_memory_unreclaimable_bytes",
    "agave_process_max_fds",
    "agave_process_open_fds",
    "agave_process_start_time_seconds",
    "agave_process_swap_bytes",
    "agave_target_info",
];
/// If these series end, a page alert is right. So they do not end.
const NEVER_END: [&str; 2] = ["up", "agave_up"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// A label of the target changes its value.
    Label,
    /// A second target with the same job and instance begins or ends.
    SecondTarget,
    /// A pair of Prometheus servers with a label `replica` becomes one server without it, or the
    /// reverse.
    Replica,
    DaemonRestart,
    ValidatorRestart,
    /// No node is scraped.
    PrometheusRestart,
    /// The node is not scraped.
    Gap,
    /// Two thirds of the balance go to another account, and return hours later.
    Transfer,
    /// Files of some GiB are written at once, and removed hours later.
    File,
    /// The scrape interval is a minute instead of 15 seconds.
    SlowScrape,
    /// The new version of the daemon lacks one metric.
    Upgrade,
}

pub const ALL: [Change; 11] = [
    Change::Label,
    Change::SecondTarget,
    Change::Replica,
    Change::DaemonRestart,
    Change::ValidatorRestart,
    Change::PrometheusRestart,
    Change::Gap,
    Change::Transfer,
    Change::File,
    Change::SlowScrape,
    Change::Upgrade,
];

impl Change {
    /// Times of the change in a day. They are soon after faults begin, so that they are in the
    /// windows of the faults' alerts.
    pub fn moments(self, from: i64) -> Vec<i64> {
        let shortest = match self {
            Self::DaemonRestart => HOUR / 2,
            Self::ValidatorRestart => 4 * HOUR,
            _ => 0,
        };
        let mut begins: Vec<i64> = match self {
            Self::Transfer | Self::File => vec![from + 6 * HOUR, from + 9 * HOUR],
            Self::SlowScrape => vec![from],
            Self::Upgrade => (1..72).map(|third| from + third * HOUR / 3).collect(),
            _ => faults::all()
                .map(|fault: &Fault| from + (fault.at * HOUR as f64) as i64 + 60_000)
                .collect(),
        };
        begins.sort_unstable();
        let mut last = i64::MIN / 2;
        begins.retain(|begin| {
            let kept = begin - last > shortest;
            if kept {
                last = *begin;
            }
            kept
        });
        begins
    }

    /// True if a node with a fault must have its alerts in spite of the change.
    pub fn leaves_faults(self) -> bool {
        !matches!(self, Self::ValidatorRestart | Self::Upgrade)
    }

    /// Times in which rules are not evaluated, in milliseconds.
    pub fn pauses(self, from: i64) -> Vec<[i64; 2]> {
        if self != Self::PrometheusRestart {
            return Vec::new();
        }
        let pause = |begin| [begin, begin + (RESTART_SECONDS * 1e3) as i64];
        self.moments(from).into_iter().map(pause).collect()
    }
}

/// One series of a node, whose samples are passed one by one.
pub struct Stream<'a> {
    pub change: Change,
    pub moments: &'a [i64],
    /// Names of all metrics.
    pub names: &'a [String],
    pub name: &'a str,
    pub labels: &'a str,
    happened: usize,
    last: f64,
    /// The value before the last change.
    base: f64,
    count: usize,
}

/// Labels and value.
type Sample = (String, f64);

impl<'a> Stream<'a> {
    pub fn new(
        (change, moments): (Change, &'a [i64]),
        names: &'a [String],
        (name, labels): (&'a str, &'a str),
    ) -> Self {
        Stream {
            change,
            moments,
            names,
            name,
            labels,
            happened: 0,
            last: 0.0,
            base: 0.0,
            count: 0,
        }
    }

    /// The samples in Prometheus for a recorded value. `is_faulty`: a fault has changed the value.
    pub fn samples(&mut self, at: i64, value: f64, is_faulty: bool) -> Vec<Sample> {
        let happened = self.moments.partition_point(|moment| *moment <= at);
        if happened > self.happened {
            (self.happened, self.base) = (happened, self.last);
        }
        (self.last, self.count) = (value, self.count + 1);
        let since = happened
            .checked_sub(1)
            .map_or(f64::INFINITY, |last| (at - self.moments[last]) as f64 / 1e3);
        let value = match self.change {
            Change::Label | Change::SecondTarget | Change::Replica => return self.labelled(value),
            Change::PrometheusRestart => Some(value).filter(|_| since >= RESTART_SECONDS),
            Change::Gap if since < GAP_SECONDS => self.of_failed_scrape(),
            Change::DaemonRestart => self.of_new_daemon(value, since),
            Change::ValidatorRestart => self.of_new_validator(value, since),
            Change::Transfer | Change::File if !is_faulty => Some(self.after_step(value, since)),
            Change::SlowScrape if self.count % 4 != 1 => None,
            Change::Upgrade if self.is_ended() => None,
            _ => Some(value),
        };
        value
            .map(|value| (self.labels_of_version(), value))
            .into_iter()
            .collect()
    }

    /// The labels of the validator's version, which changes with each restart.
    fn labels_of_version(&self) -> String {
        if self.change == Change::ValidatorRestart && self.happened % 2 == 1 {
            self.labels
                .replace("version=\"2.1.14\"", "version=\"2.1.15\"")
        } else {
            self.labels.to_owned()
        }
    }

    fn labelled(&self, value: f64) -> Vec<Sample> {
        let is_odd = self.happened % 2 == 1;
        let more: &[&str] = match (self.change, is_odd) {
            (Change::Label, false) => &[",hardware=\"a\""],
            (Change::Label, true) => &[",hardware=\"b\""],
            (Change::SecondTarget, true) => &[",hardware=\"a\"", ",hardware=\"b\""],
            (Change::SecondTarget, false) => &[",hardware=\"a\""],
            (_, true) => &[",replica=\"a\"", ",replica=\"b\""],
            (_, false) => &[""],
        };
        more.iter()
            .map(|more| (format!("{}{more}", self.labels), value))
            .collect()
    }

    fn of_failed_scrape(&self) -> Option<f64> {
        (self.name == "up").then_some(0.0)
    }

    fn of_new_daemon(&self, value: f64, since: f64) -> Option<f64> {
        if since < RESTART_SECONDS {
            return self.of_failed_scrape();
        }
        let is_count = ["_total", "_count", "_sum", "_bucket"]
            .iter()
            .any(|end| self.name.ends_with(end));
        let is_summed = [
            "faultline_",
            "process_",
            "agave_program_cache_",
            "agave_replay_",
            "agave_transactions_",
            "agave_process_restarts_",
            "agave_process_ends_",
        ]
        .iter()
        .any(|begin| self.name.starts_with(begin));
        Some(match self.happened.checked_sub(1) {
            Some(last) if self.name == "process_start_time_seconds" => {
                self.moments[last] as f64 / 1e3 + RESTART_SECONDS - 5.0
            }
            Some(_) if is_count && is_summed => value - self.base,
            _ => value,
        })
    }

    /// The value after a planned restart of a validator whose next leader slot is hours away.
    fn of_new_validator(&self, value: f64, since: f64) -> Option<f64> {
        let is_gone = since < STARTS;
        if is_gone && OF_PROCESS.contains(&self.name) {
            return None;
        }
        let phase = match since {
            since if since < STARTS => "gone",
            since if since < CATCHES_UP => "initializing",
            since if since < AT_TIP => "catching_up",
            _ => "at_tip",
        };
        let is_up = phase == "at_tip";
        match self.name {
            "agave_up" => Some(f64::from(u8::from(!is_gone))),
            "agave_phase" => {
                let is_it = self.labels.contains(&format!("phase=\"{phase}\""));
                Some(f64::from(u8::from(is_it)))
            }
            "agave_delinquent" | "agave_vote_distance_slots" if since < ANSWERS_LIVE => Some(value),
            // From the node's own responses. The node does not respond while it starts.
            "agave_delinquent" | "agave_vote_distance_slots" if since < CATCHES_UP => None,
            "agave_delinquent" => Some(f64::from(u8::from(!is_up))),
            "agave_vote_distance_slots" if !is_up => Some(since * 2.5),
            "agave_slots_behind" if since < CATCHES_UP => None,
            "agave_slots_behind" if !is_up => Some((AT_TIP - since) * 3.0),
            "agave_next_leader_slot_seconds" => is_up.then_some(20_000.0),
            "agave_process_start_time_seconds" if self.happened > 0 => {
                Some(self.moments[self.happened - 1] as f64 / 1e3 + STARTS - 1.0)
            }
            "agave_process_page_faults_total" if self.happened > 0 => Some(value - self.base),
            "agave_process_restarts_total" | "agave_process_ends_total"
                if self.labels.contains("reason=\"exit\"") =>
            {
                Some(value + self.happened as f64)
            }
            "agave_healthy" => Some(f64::from(u8::from(is_up))),
            "faultline_source_up" if !is_up && self.labels.contains("source=\"datapoints\"") => {
                Some(0.0)
            }
            _ => Some(value),
        }
    }

    fn after_step(&self, value: f64, since: f64) -> f64 {
        let is_identity = self.labels.contains("account=\"identity\"");
        match (self.change, self.name) {
            _ if self.happened.is_multiple_of(2) => value,
            (Change::Transfer, "agave_balance_sol") if is_identity => value - self.base * 2.0 / 3.0,
            (Change::File, "agave_filesystem_avail_bytes") => value - 3.0 * 1024_f64.powi(3),
            // The daemon's forecast from the growth of the last minutes.
            (Change::File, "agave_filesystem_until_full_seconds") if since < 1_200.0 => 9_000.0,
            _ => value,
        }
    }

    fn is_ended(&self) -> bool {
        let ended = self
            .happened
            .checked_sub(1)
            .and_then(|last| self.names.get(last % self.names.len()));
        ended.is_some_and(|ended| ended == self.name) && !NEVER_END.contains(&self.name)
    }
}
