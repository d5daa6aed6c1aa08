//! What a search keeps beside its run.

use super::system::Observer;
use crate::plan::{Plan, Search};
use crate::search::{Answer, Machine, Reading};
use anyhow::Context;
use faultline_isolation::{Evidence, Launched};
use std::time::Duration;

/// From look to look of a search.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Slots behind the tip up to which a daemon calls a validator near it, unless its configuration says another number.
const AT_TIP: u64 = 32;
/// What fails may fail for so long before it ends a run of hours: systemd that is started again does not answer for a while.
const PATIENCE: Duration = Duration::from_secs(30);
/// The kernel cuts limits down to whole pages, which have at most so many bytes.
const PAGE: u64 = 64 << 10;

/// Since when the system has failed to do what it was asked for; `None` if it did it the last time.
#[derive(Debug, Default)]
pub(super) struct RpcError(Option<Duration>);

impl RpcError {
    /// What came of it; `None` if it failed, and not for long yet.
    ///
    /// # Errors
    /// It has failed for too long.
    pub(super) fn bear<T>(
        &mut self,
        now: Duration,
        came: anyhow::Result<T>,
    ) -> anyhow::Result<Option<T>> {
        match came {
            Ok(came) => {
                self.0 = None;
                Ok(Some(came))
            }
            Err(error) => {
                let lasted = now.saturating_sub(*self.0.get_or_insert(now));
                let message = || format!("this has failed for {}", faultline_text::time(lasted));
                if lasted < PATIENCE {
                    Ok(None)
                } else {
                    Err(error.context(message()))
                }
            }
        }
    }
}

/// A search that is going on.
pub(super) struct Searching {
    pub(super) machine: Machine,
    pub(super) observer: Box<dyn Observer>,
    /// What it came to, once it is over.
    pub(super) answer: Option<Answer>,
    /// How often its group was out of memory so far.
    out_of_memory: u64,
    /// The limit that could not be moved when it was to be.
    owed: Option<Option<u64>>,
    error: RpcError,
}

impl Searching {
    /// Limits are `hard` if a write into a full group fails.
    pub(super) fn begin(
        plan: &Plan,
        rules: Search,
        hard: bool,
        observer: Box<dyn Observer>,
    ) -> anyhow::Result<Self> {
        let machine = Machine::new(rules, at_tip(plan), hard)
            .context("[search] cannot be searched by these rules")?;
        Ok(Searching {
            machine,
            observer,
            answer: None,
            out_of_memory: 0,
            owed: None,
            error: RpcError::default(),
        })
    }

    /// What is known at this moment, and the evidence behind it. Nothing is known while its limit is not where it
    /// was to be: a dwell shows nothing then.
    ///
    /// # Errors
    /// That has lasted for too long.
    pub(super) fn read(
        &mut self,
        now: Duration,
        launched: &mut dyn Launched,
    ) -> anyhow::Result<(Reading, Evidence)> {
        let owed = self.owed.map_or(Ok(()), |bytes| relimit(launched, bytes));
        let moved = owed.is_ok();
        let sampled_evidence = owed.and_then(|()| Ok(launched.evidence()?));
        if moved {
            self.owed = None;
        }
        let Some(evidence) = self.error.bear(now, sampled_evidence)? else {
            // Who holds the group need not answer for its files and the recording to be read.
            let seen = moved.then(|| self.observer.read(now));
            return Ok((
                seen.unwrap_or(Reading {
                    at: now,
                    ..Reading::default()
                }),
                Evidence::default(),
            ));
        };
        let out_of_memory = self.is_out_of_memory(&evidence);
        Ok((
            Reading {
                out_of_memory,
                ..self.observer.read(now)
            },
            evidence,
        ))
    }

    /// Moves the limit, or tries again with the next look.
    pub(super) fn relimit(&mut self, launched: &mut dyn Launched, bytes: Option<u64>) {
        self.owed = relimit(launched, bytes).err().map(|_| bytes);
    }

    /// Whether its group waits because it is full, or was out of memory since the last look.
    fn is_out_of_memory(&mut self, evidence: &Evidence) -> bool {
        let count = |name: &str| evidence.memory_events.get(name).copied().unwrap_or(0);
        let now = count("oom").saturating_add(count("oom_kill"));
        let before = std::mem::replace(&mut self.out_of_memory, now);
        count("under_oom") > 0 || now > before
    }

