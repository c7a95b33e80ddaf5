//! Lists of values that one expression is compared with, where DataFusion 55 wrongly merges two of them, or takes values of rows
//! for constants.
//!
//! DataFusion keeps the common values of `x NOT IN (1, 2) OR x NOT IN (3, 4)`, finds none, and takes the
//! condition for true: for NULL it is unknown.
//! It keeps `x IN (2)` of `x IN (1, 2) AND x NOT IN (1, NULL)`, which NULL makes unknown, too. And it takes two parameters for different
//! values, although they may be equal. The first two are rewritten correctly before DataFusion sees them; the third must not be planned
//! without values. DataFusion's main branch keeps NULL apart (its pull request 24258), so that the rule can go when a release has that.

use std::collections::HashSet;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, LogicalPlan, Operator, TryCast, binary_expr, lit};

use super::guards::is_volatile;
use super::rounding::has_choice;
use super::{Meaning, Scope};

/// Deepest nesting of comparisons that is taken for a list: longer lists are written with IN.
const MAX_DEPTH: usize = 128;

/// Rewrites lists that DataFusion would merge wrongly for NULL: two whose combined list has no values, and lists with NULL.
#[derive(Debug)]
pub struct DisjointLists;

impl Meaning for DisjointLists {
    fn name(&self) -> &'static str {
        "disjoint_lists"
    }

    fn concerns(&self, expr: &Expr) -> bool {
        matches!(
            expr,
            Expr::InList(_) | Expr::BinaryExpr(BinaryExpr { op: Operator::And | Operator::Or, .. })
        )
    }

    fn rewrite(&self, expr: Expr, _: &Scope<'_>) -> Result<Transformed<Expr>> {
        Ok(match of_disjoint(&expr) {
            Some(written) => Transformed::yes(written),
            None => without_null(expr),
        })
    }
}

/// Compares one by one with values that depend on a column by a CASE or the like. DataFusion computes the values of a list
/// over no rows, and takes the list for constant if each is one value then: a CASE gives NULL, and `ceil` of it panics.
#[derive(Debug)]
pub struct ComputedValues;

impl Meaning for ComputedValues {
    fn name(&self) -> &'static str {
        "computed_values"
    }

    fn concerns(&self, expr: &Expr) -> bool {
        // One value that DataFusion sees to depend on a column is enough.
        let is_seen = |value: &Expr| value.any_column_refs() && !has_choice(value);
        matches!(expr, Expr::InList(listed)
            if listed.list.iter().any(is_computed) && !listed.list.iter().any(is_seen))
    }

    fn rewrite(&self, expr: Expr, _: &Scope<'_>) -> Result<Transformed<Expr>> {
        let Expr::InList(InList { expr, list, negated }) = expr else { return Ok(Transformed::no(expr)) };
        // The compared expression must have one value for the whole list.
        if is_volatile(&expr) {
            return Ok(Transformed::no(Expr::InList(InList { expr, list, negated })));
        }
        let (computed, others): (Vec<Expr>, Vec<Expr>) = list.into_iter().partition(is_computed);
        let (compares, joins) = match negated {
            true => (Operator::NotEq, Operator::And),
            false => (Operator::Eq, Operator::Or),
        };
        let mut comparisons = Vec::with_capacity(computed.len() + 1);
        for value in computed {
            comparisons.push(binary_expr(expr.as_ref().clone(), compares, value));
        }
        if !others.is_empty() {
            comparisons.push(Expr::InList(InList { expr, list: others, negated }));
        }
        Ok(Transformed::yes(joined(comparisons, joins)))
    }
}

fn is_computed(value: &Expr) -> bool {
    value.any_column_refs() && has_choice(value)
}

/// Joins all conditions by an operator, nested as little as possible.
fn joined(mut conditions: Vec<Expr>, op: Operator) -> Expr {
    while conditions.len() > 1 {
        let mut rest = conditions.into_iter();
        let mut pairs = Vec::with_capacity(rest.len().div_ceil(2));
        while let Some(one) = rest.next() {
            pairs.push(match rest.next() {
                Some(other) => binary_expr(one, op, other),
                None => one,
            });
        }
        conditions = pairs;
    }
    conditions.pop().unwrap_or_else(|| lit(op == Operator::And))
}

/// Takes NULL out of a list, and joins an unknown value to it instead, so that the list is not merged with another.
fn without_null(expr: Expr) -> Transformed<Expr> {
    let Expr::InList(listed) = expr else { return Transformed::no(expr) };
    if !listed.list.iter().any(is_null) {
        return Transformed::no(Expr::InList(listed));
    }
    let InList { expr, mut list, negated } = listed;
    list.retain(|value| !is_null(value));
    let unknown = lit(ScalarValue::Boolean(None));
    if list.is_empty() {
        return Transformed::yes(unknown);
    }
    let known = Expr::InList(InList { expr, list, negated });
    Transformed::yes(if negated { known.and(unknown) } else { known.or(unknown) })
}

/// Whether an expression is NULL of any type.
fn is_null(expr: &Expr) -> bool {
    match expr {
        Expr::Cast(Cast { expr, .. }) | Expr::TryCast(TryCast { expr, .. }) => is_null(expr),
        other => other.as_literal().is_some_and(ScalarValue::is_null),
    }
}

