//! Translates PostgreSQL's dialect into SQL that the engine can plan, in queries of the system catalog only.

use std::collections::HashSet;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, FunctionArguments, GroupByExpr, Ident, ObjectNamePart, Query, Select, SelectItem,
    SetExpr, Statement as Ast, TableAliasColumnDef, TableFactor, Value, ValueWithSpan,
};

use super::snippets::{self, quoted};
use super::walk::{Rewrite, any_expr, rewrite};
use crate::catalog::is_known;

/// Columns of access rights and storage options, which are NULL in every row.
const NULL_LISTS: &[&str] = &[
    "attacl",
    "fdwacl",
    "initprivs",
    "lanacl",
    "nspacl",
    "proacl",
    "relacl",
    "reloptions",
    "spcacl",
    "srvacl",
    "typacl",
];

const NULL_LIST: &str = "CAST(NULL AS TEXT[])";

/// Translates a statement. `settings` are the names and values for pg_settings.
pub fn translate(ast: &mut Ast, settings: &[(String, String)]) {
    rewrite(ast, &mut Dialect { settings });
}

/// Adds the schema to the names of system tables, which PostgreSQL finds without it.
pub struct Qualify;

impl Rewrite for Qualify {
    fn table(&mut self, factor: &mut TableFactor) {
        if let TableFactor::Table { name, args: None, .. } = factor
            && let [part] = name.0.as_slice()
            && part.as_ident().is_some_and(|name| is_known(&name.value))
        {
            name.0.insert(0, ObjectNamePart::Identifier(Ident::new("pg_catalog")));
        }
    }
}

struct Dialect<'a> {
    settings: &'a [(String, String)],
}

impl Rewrite for Dialect<'_> {
    fn query(&mut self, query: &mut Query) {
        if let SetExpr::Select(select) = query.body.as_mut() {
            name_nulls(select);
        }
    }

    fn table(&mut self, factor: &mut TableFactor) {
        name_column_of_function(factor);
        if let TableFactor::Table { name, alias, args: None, .. } = factor
            && name.to_string().eq_ignore_ascii_case("pg_catalog.pg_settings")
            && let Some(subquery) = settings_query(self.settings)
        {
            let alias =
                alias.as_ref().map_or_else(|| "pg_settings".to_owned(), |alias| alias.name.to_string());
            let sql = format!("SELECT 1 FROM ({subquery}) AS {alias}");
            if let Some(derived) = snippets::query(&sql).and_then(|query| first_factor(*query.body)) {
                *factor = derived;
            }
        }
    }

    fn expr(&mut self, expr: &mut Expr) {
        let replacement = match &mut *expr {
            column @ (Expr::Identifier(_) | Expr::CompoundIdentifier(_)) => {
                null_list_name(column).and_then(|_| snippets::expression(NULL_LIST))
            }
            Expr::BinaryOp { left, op: BinaryOperator::Eq, right } => {
                function_by_name(left, right);
                joined_by_name(left, right);
                joined_by_name(right, left);
                None
            }
            Expr::Function(function)
                if matches!(function.args, FunctionArguments::Subquery(_))
                    && function.name.to_string().eq_ignore_ascii_case("array") =>
            {
                snippets::expression(NULL_LIST)
            }
            Expr::Like { escape_char, pattern, .. } | Expr::ILike { escape_char, pattern, .. } => {
                backslash_escape(escape_char, pattern);
                None
            }
            Expr::Subquery(query) => match of_no_rows(query) {
                Some(nothing) => snippets::expression(nothing),
                None => {
                    aggregate_correlated(query);
                    None
                }
            },
            _ => None,
        };
        if let Some(replacement) = replacement {
            *expr = replacement;
        }
    }
}

/// Gives the one column of a function in FROM the name of the function, as PostgreSQL does.
fn name_column_of_function(factor: &mut TableFactor) {
    let alias = match factor {
        TableFactor::UNNEST { alias: Some(alias), array_exprs, .. } if array_exprs.len() == 1 => alias,
        TableFactor::Table { name, alias: Some(alias), args: Some(_), .. }
            if name.to_string().to_ascii_lowercase().ends_with("generate_series") =>
        {
            alias
        }
        _ => return,
    };
    if alias.columns.is_empty() {
        alias.columns.push(TableAliasColumnDef::from_name(alias.name.value.clone()));
    }
}

/// The name of a column that is NULL in every row.
fn null_list_name(expr: &Expr) -> Option<&Ident> {
    column_name(expr).filter(|name| NULL_LISTS.iter().any(|list| name.value.eq_ignore_ascii_case(list)))
}

fn column_name(expr: &Expr) -> Option<&Ident> {
    match expr {
        Expr::Identifier(name) => Some(name),
        Expr::CompoundIdentifier(names) => names.last(),
        _ => None,
    }
}

