//! Columns of one name: `SELECT count(*), count(*)`. Standard SQL allows them in what a query gives, DataFusion does not. Such a
//! query is planned under names of ours, and gives its columns under its own: apart only by a qualifier, which nobody sees.

use std::collections::HashMap;

use datafusion::common::{Column, DataFusionError, SchemaError, TableReference};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    Expr as SqlExpr, Ident, OrderBy, OrderByKind, Select, SelectItem, SetExpr, Statement as SqlStatement,
};
use nyala_sql::error::Result;

/// Begins the names that are ours: no client can write it without meaning to.
const MARK: char = '\u{1}';

/// Resolves names and types of `statement`.
pub(super) async fn plan(statement: DfStatement, state: &SessionState) -> Result<LogicalPlan> {
    // In ORDER BY a name is a column of the result, and within an expression one of a table.
    let own = orders_by_names(&statement).then_some(Casts::AsTheirColumns);
    let ways: Vec<_> = own.into_iter().chain([Casts::Apart]).map(|casts| rename(&statement, casts)).collect();
    let refused = match state.statement_to_plan(statement).await {
        Err(error) if is_of_names(&error) => error,
        planned => return Ok(planned?),
    };
    for (renamed, titles) in ways.into_iter().flatten() {
        match state.statement_to_plan(renamed).await {
            Ok(plan @ LogicalPlan::Dml(_)) => return Ok(plan),
            Ok(plan) => return Ok(restore(plan, &titles)?),
            Err(error) if is_of_names(&error) => {}
            Err(error) => return Err(error.into()),
        }
    }
    // It speaks of the names that the client wrote.
    Err(refused.into())
}

/// What casts of columns are called while the query is planned.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Casts {
    /// As PostgreSQL calls them: then they are what ORDER BY means.
    AsTheirColumns,
    /// So that nothing is mistaken for them.
    Apart,
}

