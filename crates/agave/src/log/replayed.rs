//! Log messages about replayed slots: one for each frozen bank, and the total times of a ledger
//! replay.

/// `bank frozen: SLOT hash: HASH ... signature_count: N ...`, once for each bank, when its last
/// transaction has been processed; 2.0.5 to 4.4.0. Live replay and ledger replay print the same
/// line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrozenBank<'a> {
    pub slot: u64,
    /// The bank hash: equal hashes mean equal replays. `None` if the line has none.
    pub hash: Option<&'a str>,
    /// Signatures of the slot's transactions; `None` if the line has none.
    pub signatures: Option<u64>,
}

/// `ledger processing timing: ExecuteTimings {...}`, once, after the replay of a local ledger.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReplayTimings {
    /// Lookups, waits and loads of the program cache, summed over threads and slots. `None` unless
    /// the line has 14 metrics (2.1 to 2.3), because only the order identifies them.
    pub program_cache_us: Option<u64>,
}

/// Metrics of `ExecuteTimings` in 2.1 to 2.3, and the position of one of them.
const METRIC_COUNT: usize = 14;
const PROGRAM_CACHE_INDEX: usize = 11;

impl<'a> FrozenBank<'a> {
    pub(super) fn parse_message(message: &'a str) -> Option<Self> {
        let rest = message.strip_prefix("bank frozen: ")?;
        let (slot, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let word = |key: &str| {
            rest.split_once(key)?
                .1
                .split([' ', ','])
                .next()
                .filter(|word| !word.is_empty())
        };
        Some(Self {
            slot: slot.parse().ok()?,
            hash: word("hash: "),
            signatures: word("signature_count: ").and_then(|count| count.parse().ok()),
        })
    }
}

impl ReplayTimings {
    pub(super) fn parse_message(message: &str) -> Option<Self> {
        let rest = message.strip_prefix("ledger processing timing: ExecuteTimings { metrics: [")?;
        let numbers: Option<Vec<u64>> = rest
            .split_once(']')?
            .0
            .split(',')
            .take(METRIC_COUNT + 1)
            .map(|number| number.trim().parse().ok())
            .collect();
        let numbers = numbers
            .filter(|numbers| numbers.len() == METRIC_COUNT)
            .unwrap_or_default();
        Some(Self {
            program_cache_us: numbers.get(PROGRAM_CACHE_INDEX).copied(),
        })
    }
}
