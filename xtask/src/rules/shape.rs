//! Labels of an expression's result.
//!
//! Target labels (`hardware`, `replica`) change and occur twice. Series with them break a binary
//! operation for all instances, fire an alert twice, and draw a second line. So operands and
//! results are aggregated by named labels.

use promql_parser::label::{Labels, MatchOp};
use promql_parser::parser::token::{
    T_BOTTOMK, T_COUNT_VALUES, T_GROUP, T_LIMITK, T_LOR, T_MAX, T_MIN, T_TOPK,
};
use promql_parser::parser::value::ValueType;
use promql_parser::parser::{
    AggregateExpr, BinaryExpr, Call, Expr, LabelModifier, SubqueryExpr, VectorMatchCardinality,
};
use std::collections::BTreeSet;

type Set = BTreeSet<String>;

/// Labels implied by the first word of a recording rule's name: `instance:x:ratio` has `job` and
/// `instance`.
const LABELS_BY_PREFIX: [(&str, &[&str]); 2] = [
    ("instance", &["job", "instance"]),
    ("instance_level", &["job", "instance", "level"]),
];

/// The labels of a vector, and those by which its series differ. A scalar has neither.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Shape {
    Scalar,
    Raw,
    Aggregated { labels: Set, key: Set },
}

impl Shape {
    fn of(labels: Set) -> Self {
        Self::Aggregated {
            key: labels.clone(),
            labels,
        }
    }

    fn mapped(self, change: impl Fn(&mut Set)) -> Self {
        let Self::Aggregated {
            mut labels,
            mut key,
        } = self
        else {
            return self;
        };
        change(&mut labels);
        change(&mut key);
        Self::Aggregated { labels, key }
    }
}

pub(crate) fn wrong_with(expression: &Expr) -> Vec<String> {
    let mut check = Check::default();
    if check.shape(expression) == Shape::Raw {
        check.wrong.push(format!(
            "the result has the labels of the target; aggregate it, as by max by (job, instance): {expression}"
        ));
    }
    check.wrong
}

/// `None` for a scalar and for series with target labels.
pub(crate) fn labels(expression: &Expr) -> Option<BTreeSet<String>> {
    match Check::default().shape(expression) {
        Shape::Aggregated { labels, .. } => Some(labels),
        Shape::Scalar | Shape::Raw => None,
    }
}

/// Labels that a recording rule of this name must yield; `None` if the first word is not known.
pub(crate) fn labels_of_record(name: &str) -> Option<BTreeSet<String>> {
    let (level, _) = name.split_once(':')?;
    let (_, labels) = LABELS_BY_PREFIX.iter().find(|(known, _)| *known == level)?;
    Some(labels.iter().map(|label| (*label).to_owned()).collect())
}

#[derive(Debug, Default)]
struct Check {
    wrong: Vec<String>,
}

impl Check {
    fn shape(&mut self, expression: &Expr) -> Shape {
        match expression {
            Expr::NumberLiteral(_) | Expr::StringLiteral(_) => Shape::Scalar,
            Expr::VectorSelector(selector) => selected(selector.name.as_deref()),
            Expr::MatrixSelector(selector) => selected(selector.vs.name.as_deref()),
            Expr::Paren(inner) => self.shape(&inner.expr),
            Expr::Unary(inner) => self.shape(&inner.expr),
            Expr::Subquery(SubqueryExpr { expr, .. }) => self.shape(expr),
            Expr::Call(call) => self.call_shape(call),
            Expr::Aggregate(aggregate) => self.aggregate_shape(aggregate),
            Expr::Binary(binary) => self.binary_shape(binary),
            Expr::Extension(_) => Shape::Raw,
        }
    }