/// The correct condition for two lists joined by AND or OR, if their combined list has no values.
fn of_disjoint(expr: &Expr) -> Option<Expr> {
    let Expr::BinaryExpr(both @ BinaryExpr { op: Operator::And | Operator::Or, .. }) = expr else {
        return None;
    };
    let (left, right) = (Listed::of(&both.left, 0)?, Listed::of(&both.right, 0)?);
    if left.of != right.of || left.of.is_volatile() || !left.left_by(&right, both.op)?.is_empty() {
        return None;
    }
    // With NULL in a list, the result is unknown for other values than NULL, too.
    let known = |value: &&Expr| value.as_literal().is_some_and(|value| !value.is_null());
    if !left.values.iter().chain(&right.values).all(known) {
        return None;
    }
    let (of, unknown) = (left.of.clone(), lit(ScalarValue::Boolean(None)));
    Some(match both.op {
        Operator::And => of.is_null().and(unknown),
        _ => of.is_not_null().or(unknown),
    })
}

/// A list of values: `x = 1`, `x IN (1, 2)`, several of these joined, or the negation of one.
struct Listed<'a> {
    of: &'a Expr,
    values: Vec<&'a Expr>,
    negated: bool,
}

impl<'a> Listed<'a> {
    fn of(expr: &'a Expr, depth: usize) -> Option<Self> {
        if depth > MAX_DEPTH {
            return None;
        }
        match expr {
            Expr::InList(InList { expr, list, negated }) => {
                Some(Self { of: expr.as_ref(), values: list.iter().collect(), negated: *negated })
            }
            Expr::Not(inner) => {
                let listed = Self::of(inner, depth + 1)?;
                Some(Self { negated: !listed.negated, ..listed })
            }
            Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::Eq | Operator::NotEq), right }) => {
                let (of, value) = match (left.as_ref(), right.as_ref()) {
                    (of, value @ Expr::Literal(..)) | (value @ Expr::Literal(..), of) => (of, value),
                    _ => return None,
                };
                Some(Self { of, values: vec![value], negated: *op == Operator::NotEq })
            }
            Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) => {
                let (left, right) = (Self::of(left, depth + 1)?, Self::of(right, depth + 1)?);
                if left.of != right.of {
                    return None;
                }
                let values = left.left_by(&right, *op).filter(|values| !values.is_empty())?;
                Some(Self { of: left.of, values, negated: left.negated && right.negated })
            }
            _ => None,
        }
    }

    /// The values of the combined list of two lists joined by `op`; none if the result is no list.
    fn left_by(&self, other: &Self, op: Operator) -> Option<Vec<&'a Expr>> {
        let of_other: HashSet<&Expr> = other.values.iter().copied().collect();
        let (common, own): (Vec<&Expr>, Vec<&Expr>) =
            self.values.iter().partition(|value| of_other.contains(*value));
        match (op, self.negated, other.negated) {
            (Operator::Or, false, false) | (Operator::And, true, true) => {
                Some(own.into_iter().chain(other.values.iter().copied()).collect())
            }
            (Operator::Or, true, true) | (Operator::And, false, false) => Some(common),
            (Operator::And, false, true) => Some(own),
            (Operator::And, true, false) => other.left_by(self, op),
            _ => None,
        }
    }
}

/// The expression compared in `x = 1 OR x = 2 OR …`.
fn alternatives(expr: &Expr, depth: usize) -> Option<&Expr> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => {
            match (left.as_ref(), right.as_ref()) {
                (of, Expr::Literal(..)) | (Expr::Literal(..), of) => Some(of),
                _ => None,
            }
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) if depth <= MAX_DEPTH => {
            let of = alternatives(left, depth + 1)?;
            (alternatives(right, depth + 1)? == of).then_some(of)
        }
        _ => None,
    }
}

/// Whether a plan compares an expression with more than one list and a list has parameters, so that their values decide
/// which values the lists have in common.
pub fn lists_may_overlap(plan: &LogicalPlan) -> Result<bool> {
    let (mut lists, mut open, mut twice) = (HashSet::new(), false, false);
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                // DataFusion takes a disjunction of comparisons with constants for a list, but not one comparison with a parameter.
                let (of, next) = match expr {
                    Expr::InList(InList { expr, list, .. }) => {
                        open |= list.iter().any(|value| value.as_literal().is_none());
                        (expr.as_ref(), TreeNodeRecursion::Continue)
                    }
                    Expr::BinaryExpr(BinaryExpr { op: Operator::Or, .. }) => match alternatives(expr, 0) {
                        Some(of) => (of, TreeNodeRecursion::Jump),
                        None => return Ok(TreeNodeRecursion::Continue),
                    },
                    _ => return Ok(TreeNodeRecursion::Continue),
                };
                // The name is compared without its qualifier, because a filter moves through aliases.
                let name = match of {
                    Expr::Column(column) => column.name.clone(),
                    other => other.to_string(),
                };
                twice |= !lists.insert(name);
                Ok(next)
            })
        })
    })?;
    Ok(twice && open)
}
