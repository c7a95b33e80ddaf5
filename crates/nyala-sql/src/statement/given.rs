//! Values that a statement gives to columns, as far as their meaning depends on the column.

use datafusion::sql::sqlparser::ast::{
    AssignmentTarget, CastKind, DataType, Expr, Ident, Insert, ObjectName, SetExpr, Statement, Update, Value,
    ValueWithSpan,
};

use super::snippets::parse_expr;
use super::titles::{items_of, title_of};
use super::versions::{folded, last};
use crate::error::{ErrorKind, QueryError, Result};

/// A column of the table that a statement writes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetColumn {
    /// Its name.
    pub name: String,
    /// Its type, as SQL.
    pub sql_type: String,
    /// Its default, as SQL.
    pub default: Option<String>,
}

impl TargetColumn {
    /// Whether the column has UUIDs, to which texts are not cast implicitly.
    fn is_uuid(&self) -> bool {
        self.sql_type == "uuid"
    }
}

/// Replaces DEFAULT by the column's default, and casts texts that are given to UUID columns.
pub fn fit_values(statement: &mut Statement, columns: &[TargetColumn]) -> Result<()> {
    match statement {
        Statement::Insert(insert) => fit_rows(insert, columns),
        Statement::Update(update) => fit_assignments(update, columns),
        _ => Ok(()),
    }
}

fn fit_rows(insert: &mut Insert, columns: &[TargetColumn]) -> Result<()> {
    name_first_columns(insert, columns);
    let named: Vec<String> = insert.columns.iter().filter_map(last).map(folded).collect();
    let Some(SetExpr::Values(values)) = insert.source.as_mut().map(|source| source.body.as_mut()) else {
        return Ok(());
    };
    let has_uuid = columns.iter().any(TargetColumn::is_uuid);
    for row in &mut values.rows {
        for (at, cell) in row.content.iter_mut().enumerate() {
            let is_fitted = is_default(cell) || has_uuid && is_text(cell);
            if !is_fitted {
                continue;
            }
            let column = match named.get(at) {
                Some(name) => columns.iter().find(|column| column.name == *name),
                None => columns.get(at).filter(|_| named.is_empty()),
            };
            if let Some(column) = column {
                fit(cell, column)?;
            }
        }
    }
    Ok(())
}

/// Names the first columns in an INSERT whose query has fewer columns than the table.
fn name_first_columns(insert: &mut Insert, columns: &[TargetColumn]) {
    let items = insert.source.as_deref().and_then(items_of);
    let Some(items) = items.filter(|_| insert.columns.is_empty()) else { return };
    if items.len() < columns.len() && items.iter().all(|item| title_of(item).is_some()) {
        let name = |column: &TargetColumn| ObjectName::from(vec![Ident::with_quote('"', &column.name)]);
        insert.columns = columns.iter().take(items.len()).map(name).collect();
    }
}

fn fit_assignments(update: &mut Update, columns: &[TargetColumn]) -> Result<()> {
    for assignment in &mut update.assignments {
        let AssignmentTarget::ColumnName(name) = &assignment.target else { continue };
        let name = last(name).map(folded);
        if let Some(column) = columns.iter().find(|column| Some(&column.name) == name.as_ref()) {
            fit(&mut assignment.value, column)?;
        }
    }
    Ok(())
}

fn fit(value: &mut Expr, column: &TargetColumn) -> Result<()> {
    if is_default(value) {
        *value = match &column.default {
            Some(text) => Expr::Nested(Box::new(parse_expr(text).map_err(|_| unreadable(column))?)),
            None => Expr::Value(Value::Null.into()),
        };
    } else if column.is_uuid() && is_text(value) {
        let expr = Box::new(value.clone());
        *value =
            Expr::Cast { kind: CastKind::Cast, expr, data_type: DataType::Uuid, array: false, format: None };
    }
    Ok(())
}

fn unreadable(column: &TargetColumn) -> QueryError {
    QueryError::new(
        ErrorKind::InvalidDefinition,
        format!("the default of column `{}` cannot be read", column.name),
    )
}

fn is_default(value: &Expr) -> bool {
    matches!(value, Expr::Identifier(Ident { value, quote_style: None, .. }) if value.eq_ignore_ascii_case("default"))
}

fn is_text(value: &Expr) -> bool {
    matches!(
        value,
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(_) | Value::Placeholder(_), .. })
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;

    #[test]
    fn values_fit_the_columns_they_are_given_to() {
        let column = |name: &str, sql_type: &str, default: Option<&str>| TargetColumn {
            name: name.to_owned(),
            sql_type: sql_type.to_owned(),
            default: default.map(str::to_owned),
        };
        let columns = [column("a", "integer", Some("1 + 2")), column("b", "uuid", None)];
        let check = |sql: &str, expected: &str| {
            let mut statement = Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap().remove(0);
            fit_values(&mut statement, &columns).unwrap();
            assert_eq!(statement.to_string(), expected);
        };
        check(
            "INSERT INTO t VALUES (DEFAULT, 'x'), ('y', NULL)",
            "INSERT INTO t VALUES ((1 + 2), CAST('x' AS UUID)), ('y', NULL)",
        );
        check(
            "INSERT INTO t (b, a) VALUES ($1, DEFAULT)",
            "INSERT INTO t (b, a) VALUES (CAST($1 AS UUID), (1 + 2))",
        );
        check("INSERT INTO t (b) VALUES (DEFAULT)", "INSERT INTO t (b) VALUES (NULL)");
        check("UPDATE t SET a = DEFAULT, b = 'x'", "UPDATE t SET a = (1 + 2), b = CAST('x' AS UUID)");
        check("INSERT INTO t SELECT 'x'", "INSERT INTO t (\"a\") SELECT 'x'");
        check("INSERT INTO t SELECT 'x', 'y'", "INSERT INTO t SELECT 'x', 'y'");
    }
}
