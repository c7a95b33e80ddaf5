//! A condition as a list of conditions that must all hold.

use datafusion::logical_expr::utils::{disjunction, split_binary_owned, split_conjunction_owned};
use datafusion::logical_expr::{Expr, Operator, utils::conjunction};

/// Splits `predicate` at AND, and takes the conditions common to all branches out of each OR: a join written as
/// `(a = b AND x) OR (a = b AND y)` is a join by `a = b`.
pub fn conjuncts(predicate: Expr) -> Vec<Expr> {
    split_conjunction_owned(predicate).into_iter().flat_map(factored).collect()
}

fn factored(predicate: Expr) -> Vec<Expr> {
    let branches = split_binary_owned(predicate.clone(), Operator::Or);
    let mut branches: Vec<Vec<Expr>> = branches.into_iter().map(split_conjunction_owned).collect();
    let Some((first, others)) = branches.split_first().filter(|(_, others)| !others.is_empty()) else {
        return vec![predicate];
    };
    let common = first.iter().filter(|expr| others.iter().all(|branch| branch.contains(expr)));
    let mut common: Vec<Expr> = common.cloned().collect();
    if common.is_empty() {
        return vec![predicate];
    }
    for branch in &mut branches {
        branch.retain(|expr| !common.contains(expr));
    }
    // A branch without further conditions makes the rest of the OR true.
    if branches.iter().all(|branch| !branch.is_empty()) {
        common.extend(disjunction(branches.into_iter().filter_map(conjunction)));
    }
    common
}

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::{col, lit};

    use super::*;

    #[test]
    fn what_all_branches_ask_is_taken_out() {
        let (a, b, c) = (|| col("a").eq(col("k")), || col("b").gt(lit(1)), || col("c").lt(lit(2)));
        let cases = [
            (a().and(b()).or(c().and(a())), vec![a(), b().or(c())]),
            (a().and(b()).or(a()), vec![a()]),
            (a().or(b()), vec![a().or(b())]),
            (a().and(b().or(c())), vec![a(), b().or(c())]),
            (
                a().and(b()).or(a().and(c())).or(a().and(b()).and(c())),
                vec![a(), b().or(c()).or(b().and(c()))],
            ),
        ];
        for (predicate, expected) in cases {
            assert_eq!(conjuncts(predicate.clone()), expected, "{predicate}");
        }
    }
}
