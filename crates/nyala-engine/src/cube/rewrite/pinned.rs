//! Conditions that leave a dimension one value.

use arrow::datatypes::{DataType, Field};
use datafusion::logical_expr::expr::{BinaryExpr, Cast, TryCast};
use datafusion::logical_expr::{Expr, Operator};

/// The column that is the same in all rows for which `condition` holds.
pub(super) fn pinned_column(condition: &Expr) -> Option<&Expr> {
    match condition {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq | Operator::IsNotDistinctFrom, right }) => {
            match (left.as_ref(), right.as_ref()) {
                (column @ Expr::Column(_), other) | (other, column @ Expr::Column(_)) => {
                    is_constant(other).then_some(column)
                }
                _ => None,
            }
        }
        Expr::IsNull(column) => matches!(**column, Expr::Column(_)).then_some(column),
        _ => None,
    }
}

/// Whether equal values of a dimension are one group: zeros of both signs are equal, and two groups.
pub(super) fn groups_equal(dimension: &Field) -> bool {
    let data_type = match dimension.data_type() {
        DataType::Dictionary(_, values) => values,
        other => other,
    };
    !data_type.is_floating() && !data_type.is_nested()
}

/// Whether `expr` has one value for the whole query.
fn is_constant(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(..) | Expr::Placeholder(_) => true,
        Expr::Cast(Cast { expr, .. }) | Expr::TryCast(TryCast { expr, .. }) => is_constant(expr),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::{col, lit, placeholder};

    use super::*;

    #[test]
    fn one_value_is_left_by_equality_alone() {
        let check = |condition: Expr, expected: Option<Expr>| {
            assert_eq!(pinned_column(&condition), expected.as_ref(), "{condition}");
        };
        check(col("a").eq(lit(1)), Some(col("a")));
        check(lit(1).eq(col("a")), Some(col("a")));
        check(col("a").eq(placeholder("$1")), Some(col("a")));
        check(col("a").is_null(), Some(col("a")));
        check(col("a").eq(col("b")), None);
        check((col("a") % lit(2)).eq(lit(1)), None);
        check(col("a").gt_eq(lit(1)), None);
        check(col("a").not_eq(lit(1)), None);
        check(col("a").is_not_null(), None);
        check(col("a").eq(lit(1)).or(col("a").eq(lit(2))), None);
    }

    #[test]
    fn zeros_of_both_signs_are_two_groups() {
        let check = |data_type, expected| {
            assert_eq!(groups_equal(&Field::new("d", data_type, true)), expected);
        };
        check(DataType::Utf8View, true);
        check(DataType::Int32, true);
        check(DataType::Float64, false);
        check(DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Float32)), false);
        check(DataType::new_list(DataType::Float32, true), false);
    }
}
