/// Start-up messages in the log of Agave 2.0.5 to 4.4.0, by its source code. Others give `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The progress, every 5 s, only when logging to a file.
    Downloading,
    /// Also of the incremental snapshot.
    Unpacked,
    /// With `processed` since 3.1.
    GeneratingIndex,
    ReplayBegins,
    /// The progress, every 2 s.
    Replaying,
    Replayed,
    WaitingForSupermajority,
    Initialized,
}

/// How the messages begin. `#` stands for digits.
const MESSAGES: [(&str, Progress); 11] = [
    ("Downloading # bytes from ", Progress::Downloading),
    ("downloaded # bytes ", Progress::Downloading),
    ("snapshot untar took ", Progress::Unpacked),
    ("incremental snapshot untar took ", Progress::Unpacked),
    ("generating index: #/", Progress::GeneratingIndex),
    ("generating index: processed #/", Progress::GeneratingIndex),
    ("Processing ledger from slot #", Progress::ReplayBegins),
    ("ledger holds data through slot #", Progress::Replaying),
    ("processing ledger: slot=#", Progress::Replaying),
    ("ledger processed in ", Progress::Replayed),
    (
        "Waiting for #% of activated stake at slot ",
        Progress::WaitingForSupermajority,
    ),
];

impl Progress {
    pub(super) fn parse_message(message: &str) -> Option<Self> {
        if message == "Validator initialized" {
            return Some(Self::Initialized);
        }
        let found = MESSAGES.iter().find(|(start, _)| begins(message, start))?;
        Some(found.1)
    }
}

fn begins(message: &str, start: &str) -> bool {
    let Some((head, tail)) = start.split_once('#') else {
        return message.starts_with(start);
    };
    message.strip_prefix(head).is_some_and(|rest| {
        let after = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        after.len() < rest.len() && after.starts_with(tail)
    })
}
