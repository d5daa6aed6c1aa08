//! What happens in a pretended world: a line each, times in seconds since the run began, or since the beginning of all.
//!
//! ```text
//! run 2 attempt 1: exit 1 at 30        run 2 attempt 1: signal 9 at 30       run 2 attempt 1: oom at 30
//! run 2 attempt 1: recorder at 30      (the recorder ends)                   run 2 attempt 1: silent at 30
//! run 2 attempt 1: executes at 30      (2 unless said, 0: never)             run 2 attempt 1: tip at 30
//! run 2 attempt 1: slots at 30         (no new slot from then on)            run 2 attempt 1: stubborn
//! run 2 attempt 1: limits              (they do not hold)                    run 2 attempt 1: launch
//! asked at 100                         asked twice at 100                    busy until 50
//! no room at 100                       swap                                  warm (not cold)
//! asleep 30 at 100                     (the runner, so long)
//! run 2 attempt 1: relimit at 30      (its limit of memory cannot be moved any more)
//! run 2 attempt 1: unseen 10 at 30    (its group cannot be looked at, for so long)
//! run 2 attempt 1: leaves              (others of its group, when it ends)
//! run 2 attempt 1: abandoned           (an earlier runner left its group behind)
//! run 2 attempt 1: still at 30         (no tick is recorded from then on, which is found out at the end)
//! run 2 attempt 1: unknown             (the recorder does not know its process as a validator)
//! ```

use std::collections::HashMap;

/// All that happens.
#[derive(Debug, Clone, Default)]
pub struct Script {
    runs: HashMap<(u32, u32), Vec<(String, f64)>>,
    all: Vec<(String, f64)>,
}

impl Script {
    pub fn parse(text: &str) -> Self {
        let mut script = Self::default();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let (whose, what) = line.split_once(": ").unwrap_or(("", line));
            let (what, at) = what
                .rsplit_once(" at ")
                .or_else(|| what.rsplit_once(" until "))
                .unwrap_or((what, "0"));
            let happens = (
                what.to_owned(),
                at.parse().unwrap_or_else(|_| panic!("{line}")),
            );
            let words: Vec<&str> = whose.split(' ').collect();
            match words[..] {
                ["run", run, "attempt", attempt] => {
                    let key = (run.parse().unwrap(), attempt.parse().unwrap());
                    script.runs.entry(key).or_default().push(happens);
                }
                _ => script.all.push(happens),
            }
        }
        script
    }

    /// The runs and attempts to which this happens.
    pub fn runs_with(&self, what: &str) -> Vec<(u32, u32)> {
        let runs = self.runs.keys().copied();
        runs.filter(|run| self.of(*run, what).is_some()).collect()
    }

    /// When this happens to a run, in seconds after its beginning.
    pub fn of(&self, run: (u32, u32), what: &str) -> Option<f64> {
        Some(
            self.runs
                .get(&run)?
                .iter()
                .find(|(known, _)| known == what)?
                .1,
        )
    }

    /// Whatever ends a run by itself, by its first word: the number behind it, and when.
    pub fn number(&self, run: (u32, u32), what: &str) -> Option<(i32, f64)> {
        let mut all = self.runs.get(&run)?.iter();
        all.find_map(|(known, at)| Some((known.strip_prefix(what)?.trim().parse().ok()?, *at)))
    }

    /// When the runner falls asleep and for how long, in seconds.
    pub fn asleep(&self) -> Option<(f64, f64)> {
        self.all
            .iter()
            .find_map(|(what, at)| Some((*at, what.strip_prefix("asleep ")?.parse().unwrap())))
    }

    /// When this happens to all, in seconds.
    pub fn all(&self, what: &str) -> Option<f64> {
        Some(self.all.iter().find(|(known, _)| known == what)?.1)
    }
}
