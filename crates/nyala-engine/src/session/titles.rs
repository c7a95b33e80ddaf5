//! The columns of a result have the names that PostgreSQL gives them. A name is for people: several columns may have the
//! same, which DataFusion does not allow. Such a query is planned with names that differ, and only a qualifier, which no
//! client sees, tells its columns apart.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, SchemaError, TableReference};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, cast};
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    Distinct, Expr as SqlExpr, GroupByExpr, Ident, OrderBy, OrderByKind, Query, Select, SelectItem, SetExpr,
    Statement as SqlStatement, Value as SqlValue, visit_expressions,
};
use nyala_sql::error::Result;
use nyala_sql::statement::{folded, items_of, marked, name_casts, share_queries, title_of, unmarked};

use super::merged_joins::merge_columns;

/// Resolves names and types of `statement`.
pub async fn plan(mut statement: DfStatement, state: &SessionState) -> Result<LogicalPlan> {
    merge_columns(&mut statement, state).await?;
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
        share_queries(ast)?;
    }
    let plan = resolved(statement, state).await?;
    match (plan, titles) {
        (plan @ (LogicalPlan::Dml(_) | LogicalPlan::Ddl(_) | LogicalPlan::Explain(_)), _) => Ok(plan),
        (plan, titles) => {
            let zone = state.config_options().execution.time_zone.as_deref().unwrap_or("UTC");
            Ok(entitled(plan, titles.as_deref().unwrap_or(&[]), zone)?)
        }
    }
}

/// The plan of a statement, if need be with names that differ.
async fn resolved(statement: DfStatement, state: &SessionState) -> Result<LogicalPlan> {
    if !may_get_marks(&statement) {
        return Ok(state.statement_to_plan(statement).await?);
    }
    if orders_behind_aliases(&statement)
        && let Some(apart) = with_marks(&statement, Keys::Orders)
        && let Ok(plan) = state.statement_to_plan(apart).await
    {
        return Ok(plan);
    }
    let error = match state.statement_to_plan(statement.clone()).await {
        Err(error) if is_of_names(&error) => error,
        planned => return Ok(planned?),
    };
    let Some(apart) = with_marks(&statement, Keys::Orders) else { return Err(error.into()) };
    let again = match state.statement_to_plan(apart).await {
        Err(again) => again,
        Ok(plan) => return Ok(plan),
    };
    // A name in GROUP BY means a column of FROM, unless there is none.
    if let Some(grouped) = with_marks(&statement, Keys::OrdersAndGroups)
        && let Ok(plan) = state.statement_to_plan(grouped).await
    {
        return Ok(plan);
    }
    // The first error has the names that the client wrote.
    Err(if is_of_names(&again) { error.into() } else { again.into() })
}

/// Whether [`with_marks`] may give columns other names. It does not where all are columns of tables, named once each, or where there is
/// no SELECT.
fn may_get_marks(statement: &DfStatement) -> bool {
    let mut names = HashSet::new();
    let is_named_once = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(SqlExpr::Identifier(name)) => names.insert(folded(name)),
        _ => false,
    };
    !query_of(statement).and_then(items_of).unwrap_or(&[]).iter().all(is_named_once)
}

/// Which keys may name items of the SELECT list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keys {
    Orders,
    OrdersAndGroups,
}

/// Whether an expression in ORDER BY has the name of an alias. It means a column of FROM there, unless there is none: only a name on
/// its own means the alias.
fn orders_behind_aliases(statement: &DfStatement) -> bool {
    let Some(query) = query_of(statement) else { return false };
    let Some(OrderBy { kind: OrderByKind::Expressions(orders), .. }) = &query.order_by else { return false };
    let items = items_of(query).unwrap_or(&[]);
    let is_alias = |name: &Ident| {
        items.iter().any(
            |item| matches!(item, SelectItem::ExprWithAlias { alias, .. } if folded(alias) == folded(name)),
        )
    };
    let keys = orders.iter().map(|order| bare(&order.expr));
    let mut expressions = keys.filter(|key| !matches!(key, SqlExpr::Identifier(_)));
    expressions.any(|key| has_part(key, |part| matches!(part, SqlExpr::Identifier(name) if is_alias(name))))
}

