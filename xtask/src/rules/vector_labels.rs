//! Labels of an expression's result.
//!
//! If a target label such as `hardware` has several values, an instance has several series. These
//! break a binary operation for all instances, fire an alert twice, and draw a second line. So
//! operands and results must be aggregated by named labels.

use itertools::Itertools;
use promql_parser::{
    label::{Labels, MatchOp},
    parser::{
        AggregateExpr, BinaryExpr, Call, Expr, LabelModifier, MatrixSelector,
        VectorMatchCardinality,
        token::{T_BOTTOMK, T_COUNT_VALUES, T_GROUP, T_LIMITK, T_LOR, T_MAX, T_MIN, T_TOPK},
        value::ValueType,
    },
};
use std::collections::BTreeSet;

type LabelSet = BTreeSet<String>;

/// The first word of a recording rule's name implies labels: `instance:x:ratio` has `job` and
/// `instance`.
const LABELS_BY_PREFIX: [(&str, &[&str]); 2] = [
    ("instance", &["job", "instance"]),
    ("instance_level", &["job", "instance", "level"]),
];

/// The labels of the series of an expression. `key` has those that identify a series.
#[derive(Default)]
struct VectorLabels {
    labels: LabelSet,
    key: LabelSet,
    /// No aggregation removed the target labels, so `labels` and `key` lack them.
    has_target_labels: bool,
}

impl VectorLabels {
    fn of(labels: LabelSet) -> Self {
        Self {
            key: labels.clone(),
            labels,
            has_target_labels: false,
        }
    }

    fn with_target_labels() -> Self {
        Self {
            has_target_labels: true,
            ..Self::default()
        }
    }

    fn mapped(mut self, change: impl Fn(&mut LabelSet)) -> Self {
        change(&mut self.labels);
        change(&mut self.key);
        self
    }

    fn with_labels(mut self, extra: &Labels) -> Self {
        self.labels.extend(label_set(extra));
        self
    }
}

pub fn label_errors(expression: &Expr) -> Vec<String> {
    let mut checker = LabelChecker::default();
    if checker
        .vector_labels(expression)
        .is_some_and(|vector| vector.has_target_labels)
    {
        checker.errors.push(format!(
            "the result has the labels of the target; aggregate it, for example with max by (job, instance): {expression}"
        ));
    }
    checker.errors
}

/// `None` for a scalar, and for series with target labels.
pub fn result_labels(expression: &Expr) -> Option<LabelSet> {
    let vector = LabelChecker::default().vector_labels(expression)?;
    (!vector.has_target_labels).then_some(vector.labels)
}

/// Labels that a recording rule of this name must yield; `None` if the first word is not known.
pub fn labels_of_record(name: &str) -> Option<LabelSet> {
    let (prefix, _) = name.split_once(':')?;
    let (_, labels) = LABELS_BY_PREFIX
        .iter()
        .find(|(known, _)| *known == prefix)?;
    Some(labels.iter().map(|label| (*label).to_owned()).collect())
}

#[derive(Default)]
struct LabelChecker {
    errors: Vec<String>,
}

impl LabelChecker {
    fn vector_labels(&mut self, expression: &Expr) -> Option<VectorLabels> {
        match expression {
            Expr::NumberLiteral(_) | Expr::StringLiteral(_) => None,
            Expr::VectorSelector(selector)
            | Expr::MatrixSelector(MatrixSelector { vs: selector, .. }) => {
                let labels = selector.name.as_deref().and_then(labels_of_record);
                Some(labels.map_or_else(VectorLabels::with_target_labels, VectorLabels::of))
            }
            Expr::Paren(inner) => self.vector_labels(&inner.expr),
            Expr::Unary(inner) => self.vector_labels(&inner.expr),
            Expr::Subquery(inner) => self.vector_labels(&inner.expr),
            Expr::Call(call) => self.call_labels(call),
            Expr::Aggregate(aggregate) => Some(self.aggregate_labels(aggregate)),
            Expr::Binary(binary) => self.binary_labels(binary),
            Expr::Extension(_) => Some(VectorLabels::with_target_labels()),
        }
    }