    fn call_shape(&mut self, call: &Call) -> Shape {
        let arguments = call.args.args.iter();
        let shapes: Vec<Shape> = arguments.map(|argument| self.shape(argument)).collect();
        let vector = shapes.into_iter().find(|shape| *shape != Shape::Scalar);
        match call.func.name {
            name if name.starts_with("absent") => absent(call),
            _ if call.func.return_type == ValueType::Scalar => Shape::Scalar,
            "histogram_quantile" | "histogram_fraction" => vector
                .unwrap_or(Shape::Raw)
                .mapped(|labels| _ = labels.remove("le")),
            "label_replace" | "label_join" => {
                let target = call.args.args.get(1).and_then(|name| match name.as_ref() {
                    Expr::StringLiteral(text) => Some(text.val.clone()),
                    _ => None,
                });
                vector
                    .unwrap_or(Shape::Raw)
                    .mapped(|labels| labels.extend(target.clone()))
            }
            // Without a vector: time(), vector(1).
            _ => vector.unwrap_or_else(|| Shape::of(Set::new())),
        }
    }

    fn aggregate_shape(&mut self, aggregate: &AggregateExpr) -> Shape {
        let inner = self.shape(&aggregate.expr);
        let operator = aggregate.op.id();
        let picks = [T_TOPK, T_BOTTOMK, T_LIMITK].contains(&operator);
        // `sum without (x)` keeps target labels, so it does not add up duplicates.
        let adds_up = !matches!(aggregate.modifier, Some(LabelModifier::Exclude(_)));
        if inner == Shape::Raw && adds_up && !picks && ![T_MAX, T_MIN, T_GROUP].contains(&operator)
        {
            self.wrong.push(format!(
                "{} counts a doubled target twice; aggregate by max by (job, instance, ...) before: {aggregate}",
                aggregate.op
            ));
        }
        if picks {
            return topk_shape(inner, aggregate);
        }
        let mut shape = match &aggregate.modifier {
            Some(LabelModifier::Include(by)) => Shape::of(set(by)),
            Some(LabelModifier::Exclude(without)) => {
                inner.mapped(|labels| labels.retain(|label| !without.labels.contains(label)))
            }
            None => Shape::of(Set::new()),
        };
        if operator == T_COUNT_VALUES
            && let Some(Expr::StringLiteral(label)) = aggregate.param.as_deref()
        {
            shape = shape.mapped(|labels| _ = labels.insert(label.val.clone()));
        }
        shape
    }

    fn binary_shape(&mut self, binary: &BinaryExpr) -> Shape {
        let is_plain = binary
            .modifier
            .as_ref()
            .is_none_or(|modifier| modifier.matching.is_none());
        if is_plain && source(&binary.lhs).is_some_and(|left| source(&binary.rhs) == Some(left)) {
            // Two functions of the same series match one to one, even with duplicates: the result
            // has their shape.
            return self.shape(&binary.lhs);
        }
        let (left, right) = (self.shape(&binary.lhs), self.shape(&binary.rhs));
        if right == Shape::Scalar {
            return left;
        }
        if left == Shape::Scalar {
            return right;
        }
        self.refuse_raw(&binary.lhs, &left);
        self.refuse_raw(&binary.rhs, &right);
        let (
            Shape::Aggregated {
                labels: left,
                key: left_key,
            },
            Shape::Aggregated {
                labels: right,
                key: right_key,
            },
        ) = (left, right)
        else {
            return Shape::Raw;
        };
        let matching = binary
            .modifier
            .as_ref()
            .and_then(|modifier| modifier.matching.as_ref());
        match binary.modifier.as_ref().map(|modifier| &modifier.card) {
            // `or` adds series of the right side.
            Some(VectorMatchCardinality::ManyToMany) if binary.op.id() == T_LOR => {
                Shape::of(left.into_iter().chain(right).collect())
            }
            Some(VectorMatchCardinality::ManyToMany) => Shape::Aggregated {
                labels: left,
                key: left_key,
            },
            Some(VectorMatchCardinality::ManyToOne(extra)) => {
                self.check_unique(&binary.rhs, &right_key, matching);
                many_to_one(left, left_key, extra)
            }
            Some(VectorMatchCardinality::OneToMany(extra)) => {
                self.check_unique(&binary.lhs, &left_key, matching);
                many_to_one(right, right_key, extra)
            }
            Some(VectorMatchCardinality::OneToOne) | None => {
                if matching.is_none() && left != right {
                    self.wrong.push(format!(
                        "no series match: the sides have different labels: {binary}"
                    ));
                }
                self.check_unique(&binary.lhs, &left_key, matching);
                self.check_unique(&binary.rhs, &right_key, matching);
                one_to_one(left, matching)
            }
        }
    }

