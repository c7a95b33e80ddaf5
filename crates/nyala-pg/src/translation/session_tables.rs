//! Tables of `pg_catalog` about the session itself, as queries with its rows: `pg_cursors`, `pg_prepared_statements`.

use datafusion::sql::sqlparser::ast::{SetExpr, Statement as Ast, TableFactor};

use super::session_facts::{CursorFact, PreparedFact, SessionFacts};
use super::snippets::{query, quoted};
use super::walk::{Rewrite, rewrite};

/// The names of the tables.
pub const NAMES: [&str; 2] = ["pg_cursors", "pg_prepared_statements"];

/// Puts queries in the places of the tables.
pub fn replace(ast: &mut Ast, facts: &impl SessionFacts) {
    rewrite(ast, &mut Tables { facts });
}

struct Tables<'a, F> {
    facts: &'a F,
}

impl<F: SessionFacts> Rewrite for Tables<'_, F> {
    fn table(&mut self, factor: &mut TableFactor) {
        let TableFactor::Table { name, alias, args: None, .. } = factor else { return };
        let written = name.to_string().to_ascii_lowercase();
        let table = written.strip_prefix("pg_catalog.").unwrap_or(&written);
        let rows = match table {
            "pg_cursors" => cursors(self.facts),
            "pg_prepared_statements" => prepared(self.facts),
            _ => return,
        };
        let alias = alias.as_ref().map_or_else(|| table.to_owned(), |alias| alias.name.to_string());
        if let Some(derived) = query(&format!("SELECT 1 FROM ({rows}) AS {alias}"))
            && let SetExpr::Select(mut select) = *derived.body
            && let Some(from) = select.from.pop()
        {
            *factor = from.relation;
        }
    }
}

const NO_CURSOR: &str = "('', '', false, false, 0)";
const NO_STATEMENT: &str = "('', '', 0, '')";

fn cursors(facts: &impl SessionFacts) -> String {
    let row = |cursor: &CursorFact| {
        let (name, text) = (quoted(&cursor.name), quoted(&cursor.text));
        format!("({name}, {text}, {}, {}, {})", cursor.hold, cursor.scroll, cursor.begun_us)
    };
    let rows: Vec<String> = facts.cursors().iter().map(row).collect();
    let columns = "name, statement, is_holdable, false AS is_binary, is_scrollable, \
         to_timestamp(begun_us / 1000000.0) AS creation_time";
    selected(columns, "name, statement, is_holdable, is_scrollable, begun_us", &rows, NO_CURSOR)
}

fn prepared(facts: &impl SessionFacts) -> String {
    let row = |statement: &PreparedFact| {
        let (name, text) = (quoted(&statement.name), quoted(&statement.text));
        let types = quoted(&format!("{{{}}}", statement.types.join(",")));
        format!("({name}, {text}, {}, {types})", statement.begun_us)
    };
    let rows: Vec<String> = facts.prepared().iter().map(row).collect();
    let columns = "name, statement, to_timestamp(begun_us / 1000000.0) AS prepare_time, parameter_types, \
         true AS from_sql, 0 AS generic_plans, 0 AS custom_plans";
    selected(columns, "name, statement, begun_us, parameter_types", &rows, NO_STATEMENT)
}

/// A query over `rows`. Without any it reads the row `nothing`, which gives the types, and drops it.
fn selected(columns: &str, names: &str, rows: &[String], nothing: &str) -> String {
    let (values, condition) = match rows {
        [] => (nothing.to_owned(), " WHERE false"),
        rows => (rows.join(", "), ""),
    };
    format!("SELECT {columns} FROM (VALUES {values}) AS v ({names}){condition}")
}
