//! The columns of a result have the names that PostgreSQL gives them. A name is for people: several columns may have the
//! same, which DataFusion does not allow. Such a query is planned with names that differ, and only a qualifier, which no
//! client sees, tells its columns apart.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, SchemaError, TableReference};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, cast};
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    Expr as SqlExpr, Ident, OrderBy, OrderByKind, Query, SelectItem, SetExpr, Statement as SqlStatement,
    Value as SqlValue, visit_expressions,
};
use nyala_sql::error::Result;
use nyala_sql::statement::{items_of, marked, name_casts, title_of, unmarked};

/// Resolves names and types of `statement`.
pub async fn plan(mut statement: DfStatement, state: &SessionState) -> Result<LogicalPlan> {
    let titles =
        query_of(&statement).and_then(items_of).map(|items| items.iter().map(title_of).collect::<Vec<_>>());
    if let (Some(titles), Some(query)) = (&titles, query_of_mut(&mut statement)) {
        order_by_titles(query, titles);
    }
    if let Some(query) = query_of_mut(&mut statement) {
        name_groupings(query);
    }
    if let DfStatement::Statement(ast) = &mut statement {
        name_casts(ast);
    }
    let apart = with_marks(&statement);
    let planned = state.statement_to_plan(statement).await;
    let plan = match (planned, apart) {
        (Err(error), Some(apart)) if is_of_names(&error) => match state.statement_to_plan(apart).await {
            // The first error has the names that the client wrote.
            Err(again) if is_of_names(&again) => return Err(error.into()),
            planned => planned?,
        },
        (planned, _) => planned?,
    };
    match (plan, titles) {
        (plan @ (LogicalPlan::Dml(_) | LogicalPlan::Ddl(_) | LogicalPlan::Explain(_)), _) => Ok(plan),
        (plan, titles) => {
            let zone = state.config_options().execution.time_zone.as_deref().unwrap_or("UTC");
            Ok(entitled(plan, titles.as_deref().unwrap_or(&[]), zone)?)
        }
    }
}

/// The query of a statement, or of the source of an INSERT.
fn query_of(statement: &DfStatement) -> Option<&Query> {
    let DfStatement::Statement(statement) = statement else { return None };
    match statement.as_ref() {
        SqlStatement::Query(query) => Some(query),
        SqlStatement::Insert(insert) => insert.source.as_deref(),
        _ => None,
    }
}

fn query_of_mut(statement: &mut DfStatement) -> Option<&mut Query> {
    let DfStatement::Statement(statement) = statement else { return None };
    match statement.as_mut() {
        SqlStatement::Query(query) => Some(query),
        SqlStatement::Insert(insert) => insert.source.as_deref_mut(),
        _ => None,
    }
}

/// `ORDER BY count` finds the column of `count(*)` by its position. A column that was given a name, or is one of a table, is found
/// by that.
fn order_by_titles(query: &mut Query, titles: &[Option<String>]) {
    let Some(items) = items_of(query) else { return };
    let is_generated = |item: &SelectItem| {
        matches!(item, SelectItem::UnnamedExpr(expr)
            if !matches!(expr, SqlExpr::Identifier(_) | SqlExpr::CompoundIdentifier(_)))
    };
    let generated: Vec<bool> = items.iter().map(is_generated).collect();
    let Some(OrderBy { kind: OrderByKind::Expressions(orders), .. }) = &mut query.order_by else { return };
    for order in orders {
        let SqlExpr::Identifier(name) = &order.expr else { continue };
        let name = folded(name);
        let mut found = titles.iter().enumerate().filter(|(_, title)| title.as_ref() == Some(&name));
        let before = titles.iter().position(Option::is_none).unwrap_or(titles.len());
        if let (Some((position, _)), None) = (found.next(), found.next())
            && position < before
            && generated.get(position) == Some(&true)
        {
            order.expr = SqlExpr::Value(SqlValue::Number((position + 1).to_string(), false).into());
        }
    }
}

/// Gives names to columns computed from `grouping`: the planner finds no other ones by the positions of ORDER BY.
fn name_groupings(query: &mut Query) {
    if query.order_by.is_none() {
        return;
    }
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    for (position, item) in select.projection.iter_mut().enumerate() {
        let Some(title) = title_of(item) else { return };
        if let SelectItem::UnnamedExpr(expr) = item
            && !matches!(expr, SqlExpr::Function(_))
            && calls_grouping(expr)
        {
            let alias = Ident::with_quote('"', marked(position, &title));
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
        }
    }
}