/// pg_type holds names of functions where PostgreSQL holds their OIDs: compares with the name then,
/// instead of with the OID that was looked up for it.
fn function_by_name(left: &Expr, right: &mut Box<Expr>) {
    const LOOKUP: &str = "SELECT oid FROM pg_catalog.pg_proc WHERE proname = '";
    if !names_function(left) {
        return;
    }
    let Expr::Subquery(query) = right.as_ref() else {
        return;
    };
    let text = query.to_string();
    let name = text.strip_prefix(LOOKUP).and_then(|rest| rest.split('\'').next());
    let bare = name.map(|name| name.strip_prefix("pg_catalog.").unwrap_or(name));
    if let Some(value) = bare.and_then(|name| snippets::expression(&quoted(name))) {
        **right = value;
    }
}

/// Whether an expression is a column of pg_type that names a function.
fn names_function(expr: &Expr) -> bool {
    let of_functions = ["typinput", "typoutput", "typreceive", "typsend"];
    column_name(expr)
        .is_some_and(|column| of_functions.iter().any(|name| column.value.eq_ignore_ascii_case(name)))
}

/// Compares with the name instead of the OID where pg_type is joined with pg_proc.
fn joined_by_name(function: &mut Expr, column: &Expr) {
    let Expr::CompoundIdentifier(names) = function else { return };
    if let (Some(oid), true) = (names.last_mut(), names_function(column))
        && oid.value.eq_ignore_ascii_case("oid")
    {
        *oid = Ident::new("proname");
    }
}

fn first_factor(body: SetExpr) -> Option<TableFactor> {
    match body {
        SetExpr::Select(mut select) => select.from.pop().map(|from| from.relation),
        _ => None,
    }
}

/// pg_settings with the values of this connection.
fn settings_query(settings: &[(String, String)]) -> Option<String> {
    let rows: Vec<String> = settings.iter().map(|(name, value)| setting_row(name, value)).collect();
    let nulls: Vec<String> = ["category", "short_desc", "extra_desc", "min_val", "max_val"]
        .iter()
        .map(|name| format!("CAST(NULL AS TEXT) AS {name}"))
        .collect();
    (!rows.is_empty()).then(|| {
        format!(
            "SELECT name, setting, unit, {}, 'user' AS context, 'string' AS vartype, 'default' AS source, \
             CAST(NULL AS TEXT[]) AS enumvals, setting AS boot_val, setting AS reset_val, \
             CAST(NULL AS TEXT) AS sourcefile, CAST(NULL AS INT) AS sourceline, false AS pending_restart \
             FROM (VALUES {}) AS v (name, setting, unit)",
            nulls.join(", "),
            rows.join(", ")
        )
    })
}

/// A row of pg_settings. A size is a number with a unit there.
fn setting_row(name: &str, value: &str) -> String {
    let megabytes = value.strip_suffix("MB").and_then(|number| number.parse::<u32>().ok());
    match megabytes {
        Some(number) => format!("({}, '{}', 'kB')", quoted(name), u64::from(number) * 1024),
        None => format!("({}, {}, CAST(NULL AS TEXT))", quoted(name), quoted(value)),
    }
}

/// Keeps the names of output columns that become NULL.
fn name_nulls(select: &mut Select) {
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) = item
            && let Some(name) = null_list_name(expr)
        {
            let (expr, alias) = (expr.clone(), name.clone());
            *item = SelectItem::ExprWithAlias { expr, alias };
        }
    }
}

/// Escapes with the backslash instead: the engine knows no other escape character.
fn backslash_escape(escape: &mut Option<ValueWithSpan>, pattern: &mut Box<Expr>) {
    let Some(Value::SingleQuotedString(character)) = escape.as_ref().map(|escape| &escape.value) else {
        return;
    };
    if character == "\\" || character.chars().count() != 1 {
        return;
    }
    let sql = format!("replace(replace(p, '\\', '\\\\'), {}, '\\')", quoted(character));
    if let Some(replaced) = snippets::substituted(&sql, pattern) {
        **pattern = replaced;
        *escape = None;
    }
}

/// The constant value of a subquery about the base of a domain, or the attributes of a type: there are neither. It
/// cannot be planned, since it is correlated and has WITH RECURSIVE or `array_agg`.
fn of_no_rows(query: &Query) -> Option<&'static str> {
    if query.with.as_ref().is_some_and(|with| with.recursive) {
        return Some("CAST(NULL AS INT)");
    }
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let [
        SelectItem::UnnamedExpr(Expr::Function(call))
        | SelectItem::ExprWithAlias { expr: Expr::Function(call), .. },
    ] = select.projection.as_slice()
    else {
        return None;
    };
    let of_attributes = call.name.to_string().eq_ignore_ascii_case("array_agg")
        && any_expr(select.as_ref(), &mut |expr| {
            column_name(expr).is_some_and(|name| name.value == "reltype")
        });
    of_attributes.then_some(NULL_LIST)
}

