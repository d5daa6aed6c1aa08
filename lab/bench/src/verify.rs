//! Compares the answers of each arm with those of the reference, which is the first arm.

use crate::{answer::SKIPPED_PREFIX, canonical, plan::Plan};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AnswerComparison {
    pub equal: u64,
    /// Different answers for the same slot.
    pub different: u64,
    #[serde(default, rename = "first", skip_serializing_if = "Vec::is_empty")]
    pub first_differences: Vec<String>,
}

impl AnswerComparison {
    fn add_difference(&mut self, description: impl FnOnce() -> String) {
        self.different += 1;
        if self.first_differences.len() < MAX_LISTED_DIFFERENCES {
            self.first_differences.push(description());
        }
    }
}

const MAX_LISTED_DIFFERENCES: usize = 10;

/// Has a digest instead of the bytes, because answers may be large and many rounds may wait for a
/// slow node.
struct Answer {
    slot: Option<u64>,
    /// The length and a hash; of a comparable text, those of its first line.
    digest: (usize, u64),
    is_skipped_slot: bool,
    /// The [`canonical::comparable_text`] of a JSON answer. In messages, its other lines describe
    /// the parts that differ.
    comparable_text: Option<String>,
}

#[derive(Default)]
struct Round {
    /// Number of arms that answered or failed.
    finished_arms: usize,
    /// By arm.
    answers: BTreeMap<usize, Answer>,
}

pub struct AnswerVerifier {
    incomplete_rounds: BTreeMap<(u64, usize), Round>,
    /// By request.
    arm_counts: Vec<usize>,
    plan: Plan,
    /// By arm. Differences of the reference are slots that it skipped and another arm did not.
    pub answer_comparisons: Vec<AnswerComparison>,
}

impl AnswerVerifier {
    pub fn new(plan: &Plan) -> Self {
        let arm_count = |request| {
            plan.cases
                .iter()
                .filter(|case| case.request_index == request)
                .count()
        };
        Self {
            incomplete_rounds: BTreeMap::new(),
            arm_counts: (0..plan.request_labels.len()).map(arm_count).collect(),
            plan: plan.clone(),
            answer_comparisons: vec![AnswerComparison::default(); plan.arms.len()],
        }
    }

    /// A difference counts only for the same slot, because accounts change with the slot.
    pub fn record_answer(
        &mut self,
        (arm, request): (usize, usize),
        round: u64,
        answer: Option<(Option<u64>, &[u8])>,
    ) {
        let key = (round, request);
        let round = self.incomplete_rounds.entry(key).or_default();
        round.finished_arms += 1;
        if let Some((slot, bytes)) = answer {
            round.answers.insert(arm, Answer::new(slot, bytes));
        }
        if round.finished_arms >= self.arm_counts[request]
            && let Some(round) = self.incomplete_rounds.remove(&key)
        {
            self.compare(round, key);
        }
    }

    fn compare(&mut self, mut round: Round, (number, request): (u64, usize)) {
        let plan = &self.plan;
        let request_text = || {
            plan.cases
                .iter()
                .find(|case| case.request_index == request)
                .map_or_else(String::new, |case| plan.call(case, number))
        };
        let Some(reference) = round.answers.remove(&0) else {
            return;
        };
        if reference.is_skipped_slot && !round.answers.values().all(|answer| answer.is_skipped_slot)
        {
            self.answer_comparisons[0].add_difference(|| {
                format!(
                    "{}: this node says that the slot was skipped, and another has its block",
                    request_text()
                )
            });
            return;
        }
        for (arm, answer) in &round.answers {
            let comparison = &mut self.answer_comparisons[*arm];
            // Nodes report a skipped slot with either of two error codes, so digests may differ.
            // If the reference skipped the slot, all arms did.
            if reference.is_skipped_slot || answer.digest == reference.digest {
                comparison.equal += 1;
            } else if answer.slot == reference.slot {
                comparison.add_difference(|| {
                    format!("{}: {}", request_text(), answer.difference(&reference))
                });
            }
        }
    }
}

impl Answer {
    fn new(slot: Option<u64>, bytes: &[u8]) -> Self {
        let comparable_text = bytes
            .starts_with(canonical::COMPARABLE_TEXT_PREFIX.as_bytes())
            .then(|| String::from_utf8_lossy(bytes).into_owned());
        let compared = comparable_text
            .as_deref()
            .map_or(bytes, |text| canonical::digest_line(text).as_bytes());
        let mut hasher = DefaultHasher::new();
        compared.hash(&mut hasher);
        Self {
            slot,
            digest: (compared.len(), hasher.finish()),
            is_skipped_slot: bytes.starts_with(SKIPPED_PREFIX.as_bytes()),
            comparable_text,
        }
    }

