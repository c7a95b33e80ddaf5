//! One spelling for expressions that mean the same.

use std::collections::HashMap;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, ScalarValue};
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator, Volatility};
use datafusion::optimizer::simplify_expressions::{ExprSimplifier, SimplifyContext};

/// Columns that are equal in every row, by the equalities of inner joins and WHERE.
#[derive(Debug, Clone, Default)]
pub struct Equalities {
    parent: HashMap<Column, Column>,
}

impl Equalities {
    /// Classes from the `column = column` conditions among `predicates`.
    pub fn of<'a>(predicates: impl IntoIterator<Item = &'a Expr>) -> Self {
        let mut classes = Self::default();
        for predicate in predicates {
            if let Some((left, right)) = column_pair(predicate) {
                classes.merge(left, right);
            }
        }
        classes
    }

    fn merge(&mut self, left: &Column, right: &Column) {
        let (left, right) = (self.representative(left), self.representative(right));
        if left != right {
            let (first, second) = if left < right { (left, right) } else { (right, left) };
            self.parent.insert(second, first);
        }
    }

    /// The same column for every member of a class.
    pub fn representative(&self, column: &Column) -> Column {
        let mut current = column;
        while let Some(parent) = self.parent.get(current) {
            current = parent;
        }
        current.clone()
    }

    /// All columns that are equal to `column`, and itself.
    pub fn equals(&self, column: &Column) -> Vec<Column> {
        let class = self.representative(column);
        let mut all: Vec<Column> =
            self.parent.keys().filter(|other| self.representative(other) == class).cloned().collect();
        all.push(class);
        all
    }

    /// Whether `predicate` is an equality that the classes already guarantee. That of a column with itself is not: it
    /// says that the column is not null.
    pub fn imply(&self, predicate: &Expr) -> bool {
        column_pair(predicate).is_some_and(|(left, right)| {
            left != right && self.representative(left) == self.representative(right)
        })
    }
}

/// Whether `expr` has one value for one row, today and tomorrow: not `random()`, and not `now()`.
pub fn is_deterministic(expr: &Expr) -> bool {
    let varies = expr.exists(|expr| {
        Ok(match expr {
            Expr::ScalarFunction(call) => call.func.signature().volatility != Volatility::Immutable,
            Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::Exists(_) | Expr::SetComparison(_) => true,
            _ => false,
        })
    });
    // The closure never fails, so the walk cannot either.
    !varies.unwrap_or(true)
}

/// The value of an expression without columns, if it has the same value always.
pub fn constant(expr: &Expr) -> Option<ScalarValue> {
    if let Expr::Literal(value, _) = expr {
        return Some(value.clone());
    }
    if expr.any_column_refs() || !is_deterministic(expr) {
        return None;
    }
    let simplified = ExprSimplifier::new(SimplifyContext::default()).simplify(expr.clone()).ok()?;
    match simplified {
        Expr::Literal(value, _) => Some(value),
        _ => None,
    }
}

/// The two columns of a plain equality.
pub fn column_pair(predicate: &Expr) -> Option<(&Column, &Column)> {
    match predicate {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => match (&**left, &**right) {
            (Expr::Column(left), Expr::Column(right)) => Some((left, right)),
            _ => None,
        },
        _ => None,
    }
}

/// `expr` without aliases, with one representative for equal columns, and with the operands of
/// commutative operators in a fixed order. Equal spellings mean equal values; the reverse need not hold.
pub fn normalize(expr: &Expr, equal: &Equalities) -> Expr {
    let normalized = expr.clone().transform_up(|expr| {
        Ok(match expr {
            Expr::Alias(alias) => Transformed::yes(*alias.expr),
            Expr::Column(column) => Transformed::yes(Expr::Column(equal.representative(&column))),
            Expr::BinaryExpr(binary) => Transformed::yes(order_operands(binary)),
            Expr::AggregateFunction(function) => Transformed::yes(count_rows(function)),
            other => Transformed::no(other),
        })
    });
    // The closure never fails, so the transformation cannot either.
    normalized.map_or_else(|_| expr.clone(), |done| done.data)
}

fn order_operands(binary: BinaryExpr) -> Expr {
    let BinaryExpr { left, op, right } = binary;
    let turned = match op {
        // A constant stands on the right; DataFusion's optimiser knows comparisons best that way.
        _ if op.supports_propagation() && left.any_column_refs() != right.any_column_refs() => {
            if right.any_column_refs() { op.swap() } else { None }
        }
        Operator::Gt => Some(Operator::Lt),
        Operator::GtEq => Some(Operator::LtEq),
        Operator::Eq
        | Operator::NotEq
        | Operator::Plus
        | Operator::Multiply
        | Operator::And
        | Operator::Or
            if right.to_string() < left.to_string() =>
        {
            Some(op)
        }
        _ => None,
    };
    match turned {
        Some(op) => Expr::BinaryExpr(BinaryExpr::new(right, op, left)),
        None => Expr::BinaryExpr(BinaryExpr::new(left, op, right)),
    }
}

/// `count(*)`, `count(1)` and `count('x')` are one function: the number of rows.
fn count_rows(mut function: AggregateFunction) -> Expr {
    let counts_rows = function.func.name() == "count"
        && !function.params.distinct
        && matches!(function.params.args.as_slice(), [Expr::Literal(value, _)] if !value.is_null());
    if counts_rows {
        function.params.args = vec![Expr::Literal(ScalarValue::Int64(Some(1)), None)];
    }
    Expr::AggregateFunction(function)
}

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::{col, lit};

    use super::*;

    #[test]
    fn equal_columns_have_one_representative() {
        let classes = Equalities::of(&[col("t1.b").eq(col("t0.a")), col("t2.c").eq(col("t1.b"))]);
        let same = normalize(&(col("t2.c") + lit(1)), &classes);
        assert_eq!(same, normalize(&(lit(1) + col("t0.a")), &classes));
        assert!(classes.imply(&col("t0.a").eq(col("t2.c"))));
        assert!(!classes.imply(&col("t0.a").eq(col("t2.d"))));
        assert!(!classes.imply(&col("t0.a").eq(col("t0.a"))));
    }

    #[test]
    fn comparisons_are_turned_one_way_only() {
        let none = Equalities::default();
        assert_eq!(normalize(&col("a").gt(col("b")), &none), normalize(&col("b").lt(col("a")), &none));
        assert_ne!(normalize(&(col("a") - col("b")), &none), normalize(&(col("b") - col("a")), &none));
    }
}
