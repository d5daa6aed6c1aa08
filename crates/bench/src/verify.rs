//! Whether arms that must answer the same do.

use serde::{Deserialize, Serialize};

/// What came of comparing one arm's answers with the reference's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Verdict {
    /// Answers that were the same.
    pub(crate) equal: u64,
    /// Answers about the same slot that were not.
    pub(crate) different: u64,
}

/// An answer's slot and bytes.
type Answer = (u64, Vec<u8>);

/// The newest answer of every arm about every subject.
pub(crate) struct Verify {
    /// By subject, then by arm.
    newest: Vec<Vec<Option<Answer>>>,
    /// One per arm; the reference's stays empty.
    pub(crate) verdicts: Vec<Verdict>,
}

impl Verify {
    pub(crate) fn new(arms: usize, subjects: usize) -> Verify {
        Verify { newest: vec![vec![None; arms]; subjects], verdicts: vec![Verdict::default(); arms] }
    }

    /// Compares an answer with the reference's newest, or the reference's with the newest of every arm. Accounts change from
    /// slot to slot: different bytes of different slots say nothing.
    pub(crate) fn answered(&mut self, arm: usize, subject: usize, slot: u64, bytes: &[u8]) {
        let Some(newest) = self.newest.get_mut(subject) else { return };
        if arm == 0 {
            for (answer, verdict) in newest.iter().zip(&mut self.verdicts).skip(1) {
                count(verdict, answer.as_ref(), slot, bytes);
            }
        } else if let (Some(reference), Some(verdict)) = (newest.first(), self.verdicts.get_mut(arm)) {
            count(verdict, reference.as_ref(), slot, bytes);
        }
        if let Some(place) = newest.get_mut(arm) {
            let mut kept = place.take().map(|(_, kept)| kept).unwrap_or_default();
            kept.clear();
            kept.extend_from_slice(bytes);
            *place = Some((slot, kept));
        }
    }
}

fn count(verdict: &mut Verdict, other: Option<&Answer>, slot: u64, bytes: &[u8]) {
    match other {
        Some((_, same)) if same == bytes => verdict.equal += 1,
        Some((at, _)) if *at == slot => verdict.different += 1,
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_bytes_are_equal_and_others_differ_only_within_a_slot() {
        let mut verify = Verify::new(3, 2);
        verify.answered(0, 0, 5, b"a");
        verify.answered(1, 0, 5, b"a");
        verify.answered(2, 0, 5, b"b");
        verify.answered(1, 1, 5, b"c");
        assert_eq!(verify.verdicts[1], Verdict { equal: 1, different: 0 });
        assert_eq!(verify.verdicts[2], Verdict { equal: 0, different: 1 });
        // The account changed: an older answer is not wrong, and the same one still is right.
        verify.answered(0, 0, 6, b"b");
        assert_eq!(verify.verdicts[1], Verdict { equal: 1, different: 0 });
        assert_eq!(verify.verdicts[2], Verdict { equal: 1, different: 1 });
        assert_eq!(verify.verdicts[0], Verdict::default());
    }
}
