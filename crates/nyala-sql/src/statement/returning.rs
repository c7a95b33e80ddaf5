//! RETURNING of statements that write rows, which DataFusion's planner refuses: it becomes a query over the tables of
//! the statement, so that names in it mean the same as in the statement.

use datafusion::sql::sqlparser::ast::{
    Delete, FromTable, Insert, ObjectName, Query, SelectItem, SetExpr, TableFactor, TableObject,
    TableWithJoins, Update,
};
use datafusion::sql::sqlparser::parser::Parser;

use super::dialect::Postgres;
use crate::error::{QueryError, Result};

/// RETURNING of an UPDATE.
pub fn of_update(update: &mut Update) -> Result<Option<Box<Query>>> {
    let Some(items) = update.returning.take() else { return Ok(None) };
    select(items, |table| *table = update.table.clone()).map(Some)
}

/// RETURNING of a DELETE.
pub fn of_delete(delete: &mut Delete) -> Result<Option<Box<Query>>> {
    let Some(items) = delete.returning.take() else { return Ok(None) };
    let (FromTable::WithFromKeyword(tables) | FromTable::WithoutKeyword(tables)) = &delete.from;
    match tables.first() {
        Some(target) => select(items, |table| *table = target.clone()).map(Some),
        None => Ok(None),
    }
}

/// RETURNING of an INSERT.
pub fn of_insert(insert: &mut Insert) -> Result<Option<Box<Query>>> {
    let Some(items) = insert.returning.take() else { return Ok(None) };
    let TableObject::TableName(target) = &insert.table else { return Ok(None) };
    select(items, |table| rename(&mut table.relation, target)).map(Some)
}

fn rename(relation: &mut TableFactor, target: &ObjectName) {
    if let TableFactor::Table { name, .. } = relation {
        *name = target.clone();
    }
}

/// A query for `items` from the table that `choose` sets.
fn select(items: Vec<SelectItem>, choose: impl FnOnce(&mut TableWithJoins)) -> Result<Box<Query>> {
    let dialect = Postgres::for_tokens(0);
    let template = Parser::new(&dialect).try_with_sql("SELECT 1 FROM t");
    let mut query = template.and_then(|mut parser| parser.parse_query()).map_err(QueryError::internal)?;
    if let SetExpr::Select(select) = query.body.as_mut()
        && let Some(table) = select.from.first_mut()
    {
        choose(table);
        select.projection = items;
    }
    Ok(query)
}
