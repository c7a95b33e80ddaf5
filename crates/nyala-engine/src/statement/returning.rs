//! RETURNING and FROM of statements that write rows, which DataFusion's planner refuses.
//!
//! `UPDATE t … FROM a, b JOIN c ON …` is planned as an UPDATE of `t CROSS JOIN a CROSS JOIN (b JOIN c ON …)`: the target
//! stays the leftmost table. RETURNING becomes a query over the same tables, so that names mean in it what they mean in
//! the statement.

use datafusion::sql::sqlparser::ast::{
    Delete, FromTable, Insert, Join, JoinConstraint, JoinOperator, ObjectName, Query, SelectItem, SetExpr,
    TableFactor, TableObject, TableWithJoins, Update, UpdateTableFromKind,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;

use crate::error::{QueryError, Result};

/// Joins the tables of FROM to the target.
pub(super) fn join_from(update: &mut Update) {
    let Some(UpdateTableFromKind::BeforeSet(from) | UpdateTableFromKind::AfterSet(from)) = update.from.take()
    else {
        return;
    };
    update.table.joins.extend(from.into_iter().map(|table| Join {
        relation: alone(table),
        global: false,
        join_operator: JoinOperator::CrossJoin(JoinConstraint::None),
    }));
}

/// Its own joins come first, as if in brackets.
fn alone(table: TableWithJoins) -> TableFactor {
    match table.joins.is_empty() {
        true => table.relation,
        false => TableFactor::NestedJoin { table_with_joins: Box::new(table), alias: None },
    }
}

/// What an UPDATE gives back.
pub(super) fn of_update(update: &mut Update) -> Result<Option<Box<Query>>> {
    let Some(items) = update.returning.take() else { return Ok(None) };
    select(items, |table| *table = update.table.clone()).map(Some)
}

/// What a DELETE gives back.
pub(super) fn of_delete(delete: &mut Delete) -> Result<Option<Box<Query>>> {
    let Some(items) = delete.returning.take() else { return Ok(None) };
    let (FromTable::WithFromKeyword(tables) | FromTable::WithoutKeyword(tables)) = &delete.from;
    match tables.first() {
        Some(target) => select(items, |table| *table = target.clone()).map(Some),
        None => Ok(None),
    }
}

/// What an INSERT gives back.
pub(super) fn of_insert(insert: &mut Insert) -> Result<Option<Box<Query>>> {
    let Some(items) = insert.returning.take() else { return Ok(None) };
    let TableObject::TableName(target) = &insert.table else { return Ok(None) };
    select(items, |table| rename(&mut table.relation, target)).map(Some)
}

fn rename(relation: &mut TableFactor, target: &ObjectName) {
    if let TableFactor::Table { name, .. } = relation {
        *name = target.clone();
    }
}

/// A query for `items` from the table that `choose` puts there.
fn select(items: Vec<SelectItem>, choose: impl FnOnce(&mut TableWithJoins)) -> Result<Box<Query>> {
    let template = Parser::new(&PostgreSqlDialect {}).try_with_sql("SELECT 1 FROM t");
    let mut query = template.and_then(|mut parser| parser.parse_query()).map_err(QueryError::internal)?;
    if let SetExpr::Select(select) = query.body.as_mut()
        && let Some(table) = select.from.first_mut()
    {
        choose(table);
        select.projection = items;
    }
    Ok(query)
}