/// Whether ORDER BY has nothing but names and positions.
fn orders_by_names(statement: &DfStatement) -> bool {
    let DfStatement::Statement(statement) = statement else { return false };
    let SqlStatement::Query(query) = statement.as_ref() else { return false };
    let Some(OrderBy { kind: OrderByKind::Expressions(items), .. }) = &query.order_by else { return true };
    items.iter().all(|item| matches!(item.expr, SqlExpr::Identifier(_) | SqlExpr::Value(_)))
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

/// A column under a name of ours.
struct Title {
    /// In the SELECT list.
    item: usize,
    ours: String,
    own: Own,
}

/// What the query calls it.
enum Own {
    Name(String),
    /// As the column at this position.
    Like(usize),
}

/// The statement with other names for columns that may be called like others; none if there are no such columns.
fn rename(statement: &DfStatement, casts: Casts) -> Option<(DfStatement, Vec<Title>)> {
    let DfStatement::Statement(sql) = statement else { return None };
    let titles = titles(&select_of(sql)?.projection, casts);
    if titles.is_empty() {
        return None;
    }
    let mut renamed = sql.clone();
    let items = &mut select_of_mut(&mut renamed)?.projection;
    for title in &titles {
        let item = items.get_mut(title.item)?;
        let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else { continue };
        let alias = Ident::with_quote('"', &title.ours);
        *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
    }
    Some((DfStatement::Statement(renamed), titles))
}

/// The outermost SELECT of a query, or of what an INSERT writes.
fn select_of(statement: &SqlStatement) -> Option<&Select> {
    let query = match statement {
        SqlStatement::Query(query) => query,
        SqlStatement::Insert(insert) => insert.source.as_ref()?,
        _ => return None,
    };
    query.body.as_select()
}

fn select_of_mut(statement: &mut SqlStatement) -> Option<&mut Select> {
    let query = match statement {
        SqlStatement::Query(query) => query,
        SqlStatement::Insert(insert) => insert.source.as_mut()?,
        _ => return None,
    };
    match query.body.as_mut() {
        SetExpr::Select(select) => Some(select),
        _ => None,
    }
}

fn titles(items: &[SelectItem], casts: Casts) -> Vec<Title> {
    let mut first: HashMap<String, usize> = HashMap::new();
    let mut titles = Vec::new();
    let known: Vec<Option<Name>> = items.iter().map(name_of).collect();
    let names: Vec<Option<&String>> = known.iter().map(|name| name.as_ref().and_then(Name::given)).collect();
    let all = known.iter().position(Option::is_none);
    for (item, (given, name)) in items.iter().zip(&known).enumerate() {
        let Some(name) = name else { continue };
        let (key, name) = match name.clone() {
            Name::Given(name) => (name.clone(), Some(name)),
            Name::Text(text) => (text.to_lowercase(), None),
        };
        let earlier = first.get(&key).copied();
        first.entry(key).or_insert(item);
        let own = match (name, earlier) {
            // What `*` gives may be called so.
            (Some(name), earlier) if earlier.is_some() || all.is_some() => Own::Name(name),
            (None, Some(earlier)) if all.is_none_or(|all| earlier < all) => Own::Like(earlier),
            (Some(name), None) if is_cast(given) => {
                let is_only = names.iter().filter(|other| **other == Some(&name)).count() == 1;
                let ours = match casts {
                    Casts::AsTheirColumns if is_only => name.clone(),
                    _ => format!("{MARK}{item}"),
                };
                titles.push(Title { item, ours, own: Own::Name(name) });
                continue;
            }
            _ => continue,
        };
        titles.push(Title { item, ours: format!("{MARK}{item}"), own });
    }
    titles
}

/// What a column is called after.
#[derive(Clone)]
enum Name {
    Given(String),
    /// The text of its expression.
    Text(String),
}

impl Name {
    fn given(&self) -> Option<&String> {
        match self {
            Self::Given(name) => Some(name),
            Self::Text(_) => None,
        }
    }
}

/// None if the item stands for any number of columns.
fn name_of(item: &SelectItem) -> Option<Name> {
    Some(match item {
        SelectItem::ExprWithAlias { alias, .. } => Name::Given(folded(alias)),
        SelectItem::UnnamedExpr(expr) => match without_casts(expr) {
            SqlExpr::Identifier(name) => Name::Given(folded(name)),
            SqlExpr::CompoundIdentifier(names) => Name::Given(folded(names.last()?)),
            expr => Name::Text(expr.to_string()),
        },
        _ => return None,
    })
}

fn is_cast(item: &SelectItem) -> bool {
    matches!(item, SelectItem::UnnamedExpr(SqlExpr::Cast { .. }))
}

/// What is cast lends its name to the cast.
fn without_casts(expr: &SqlExpr) -> &SqlExpr {
    match expr {
        SqlExpr::Cast { expr, .. } | SqlExpr::Nested(expr) => without_casts(expr),
        other => other,
    }
}

fn folded(name: &Ident) -> String {
    match name.quote_style {
        Some(_) => name.value.clone(),
        None => name.value.to_ascii_lowercase(),
    }
}

/// The plan with columns called as the query calls them.
fn restore(plan: LogicalPlan, titles: &[Title]) -> datafusion::error::Result<LogicalPlan> {
    let columns = plan.schema().columns();
    let own = |column: &Column| {
        let title = titles.iter().find(|title| title.ours == column.name);
        match title.map(|title| &title.own) {
            Some(Own::Name(name)) => name.clone(),
            Some(Own::Like(position)) => columns.get(*position).unwrap_or(column).name.clone(),
            None => column.name.clone(),
        }
    };
    // With a qualifier for each, because one with and one without are ambiguous.
    let projected = columns.iter().enumerate().map(|(position, column)| {
        let qualifier = TableReference::bare(format!("{MARK}{position}"));
        Expr::Column(column.clone()).alias_qualified(Some(qualifier), own(column))
    });
    let projected: Vec<Expr> = projected.collect();
    LogicalPlanBuilder::from(plan).project(projected)?.build()
}