    fn call_labels(&mut self, call: &Call) -> Option<VectorLabels> {
        let vectors = call
            .args
            .args
            .iter()
            .map(|argument| self.vector_labels(argument))
            .collect_vec();
        let vector = vectors.into_iter().flatten().next();
        match call.func.name {
            name if name.starts_with("absent") => Some(absent_labels(call)),
            _ if call.func.return_type == ValueType::Scalar => None,
            "histogram_quantile" | "histogram_fraction" => {
                Some(vector?.mapped(|labels| _ = labels.remove("le")))
            }
            "label_replace" | "label_join" => {
                let target = call.args.args.get(1).and_then(|name| match name.as_ref() {
                    Expr::StringLiteral(text) => Some(text.val.clone()),
                    _ => None,
                });
                Some(vector?.mapped(|labels| labels.extend(target.clone())))
            }
            // `vector(1)` has no vector as an argument.
            _ => Some(vector.unwrap_or_default()),
        }
    }

    fn aggregate_labels(&mut self, aggregate: &AggregateExpr) -> VectorLabels {
        let mut inner = self.vector_labels(&aggregate.expr).unwrap_or_default();
        let operator = aggregate.op.id();
        let selects_series = [T_TOPK, T_BOTTOMK, T_LIMITK].contains(&operator);
        // `sum without (x)` keeps target labels, so it does not add up duplicates.
        let drops_target_labels = !matches!(aggregate.modifier, Some(LabelModifier::Exclude(_)));
        if inner.has_target_labels
            && drops_target_labels
            && !selects_series
            && ![T_MAX, T_MIN, T_GROUP].contains(&operator)
        {
            self.errors.push(format!(
                "{} counts a doubled target twice; first aggregate with max by (job, instance, ...): {aggregate}",
                aggregate.op
            ));
        }
        if selects_series {
            // `topk by (x) (1, y)` keeps the labels and leaves one series per `x`.
            let is_one = matches!(
                aggregate.param.as_deref(),
                Some(Expr::NumberLiteral(number)) if number.val == 1.0
            );
            if let (true, Some(LabelModifier::Include(by))) = (is_one, &aggregate.modifier) {
                inner.key = label_set(by);
            }
            return inner;
        }
        let mut vector = match &aggregate.modifier {
            Some(LabelModifier::Include(by)) => VectorLabels::of(label_set(by)),
            Some(LabelModifier::Exclude(without)) => {
                inner.mapped(|labels| labels.retain(|label| !without.labels.contains(label)))
            }
            None => VectorLabels::default(),
        };
        if operator == T_COUNT_VALUES
            && let Some(Expr::StringLiteral(label)) = aggregate.param.as_deref()
        {
            vector = vector.mapped(|labels| _ = labels.insert(label.val.clone()));
        }
        vector
    }

    fn binary_labels(&mut self, binary: &BinaryExpr) -> Option<VectorLabels> {
        let matches_all_labels = binary
            .modifier
            .as_ref()
            .is_none_or(|modifier| modifier.matching.is_none());
        if matches_all_labels
            && selector_text(&binary.lhs)
                .is_some_and(|left| selector_text(&binary.rhs) == Some(left))
        {
            // Two functions of the same series match one to one, even with duplicates. The result
            // has the labels of the series.
            return self.vector_labels(&binary.lhs);
        }
        let (left, right) = match (
            self.vector_labels(&binary.lhs),
            self.vector_labels(&binary.rhs),
        ) {
            (Some(left), Some(right)) => (left, right),
            (left, right) => return left.or(right),
        };
        for (side, vector) in [(&binary.lhs, &left), (&binary.rhs, &right)] {
            if vector.has_target_labels {
                self.errors.push(format!(
                    "an operand has the labels of the target; aggregate it, for example with max by (job, instance): {side}"
                ));
            }
        }
        if left.has_target_labels || right.has_target_labels {
            return Some(VectorLabels::with_target_labels());
        }
        Some(self.matched_labels(binary, left, right))
    }

