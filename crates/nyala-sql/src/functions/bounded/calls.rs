//! Calls that the planner makes by itself, not by a name of the session: `position(a IN b)`, `ARRAY[…]`, `a || b`, `a ~ b`.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{BinaryExpr, Expr, Like, LogicalPlan, Operator, Projection, ScalarUDF};

use super::constant::for_rows;
use super::function::with_bound;
use super::joined::Joined;
use super::pattern::check_pattern;
use super::patterns::{Language, Patterns};

/// Whether an expression is a call that needs a bound.
pub fn needs_bound(expr: &Expr) -> bool {
    match expr {
        Expr::ScalarFunction(call) => with_bound(&call.func).is_some(),
        Expr::BinaryExpr(binary) => binary.op == Operator::StringConcat || language(binary.op).is_some(),
        other => matches!(other, Expr::Like(_) | Expr::SimilarTo(_)),
    }
}

/// Makes calls of columns that are long constants: a call is told the number of rows, and so can refuse too many.
pub fn constants_for_rows(projection: Projection) -> Result<Transformed<LogicalPlan>> {
    if !projection.expr.iter().any(|expr| for_rows(expr).is_some()) {
        return Ok(Transformed::no(LogicalPlan::Projection(projection)));
    }
    let exprs = projection.expr.into_iter().map(|expr| for_rows(&expr).unwrap_or(expr)).collect();
    let projection = Projection::try_new_with_schema(exprs, projection.input, projection.schema)?;
    Ok(Transformed::yes(LogicalPlan::Projection(projection)))
}

/// The same expression, with its bound if it is a call that needs one.
pub fn bound_call(expr: Expr) -> Result<Transformed<Expr>> {
    match expr {
        Expr::ScalarFunction(ScalarFunction { func, args }) => Ok(match with_bound(&func) {
            Some(func) => Transformed::yes(Expr::ScalarFunction(ScalarFunction { func, args })),
            None => Transformed::no(Expr::ScalarFunction(ScalarFunction { func, args })),
        }),
        Expr::BinaryExpr(BinaryExpr { op: Operator::StringConcat, .. }) => {
            let column = expr.schema_name().to_string();
            let Expr::BinaryExpr(BinaryExpr { left, right, .. }) = expr else {
                return Ok(Transformed::no(expr));
            };
            let function = Arc::new(ScalarUDF::from(Joined::new(column)));
            let function = with_bound(&function).unwrap_or(function);
            Ok(Transformed::yes(function.call(vec![*left, *right])))
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => Ok(match language(op) {
            Some(language) => {
                let right = checked(language, right)?;
                right.update_data(|right| Expr::BinaryExpr(BinaryExpr { left, op, right }))
            }
            None => Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })),
        }),
        Expr::Like(like) => Ok(checked(Language::Like, like.pattern)?
            .update_data(|pattern| Expr::Like(Like { pattern, ..like }))),
        Expr::SimilarTo(like) => Ok(checked(Language::Regex, like.pattern)?
            .update_data(|pattern| Expr::SimilarTo(Like { pattern, ..like }))),
        other => Ok(Transformed::no(other)),
    }
}

/// A pattern whose size is checked before it is compiled: that of a constant now, that of others when they are computed.
fn checked(language: Language, pattern: Box<Expr>) -> Result<Transformed<Box<Expr>>> {
    if let (Language::Regex, Some(constant)) = (language, pattern.as_literal())
        && let Some(Some(text)) = constant.try_as_str()
    {
        check_pattern("~", text)?;
    }
    // One pattern for all rows, as a parameter has, is compiled once.
    if !pattern.any_column_refs() {
        return Ok(Transformed::no(pattern));
    }
    let function = Arc::new(ScalarUDF::from(Patterns::new(language)));
    Ok(Transformed::yes(Box::new(function.call(vec![*pattern]))))
}

/// The language of the pattern on the right of an operator; none if the operator takes no pattern.
fn language(op: Operator) -> Option<Language> {
    use Operator::{
        ILikeMatch, LikeMatch, NotILikeMatch, NotLikeMatch, RegexIMatch, RegexMatch, RegexNotIMatch,
        RegexNotMatch,
    };
    match op {
        RegexMatch | RegexIMatch | RegexNotMatch | RegexNotIMatch => Some(Language::Regex),
        LikeMatch | ILikeMatch | NotLikeMatch | NotILikeMatch => Some(Language::Like),
        _ => None,
    }
}
