//! What a search does next.

/// What a dwell is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Aim {
    Reference,
    Probe(u64),
    Confirm { headroom: u64, high: bool },
}

impl Aim {
    /// Over what cannot be reclaimed, in bytes; `None`: no limit.
    pub(super) fn headroom(self) -> Option<u64> {
        match self {
            Aim::Reference => None,
            Aim::Probe(headroom) | Aim::Confirm { headroom, .. } => Some(headroom),
        }
    }
}
