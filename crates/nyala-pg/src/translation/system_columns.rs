//! Columns that every table of PostgreSQL has without listing them, in queries of the system catalog.

use std::collections::HashMap;

use datafusion::sql::sqlparser::ast::{Expr, Statement as Ast, TableFactor};

use super::snippets::expression;
use super::walk::{Rewrite, rewrite};

/// Replaces the columns of system tables that are named with their table.
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
        let TableFactor::Table { name, alias, args: None, .. } = factor else { return };
        let [schema, table] = name.0.as_slice() else { return };
        let (Some(schema), Some(table)) = (schema.as_ident(), table.as_ident()) else { return };
        if schema.value.eq_ignore_ascii_case("pg_catalog") {
            let table = table.value.to_lowercase();
            let shown = alias.as_ref().map_or_else(|| table.clone(), |alias| alias.name.value.to_lowercase());
            self.0.insert(shown, table);
        }
    }
}

struct Columns<'a>(&'a HashMap<String, String>);

impl Rewrite for Columns<'_> {
    fn expr(&mut self, expr: &mut Expr) {
        let Expr::CompoundIdentifier(names) = expr else { return };
        let [alias, column] = names.as_mut_slice() else { return };
        let Some(table) = self.0.get(&alias.value.to_lowercase()) else { return };
        let value = match column.value.to_lowercase().as_str() {
            "tableoid" => expression(&format!("nyala_regclass('pg_catalog.{table}')")),
            "xmin" | "cmin" => expression("CAST(1 AS INT)"),
            // Its name since PostgreSQL 17, of which the table is.
            "colliculocale" => {
                "colllocale".clone_into(&mut column.value);
                None
            }
            _ => None,
        };
        if let Some(value) = value {
            *expr = value;
        }
    }
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
        let expected =
            "SELECT nyala_regclass('pg_catalog.pg_class'), t.xmin FROM pg_catalog.pg_class AS c, t";
        assert_eq!(ast.to_string().replace("pg_class c", "pg_class AS c"), expected);
    }
}
