//! Columns that every table of PostgreSQL has without listing them, in queries of the system catalog.

use std::collections::HashMap;

use datafusion::sql::sqlparser::ast::{
    AccessExpr, Expr, Query, Select, SelectItem, SetExpr, Statement as Ast, Subscript, TableFactor,
};

use super::snippets::{expression, substituted};
use super::walk::{Rewrite, rewrite};

/// Replaces the columns of system tables, and keeps their titles.
pub fn replace(ast: &mut Ast) {
    let mut tables = Tables::default();
    rewrite(ast, &mut tables);
    if !tables.0.is_empty() {
        rewrite(ast, &mut Columns(&tables.0));
    }
}

/// System tables by the names they have in the statement.
#[derive(Default)]
struct Tables(HashMap<String, String>);

impl Rewrite for Tables {
    fn table(&mut self, factor: &mut TableFactor) {
        if let Some((shown, table)) = system_table(factor) {
            self.0.insert(shown, table);
        }
    }
}

/// The name that a system table has in a statement, and the name of the table.
fn system_table(factor: &TableFactor) -> Option<(String, String)> {
    let TableFactor::Table { name, alias, args: None, .. } = factor else { return None };
    let [schema, table] = name.0.as_slice() else { return None };
    let (schema, table) = (schema.as_ident()?, table.as_ident()?);
    if !schema.value.eq_ignore_ascii_case("pg_catalog") {
        return None;
    }
    let table = table.value.to_lowercase();
    let shown = alias.as_ref().map_or_else(|| table.clone(), |alias| alias.name.value.to_lowercase());
    Some((shown, table))
}

struct Columns<'a>(&'a HashMap<String, String>);

impl Rewrite for Columns<'_> {
    fn query(&mut self, query: &mut Query) {
        self.body(&mut query.body);
    }

    fn expr(&mut self, expr: &mut Expr) {
        if let Some(value) = letter_of_name(expr).or_else(|| self.value(expr)) {
            *expr = value;
        }
    }
}

impl Columns<'_> {
    fn body(&self, body: &mut SetExpr) {
        match body {
            SetExpr::Select(select) => self.select(select),
            SetExpr::SetOperation { left, right, .. } => {
                self.body(left);
                self.body(right);
            }
            _ => {}
        }
    }

    /// Replaces output columns. A column without a table belongs to the only table, and every column keeps its name.
    fn select(&self, select: &mut Select) {
        let only = match select.from.as_slice() {
            [from] if from.joins.is_empty() => system_table(&from.relation),
            _ => None,
        };
        for item in &mut select.projection {
            let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else {
                continue;
            };
            let (value, title) = match expr {
                Expr::Identifier(name) => {
                    let table = only.as_ref().map(|(_, table)| table);
                    (table.and_then(|table| constant(table, &name.value)), name.clone())
                }
                Expr::CompoundIdentifier(names) => match names.last().cloned() {
                    Some(title) => (self.value(expr), title),
                    None => continue,
                },
                _ => continue,
            };
            match (value, &mut *item) {
                (Some(value), SelectItem::UnnamedExpr(_)) => {
                    *item = SelectItem::ExprWithAlias { expr: value, alias: title };
                }
                (Some(value), SelectItem::ExprWithAlias { expr, .. }) => *expr = value,
                _ => {}
            }
        }
    }

    fn value(&self, expr: &mut Expr) -> Option<Expr> {
        let Expr::CompoundIdentifier(names) = expr else { return None };
        let [alias, column] = names.as_mut_slice() else { return None };
        let table = self.0.get(&alias.value.to_lowercase())?;
        if column.value.eq_ignore_ascii_case("colliculocale") {
            // The table is PostgreSQL 17's, where the column has this name.
            "colllocale".clone_into(&mut column.value);
            return None;
        }
        constant(table, &column.value)
    }
}

/// The value of a column that is the same in all rows.
fn constant(table: &str, column: &str) -> Option<Expr> {
    match column.to_lowercase().as_str() {
        "tableoid" => expression(&format!("nyala_regclass('pg_catalog.{table}')")),
        "xmin" | "cmin" => expression("CAST(1 AS INT)"),
        _ => None,
    }
}

/// `typname[0]`, the first letter of a name.
fn letter_of_name(expr: &Expr) -> Option<Expr> {
    let Expr::CompoundFieldAccess { root, access_chain } = expr else { return None };
    let [AccessExpr::Subscript(Subscript::Index { index })] = access_chain.as_slice() else { return None };
    let last = match root.as_ref() {
        Expr::Identifier(name) => name,
        Expr::CompoundIdentifier(names) => names.last()?,
        _ => return None,
    };
    let is_name = last.value.eq_ignore_ascii_case("typname") || last.value.eq_ignore_ascii_case("relname");
    is_name.then(|| substituted(&format!("substr(p, ({index}) + 1, 1)"), root)).flatten()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::snippets::statement;
    use super::*;

    #[test]
    fn columns_of_system_tables_are_replaced() {
        let mut ast = statement("SELECT c.tableoid, t.xmin FROM pg_catalog.pg_class c, t").unwrap();
        replace(&mut ast);
        let expected = "SELECT nyala_regclass('pg_catalog.pg_class') AS tableoid, t.xmin FROM pg_catalog.pg_class AS c, t";
        assert_eq!(ast.to_string().replace("pg_class c", "pg_class AS c"), expected);
        let mut ast = statement("SELECT tableoid, typname[0] FROM pg_catalog.pg_type").unwrap();
        replace(&mut ast);
        let expected = "SELECT nyala_regclass('pg_catalog.pg_type') AS tableoid, SUBSTR(typname, (0) + 1, 1) \
             FROM pg_catalog.pg_type";
        assert_eq!(ast.to_string(), expected);
    }
}
