//! Writes clauses that DataFusion's planner does not know in forms that it knows, and refuses clauses that it would leave out.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DataType, Expr, Function, GroupByExpr, Ident, LimitClause, ObjectNamePart, OrderBy,
    Query, Select, SetExpr, Statement, TableAlias, TableFactor, TableSample, TableSampleKind,
    TableSampleMethod, TypedString, Value, VisitMut, VisitorMut,
};

use super::calls::{
    before_operand, by_pattern, called, constants_in_order, literal_text, moment_of_word, no_element,
    of_interval, spell_months, with_fewer_arguments,
};
use super::distinct_keys::{keys_in_order, places_in_order};
use super::merged_columns::{Known, merge_columns};
use super::ordered_sets::{in_other_words, keep_titles};
use super::quantified::{count_rows, over_list};
use super::recursive::keep_clauses;
use super::row_comparisons::{compared_rows, row_in, row_in_list};
use super::select::resolve_positions_in_sets;
use super::set_functions::{order_by_items, rows_in_list, rows_of_table, series_to_from};
use super::snippets::{parse_expr, parse_query};
use crate::error::{ErrorKind, QueryError, Result};

/// Names of a collation by which texts are compared byte by byte, as all texts are.
const BYTEWISE: &[&str] = &["c", "posix", "ucs_basic", "default", "c.utf-8", "c.utf8"];

