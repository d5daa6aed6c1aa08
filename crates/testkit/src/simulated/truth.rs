//! Settings of a simulated validator.

use crate::{Error, Result};
use faultline_mock_validator::Protocol;
use std::path::Path;

/// A setting, read from its text.
trait Value: Sized {
    fn read(text: &str) -> Option<Self>;
}

impl Value for u64 {
    fn read(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

impl Value for bool {
    fn read(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

impl Value for Option<u64> {
    fn read(text: &str) -> Option<Self> {
        text.parse().ok().map(Some)
    }
}

macro_rules! truth {
    ($($(#[$doc:meta])* $name:ident: $kind:ty = $default:expr;)*) => {
        /// How a simulated validator behaves. Its text has a `key = value` per line or between commas; `#` begins a
        /// comment.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct Truth {
            $($(#[$doc])* pub $name: $kind,)*
        }

        impl Default for Truth {
            fn default() -> Self {
                Truth { $($name: $default,)* }
            }
        }

        impl Truth {
            fn set(&mut self, key: &str, text: &str) -> Option<()> {
                match key {
                    $(stringify!($name) => self.$name = Value::read(text)?,)*
                    _ => return None,
                }
                Some(())
            }
        }
    };
}

truth! {
    /// Of the cluster.
    slots_per_second: u64 = 25;
    /// Whether it runs Alpenglow as release 4.4.0, instead of Tower as 2.1.14.
    alpenglow: bool = false;
    /// Time from the start of the process until its services run.
    start_ms: u64 = 300;
    /// Interval of pushes.
    push_ms: u64 = 500;
    /// Whether it replays slots; otherwise it reports forever that it processes its ledger.
    executes: bool = true;
    /// Slots behind the tip when replay begins.
    behind_at_start: u64 = 0;
    /// Speed of replay until the tip, in percent of the cluster's speed; at 100 it never reaches the tip.
    catch_up_percent: u64 = 400;

    /// Anonymous memory that it allocates, in addition to some MiB of the program.
    anonymous_mib: u64 = 8;
    /// Duration of that allocation, at a constant rate.
    anonymous_ms: u64 = 1000;
    /// Size of a file that it reads repeatedly; its services run after the first time.
    file_mib: u64 = 0;
    /// Speed of reading after the first time.
    file_mib_per_second: u64 = 64;
    /// Share of that file that replay needs; it falls behind if that part does not stay in memory. 0: none.
    working_set_percent: u64 = 0;
    /// Random pages of that part that each slot reads.
    pages_per_slot: u64 = 300;
    /// Virtual time of a slot if all its pages are in memory.
    slot_us: u64 = 40_000;
    /// Additional virtual time for each page that is not.
    miss_us: u64 = 4000;
    /// Replay takes virtual time: its thread has a name that is not checked for waits for a CPU.
    replays_unseen: bool = false;
    /// Growth of anonymous memory once its services run.
    leak_mib_per_minute: u64 = 0;
    /// With a smaller memory limit it falls behind.
    keeps_up_from_mib: u64 = 0;
    /// Time from the start of its services until it then falls behind.
    squeezed_after_ms: u64 = 3000;
    /// Speed of replay from then on, in percent of the cluster's speed.
    squeezed_percent: u64 = 10;

    /// Validators with stake, including this one. 0: it has no stake, as experiments require.
    voters: u64 = 0;

    /// Number of programs that transactions call.
    programs: u64 = 640;
    /// Calls in each slot.
    calls_per_slot: u64 = 16;
    /// Programs called for the first time in each slot, until all were called.
    first_calls_per_slot: u64 = 40;
    /// Time to find a program in the cache.
    lookup_us: u64 = 5;
    /// Time to load an evicted program again.
    load_us: u64 = 300;
    /// Time to load a program for the first time.
    first_load_us: u64 = 300;
    /// Ignores the variable of the cache's capacity, as a stock binary does.
    ignores_cache_switch: bool = false;

    /// Additional idle threads, 9 per pool.
    threads: u64 = 0;
    /// Share of these that wake once a second; the others never run.
    waking_percent: u64 = 0;

    /// All times are longer by this share: an effect of the tested setting.
    slower_permille: u64 = 0;
    /// All times are also longer by this share: an effect of the place where it runs.
    place_slower_permille: u64 = 0;
    /// Times of a slot vary by up to this share in both directions.
    noise_permille: u64 = 0;
    /// Seed of that variation.
    noise_seed: u64 = 0;

    /// Time from the start of its services until it exits by itself.
    exits_after_ms: Option<u64> = None;
    /// Exit code of that end.
    exit_code: u64 = 1;
    /// Time from the start of its services until replay stops.
    hangs_after_ms: Option<u64> = None;
    /// How long replay stops; forever without it.
    hangs_for_ms: Option<u64> = None;
    /// Ignores SIGTERM.
    ignores_term: bool = false;
    /// Starts a child process in another session and does not end it; `child.pid` in the ledger has its pid.
    forks: bool = false;
}

impl Truth {
    pub(super) fn consensus(&self) -> Protocol {
        if self.alpenglow {
            Protocol::Alpenglow
        } else {
            Protocol::Tower
        }
    }

    /// Sets the fields that a text names.
    ///
    /// # Errors
    /// [`Error::Malformed`] with the first part that is no `key = value` of a known key.
    pub fn read(&mut self, text: &str) -> Result<()> {
        let lines = text
            .lines()
            .map(|line| line.split('#').next().unwrap_or_default());
        for word in lines
            .flat_map(|line| line.split(','))
            .map(str::trim)
            .filter(|word| !word.is_empty())
        {
            let known = word
                .split_once('=')
                .and_then(|(key, value)| self.set(key.trim(), value.trim()));
            known
                .ok_or_else(|| Error::malformed("not a setting of a simulated validator", word))?;
        }
        Ok(())
    }

    /// Sets the fields that a file names.
    ///
    /// # Errors
    /// As [`Truth::read`], and [`Error::File`].
    pub fn read_file(&mut self, path: &Path) -> Result<()> {
        self.read(&std::fs::read_to_string(path).map_err(Error::file(path))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_truth_text_changes_only_the_fields_it_names() {
        let mut truth = Truth::default();
        truth
            .read("# how it is\nprograms = 7, executes=false\nexits_after_ms = 20 # soon\n\n")
            .unwrap();
        let expected = Truth {
            programs: 7,
            executes: false,
            exits_after_ms: Some(20),
            ..Truth::default()
        };
        assert_eq!(truth, expected);
    }

    #[test]
    fn an_unknown_truth_entry_is_refused_and_quoted() {
        for (text, words) in [
            ("a = 1", "a = 1"),
            ("programs = -1", "programs = -1"),
            ("x", "x"),
        ] {
            let error = Truth::default().read(text).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
