//! Comparisons with any or all values of a written-out list, and LIMIT with a number in quotes.

use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, BinaryOperator, CastKind, DataType, Expr, LimitClause, Query, UnaryOperator, Value,
    ValueWithSpan,
};
use nyala_model::array_text::array_elements;

use crate::error::{ErrorKind, QueryError, Result};

/// Most elements of a written-out list: each becomes a comparison of its own.
const MAX_ELEMENTS: usize = 1000;

/// Writes `x = ANY ('{1,2}')` as `x IN ('1', '2')`, `x = ANY (ARRAY[1, 2.5, y])` as `x IN (1, 2.5, y)`, and
/// other operators as comparisons with each element of a text; none if the list is not written out.
pub fn over_list(expr: &Expr) -> Result<Option<Expr>> {
    match expr {
        Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. } => {
            Ok(values_of(right)?.map(|values| in_list(left, values, false)))
        }
        Expr::AllOp { left, compare_op: BinaryOperator::NotEq, right } => {
            Ok(values_of(right)?.map(|values| in_list(left, values, true)))
        }
        Expr::AnyOp { left, compare_op, right, .. } => {
            let Some(elements) = elements_of(right)? else { return Ok(not_all(left, compare_op, right)) };
            let compared = |element| compare(left, compare_op, element);
            Ok(Some(chain(elements.into_iter().map(compared), BinaryOperator::Or, false)))
        }
        Expr::AllOp { left, compare_op, right } => {
            let Some(elements) = elements_of(right)? else { return Ok(None) };
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

/// Writes `x > ANY(list)` as `NOT x <= ALL(list)`, for which the planner handles NULL correctly. None for
/// `=`, which the planner can find in indexes, and for queries.
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

/// The elements of an array that is written as a text; none for other expressions.
fn elements_of(list: &Expr) -> Result<Option<Vec<Expr>>> {
    match text_elements(list)? {
        Some(elements) if elements.len() > MAX_ELEMENTS => {
            let message = format!("an array in a comparison has more than {MAX_ELEMENTS} elements");
            Err(QueryError::new(ErrorKind::LimitExceeded, message).hint("join a table of the values"))
        }
        elements => Ok(elements),
    }
}

fn text_elements(list: &Expr) -> Result<Option<Vec<Expr>>> {
    let text = match unnested(list) {
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) => text,
        _ => return Ok(None),
    };
    let elements = array_elements(text).ok_or_else(|| {
        QueryError::new(ErrorKind::InvalidValue, format!("malformed array literal: `{text}`"))
            .hint("write `{1,2}`, with elements in double quotes where they have commas or braces")
    })?;
    let value =
        |element: Option<String>| Expr::Value(element.map_or(Value::Null, Value::SingleQuotedString).into());
    Ok(Some(elements.into_iter().map(value).collect()))
}

/// The values of a list that become those of IN; none if the list is not written out.
fn values_of(list: &Expr) -> Result<Option<Vec<Expr>>> {
    match elements_of(list)? {
        Some(elements) => Ok(Some(elements)),
        None => listed_in(list),
    }
}

/// The elements of a written-out array of numbers, also if it is cast to one, and of a written-out array whose elements are computed.
///
/// DataFusion 55 searches an array by a function, and refuses a value that would have to become a wider decimal for that. A list of
/// values follows the rules of comparisons.
fn listed_in(list: &Expr) -> Result<Option<Vec<Expr>>> {
    match list {
        Expr::Nested(inner) => listed_in(inner),
        Expr::Array(array) => {
            let are_numbers = array.elem.iter().any(is_number)
                && array.elem.iter().all(|element| is_number(element) || is_null(element));
            let are_computed = array.elem.len() <= MAX_ELEMENTS
                && array.elem.iter().any(|element| !is_constant(element))
                && !array.elem.iter().any(|element| matches!(element, Expr::Array(_)));
            Ok((are_numbers || are_computed).then(|| array.elem.clone()))
        }
        Expr::Cast {
            kind: CastKind::Cast | CastKind::DoubleColon,
            expr,
            data_type: DataType::Array(ArrayElemTypeDef::SquareBracket(item, None)),
            array: false,
            format: None,
        } if is_number_type(item) => {
            let elements = match unnested(expr) {
                Expr::Array(array) if array.elem.iter().all(is_constant) => Some(array.elem.clone()),
                // A longer list stays an array, which is searched.
                other => text_elements(other)?.filter(|elements| elements.len() <= MAX_ELEMENTS),
            };
            let of_type = |element| Expr::Cast {
                kind: CastKind::Cast,
                expr: Box::new(element),
                data_type: (**item).clone(),
                array: false,
                format: None,
            };
            Ok(elements.map(|elements| elements.into_iter().map(of_type).collect()))
        }
        _ => Ok(None),
    }
}

fn unnested(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => unnested(inner),
        other => other,
    }
}

