//! Writes comparisons of rows column by column.

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Query, Select, TableFactor, TableWithJoins};

use super::snippets::parse_expr;
use crate::error::{ErrorKind, QueryError, Result};

/// The alias of the subquery whose rows are compared with a row.
const ROW: &str = "__row";

/// A comparison of two rows, column by column; none for an operator that rows do not have.
pub fn compared_rows(left: &[Expr], op: &BinaryOperator, right: &[Expr]) -> Result<Option<Expr>> {
    if left.len() != right.len() {
        return Err(QueryError::new(ErrorKind::InvalidText, "rows have different numbers of columns"));
    }
    let in_order = |strict: &str, last: &str| {
        let cases = (0..left.len()).map(|at| {
            let before =
                left.iter().zip(right).take(at).map(|(one, other)| format!("({one}) = ({other}) AND "));
            let op = if at + 1 == left.len() { last } else { strict };
            let pair = left.get(at).zip(right.get(at)).map(|(one, other)| format!("({one}) {op} ({other})"));
            format!("({}{})", before.collect::<String>(), pair.unwrap_or_default())
        });
        cases.collect::<Vec<_>>().join(" OR ")
    };
    let text = match op {
        BinaryOperator::Eq => equal_rows(left, right),
        BinaryOperator::NotEq => format!("NOT ({})", equal_rows(left, right)),
        BinaryOperator::Lt => in_order("<", "<"),
        BinaryOperator::LtEq => in_order("<", "<="),
        BinaryOperator::Gt => in_order(">", ">"),
        BinaryOperator::GtEq => in_order(">", ">="),
        _ => return Ok(None),
    };
    Ok(Some(parse_expr(&format!("({text})"))?))
}

/// The condition that two rows are equal, as text.
fn equal_rows(left: &[Expr], right: &[Expr]) -> String {
    let pairs = left.iter().zip(right).map(|(one, other)| format!("({one}) = ({other})"));
    pairs.collect::<Vec<_>>().join(" AND ")
}

/// `(a, b) IN (SELECT …)`: true if a row is equal, and otherwise unknown if one may be.
pub fn row_in(values: &[Expr], subquery: &Query, negated: bool) -> Result<Expr> {
    let columns: Vec<String> = (1..=values.len()).map(|at| format!("__column_{at}")).collect();
    let pairs = |compared: &str| {
        let pairs = columns.iter().zip(values);
        pairs
            .map(|(column, value)| format!("({ROW}.{column} = ({value})){compared}"))
            .collect::<Vec<_>>()
            .join(" AND ")
    };
    let rows = format!("({subquery}) AS {ROW}({})", columns.join(", "));
    let text = format!(
        "{} (CASE WHEN EXISTS (SELECT 1 FROM {rows} WHERE {}) THEN TRUE \
         WHEN EXISTS (SELECT 1 FROM {rows} WHERE {}) THEN NULL ELSE FALSE END)",
        if negated { "NOT" } else { "" },
        pairs(""),
        pairs(" IS NOT FALSE"),
    );
    parse_expr(&text)
}

/// Whether a SELECT was made by [`row_in`].
pub fn compares_rows(select: &Select) -> bool {
    let alias = match select.from.as_slice() {
        [TableWithJoins { relation: TableFactor::Derived { alias, .. }, .. }] => alias.as_ref(),
        _ => None,
    };
    alias.is_some_and(|alias| alias.name.value == ROW)
}

/// `(a, b) IN ((c, d), …)`: the row is equal to one in the list.
pub fn row_in_list(values: &[Expr], list: &[Expr], negated: bool) -> Result<Expr> {
    let rows = list.iter().map(|other| match other {
        Expr::Tuple(others) if others.len() == values.len() => {
            Ok(format!("({})", equal_rows(values, others)))
        }
        _ => Err(QueryError::new(ErrorKind::InvalidText, "rows have different numbers of columns")),
    });
    let any = rows.collect::<Result<Vec<_>>>()?.join(" OR ");
    parse_expr(&format!("{} ({any})", if negated { "NOT" } else { "" }))
}
