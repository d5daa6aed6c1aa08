//! What is true of a simulated validator.

use crate::{Error, Result};
use faultline_mock_validator::Consensus;
use std::path::Path;

/// A value of a truth, read from its text.
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
        /// What is true of a simulated validator: written as `key = value`, one a line or separated by commas; `#` begins
        /// a comment.
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
    /// Slots of the cluster.
    slots_per_second: u64 = 25;
    /// Whether it runs Alpenglow, as a 4.4.0, and not Tower, as a 2.1.14.
    alpenglow: bool = false;
    /// From the start of the process until its services run.
    start_ms: u64 = 300;
    /// From push to push.
    push_ms: u64 = 500;
    /// Whether it ever executes anything; if not it says for ever that it processes its ledger.
    executes: bool = true;
    /// Slots behind the tip when it begins.
    behind_at_start: u64 = 0;
    /// How fast it replays until it is at the tip, in percent of the cluster's speed; at 100 it never gets there.
    catch_up_percent: u64 = 400;

    /// Anonymous memory that it needs, beside some MiB of its own.
    anonymous_mib: u64 = 8;
    /// How long it takes to get there, steadily.
    anonymous_ms: u64 = 1000;
    /// A file that it reads round and round; its services run once it was read to its end.
    file_mib: u64 = 0;
    /// How fast, from then on.
    file_mib_per_second: u64 = 64;
    /// It needs so many percent of that file to replay, and falls behind if they do not stay in memory; 0: no page of it.
    working_set_percent: u64 = 0;
    /// Pages of them that each slot needs, at random.
    pages_per_slot: u64 = 300;
    /// What a slot costs if all of them are in memory, in virtual time.
    slot_us: u64 = 40_000;
    /// What each of them costs that is not.
    miss_us: u64 = 4000;
    /// Its replay is in virtual time, so its thread has a name by which nobody looks whether it waits for a CPU.
    replays_unseen: bool = false;
    /// Anonymous memory that it needs more every minute, once its services run.
    leak_mib_per_minute: u64 = 0;
    /// With a smaller memory limit it falls behind.
    keeps_up_from_mib: u64 = 0;
    /// When it begins to fall behind, after its services run.
    squeezed_after_ms: u64 = 3000;
    /// How fast it replays from then on, in percent of the cluster's speed.
    squeezed_percent: u64 = 10;

    /// Validators with stake, of which it is one; 0: it has none, as experiments demand.
    voters: u64 = 0;

    /// Programs that are called.
    programs: u64 = 640;
    /// Calls in each slot.
    calls_per_slot: u64 = 16;
    /// Programs called for the first time in each slot, until all have been.
    first_calls_per_slot: u64 = 40;
    /// Time to find a program in the cache.
    lookup_us: u64 = 5;
    /// Time to load a program again that had been evicted.
    load_us: u64 = 300;
    /// Time to load a program for the first time.
    first_load_us: u64 = 300;
    /// As a stock binary: the variable changes nothing.
    ignores_cache_switch: bool = false;

    /// Idle threads beside its own, 9 to a pool.
    threads: u64 = 0;
    /// So many of a hundred of these wake once a second; the others never run.
    waking_percent: u64 = 0;

    /// All times are longer by this share.
    slower_permille: u64 = 0;
    /// And by this one: of the place where it runs, where the other is of what is tried.
    place_slower_permille: u64 = 0;
    /// Times vary by up to this share upwards and downwards, by slot.
    noise_permille: u64 = 0;
    /// Of that variation: equal seeds, equal variation.
    noise_seed: u64 = 0;

    /// It ends by itself this long after its services run.
    exits_after_ms: Option<u64> = None;
    /// With this code.
    exit_code: u64 = 1;
    /// From then on it makes no progress, after its services run.
    hangs_after_ms: Option<u64> = None;
    /// For so long; without it for ever.
    hangs_for_ms: Option<u64> = None;
    /// SIGTERM does nothing to it.
    ignores_term: bool = false;
    /// It starts a process of its own in another session and does not end it; `child.pid` in the ledger has its number.
    forks: bool = false;
}

impl Truth {
    pub(super) fn consensus(&self) -> Consensus {
        if self.alpenglow {
            Consensus::Alpenglow
        } else {
            Consensus::Tower
        }
    }

    /// Takes over what a text says; the rest stays.
    ///
    /// # Errors
    /// [`Error::Malformed`] with the first thing that is no `key = value` of a known key.
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
            known.ok_or_else(|| Error::malformed("no truth of a simulated validator", word))?;
        }
        Ok(())
    }

    /// Takes over what a file says.
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
