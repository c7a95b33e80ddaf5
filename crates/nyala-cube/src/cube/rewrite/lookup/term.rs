//! Canonical forms of expressions: two expressions of one meaning have one form, under any names of their columns.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem::discriminant;

use datafusion::common::Column;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{BinaryExpr, Case, Expr, Operator};

/// An expression with its form, and its parts with theirs.
///
/// Expressions that [`normalize`](crate::cube::expression::normalize) makes equal have one form: operands have no
/// order, columns no names, casts and aliases are left out. The reverse need not hold.
#[derive(Debug)]
pub struct Term<'e> {
    /// A hash of the form.
    pub form: u64,
    /// The columns it reads, each once.
    pub columns: Vec<&'e Column>,
    /// The expression; none for an equality that `CASE base WHEN value` only implies.
    pub expr: Option<&'e Expr>,
    pub parts: Vec<Term<'e>>,
}

impl<'e> Term<'e> {
    pub fn of(expr: &'e Expr) -> Self {
        match expr {
            Expr::Alias(alias) => Self::of(&alias.expr),
            Expr::Cast(cast) => {
                let inner = Self::of(&cast.expr);
                Self::with(inner.form, Some(expr), vec![inner])
            }
            Expr::Column(column) => {
                let form = hash(|state| "column".hash(state));
                Self { form, columns: vec![column], expr: Some(expr), parts: Vec::new() }
            }
            Expr::Literal(value, _) => {
                let form = hash(|state| value.hash(state));
                Self { form, columns: Vec::new(), expr: Some(expr), parts: Vec::new() }
            }
            Expr::BinaryExpr(binary) => Self::of_binary(binary, expr),
            Expr::Case(case) => Self::of_case(case, expr),
            _ => {
                let parts = parts_of(expr);
                let form = hash(|state| {
                    discriminant(expr).hash(state);
                    if let Expr::ScalarFunction(call) = expr {
                        call.func.name().hash(state);
                    }
                    parts.iter().for_each(|part| part.form.hash(state));
                });
                Self::with(form, Some(expr), parts)
            }
        }
    }

    fn of_binary(binary: &'e BinaryExpr, expr: &'e Expr) -> Self {
        let (left, right) = (Self::of(&binary.left), Self::of(&binary.right));
        let form = equality_like(binary.op, &left, &right);
        Self::with(form, Some(expr), vec![left, right])
    }

    /// `CASE base WHEN value` compares, though it has no comparison as its part.
    fn of_case(case: &'e Case, expr: &'e Expr) -> Self {
        let mut parts = Vec::new();
        for (when, then) in &case.when_then_expr {
            let when = Self::of(when);
            parts.push(match &case.expr {
                Some(base) => {
                    let base = Self::of(base);
                    Self::with(equality_like(Operator::Eq, &base, &when), None, vec![base, when])
                }
                None => when,
            });
            parts.push(Self::of(then));
        }
        parts.extend(case.else_expr.as_deref().map(Self::of));
        let form = hash(|state| {
            (discriminant(expr), case.else_expr.is_some(), case.expr.is_some()).hash(state);
            parts.iter().for_each(|part| part.form.hash(state));
        });
        Self::with(form, Some(expr), parts)
    }

    fn with(form: u64, expr: Option<&'e Expr>, parts: Vec<Self>) -> Self {
        let mut columns: Vec<&Column> = Vec::new();
        for column in parts.iter().flat_map(|part| part.columns.iter().copied()) {
            if !columns.contains(&column) {
                columns.push(column);
            }
        }
        Self { form, columns, expr, parts }
    }
}

/// The form of a commutative operator: the same for both orders of its operands.
fn equality_like(op: Operator, left: &Term<'_>, right: &Term<'_>) -> u64 {
    let op = match op {
        Operator::Gt => Operator::Lt,
        Operator::GtEq => Operator::LtEq,
        other => other,
    };
    hash(|state| {
        op.hash(state);
        (left.form.min(right.form), left.form.max(right.form)).hash(state);
    })
}

fn parts_of(expr: &Expr) -> Vec<Term<'_>> {
    let mut parts = Vec::new();
    // The closure never fails, so the walk cannot either.
    let _ = expr.apply_children(|part| {
        parts.push(Term::of(part));
        Ok(TreeNodeRecursion::Continue)
    });
    parts
}

fn hash(write: impl FnOnce(&mut DefaultHasher)) -> u64 {
    let mut state = DefaultHasher::new();
    write(&mut state);
    state.finish()
}

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::{case, cast, col, lit};

    use super::*;
    use crate::cube::expression::{Equalities, normalize};

    #[test]
    fn expressions_that_normalise_alike_have_one_form() {
        let equal = Equalities::of(&[col("t0.a").eq(col("t1.b"))]);
        let alike = [
            (col("t0.a") + lit(1), lit(1) + col("t1.b")),
            (col("t0.a").gt(lit(5)), lit(5).lt(col("t1.b"))),
            (col("t0.a").lt_eq(col("t0.c")), col("t0.c").gt_eq(col("t1.b")).alias("x")),
            (col("t0.a").in_list(vec![lit(1)], false), col("t1.b").in_list(vec![lit(1)], false)),
        ];
        for (one, other) in alike {
            assert_eq!(normalize(&one, &equal), normalize(&other, &equal));
            assert_eq!(Term::of(&one).form, Term::of(&other).form, "{one} {other}");
        }
        assert_ne!(Term::of(&(col("a") + lit(1))).form, Term::of(&(col("a") + lit(2))).form);
    }

    #[test]
    fn the_comparisons_of_case_are_parts() {
        let chosen = case(col("t0.a")).when(lit(1), col("t0.x")).end().unwrap();
        let parts: Vec<u64> = Term::of(&chosen).parts.iter().map(|part| part.form).collect();
        assert!(parts.contains(&Term::of(&col("t0.z").eq(lit(1))).form));
        let wide = cast(col("t0.a"), arrow::datatypes::DataType::Int64);
        assert_eq!(Term::of(&wide).form, Term::of(&col("t0.a")).form);
    }
}
