//! What the log says of slots that were replayed: a line for each bank that was frozen, and the times of all together.

/// `bank frozen: SLOT hash: HASH ... signature_count: N ...`, once for each bank, when its last transaction has been
/// processed; 2.0.5 to 4.4.0 after their sources. Live replay and the replay of a ledger print the same line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frozen<'a> {
    /// The slot.
    pub slot: u64,
    /// Of all that the bank holds: equal where the same was replayed. `None` if the line has none.
    pub hash: Option<&'a str>,
    /// Signatures of the slot's transactions; `None` if the line has no such number.
    pub signatures: Option<u64>,
}

/// `ledger processing timing: ExecuteTimings {...}`, once, when a local ledger has been replayed. Microseconds, summed
/// over threads and slots.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReplayTimings {
    /// Time in the program cache: looking programs up, waiting for them, loading them. `None` unless the line lists 14
    /// metrics, as from 2.1 to 2.3: only their order tells which is which.
    pub program_cache_us: Option<u64>,
    /// Time in which transactions were executed; `None` likewise.
    pub execute_us: Option<u64>,
}

/// Metrics of `ExecuteTimings` from 2.1 to 2.3, and where two of them stand.
const METRICS: usize = 14;
const EXECUTE: usize = 3;
const PROGRAM_CACHE: usize = 11;

impl<'a> Frozen<'a> {
    pub(super) fn of_message(message: &'a str) -> Option<Self> {
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
    pub(super) fn of_message(message: &str) -> Option<Self> {
        let rest = message.strip_prefix("ledger processing timing: ExecuteTimings { metrics: [")?;
        let numbers: Option<Vec<u64>> = rest
            .split_once(']')?
            .0
            .split(',')
            .take(METRICS + 1)
            .map(|number| number.trim().parse().ok())
            .collect();
        let numbers = numbers
            .filter(|numbers| numbers.len() == METRICS)
            .unwrap_or_default();
        let of = |position: usize| numbers.get(position).copied();
        Some(Self {
            program_cache_us: of(PROGRAM_CACHE),
            execute_us: of(EXECUTE),
        })
    }
}
