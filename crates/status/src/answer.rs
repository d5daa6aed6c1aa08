//! Three lines that an operator quotes: is the RAM enough, is the program cache large enough, what
//! does the node earn.
//!
//! A verdict uses only the thresholds of the alerts ([`crate::thresholds`]), and for a finished run
//! also the time that another cache size would save. It describes the present moment and ignores
//! the `for` duration of an alert. The text names the day on which growing memory reaches its
//! limit; the verdict ignores that day.

mod cache;
pub mod inputs;
pub mod ram;
mod rewards;

use faultline_text::duration_f64;
use serde::{Deserialize, Deserializer, Serialize};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    #[default]
    Ram,
    ProgramCache,
    Rewards,
}

impl Subject {
    pub fn title(self) -> &'static str {
        match self {
            Self::Ram => "RAM",
            Self::ProgramCache => "Program cache",
            Self::Rewards => "Earns",
        }
    }
}

/// Follows the severity of the alert with the same threshold: `page` becomes [`Act`](Verdict::Act),
/// `ticket` becomes [`Look`](Verdict::Look). The ticket AgaveCacheThrash becomes `Act` if an
/// operator can change the cache size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Fine,
    Look,
    Act,
    /// The text says why. Deserialization also maps unknown verdicts of newer releases to this.
    #[default]
    #[serde(other)]
    Unknown,
}

impl Verdict {
    pub fn word(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Fine => "fine",
            Self::Look => "look",
            Self::Act => "act",
        }
    }
}

/// One line. Its text may contain untrusted names: a web page has to escape it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Answer {
    pub subject: Subject,
    pub verdict: Verdict,
    /// The sentence after the subject.
    pub text: String,
}

impl Answer {
    /// `RAM: 412 GiB proven enough of 512 installed; 96 GiB of headroom now.`
    pub fn line(&self) -> String {
        format!("{}: {}", self.subject.title(), self.text)
    }

    fn new(subject: Subject, verdict: Verdict, clauses: Vec<String>) -> Self {
        Self {
            subject,
            verdict,
            text: clauses.join("; ") + ".",
        }
    }
}

/// `None` means not known, unless the field says otherwise. Rates are those of the last five
/// minutes, or of finished runs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AnswerInputs {
    /// Whether the inputs are from finished runs, with the smallest limit and headroom of all runs.
    pub is_finished_run: bool,
    /// Until [`Verdict::Fine`] is possible; `None` if the samples of this process are enough.
    pub seconds_to_enough_samples: Option<f64>,
    /// The same for samples since the first replayed slot.
    pub seconds_to_enough_replay: Option<f64>,
    /// Memory of the machine, in bytes.
    pub installed: Option<f64>,
    /// Limit of the level with the least headroom, in bytes; `None` if that level is the machine.
    pub limit: Option<f64>,
    pub headroom: Option<f64>,
    /// The largest unreclaimable share of a level's limit.
    pub unreclaimable_share: Option<f64>,
    /// By the growth of the last four minutes; `None` without growth or during startup.
    pub seconds_to_limit_at_present_pace: Option<f64>,
    /// The later of two forecasts, by the growth of half an hour and of ten minutes.
    pub seconds_to_limit_by_half_hour_fit: Option<f64>,
    pub forecast: Option<LimitForecast>,
    /// OOM kills in the last 15 minutes.
    pub oom_kills: Option<f64>,
    /// An OOM kill ended a finished run.
    pub was_oom_killed: bool,
    /// Bytes of the process or of its cgroup, whichever has more.
    pub swap: Option<f64>,
    /// Share of the time in which a task waited for memory.
    pub memory_stalled_share: Option<f64>,
    /// `None` while the validator starts and for five minutes after.
    pub major_faults_per_second: Option<f64>,
    /// RAM that was enough in a search or in the finished runs.
    pub proven_bytes: Option<f64>,
    /// Release and day of the measurement; `None` if that release runs.
    pub proven_on: Option<String>,
    pub why_headroom_unknown: Option<String>,
    /// Why the file of `status.evidence` cannot be used.
    pub evidence_file_problem: Option<String>,

    pub reloads_per_slot: Option<f64>,
    /// Lookups and compilation, summed over threads.
    pub cache_seconds_per_slot: Option<f64>,
    pub replay_seconds_per_slot: Option<f64>,
    /// Entries.
    pub cache_capacity: Option<f64>,
    /// Whether the build's capacity was changed, so the operator can change it again.
    pub can_change_capacity: Option<bool>,
    pub prediction: Option<CachePrediction>,
    /// Why evidence of the program cache has no prediction for this capacity.
    pub prediction_problem: Option<String>,
    pub why_reloads_unknown: Option<String>,

    pub consensus: Option<Consensus>,
    /// In the last 15 minutes.
    pub has_migrated_lately: bool,
    pub is_at_tip: Option<bool>,
    /// It catches up, and its start was less than 90 minutes ago.
    pub is_catching_up: Option<bool>,
    /// False if the vote source searched all accounts and found none of this node.
    pub has_vote_account: Option<bool>,
    /// Another node votes with the account.
    pub is_standby: Option<bool>,
    pub has_active_stake: Option<bool>,
    pub is_delinquent: Option<bool>,
    /// By Tower credits.
    pub rank: Option<f64>,
    pub credits_share_of_best: Option<f64>,
    /// Alpenglow's lamports per stake over those of the best validator.
    pub reward_share_of_best: Option<f64>,
    /// With Tower.
    pub slots_since_landed_vote: Option<f64>,
    /// Alpenglow: slots from the cluster's newest certificate to the newest one with a vote of this
    /// node.
    pub slots_since_certified_vote: Option<f64>,
    /// The smallest value of the last 15 minutes. Used where `late_votes_share` is absent.
    pub fewest_slots_since_certified_vote: Option<f64>,
    /// Alpenglow: share of the slots finalized in half an hour whose vote was sent too late.
    pub late_votes_share: Option<f64>,
    /// Whether the vote account would pass the admission check for the epoch after next.
    pub is_admitted: Option<bool>,
    /// SOL that the admission ticket lacks.
    pub admission_shortfall: Option<f64>,
    /// SOL of the identity.
    pub identity_balance: Option<f64>,
    pub leader_slots: Option<RecentLeaderSlots>,
    pub why_voting_unknown: Option<String>,
}

