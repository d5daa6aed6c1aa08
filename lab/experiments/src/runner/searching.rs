use super::system::Observer;
use crate::plan::{Plan, Search};
use crate::search::{Answer, Machine, Reading};
use anyhow::Context;
use faultline_isolation::{Evidence, Launched};
use std::time::Duration;

pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// The daemon's default distance in slots up to which a validator is near the tip.
const AT_TIP: u64 = 32;
/// A restarting systemd does not answer for a while.
const PATIENCE: Duration = Duration::from_secs(30);
/// Maximum page size: the kernel rounds limits down to pages.
const PAGE: u64 = 64 << 10;

/// Since when operations have failed; `None` if the last one succeeded.
#[derive(Debug, Default)]
pub(super) struct FailureTimer(Option<Duration>);

impl FailureTimer {
    /// `None` for a recent failure. Fails if errors last too long.
    pub(super) fn tolerate<T>(
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

pub(super) struct Searching {
    pub(super) machine: Machine,
    pub(super) observer: Box<dyn Observer>,
    pub(super) answer: Option<Answer>,
    /// OOM events so far.
    out_of_memory: u64,
    /// A limit change that failed.
    pending_limit: Option<Option<u64>>,
    error: FailureTimer,
}

impl Searching {
    /// Whether a write into a full cgroup fails.
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
            pending_limit: None,
            error: FailureTimer::default(),
        })
    }

    /// The reading is empty while the limit is not as requested: a dwell then shows nothing.
    pub(super) fn read(
        &mut self,
        now: Duration,
        launched: &mut dyn Launched,
    ) -> anyhow::Result<(Reading, Evidence)> {
        let pending_limit = self
            .pending_limit
            .map_or(Ok(()), |bytes| relimit(launched, bytes));
        let moved = pending_limit.is_ok();
        let sampled_evidence = pending_limit.and_then(|()| launched.evidence());
        if moved {
            self.pending_limit = None;
        }
        let Some(evidence) = self.error.tolerate(now, sampled_evidence)? else {
            // If the launcher does not answer, files and recording are still readable.
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

    /// The next poll retries a failure.
    pub(super) fn relimit(&mut self, launched: &mut dyn Launched, bytes: Option<u64>) {
        self.pending_limit = relimit(launched, bytes).err().map(|_| bytes);
    }

    /// It waits because it is full, or had an OOM event since the last poll.
    fn is_out_of_memory(&mut self, evidence: &Evidence) -> bool {
        let count = |name: &str| evidence.memory_events.get(name).copied().unwrap_or(0);
        let now = count("oom").saturating_add(count("oom_kill"));
        let before = std::mem::replace(&mut self.out_of_memory, now);
        count("under_oom") > 0 || now > before
    }

    /// Whether a limit may be in effect: during the search, and if the last one could not be
    /// lifted.
    pub(super) fn may_reach_limit(&self) -> bool {
        !self.is_over() || self.pending_limit.is_some()
    }

    pub(super) fn is_over(&self) -> bool {
        self.answer.is_some()
    }
}

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

/// Changes the limit and verifies it. A higher limit is no error: cgroup v1 refuses to go below
/// unreclaimable memory, and the search asks again.
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
        let mut error = FailureTimer::default();
        assert!(error.tolerate(second, fails()).unwrap().is_none());
        assert!(error.tolerate(30 * second, fails()).unwrap().is_none());
        assert!(error.tolerate(30 * second, Ok(())).unwrap().is_some());
        assert!(
            error.tolerate(40 * second, fails()).unwrap().is_none(),
            "it counts anew"
        );
        let error = error.tolerate(70 * second, fails()).unwrap_err();
        assert_eq!(format!("{error:#}"), "this has failed for 30 s: no answer");
    }
}
