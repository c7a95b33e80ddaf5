//! Duplicate columns: `SELECT count(*), count(*)`. Standard SQL allows them in the result of a query, DataFusion does
//! not. Such a query is planned with generated names, and its columns get their own names back: only a qualifier, which
//! no client sees, tells them apart.

use std::collections::HashMap;

use datafusion::common::{Column, DataFusionError, SchemaError, TableReference};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    Expr as SqlExpr, Ident, OrderBy, OrderByKind, Select, SelectItem, SetExpr, Statement as SqlStatement,
};
use nyala_sql::error::Result;

/// First character of generated names: no client writes it by accident.
const MARK: char = '\u{1}';

/// Resolves names and types of `statement`.
pub async fn plan(statement: DfStatement, state: &SessionState) -> Result<LogicalPlan> {
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
    // The first error has the names that the client wrote.
    Err(refused.into())
}

/// Names of casts of columns while the query is planned.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Casts {
    /// The column's name, as in PostgreSQL: then ORDER BY finds the cast by it.
    AsTheirColumns,
    /// A generated name, which no other column has.
    Apart,
}

/// Whether ORDER BY has only names and positions.
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

/// A column under a generated name.
struct Title {
    /// Position in the SELECT list.
    item: usize,
    ours: String,
    own: Own,
}

/// The column's own name in the query.
enum Own {
    Name(String),
    /// The name of the column at this position.
    Like(usize),
}

/// The statement with generated names for columns that may be duplicates; none if there are no such columns.
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

/// The outermost SELECT of a query, or of the source of an INSERT.
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
            // A column of `*` may have this name.
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

/// Origin of a column's name.
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

/// The name of an item; none if it stands for any number of columns.
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

/// The expression below the casts, which names the column.
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

/// The plan with the names that its columns have in the query.
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
    // Each column gets a qualifier, because a name with a qualifier and the same name without one are ambiguous.
    let projected = columns.iter().enumerate().map(|(position, column)| {
        let qualifier = TableReference::bare(format!("{MARK}{position}"));
        Expr::Column(column.clone()).alias_qualified(Some(qualifier), own(column))
    });
    let projected: Vec<Expr> = projected.collect();
    LogicalPlanBuilder::from(plan).project(projected)?.build()
}