    fn difference(&self, reference: &Self) -> String {
        match (&reference.comparable_text, &self.comparable_text) {
            (Some(reference), Some(own)) => canonical::difference(reference, own),
            _ if self.is_skipped_slot => "this node says that the slot was skipped".to_owned(),
            _ => format!(
                "{} bytes that differ from the reference's {}",
                self.digest.0, reference.digest.0
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        plan::{Case, tests::plan},
        values::{Placeholder, ValueSource},
    };

    fn verify() -> AnswerVerifier {
        let empty = plan(1, 1);
        let cases = (0..6)
            .map(|index| Case {
                arm_index: index % 3,
                request_index: index / 3,
                ..empty.cases[0].clone()
            })
            .collect();
        let arms = ["a", "b", "c"].map(|name| name.to_owned()).into();
        let request_labels = ["x", "y"].map(|name| name.to_owned()).into();
        AnswerVerifier::new(&Plan {
            arms,
            request_labels,
            cases,
            ..empty
        })
    }

    fn counts(verify: &AnswerVerifier, arm: usize) -> (u64, u64) {
        (
            verify.answer_comparisons[arm].equal,
            verify.answer_comparisons[arm].different,
        )
    }

    #[test]
    fn the_first_differences_are_listed_with_the_request_and_the_field() {
        let mut verify = verify();
        let texts = [r#"{"blockTime":5,"t":[]}"#, r#"{"blockTime":6,"t":[]}"#]
            .map(|json| canonical::comparable_text(json, &[]));
        for round in 0..20 {
            for (arm, text) in [(0, &texts[0]), (1, &texts[1]), (2, &texts[0])] {
                verify.record_answer((arm, 0), round, Some((None, text.as_bytes())));
            }
        }
        assert_eq!((counts(&verify, 1), counts(&verify, 2)), ((0, 20), (20, 0)));
        let first_differences = &verify.answer_comparisons[1].first_differences;
        assert_eq!(first_differences.len(), MAX_LISTED_DIFFERENCES);
        assert!(
            first_differences[0].starts_with("\"method\":")
                && first_differences[0].ends_with(": blockTime is 6 instead of 5"),
            "{first_differences:?}"
        );
    }

    #[test]
    fn a_response_difference_is_listed_with_its_drawn_variable_values() {
        let mut plan = verify().plan;
        plan.placeholders = vec![Placeholder {
            name: "slot".to_owned(),
            source: ValueSource::Range {
                from: 5,
                to: 900,
                is_hex: false,
            },
        }];
        plan.cases
            .iter_mut()
            .for_each(|case| case.call = r#""method":"m","params":[{slot}]"#.to_owned());
        let mut verify = AnswerVerifier::new(&plan);
        for (number, bytes) in [(0, b"0"), (1, b"1"), (2, b"0")] {
            verify.record_answer((number, 0), 7, Some((None, bytes)));
        }
        let sent = plan.body(&plan.cases[1], 7 * 6 + 1);
        let sent = String::from_utf8(sent.to_vec()).unwrap();
        let params = sent
            .split_once("\"params\":")
            .unwrap()
            .1
            .trim_end_matches('}');
        let first_differences = &verify.answer_comparisons[1].first_differences[0];
        assert!(
            first_differences.contains(&format!("{params}: "))
                && !first_differences.contains("slot"),
            "{first_differences} of {sent}"
        );
    }

    #[test]
    fn the_same_bytes_are_equal_and_others_differ_only_within_a_slot() {
        let mut verify = verify();
        for (arm, slot, bytes) in [(1, 5, b"a"), (0, 5, b"a"), (2, 5, b"b")] {
            verify.record_answer((arm, 0), 0, Some((Some(slot), bytes)));
        }
        assert_eq!(counts(&verify, 1), (1, 0));
        assert_eq!(counts(&verify, 2), (0, 1));
        // The account changed between the answers: neither is wrong.
        for (arm, slot, bytes) in [(0, 6, b"b"), (1, 7, b"c"), (2, 7, b"b")] {
            verify.record_answer((arm, 0), 1, Some((Some(slot), bytes)));
        }
        assert_eq!(counts(&verify, 1), (1, 0));
        assert_eq!(counts(&verify, 2), (1, 1));
        assert_eq!(verify.answer_comparisons[0], AnswerComparison::default());
    }

    #[test]
    fn skipped_slots_are_compared_and_the_node_missing_a_block_differs() {
        let mut verify = verify();
        let rounds: [[&[u8]; 3]; 4] = [
            [b"skipped -32007"; 3],
            [b"skipped -32007", b"skipped -32009", b"skipped -32007"],
            [b"{}", b"{}", b"skipped -32007"],
            [b"skipped -32007", b"{}", b"{}"],
        ];
        for (round, answers) in rounds.iter().enumerate() {
            for (arm, bytes) in answers.iter().enumerate() {
                verify.record_answer((arm, 0), round as u64, Some((None, bytes)));
            }
        }
        let found = verify
            .answer_comparisons
            .iter()
            .map(|comparison| (comparison.equal, comparison.different));
        assert_eq!(found.collect::<Vec<_>>(), [(0, 1), (3, 0), (2, 1)]);
    }

    #[test]
    fn verification_compares_a_lagging_node_and_skips_failed_requests() {
        let mut verify = verify();
        let answers: [&[u8]; 4] = [b"0", b"1", b"2", b"3"];
        for (round, bytes) in answers.iter().enumerate() {
            verify.record_answer((0, 1), round as u64, Some((None, bytes)));
            verify.record_answer((2, 1), round as u64, None);
        }
        assert_eq!(verify.incomplete_rounds.len(), 4);
        for (round, bytes) in [(0, b"0"), (1, b"1"), (2, b"x"), (3, b"3")] {
            verify.record_answer((1, 1), round, Some((None, bytes)));
        }
        assert_eq!(
            (counts(&verify, 1), verify.incomplete_rounds.len()),
            ((3, 1), 0)
        );
        assert_eq!(verify.answer_comparisons[2], AnswerComparison::default());
    }
}