fn calls_grouping(expr: &SqlExpr) -> bool {
    let is_call = |part: &SqlExpr| matches!(part, SqlExpr::Function(call) if call.name.to_string().eq_ignore_ascii_case("grouping"));
    visit_expressions(
        expr,
        |part| if is_call(part) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) },
    )
    .is_break()
}

fn is_of_names(error: &DataFusionError) -> bool {
    match error.find_root() {
        DataFusionError::SchemaError(error, _) => matches!(
            error.as_ref(),
            SchemaError::DuplicateQualifiedField { .. }
                | SchemaError::DuplicateUnqualifiedField { .. }
                | SchemaError::AmbiguousReference { .. }
        ),
        DataFusionError::Plan(message) => message.contains("require unique expression names"),
        _ => false,
    }
}

/// The statement with names of their own for columns that others may have the name of; none if there are no such columns.
fn with_marks(statement: &DfStatement) -> Option<DfStatement> {
    let mut marked_statement = statement.clone();
    let query = query_of_mut(&mut marked_statement)?;
    let mut body = query.body.as_mut();
    let select = loop {
        match body {
            SetExpr::Select(select) => break select,
            SetExpr::Query(query) => body = query.body.as_mut(),
            SetExpr::SetOperation { left, .. } => body = left.as_mut(),
            _ => return None,
        }
    };
    let has_any = select.projection.iter().any(|item| title_of(item).is_none());
    let mut known: HashMap<String, usize> = HashMap::new();
    let mut changed = false;
    for (position, item) in select.projection.iter_mut().enumerate() {
        let Some(title) = title_of(item) else { continue };
        let count = known.entry(title.clone()).or_default();
        *count += 1;
        let is_column = matches!(item, SelectItem::UnnamedExpr(SqlExpr::Identifier(_)));
        if *count == 1 && !has_any && is_column {
            continue;
        }
        let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else { continue };
        let alias = Ident::with_quote('"', marked(position, &title));
        *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
        changed = true;
    }
    changed.then_some(marked_statement)
}

/// The plan with the names that its columns have for people, and moments in the zone of the session.
fn entitled(
    plan: LogicalPlan,
    titles: &[Option<String>],
    zone: &str,
) -> datafusion::error::Result<LogicalPlan> {
    let columns = plan.schema().columns();
    // Behind a `*` of some columns, items are counted from the end.
    let front = titles.iter().position(Option::is_none).unwrap_or(titles.len());
    let back = titles.iter().rev().position(Option::is_none).unwrap_or(titles.len());
    let title = |position: usize| {
        let at = if position < front {
            Some(position)
        } else {
            let from_end = columns.len() - position;
            (from_end <= back).then(|| titles.len() - from_end)
        };
        at.and_then(|at| titles.get(at)).and_then(Option::as_deref)
    };
    let names: Vec<String> = columns
        .iter()
        .enumerate()
        .map(|(position, column)| title(position).unwrap_or_else(|| unmarked(&column.name)).to_owned())
        .collect();
    let moved: Vec<Option<DataType>> =
        plan.schema().fields().iter().map(|field| in_zone(field.data_type(), zone)).collect();
    let is_named = names.iter().zip(&columns).all(|(name, column)| *name == column.name);
    if is_named && moved.iter().all(Option::is_none) {
        return Ok(plan);
    }
    let (exprs, input) = match plan {
        LogicalPlan::Projection(Projection { expr, input, .. }) => (expr, input),
        other => (columns.into_iter().map(Expr::Column).collect(), Arc::new(other)),
    };
    // Each column gets a qualifier, because a name with a qualifier and the same name without one are ambiguous.
    let named =
        exprs.into_iter().zip(moved).zip(names).enumerate().map(|(position, ((expr, moved), name))| {
            let qualifier = TableReference::bare(marked(position, ""));
            let expr = expr.unalias();
            let expr = moved.map_or(expr.clone(), |data_type| cast(expr, data_type));
            expr.alias_qualified(Some(qualifier), name)
        });
    Ok(LogicalPlan::Projection(Projection::try_new(named.collect(), input)?))
}

/// The type of moments of another zone in this one.
fn in_zone(data_type: &DataType, zone: &str) -> Option<DataType> {
    match data_type {
        DataType::Timestamp(unit, Some(other)) if **other != *zone => {
            Some(DataType::Timestamp(*unit, Some(zone.into())))
        }
        _ => None,
    }
}

fn folded(name: &Ident) -> String {
    match name.quote_style {
        Some(_) => name.value.clone(),
        None => name.value.to_lowercase(),
    }
}