    /// Whether there may be a limit: while it goes on, and if the last one could not be lifted.
    pub(super) fn may_reach_limit(&self) -> bool {
        !self.is_over() || self.owed.is_some()
    }

    pub(super) fn is_over(&self) -> bool {
        self.answer.is_some()
    }
}

/// What the recorder's configuration says.
fn at_tip(plan: &Plan) -> u64 {
    let text = plan
        .recorder
        .config
        .as_ref()
        .and_then(|file| std::fs::read_to_string(file).ok());
    let read: Option<toml::Table> = text.and_then(|text| text.parse().ok());
    let slots = read.and_then(|read| read.get("phase")?.get("at_tip_slots")?.as_integer());
    slots
        .and_then(|slots| u64::try_from(slots).ok())
        .unwrap_or(AT_TIP)
}

/// Moves the limit and looks whether it holds. One that is higher than asked is no error: version 1 refuses to take what it
/// cannot reclaim, and the search asks again.
///
/// # Errors
/// The system refuses, or something else holds.
pub(super) fn relimit(launched: &mut dyn Launched, bytes: Option<u64>) -> anyhow::Result<()> {
    let applied = launched.relimit(bytes)?;
    let holds = match (bytes, applied) {
        (None, applied) => applied.is_none(),
        (Some(sampled_evidence), Some(applied)) => applied.saturating_add(PAGE) > sampled_evidence,
        (Some(_), None) => true,
    };
    let message = |limit: Option<u64>| limit.map_or("none".to_owned(), faultline_text::bytes);
    anyhow::ensure!(
        holds,
        "its limit of memory is {} and not {}",
        message(applied),
        message(bytes)
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Blind;

    impl Observer for Blind {
        fn read(&mut self, at: Duration) -> Reading {
            Reading {
                at,
                ..Reading::default()
            }
        }
    }

    #[test]
    fn a_group_that_was_out_of_memory_once_is_not_for_ever() {
        let second = Duration::from_secs(1);
        let rules = Search {
            from: 1 << 30,
            settle: second,
            dwell: second,
            width: 0.1,
            most: second,
            horizon: second,
        };
        let mut searching = Searching::begin(&plan(""), rules, false, Box::new(Blind)).unwrap();
        let mut evidence = Evidence::default();
        let mut seen = |name: &str, count: u64| {
            evidence.memory_events.insert(name.to_owned(), count);
            searching.is_out_of_memory(&evidence)
        };
        assert!(!seen("oom", 0));
        assert!(seen("oom", 1));
        assert!(!seen("oom", 1), "told once");
        assert!(seen("under_oom", 1));
        assert!(seen("under_oom", 1), "it still waits");
        assert!(!seen("under_oom", 0));
    }

    /// One whose recorder has this configuration.
    fn plan(config: &str) -> Plan {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("plan.toml");
        std::fs::write(folder.path().join("faultlined.toml"), config).unwrap();
        let text = "name = \"s\"\nfolder = \"f\"\n[workload]\ncommand = [\"v\"]\nledger = \"/l\"\n\
                    [begin]\nhow = \"download\"\n[recorder]\nconfig = \"faultlined.toml\"\n\
                    [search]\nwhat = \"memory\"\nfrom = \"1G\"\n";
        let plan = crate::plan::parse(text, &file).unwrap();
        let message = at_tip(&plan);
        assert_eq!(
            message,
            config
                .rsplit_once("= ")
                .map_or(32, |(_, slots)| slots.parse().unwrap())
        );
        plan
    }

    #[test]
    fn near_the_tip_is_what_the_recorders_configuration_says() {
        plan("[phase]\nat_tip_slots = 7");
        plan("[log]\n");
        plan("no TOML");
    }

    #[test]
    fn what_fails_for_a_moment_is_borne_and_what_fails_on_is_an_error_that_says_how_long() {
        let second = Duration::from_secs(1);
        let fails = || Err::<(), _>(anyhow::anyhow!("no answer"));
        let mut error = RpcError::default();
        assert!(error.bear(second, fails()).unwrap().is_none());
        assert!(error.bear(30 * second, fails()).unwrap().is_none());
        assert!(error.bear(30 * second, Ok(())).unwrap().is_some());
        assert!(
            error.bear(40 * second, fails()).unwrap().is_none(),
            "it counts anew"
        );
        let error = error.bear(70 * second, fails()).unwrap_err();
        assert_eq!(format!("{error:#}"), "this has failed for 30 s: no answer");
    }
}