/// The expression without the brackets around it.
fn bare(expr: &SqlExpr) -> &SqlExpr {
    match expr {
        SqlExpr::Nested(inner) => bare(inner),
        other => other,
    }
}

fn has_part(expr: &SqlExpr, is_it: impl Fn(&SqlExpr) -> bool) -> bool {
    let found =
        visit_expressions(
            expr,
            |part| {
                if is_it(part) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            },
        );
    found.is_break()
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
    has_part(
        expr,
        |part| matches!(part, SqlExpr::Function(call) if call.name.to_string().eq_ignore_ascii_case("grouping")),
    )
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

/// The statement with a new name for each column that may have the name of another; none if there are no such columns, or if a key may
/// mean several of them.
fn with_marks(statement: &DfStatement, of: Keys) -> Option<DfStatement> {
    let mut marked_statement = statement.clone();
    let (select, mut keys) = first_select(query_of_mut(&mut marked_statement)?)?;
    let Select { distinct, projection, group_by, .. } = select;
    if let Some(Distinct::On(on)) = distinct {
        keys.extend(on);
    }
    if of == Keys::OrdersAndGroups
        && let GroupByExpr::Expressions(groups, _) = group_by
    {
        keys.extend(groups);
    }
    let has_any = projection.iter().any(|item| title_of(item).is_none());
    let mut known: HashMap<String, Vec<Namesake>> = HashMap::new();
    let mut changed = false;
    for (position, item) in projection.iter_mut().enumerate() {
        let Some(title) = title_of(item) else { continue };
        let is_named = matches!(item, SelectItem::ExprWithAlias { .. });
        let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else { continue };
        let expr = expr.clone();
        let namesakes = known.entry(title.clone()).or_default();
        let is_column = !is_named && matches!(expr, SqlExpr::Identifier(_));
        let mark = (!namesakes.is_empty() || has_any || !is_column)
            .then(|| Ident::with_quote('"', marked(position, &title)));
        if let Some(alias) = &mark {
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: alias.clone() };
            changed = true;
        }
        namesakes.push(Namesake { expr, mark, is_named });
    }
    for key in keys {
        let SqlExpr::Identifier(name) = bare(key) else { continue };
        let Some(namesakes) = known.get(&folded(name)) else { continue };
        let Some(first) = namesakes.first() else { continue };
        let are_same = namesakes.iter().all(|other| other.expr == first.expr);
        if !are_same && namesakes.iter().any(|other| other.is_named) {
            return None;
        }
        // The columns that `*` stands for may have the name, too, if the item has no alias.
        if let Some(mark) = &first.mark
            && are_same
            && (first.is_named || !has_any)
        {
            *key = SqlExpr::Identifier(mark.clone());
        }
    }
    changed.then_some(marked_statement)
}

/// An item of a SELECT list among those of the same name.
struct Namesake {
    expr: SqlExpr,
    /// The new name of the item.
    mark: Option<Ident>,
    /// Whether the item has an alias.
    is_named: bool,
}

/// The SELECT that names the columns of a query, and the keys of ORDER BY, which may be such names.
fn first_select(query: &mut Query) -> Option<(&mut Select, Vec<&mut SqlExpr>)> {
    let Query { body, order_by, .. } = query;
    let mut keys: Vec<&mut SqlExpr> = sort_keys(order_by).collect();
    let mut body = body.as_mut();
    loop {
        match body {
            SetExpr::Select(select) => return Some((select.as_mut(), keys)),
            SetExpr::Query(query) => {
                let Query { body: inner, order_by, .. } = query.as_mut();
                keys.extend(sort_keys(order_by));
                body = inner.as_mut();
            }
            SetExpr::SetOperation { left, .. } => body = left.as_mut(),
            _ => return None,
        }
    }
}

fn sort_keys(order_by: &mut Option<OrderBy>) -> impl Iterator<Item = &mut SqlExpr> {
    let orders = match order_by {
        Some(OrderBy { kind: OrderByKind::Expressions(orders), .. }) => Some(orders),
        _ => None,
    };
    orders.into_iter().flatten().map(|order| &mut order.expr)
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
