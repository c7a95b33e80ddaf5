//! Left joins that are equivalent to inner joins.

use datafusion::logical_expr::{BinaryExpr, Expr, Operator};

use super::block::{Instance, instance_of};

/// Makes a left join an inner one if a condition refuses every row in which its table found no partner.
pub fn strengthen(instances: &mut [Instance], predicates: &mut Vec<Expr>) {
    loop {
        let weak = instances.iter_mut().enumerate().find(|(i, instance)| {
            instance.outer.is_some() && predicates.iter().any(|predicate| refuses_null(predicate, *i))
        });
        let Some(conditions) = weak.and_then(|(_, instance)| instance.outer.take()) else { return };
        predicates.extend(conditions);
    }
}

/// Whether `predicate` is false or null if all columns of the instance are null. May miss some.
pub fn refuses_null(predicate: &Expr, instance: usize) -> bool {
    match predicate {
        Expr::IsNotNull(inner) => is_null(inner, instance),
        Expr::IsTrue(inner) => refuses_null(inner, instance),
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
            refuses_null(left, instance) || refuses_null(right, instance)
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            refuses_null(left, instance) && refuses_null(right, instance)
        }
        other => is_null(other, instance),
    }
}

/// Whether `expr` is null if all columns of the instance are.
fn is_null(expr: &Expr, instance: usize) -> bool {
    match expr {
        Expr::Column(column) => instance_of(column) == Some(instance),
        Expr::Cast(cast) => is_null(&cast.expr, instance),
        Expr::Alias(alias) => is_null(&alias.expr, instance),
        Expr::Not(inner) | Expr::Negative(inner) => is_null(inner, instance),
        Expr::Like(like) => is_null(&like.expr, instance) || is_null(&like.pattern, instance),
        Expr::Between(between) => is_null(&between.expr, instance),
        Expr::InList(list) => is_null(&list.expr, instance),
        Expr::BinaryExpr(binary) if binary.op.returns_null_on_null() => {
            is_null(&binary.left, instance) || is_null(&binary.right, instance)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::{col, lit};

    use super::*;

    #[test]
    fn conditions_that_null_cannot_pass_are_recognised() {
        let city = || col("t1.city");
        let cases = [
            (city().eq(lit("a")), true),
            (city().in_list(vec![lit("a")], true), true),
            (city().is_not_null(), true),
            (city().eq(lit("a")).or(city().like(lit("b%"))), true),
            (col("t0.x").gt(lit(1)).and(city().not_eq(lit("a"))), true),
            (city().eq(col("t0.city")), true),
            (city().is_null(), false),
            (city().eq(lit("a")).or(col("t0.x").gt(lit(1))), false),
            (col("t0.x").gt(lit(1)), false),
            (city().eq(lit("a")).is_not_true(), false),
        ];
        for (predicate, expected) in cases {
            assert_eq!(refuses_null(&predicate, 1), expected, "{predicate}");
        }
    }
}
