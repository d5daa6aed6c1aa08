/// Start-up messages in the log of Agave 2.0.5 to 4.4.0, by its source code. Others give `None`.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Progress {
    /// `Downloading N bytes from URL`.
    DownloadBegins { bytes: u64 },
    /// `downloaded B bytes P% R bytes/s`, every 5 s; only when logging to a file.
    Downloading {
        bytes: u64,
        /// 0 to 100.
        percent: f64,
        bytes_per_second: f64,
    },
    /// `snapshot untar took ...`, also for the incremental snapshot.
    Unpacked,
    /// `generating index: X/Y slots`, since 3.1 `generating index: processed X/Y slots`.
    GeneratingIndex { done: u64, total: u64 },
    /// `Processing ledger from slot N...`.
    ReplayBegins { slot: u64 },
    /// `ledger holds data through slot M`.
    LedgerHolds { slot: u64 },
    /// `processing ledger: slot=S, ...`, every 2 s.
    Replaying { slot: u64 },
    /// `ledger processed in ...`.
    Replayed,
    /// `Waiting for P% of activated stake at slot S to be in gossip...`.
    WaitingForSupermajority { percent: u64, slot: u64 },
    /// `Validator initialized`.
    Initialized,
}

impl Progress {
    pub(super) fn parse_message(message: &str) -> Option<Self> {
        if let Some(rest) = message.strip_prefix("Downloading ") {
            return Some(Self::DownloadBegins {
                bytes: rest.split_once(" bytes from ")?.0.parse().ok()?,
            });
        }
        if let Some(rest) = message.strip_prefix("downloaded ") {
            let (bytes, rest) = rest.split_once(" bytes ")?;
            let (percent, rest) = rest.split_once("% ")?;
            let rate = rest.split_once(" bytes/s")?.0;
            return Some(Self::Downloading {
                bytes: bytes.parse().ok()?,
                percent: percent.trim().parse().ok()?,
                bytes_per_second: rate.trim().parse().ok()?,
            });
        }
        if message.starts_with("snapshot untar took ")
            || message.starts_with("incremental snapshot untar took ")
        {
            return Some(Self::Unpacked);
        }
        if let Some(rest) = message.strip_prefix("generating index: ") {
            let (done, rest) = rest
                .strip_prefix("processed ")
                .unwrap_or(rest)
                .split_once('/')?;
            return Some(Self::GeneratingIndex {
                done: done.parse().ok()?,
                total: leading_number(rest)?,
            });
        }
        let number_after = |words: &str| leading_number(message.strip_prefix(words)?);
        if let Some(slot) = number_after("Processing ledger from slot ") {
            return Some(Self::ReplayBegins { slot });
        }
        if let Some(slot) = number_after("ledger holds data through slot ") {
            return Some(Self::LedgerHolds { slot });
        }
        if let Some(slot) = number_after("processing ledger: slot=") {
            return Some(Self::Replaying { slot });
        }
        if message.starts_with("ledger processed in ") {
            return Some(Self::Replayed);
        }
        if let Some(rest) = message.strip_prefix("Waiting for ") {
            let (percent, rest) = rest.split_once("% of activated stake at slot ")?;
            return Some(Self::WaitingForSupermajority {
                percent: percent.parse().ok()?,
                slot: leading_number(rest)?,
            });
        }
        (message == "Validator initialized").then_some(Self::Initialized)
    }
}

pub(super) fn leading_number(text: &str) -> Option<u64> {
    let end = text
        .bytes()
        .position(|byte| !byte.is_ascii_digit())
        .unwrap_or(text.len());
    text.get(..end)?.parse().ok()
}