/// Rewrites the clauses of a statement.
pub fn rewrite_clauses(statement: &mut Statement) -> Result<()> {
    match statement.visit(&mut Clauses) {
        ControlFlow::Break(error) => Err(*error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Clauses;

impl VisitorMut for Clauses {
    type Break = Box<QueryError>;

    fn pre_visit_statement(&mut self, statement: &mut Statement) -> ControlFlow<Self::Break> {
        if let Statement::CreateTable(table) = statement {
            for column in &mut table.columns {
                count_microseconds(&mut column.data_type);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        or_break(of_query(query).and_then(|()| count_rows(query)))
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Self::Break> {
        or_break(of_table(factor))
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        or_break(of_expr(expr))
    }
}

fn or_break(done: Result<()>) -> ControlFlow<Box<QueryError>> {
    match done {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(Box::new(error)),
    }
}

/// The error for a clause that the planner would leave out.
pub fn unsupported(clause: &str, instead: &str) -> QueryError {
    QueryError::new(ErrorKind::Unsupported, format!("{clause} is not supported")).hint(instead)
}

fn of_query(query: &mut Query) -> Result<()> {
    if let SetExpr::Table(table) = query.body.as_ref() {
        let text = format!("SELECT * FROM {table}").replacen("TABLE ", "", 1);
        query.body = parse_query(&text)?.body;
    }
    if let Some(fetch) = query.fetch.take() {
        if fetch.with_ties || fetch.percent {
            return Err(unsupported(
                "FETCH with TIES or PERCENT",
                "compare `rank() OVER (ORDER BY …)` with the number of rows",
            ));
        }
        let rows = fetch.quantity.map_or_else(|| parse_expr("1"), Ok)?;
        match &mut query.limit_clause {
            Some(LimitClause::LimitOffset { limit: limit @ None, .. }) => *limit = Some(rows),
            None => {
                query.limit_clause =
                    Some(LimitClause::LimitOffset { limit: Some(rows), offset: None, limit_by: Vec::new() });
            }
            Some(_) => return Err(QueryError::new(ErrorKind::Syntax, "a query has both LIMIT and FETCH")),
        }
    }
    // Rows are not locked: a statement that changes rows is refused if another one changed them first.
    query.locks.clear();
    if query.for_clause.is_some() || query.settings.is_some() || query.format_clause.is_some() {
        return Err(unsupported("FOR XML, FOR JSON, SETTINGS or FORMAT behind a query", "leave it out"));
    }
    keep_clauses(query)?;
    keys_in_order(query);
    places_in_order(query);
    order_by_items(query);
    let Query { body, order_by, .. } = query;
    of_body(body, order_by.as_mut())
}

fn of_body(body: &mut SetExpr, order_by: Option<&mut OrderBy>) -> Result<()> {
    match body {
        SetExpr::Select(select) => of_select(select, order_by),
        SetExpr::SetOperation { left, right, .. } => {
            of_body(left, None)?;
            of_body(right, None)
        }
        _ => Ok(()),
    }
}

fn of_select(select: &mut Select, order_by: Option<&mut OrderBy>) -> Result<()> {
    if select.prewhere.is_some() || !select.connect_by.is_empty() || !select.distribute_by.is_empty() {
        return Err(unsupported(
            "PREWHERE, CONNECT BY or DISTRIBUTE BY",
            "use WHERE, WITH RECURSIVE, or leave it out",
        ));
    }
    if select.value_table_mode.is_some() {
        return Err(unsupported("SELECT AS VALUE or AS STRUCT", "name the columns"));
    }
    if let GroupByExpr::Expressions(groups, _) = &mut select.group_by {
        for group in groups {
            if matches!(group, Expr::Tuple(columns) if columns.is_empty()) {
                *group = Expr::GroupingSets(vec![Vec::new()]);
            }
        }
    }
    resolve_positions_in_sets(select);
    series_to_from(select);
    rows_in_list(select);
    keep_titles(select);
    // Joins whose columns have to be looked up are left to `merge_joins`.
    merge_columns(select, order_by, Known { columns_of: &|_| None, hidden: "" })?;
    Ok(())
}

/// A table in FROM: TABLESAMPLE becomes a condition on `random()`, and hints are refused.
fn of_table(factor: &mut TableFactor) -> Result<()> {
    rows_of_table(factor)?;
    match factor {
        TableFactor::Table { with_hints, partitions, index_hints, json_path, .. }
            if !with_hints.is_empty()
                || !partitions.is_empty()
                || !index_hints.is_empty()
                || json_path.is_some() =>
        {
            return Err(unsupported("a hint or a partition behind the name of a table", "leave it out"));
        }
        TableFactor::Table { with_ordinality: true, .. } => {
            return Err(unsupported("WITH ORDINALITY", "number the rows by `row_number() OVER ()`"));
        }
        _ => {}
    }
    let (TableFactor::Table { sample, .. } | TableFactor::Derived { sample, .. }) = factor else {
        return Ok(());
    };
    let Some(TableSampleKind::BeforeTableAlias(sample) | TableSampleKind::AfterTableAlias(sample)) =
        sample.take()
    else {
        return Ok(());
    };
    let percent = percent_of(&sample)?;
    let alias = match factor {
        TableFactor::Table { name, alias, .. } => {
            alias.take().or_else(|| Some(alias_of(name.0.last()?.as_ident()?.clone())))
        }
        TableFactor::Derived { alias, .. } => alias.take(),
        _ => None,
    };
    let text = format!("SELECT * FROM {factor} WHERE random() * 100 < ({percent})");
    let query = parse_query(&text)?;
    *factor = TableFactor::Derived { lateral: false, subquery: query, alias, sample: None };
    Ok(())
}

fn percent_of(sample: &TableSample) -> Result<&Expr> {
    let by_chance = matches!(sample.name, Some(TableSampleMethod::Bernoulli | TableSampleMethod::System));
    match &sample.quantity {
        Some(quantity)
            if by_chance
                && quantity.unit.is_none()
                && sample.seed.is_none()
                && sample.bucket.is_none()
                && sample.offset.is_none() =>
        {
            Ok(&quantity.value)
        }
        _ => Err(unsupported(
            "this form of TABLESAMPLE",
            "write TABLESAMPLE BERNOULLI (percent), without REPEATABLE",
        )),
    }
}

fn of_expr(expr: &mut Expr) -> Result<()> {
    let is_null = if matches!(expr, Expr::IsNull(_)) { "IS NULL" } else { "IS NOT NULL" };
    match expr {
        Expr::Collate { expr: inner, collation } => {
            let name = collation.0.last().and_then(ObjectNamePart::as_ident);
            let is_bytewise =
                name.is_some_and(|name| BYTEWISE.contains(&name.value.to_ascii_lowercase().as_str()));
            if !is_bytewise {
                let error = unsupported(
                    &format!("the collation {collation}"),
                    "texts are compared byte by byte, as by COLLATE \"C\"",
                );
                return Err(error);
            }
            *expr = std::mem::replace(inner, Expr::Identifier(Ident::new("")));
        }
        Expr::InSubquery { expr: row, subquery, negated } => {
            if matches!(subquery.body.as_ref(), SetExpr::Values(_)) {
                let text = format!("SELECT * FROM ({subquery}) AS __values");
                **subquery = *parse_query(&text)?;
            }
            if let Expr::Tuple(values) = row.as_ref() {
                *expr = row_in(values, subquery, *negated)?;
            }
        }
        Expr::InList { expr: row, list, negated } => {
            if let Expr::Tuple(values) = row.as_ref() {
                *expr = row_in_list(values, list, *negated)?;
            }
        }
        Expr::BinaryOp { left, op, right }
            if !matches!(op, BinaryOperator::PGStartsWith | BinaryOperator::PGOverlap) =>
        {
            if let (Expr::Tuple(left), Expr::Tuple(right)) = (left.as_ref(), right.as_ref())
                && let Some(compared) = compared_rows(left, op, right)?
            {
                *expr = compared;
            }
        }
        Expr::BinaryOp {
            left,
            op: op @ (BinaryOperator::PGStartsWith | BinaryOperator::PGOverlap),
            right,
        } => {
            *expr = called(left, op, right)?;
        }
        Expr::UnaryOp { op, expr: operand } => {
            if let Some(written) = before_operand(*op, operand)? {
                *expr = written;
            }
        }
        Expr::IsNull(row) | Expr::IsNotNull(row) if matches!(row.as_ref(), Expr::Tuple(_)) => {
            let Expr::Tuple(values) = row.as_ref() else { return Ok(()) };
            let all: Vec<String> = values.iter().map(|value| format!("({value}) {is_null}")).collect();
            *expr = parse_expr(&format!("({})", all.join(" AND ")))?;
        }
        Expr::AtTimeZone { timestamp, time_zone } => {
            // PostgreSQL makes a moment of a text in quotes, not a time without a zone.
            let cast = if literal_text(timestamp).is_some() { "::timestamptz" } else { "" };
            *expr = parse_expr(&format!("timezone({time_zone}, ({timestamp}){cast})"))?;
        }
        Expr::Substring { expr: text, substring_from: Some(from), substring_for, .. } => {
            if let Some(written) = by_pattern(text, from, substring_for.as_deref())? {
                *expr = written;
            }
        }
        Expr::Function(function) => {
            if let Some(written) = of_function(function)? {
                *expr = written;
            }
        }
        Expr::AnyOp { .. } | Expr::AllOp { .. } | Expr::Like { .. } | Expr::ILike { .. } => {
            if let Some(written) = over_list(expr)? {
                *expr = written;
            }
        }
        Expr::Interval(_) => of_interval(expr)?,
        Expr::CompoundFieldAccess { access_chain, .. } => access_chain.iter_mut().for_each(no_element),
        Expr::Cast { data_type, expr: value, .. } => {
            if let Some(written) = literal_text(value).and_then(|text| moment_of_word(text, data_type)) {
                *expr = parse_expr(&written)?;
                return Ok(());
            }
            count_microseconds(data_type);
            if matches!(data_type, DataType::Interval { .. }) {
                spell_months(value);
            }
        }
        Expr::TypedString(TypedString { data_type, value, .. }) => {
            let text = match &value.value {
                Value::SingleQuotedString(text) => text.as_str(),
                _ => "",
            };
            if let Some(written) = moment_of_word(text, data_type) {
                *expr = parse_expr(&written)?;
                return Ok(());
            }
            count_microseconds(data_type);
        }
        _ => {}
    }
    Ok(())
}

/// Rewrites a call, if DataFusion needs another one.
fn of_function(function: &mut Function) -> Result<Option<Expr>> {
    constants_in_order(function);
    if !function.within_group.is_empty() {
        return in_other_words(function);
    }
    if let Some(written) = with_fewer_arguments(function) {
        return parse_expr(&written).map(Some);
    }
    let of_now = match function.name.to_string().to_ascii_lowercase().as_str() {
        "localtimestamp" => "now()::timestamp(6)",
        "localtime" => "now()::time",
        "transaction_timestamp" | "statement_timestamp" | "clock_timestamp" => "now()",
        _ => return Ok(None),
    };
    parse_expr(of_now).map(Some)
}

/// Makes a timestamp count microseconds, if no other precision is written: nanoseconds would end in 2262.
pub fn count_microseconds(data_type: &mut DataType) {
    if let DataType::Timestamp(precision @ None, _) = data_type {
        *precision = Some(6);
    }
}

fn alias_of(name: Ident) -> TableAlias {
    TableAlias { explicit: true, name, columns: Vec::new(), at: None }
}