/// A subquery that looks up one value for each outer row is planned only if it aggregates: the maximum
/// of one value is that value.
fn aggregate_correlated(query: &mut Query) {
    let limited = query.limit_clause.is_some() || query.fetch.is_some();
    let SetExpr::Select(select) = query.body.as_mut() else {
        return;
    };
    let grouped = !matches!(&select.group_by, GroupByExpr::Expressions(by, _) if by.is_empty());
    if limited || grouped || select.having.is_some() || !is_correlated(select) {
        return;
    }
    let [SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }] =
        select.projection.as_mut_slice()
    else {
        return;
    };
    if any_expr(&*expr, &mut is_aggregate) {
        return;
    }
    if let Some(maximum) = snippets::substituted("max(p)", expr) {
        *expr = maximum;
        query.order_by = None;
    }
}

/// Whether an expression is an aggregate that tools use in such a subquery, which then gives one value already.
fn is_aggregate(expr: &Expr) -> bool {
    const AGGREGATES: [&str; 6] = ["array_agg", "bool_or", "count", "max", "min", "string_agg"];
    matches!(expr, Expr::Function(call) if AGGREGATES.iter().any(|name| call.name.to_string().eq_ignore_ascii_case(name)))
}

/// Whether an expression names a table that is not in the subquery itself.
fn is_correlated(select: &Select) -> bool {
    let mut own = HashSet::new();
    for table in &select.from {
        own.extend(name_of_factor(&table.relation));
        own.extend(table.joins.iter().filter_map(|join| name_of_factor(&join.relation)));
    }
    any_expr(select, &mut |expr| match expr {
        Expr::CompoundIdentifier(names) => {
            let table = names.len().checked_sub(2).and_then(|i| names.get(i));
            table.is_some_and(|table| !own.contains(&table.value.to_lowercase()))
        }
        _ => false,
    })
}

fn name_of_factor(factor: &TableFactor) -> Option<String> {
    match factor {
        TableFactor::Table { alias: Some(alias), .. } | TableFactor::Derived { alias: Some(alias), .. } => {
            Some(alias.name.value.to_lowercase())
        }
        TableFactor::Table { name, .. } => {
            name.0.last().and_then(|part| part.as_ident()).map(|name| name.value.to_lowercase())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn translated(sql: &str) -> String {
        let mut ast = snippets::statement(sql).unwrap();
        translate(&mut ast, &[("a".to_owned(), "it's".to_owned())]);
        ast.to_string()
    }

    #[test]
    fn spellings_are_translated() {
        let check = |sql, expected| assert_eq!(translated(sql), expected);
        check(
            "SELECT 1 FROM t WHERE a NOT LIKE $1 || '%' ESCAPE '/'",
            "SELECT 1 FROM t WHERE a NOT LIKE replace(replace($1 || '%', '\\', '\\\\'), '/', '\\')",
        );
        check("SELECT c.relacl FROM c", "SELECT CAST(NULL AS TEXT[]) AS relacl FROM c");
        check(
            "SELECT t.typinput = (SELECT oid FROM pg_catalog.pg_proc WHERE proname = 'pg_catalog.array_in') FROM t",
            "SELECT t.typinput = 'array_in' FROM t",
        );
        check("SELECT ARRAY(SELECT 1 FROM t)", "SELECT CAST(NULL AS TEXT[])");
    }

    #[test]
    fn only_correlated_subqueries_are_aggregated() {
        let check = |sql, expected| assert_eq!(translated(sql), expected);
        check(
            "SELECT (SELECT c.relkind = 'c' FROM pg_class AS c WHERE c.oid = t.typrelid) FROM t",
            "SELECT (SELECT max(c.relkind = 'c') FROM pg_class AS c WHERE c.oid = t.typrelid) FROM t",
        );
        let counted = "SELECT (SELECT array_agg(c.oid) FROM pg_class AS c WHERE c.oid = t.typrelid) FROM t";
        check(counted, counted);
        let plain = "SELECT (SELECT c.oid FROM pg_class AS c WHERE c.relname = 'a') FROM t";
        check(plain, plain);
    }

    #[test]
    fn settings_are_the_connections_own() {
        let sql = translated("SELECT setting FROM pg_catalog.pg_settings s WHERE s.name = 'a'");
        assert!(sql.contains("VALUES ('a', 'it''s', CAST") && sql.contains(") AS s WHERE"), "{sql}");
    }
}
