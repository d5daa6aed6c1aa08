#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DwellPurpose {
    Reference,
    Probe(u64),
    Confirm { headroom: u64, high: bool },
}

impl DwellPurpose {
    pub(super) fn confirms(self) -> bool {
        matches!(self, DwellPurpose::Confirm { .. })
    }

    /// In bytes; `None` without a limit.
    pub(super) fn headroom(self) -> Option<u64> {
        match self {
            DwellPurpose::Reference => None,
            DwellPurpose::Probe(headroom) | DwellPurpose::Confirm { headroom, .. } => {
                Some(headroom)
            }
        }
    }
}
