#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Aim {
    Reference,
    Probe(u64),
    Confirm { headroom: u64, high: bool },
}

impl Aim {
    /// In bytes; `None` without a limit.
    pub(super) fn headroom(self) -> Option<u64> {
        match self {
            Aim::Reference => None,
            Aim::Probe(headroom) | Aim::Confirm { headroom, .. } => Some(headroom),
        }
    }
}
