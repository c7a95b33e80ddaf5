//! Comparisons with any or all values of a list that is written out, and numbers of rows in quotes.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, LimitClause, Query, UnaryOperator, Value, ValueWithSpan,
};
use nyala_model::array_text::array_elements;

use crate::error::{ErrorKind, QueryError, Result};

/// Elements of a list that is written out, at most: each becomes a comparison of its own.
const MAX_ELEMENTS: usize = 1000;

/// `x = ANY ('{1,2}')` as `x IN ('1', '2')`, and other operators as comparisons with each element; none if the list is
/// not written out.
pub fn over_list(expr: &Expr) -> Result<Option<Expr>> {
    match expr {
        Expr::AnyOp { left, compare_op, right, .. } => {
            let Some(elements) = elements_of(right)? else { return Ok(not_all(left, compare_op, right)) };
            if *compare_op == BinaryOperator::Eq {
                return Ok(Some(in_list(left, elements, false)));
            }
            let compared = |element| compare(left, compare_op, element);
            Ok(Some(chain(elements.into_iter().map(compared), BinaryOperator::Or, false)))
        }
        Expr::AllOp { left, compare_op, right } => {
            let Some(elements) = elements_of(right)? else { return Ok(None) };
            if *compare_op == BinaryOperator::NotEq {
                return Ok(Some(in_list(left, elements, true)));
            }
            let compared = |element| compare(left, compare_op, element);
            Ok(Some(chain(elements.into_iter().map(compared), BinaryOperator::And, true)))
        }
        Expr::Like { any: true, negated, expr, pattern, escape_char } => {
            let like = |pattern| Expr::Like {
                negated: *negated,
                any: false,
                expr: expr.clone(),
                pattern: Box::new(pattern),
                escape_char: escape_char.clone(),
            };
            like_any(pattern, like)
        }
        Expr::ILike { any: true, negated, expr, pattern, escape_char } => {
            let like = |pattern| Expr::ILike {
                negated: *negated,
                any: false,
                expr: expr.clone(),
                pattern: Box::new(pattern),
                escape_char: escape_char.clone(),
            };
            like_any(pattern, like)
        }
        _ => Ok(None),
    }
}

/// `x > ANY(list)` as `NOT x <= ALL(list)`, of which the planner knows what NULL means; none of `=`, which it finds in indexes,
/// and of queries.
fn not_all(left: &Expr, op: &BinaryOperator, list: &Expr) -> Option<Expr> {
    let opposite = match op {
        BinaryOperator::NotEq => BinaryOperator::Eq,
        BinaryOperator::Lt => BinaryOperator::GtEq,
        BinaryOperator::LtEq => BinaryOperator::Gt,
        BinaryOperator::Gt => BinaryOperator::LtEq,
        BinaryOperator::GtEq => BinaryOperator::Lt,
        _ => return None,
    };
    if matches!(list, Expr::Subquery(_)) {
        return None;
    }
    let all =
        Expr::AllOp { left: Box::new(left.clone()), compare_op: opposite, right: Box::new(list.clone()) };
    let negated = Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(Expr::Nested(Box::new(all))) };
    Some(Expr::Nested(Box::new(negated)))
}

fn like_any(pattern: &Expr, like: impl Fn(Expr) -> Expr) -> Result<Option<Expr>> {
    let listed = match pattern {
        Expr::Tuple(patterns) => Some(patterns.clone()),
        Expr::Array(patterns) => Some(patterns.elem.clone()),
        Expr::Nested(inner) if matches!(inner.as_ref(), Expr::Array(_)) => return like_any(inner, like),
        other => elements_of(other)?,
    };
    match listed {
        Some(patterns) => Ok(Some(chain(patterns.into_iter().map(like), BinaryOperator::Or, false))),
        None => Err(QueryError::new(ErrorKind::Unsupported, "LIKE ANY of a list that is not written out")
            .hint("write the patterns: `x LIKE ANY (ARRAY['a%', 'b%'])`")),
    }
}

/// The elements of an array that is written as a text; none of anything else.
fn elements_of(list: &Expr) -> Result<Option<Vec<Expr>>> {
    let text = match list {
        Expr::Nested(inner) => return elements_of(inner),
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) => text,
        _ => return Ok(None),
    };
    let elements = array_elements(text).ok_or_else(|| {
        QueryError::new(ErrorKind::InvalidValue, format!("malformed array literal: `{text}`"))
            .hint("write `{1,2}`, with elements in double quotes where they have commas or braces")
    })?;
    if elements.len() > MAX_ELEMENTS {
        let message = format!("an array in a comparison has more than {MAX_ELEMENTS} elements");
        return Err(QueryError::new(ErrorKind::LimitExceeded, message).hint("join a table of the values"));
    }
    let value =
        |element: Option<String>| Expr::Value(element.map_or(Value::Null, Value::SingleQuotedString).into());
    Ok(Some(elements.into_iter().map(value).collect()))
}

fn compare(left: &Expr, op: &BinaryOperator, element: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left.clone()), op: op.clone(), right: Box::new(element) }
}

/// Nothing is in an empty list, also NULL.
fn in_list(value: &Expr, list: Vec<Expr>, negated: bool) -> Expr {
    match list.is_empty() {
        true => Expr::Value(Value::Boolean(negated).into()),
        false => Expr::InList { expr: Box::new(value.clone()), list, negated },
    }
}

/// The comparisons joined by AND or OR; `of_none` if there are none.
fn chain(compared: impl Iterator<Item = Expr>, op: BinaryOperator, of_none: bool) -> Expr {
    let join = |left: Expr, right: Expr| Expr::BinaryOp {
        left: Box::new(left),
        op: op.clone(),
        right: Box::new(right),
    };
    let joined = compared.reduce(join).unwrap_or(Expr::Value(Value::Boolean(of_none).into()));
    Expr::Nested(Box::new(joined))
}

/// `LIMIT '2'` is `LIMIT 2`: drivers send numbers of rows as texts.
pub fn count_rows(query: &mut Query) -> Result<()> {
    match &mut query.limit_clause {
        Some(LimitClause::LimitOffset { limit, offset, .. }) => {
            limit.iter_mut().try_for_each(|limit| count(limit, "LIMIT"))?;
            offset.iter_mut().try_for_each(|offset| count(&mut offset.value, "OFFSET"))
        }
        Some(LimitClause::OffsetCommaLimit { offset, limit }) => {
            count(limit, "LIMIT")?;
            count(offset, "OFFSET")
        }
        None => Ok(()),
    }
}

fn count(rows: &mut Expr, clause: &str) -> Result<()> {
    if let Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) = rows {
        let number: i64 = text.trim().parse().map_err(|_| {
            let message = format!("invalid input for type bigint: `{text}`");
            QueryError::new(ErrorKind::InvalidValue, message).hint(format!("{clause} takes a number of rows"))
        })?;
        *rows = Expr::Value(Value::Number(number.to_string(), false).into());
    }
    Ok(())
}