    fn refuse_raw(&mut self, side: &Expr, shape: &Shape) {
        if *shape == Shape::Raw {
            self.wrong.push(format!(
                "an operand has the labels of the target; aggregate it, as by max by (job, instance): {side}"
            ));
        }
    }

    /// Reports a side whose series differ by other labels than the matched ones: a match would
    /// then have several series.
    fn check_unique(&mut self, side: &Expr, key: &Set, matching: Option<&LabelModifier>) {
        let unmatched = |label: &&String| match matching {
            Some(LabelModifier::Include(on)) => !on.labels.contains(label),
            Some(LabelModifier::Exclude(ignoring)) => ignoring.labels.contains(label),
            None => false,
        };
        let unmatched: Vec<&str> = key.iter().filter(unmatched).map(String::as_str).collect();
        if !unmatched.is_empty() {
            self.wrong.push(format!(
                "an operand is not aggregated by the labels that are matched ({} differs): {side}",
                unmatched.join(", ")
            ));
        }
    }
}

/// The selector of an expression without aggregation: `timestamp(x)` and `rate(x[5m])` have `x`.
fn source(expression: &Expr) -> Option<String> {
    match expression {
        Expr::VectorSelector(selector) => Some(selector.to_string()),
        Expr::MatrixSelector(selector) => Some(selector.vs.to_string()),
        Expr::Paren(inner) => source(&inner.expr),
        Expr::Call(call) => call.args.args.iter().find_map(|argument| source(argument)),
        _ => None,
    }
}

fn absent(call: &Call) -> Shape {
    let selector = match call.args.args.first().map(AsRef::as_ref) {
        Some(Expr::VectorSelector(selector)) => selector,
        Some(Expr::MatrixSelector(matrix)) => &matrix.vs,
        _ => return Shape::of(Set::new()),
    };
    let matchers = selector.matchers.matchers.iter();
    let equal = matchers.filter(|matcher| matcher.op == MatchOp::Equal);
    Shape::of(equal.map(|matcher| matcher.name.clone()).collect())
}

fn many_to_one(labels: Set, key: Set, extra: &Labels) -> Shape {
    Shape::Aggregated {
        labels: labels.into_iter().chain(set(extra)).collect(),
        key,
    }
}

fn one_to_one(mut labels: Set, matching: Option<&LabelModifier>) -> Shape {
    labels.retain(|label| match matching {
        Some(LabelModifier::Include(on)) => on.labels.contains(label),
        Some(LabelModifier::Exclude(ignoring)) => !ignoring.labels.contains(label),
        None => true,
    });
    Shape::of(labels)
}

fn set(labels: &Labels) -> Set {
    labels.labels.iter().cloned().collect()
}

fn selected(name: Option<&str>) -> Shape {
    name.and_then(labels_of_record)
        .map_or(Shape::Raw, Shape::of)
}

/// `topk by (x) (1, y)` keeps the labels and leaves one series per `x`.
fn topk_shape(inner: Shape, aggregate: &AggregateExpr) -> Shape {
    let one = matches!(aggregate.param.as_deref(), Some(Expr::NumberLiteral(number)) if number.val == 1.0);
    match (inner, &aggregate.modifier) {
        (Shape::Aggregated { labels, .. }, Some(LabelModifier::Include(by))) if one => {
            Shape::Aggregated {
                labels,
                key: set(by),
            }
        }
        (inner, _) => inner,
    }
}

#[cfg(test)]
mod tests;