/// Whether an expression is a literal number, maybe with a sign or a cast.
fn is_number(expr: &Expr) -> bool {
    match expr {
        Expr::Value(ValueWithSpan { value: Value::Number(..), .. }) => true,
        Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr } | Expr::Nested(expr) => {
            is_number(expr)
        }
        Expr::Cast { expr, data_type, .. } => is_number_type(data_type) && is_constant(expr),
        _ => false,
    }
}

fn is_null(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(ValueWithSpan { value: Value::Null, .. }))
}

/// Whether an expression is a number, a text in quotes or NULL.
fn is_constant(expr: &Expr) -> bool {
    let is_text = matches!(expr, Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(_), .. }));
    is_text || is_null(expr) || is_number(expr)
}

fn is_number_type(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Numeric(_)
            | DataType::Decimal(_)
            | DataType::Dec(_)
            | DataType::SmallInt(_)
            | DataType::Int2(_)
            | DataType::Int(_)
            | DataType::Int4(_)
            | DataType::Integer(_)
            | DataType::BigInt(_)
            | DataType::Int8(_)
            | DataType::Real
            | DataType::Float4
            | DataType::Float(_)
            | DataType::Float8
            | DataType::Double(_)
            | DataType::DoublePrecision
    )
}

fn compare(left: &Expr, op: &BinaryOperator, element: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left.clone()), op: op.clone(), right: Box::new(element) }
}

/// `value IN (list)`. An empty list contains nothing, not even NULL.
fn in_list(value: &Expr, list: Vec<Expr>, negated: bool) -> Expr {
    match list.is_empty() {
        true => Expr::Value(Value::Boolean(negated).into()),
        false => Expr::InList { expr: Box::new(value.clone()), list, negated },
    }
}

/// Comparisons joined by AND or OR; `of_none` if there are none.
fn chain(compared: impl Iterator<Item = Expr>, op: BinaryOperator, of_none: bool) -> Expr {
    let join = |left: Expr, right: Expr| Expr::BinaryOp {
        left: Box::new(left),
        op: op.clone(),
        right: Box::new(right),
    };
    let joined = compared.reduce(join).unwrap_or(Expr::Value(Value::Boolean(of_none).into()));
    Expr::Nested(Box::new(joined))
}

/// Replaces `LIMIT '2'` by `LIMIT 2`: drivers send numbers of rows as texts.
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::statement::snippets::parse_expr;

    #[test]
    fn numbers_of_an_array_are_a_list() {
        let check = |text: &str, expected: &str| {
            let written = over_list(&parse_expr(text).unwrap()).unwrap();
            assert_eq!(written.map(|expr| expr.to_string()).unwrap_or_default(), expected, "{text}");
        };
        check("x = ANY (ARRAY[1, -2.5, NULL])", "x IN (1, -2.5, NULL)");
        check("x <> ALL ((ARRAY[1.5]))", "x NOT IN (1.5)");
        check("x = ANY (ARRAY[1.5::numeric(3,1), 2])", "x IN (1.5::NUMERIC(3,1), 2)");
        check("x = ANY ('{1.5,NULL}'::numeric[])", "x IN (CAST('1.5' AS NUMERIC), CAST(NULL AS NUMERIC))");
        check("x = ANY (CAST(ARRAY['2', 3] AS int[]))", "x IN (CAST('2' AS INT), CAST(3 AS INT))");
        check("x = ANY (ARRAY[]::numeric[])", "false");
        check("x <> ALL (ARRAY[]::numeric[])", "true");
        check("x = ANY (ARRAY[y, 1.5])", "x IN (y, 1.5)");
        check("x <> ALL (ARRAY[upper(y), 'b'])", "x NOT IN (upper(y), 'b')");
        for other in ["ARRAY['1.5']", "ARRAY[NULL]", "ARRAY[[1.5]]", "ARRAY[[y]]", "y", "ARRAY[1.5]::text[]"]
        {
            check(&format!("x = ANY ({other})"), "");
        }
    }
}
