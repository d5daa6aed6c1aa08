//! Log messages about the migration to Alpenglow, 4.2.2 to 4.5.0-alpha.4. Each begins with the
//! identity and a colon.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Migration {
    /// The feature is active. Blocks hold only votes from this slot on.
    Starts {
        slot: u64,
    },
    Enabled {
        genesis_slot: Option<u64>,
    },
}

impl Migration {
    pub(super) fn parse_message(message: &str) -> Option<Self> {
        let (subject, words) = message.split_once(": ")?;
        if words == "Alpenglow enabled!" {
            return Some(Self::Enabled { genesis_slot: None });
        }
        if let Some(rest) = words.strip_prefix("Alpenglow enabled during startup! Genesis slot ") {
            let genesis_slot = rest.trim_end().parse().ok();
            return Some(Self::Enabled { genesis_slot });
        }
        if words.starts_with("Alpenglow feature flag was activated in ") {
            let slot = number_after(words, "migration will start at ")?;
            return Some(Self::Starts { slot });
        }
        let phase = words
            .strip_prefix("Alpenglow migration phase ")
            .or_else(|| {
                let is_startup =
                    subject == "Pre startup initializing alpenglow migration from root bank";
                is_startup.then_some(words)
            })?;
        if phase.starts_with("AlpenglowEnabled") || phase.starts_with("FullAlpenglowEpoch") {
            let genesis_slot = number_after(phase, "Block { slot: ");
            return Some(Self::Enabled { genesis_slot });
        }
        let slot = number_after(phase, "Migration { migration_slot: ")?;
        Some(Self::Starts { slot })
    }
}

fn number_after(text: &str, words: &str) -> Option<u64> {
    let (_, rest) = text.split_once(words)?;
    rest.split(|c: char| !c.is_ascii_digit())
        .next()?
        .parse()
        .ok()
}