/// When unreclaimable memory reaches the limit, in seconds since 1970, with an interval of 95 %.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LimitForecast {
    pub expected: f64,
    pub earliest: f64,
    /// `None` if the growth so far sets no upper bound.
    pub latest: Option<f64>,
}

/// The size that the evidence predicts to be enough.
#[derive(Debug, Clone, PartialEq)]
pub struct CachePrediction {
    pub entries: f64,
    /// Saved per slot; not positive if no larger predicted size saves 1 % of the replay time.
    pub saved_seconds: f64,
    /// Release and day of the measurement; `None` if this release is the running one.
    pub measured_on: Option<String>,
}

/// This node's leader slots in the last three hours.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RecentLeaderSlots {
    pub passed: f64,
    /// Part of `passed`.
    pub skipped: f64,
    /// Skipped share of the whole cluster.
    pub cluster_skipped_share: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Consensus {
    Tower,
    Migrating,
    Alpenglow,
}

impl Consensus {
    pub fn of_label(protocol: &str) -> Option<Self> {
        Some(match protocol {
            "tower" => Self::Tower,
            "migrating" => Self::Migrating,
            "alpenglow" => Self::Alpenglow,
            _ => return None,
        })
    }
}

/// In the order of [`Subject`].
pub fn answers(inputs: &AnswerInputs) -> [Answer; 3] {
    [
        ram::answer(inputs),
        cache::answer(inputs),
        rewards::answer(inputs),
    ]
}

/// Skips answers of a newer release.
pub fn deserialize_known<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<Answer>, D::Error> {
    let values = Vec::<serde_json::Value>::deserialize(deserializer)?;
    let answers = values.into_iter().map(serde_json::from_value);
    Ok(answers.filter_map(Result::ok).collect())
}

/// What an alert would say now.
struct Finding {
    verdict: Verdict,
    text: String,
}

impl Finding {
    fn page(text: impl Into<String>) -> Self {
        Self {
            verdict: Verdict::Act,
            text: text.into(),
        }
    }

    fn ticket(text: impl Into<String>) -> Self {
        Self {
            verdict: Verdict::Look,
            text: text.into(),
        }
    }
}

fn worst(findings: Vec<Finding>) -> (Verdict, Vec<String>) {
    let verdicts = findings.iter().map(|finding| finding.verdict);
    let worst = verdicts.max().unwrap_or(Verdict::Fine);
    let findings = findings.into_iter();
    let texts = findings.filter(|finding| finding.verdict == worst);
    (worst, texts.map(|finding| finding.text).collect())
}

fn too_early_text(verdict: Verdict, seconds_left: Option<f64>, samples: &str) -> Option<String> {
    let seconds_left = seconds_left.filter(|_| verdict == Verdict::Fine)?;
    let seconds_left = duration_f64(seconds_left.ceil());
    Some(format!(
        "to be judged in {seconds_left}, after a minute of {samples}"
    ))
}

fn missing_evidence_text(inputs: &AnswerInputs, how_to_measure: &str) -> String {
    let problem = inputs.evidence_file_problem.as_deref();
    problem.map_or(how_to_measure.to_owned(), |why| {
        format!("no evidence is used: {why}")
    })
}

/// `` (measured on 4.0.1, 2026-11-27)``; empty for the running release.
fn measured_on(release_and_day: Option<&str>) -> String {
    release_and_day.map_or_else(String::new, |words| format!(" (measured on {words})"))
}

#[cfg(test)]
mod tests;