    fn matched_labels(
        &mut self,
        binary: &BinaryExpr,
        left: VectorLabels,
        right: VectorLabels,
    ) -> VectorLabels {
        let matching = binary
            .modifier
            .as_ref()
            .and_then(|modifier| modifier.matching.as_ref());
        match binary.modifier.as_ref().map(|modifier| &modifier.card) {
            // `or` adds series of the right side.
            Some(VectorMatchCardinality::ManyToMany) if binary.op.id() == T_LOR => {
                VectorLabels::of(left.labels.into_iter().chain(right.labels).collect())
            }
            Some(VectorMatchCardinality::ManyToMany) => left,
            Some(VectorMatchCardinality::ManyToOne(extra)) => {
                self.check_unique(&binary.rhs, &right.key, matching);
                left.with_labels(extra)
            }
            Some(VectorMatchCardinality::OneToMany(extra)) => {
                self.check_unique(&binary.lhs, &left.key, matching);
                right.with_labels(extra)
            }
            Some(VectorMatchCardinality::OneToOne) | None => {
                if matching.is_none() && left.labels != right.labels {
                    self.errors.push(format!(
                        "no series match: the sides have different labels: {binary}"
                    ));
                }
                self.check_unique(&binary.lhs, &left.key, matching);
                self.check_unique(&binary.rhs, &right.key, matching);
                one_to_one_labels(left.labels, matching)
            }
        }
    }

    /// Reports `side` if unmatched labels identify its series: several would match one series of
    /// the opposite side.
    fn check_unique(&mut self, side: &Expr, key: &LabelSet, matching: Option<&LabelModifier>) {
        let unmatched = |label: &&String| match matching {
            Some(LabelModifier::Include(on)) => !on.labels.contains(label),
            Some(LabelModifier::Exclude(ignoring)) => ignoring.labels.contains(label),
            None => false,
        };
        let unmatched = key.iter().filter(unmatched).join(", ");
        if !unmatched.is_empty() {
            self.errors.push(format!(
                "an operand is not aggregated by the labels that are matched ({unmatched} differs): {side}"
            ));
        }
    }
}

/// The selector of an expression without aggregation: `timestamp(x)` and `rate(x[5m])` have `x`.
fn selector_text(expression: &Expr) -> Option<String> {
    match expression {
        Expr::VectorSelector(selector)
        | Expr::MatrixSelector(MatrixSelector { vs: selector, .. }) => Some(selector.to_string()),
        Expr::Paren(inner) => selector_text(&inner.expr),
        Expr::Call(call) => call
            .args
            .args
            .iter()
            .find_map(|argument| selector_text(argument)),
        _ => None,
    }
}

fn absent_labels(call: &Call) -> VectorLabels {
    let Some(
        Expr::VectorSelector(selector) | Expr::MatrixSelector(MatrixSelector { vs: selector, .. }),
    ) = call.args.args.first().map(AsRef::as_ref)
    else {
        return VectorLabels::default();
    };
    VectorLabels::of(
        selector
            .matchers
            .matchers
            .iter()
            .filter(|matcher| matcher.op == MatchOp::Equal)
            .map(|matcher| matcher.name.clone())
            .collect(),
    )
}

fn one_to_one_labels(mut labels: LabelSet, matching: Option<&LabelModifier>) -> VectorLabels {
    labels.retain(|label| match matching {
        Some(LabelModifier::Include(on)) => on.labels.contains(label),
        Some(LabelModifier::Exclude(ignoring)) => !ignoring.labels.contains(label),
        None => true,
    });
    VectorLabels::of(labels)
}

fn label_set(labels: &Labels) -> LabelSet {
    labels.labels.iter().cloned().collect()
}

#[cfg(test)]
mod tests;
