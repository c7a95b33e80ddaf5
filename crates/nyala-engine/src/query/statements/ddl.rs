//! Statements that change the catalog.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::common::SchemaReference;
use datafusion::logical_expr::{CreateExternalTable, CreateIndex, DdlStatement, Expr};
use futures::StreamExt;
use nyala_catalog::Change;
use nyala_cube::scan::{TableRequest, describe_table};
use nyala_sql::error::{ErrorKind, QueryError, Result};
use nyala_sql::statement::Statement;

use crate::query::answer::{Answer, Completion};
use crate::query::engine::Engine;
use crate::query::execution::Execution;
use crate::query::live;
use crate::query::names::{schema_name, table_in};

/// Carries out a change that DataFusion's planner understood.
pub async fn run(execution: &Execution<'_>, change: &DdlStatement, statement: &Statement) -> Result<Answer> {
    let engine = execution.engine();
    match change {
        DdlStatement::CreateExternalTable(create) => create_table(execution, create, statement).await,
        DdlStatement::CreateCatalogSchema(create) => {
            let name = schema_name(&create.schema_name)?;
            let if_not_exists = create.if_not_exists;
            execution.commit(Change::CreateSchema { name, if_not_exists }, "CREATE SCHEMA").await
        }
        DdlStatement::DropCatalogSchema(drop) => {
            let name = match &drop.name {
                SchemaReference::Bare { schema } | SchemaReference::Full { schema, .. } => schema.to_string(),
            };
            let stores = stores_of(engine, &name);
            let change = Change::DropSchema { name, if_exists: drop.if_exists, cascade: drop.cascade };
            let done = execution.commit(change, "DROP SCHEMA").await?;
            live::forget_leftovers(execution, stores).await;
            Ok(done)
        }
        DdlStatement::CreateIndex(index) => {
            let name = table_in(&index.table, &execution.settings)?;
            if !engine.snapshots.current().snapshot().tables.contains_key(&name) {
                let missing =
                    QueryError::new(ErrorKind::UndefinedTable, format!("table `{name}` does not exist"));
                return Err(missing);
            }
            let notice = match index.unique {
                true => {
                    check_unique(index, execution).await?;
                    "tables have no indexes: no two rows are equal in these columns now, and rows to come are not checked, \
                     because only a primary key is"
                }
                false => {
                    "tables have no indexes: conditions skip files and units by their bounds, and keys are looked up"
                }
            };
            Ok(Answer::Done(Completion {
                tag: "CREATE INDEX".to_owned(),
                rows: None,
                notice: Some(notice.to_owned()),
            }))
        }
        other => Err(unsupported(other)),
    }
}

/// Refuses a unique index over rows that break it. NULL is equal to nothing.
async fn check_unique(index: &CreateIndex, execution: &Execution<'_>) -> Result<()> {
    let names = index.columns.iter().map(|column| match &column.expr {
        Expr::Column(column) => Some(format!("\"{}\"", column.name.replace('"', "\"\""))),
        _ => None,
    });
    // Expressions are not checked; the notice says that nothing is.
    let Some(names) = names.collect::<Option<Vec<_>>>().filter(|names| !names.is_empty()) else {
        return Ok(());
    };
    let known: Vec<String> = names.iter().map(|name| format!("{name} IS NOT NULL")).collect();
    let (list, known) = (names.join(", "), known.join(" AND "));
    let table = index.table.to_quoted_string();
    let sql = format!("SELECT 1 FROM {table} WHERE {known} GROUP BY {list} HAVING count(*) > 1 LIMIT 1");
    let Answer::Rows(mut rows) = Box::pin(execution.session.query(&sql)).await? else { return Ok(()) };
    while let Some(batch) = rows.next().await {
        if batch?.num_rows() > 0 {
            let message = format!("could not create unique index: rows are equal in {list}");
            return Err(QueryError {
                sqlstate: Some("23505"),
                ..QueryError::new(ErrorKind::Conflict, message)
            });
        }
    }
    Ok(())
}

/// The disk stores of the live tables of a schema.
fn stores_of(engine: &Engine, schema: &str) -> BTreeSet<String> {
    let snapshot = engine.snapshots.catalog().snapshot();
    let tables = snapshot.tables.values().filter(|table| table.name.schema == schema);
    tables.filter_map(|table| table.live()).map(|live| live.store.clone()).collect()
}

fn unsupported(change: &DdlStatement) -> QueryError {
    let (what, hint) = match change {
        DdlStatement::CreateMemoryTable(_) => {
            ("CREATE TABLE", "use CREATE EXTERNAL TABLE … STORED AS PARQUET LOCATION '…'")
        }
        DdlStatement::CreateCatalog(_) => ("another database", "use CREATE SCHEMA"),
        _ => ("a function in SQL", "write the expression in the query"),
    };
    QueryError::new(ErrorKind::Unsupported, format!("{what} is not supported")).hint(hint)
}

async fn create_table(
    execution: &Execution<'_>,
    create: &CreateExternalTable,
    statement: &Statement,
) -> Result<Answer> {
    let engine = execution.engine();
    let name = table_in(&create.name, &execution.settings)?;
    let exists = engine.snapshots.current().snapshot().tables.contains_key(&name);
    if exists && create.if_not_exists {
        return Ok(Completion::already("CREATE TABLE", &name));
    }
    if create.or_replace || create.temporary || create.unbounded {
        return Err(QueryError::new(
            ErrorKind::Unsupported,
            "OR REPLACE, TEMPORARY and UNBOUNDED tables are not supported",
        ));
    }
    let [location] = create.locations.as_slice() else {
        return Err(QueryError::new(
            ErrorKind::Unsupported,
            "a table with several locations is not supported",
        )
        .hint("put the files in one folder"));
    };
    let request = TableRequest {
        name,
        location: location.clone(),
        file_type: create.file_type.clone(),
        columns: Arc::clone(create.schema.inner()),
        partition_columns: create.table_partition_cols.clone(),
        find_partitions: false,
        options: create.options.clone(),
        definition: statement.to_string(),
    };
    let state = engine.snapshots.current().state(&execution.settings);
    let stores = Arc::clone(engine.snapshots.stores());
    let work = async move { describe_table(request, &state, &stores).await };
    let table = engine.runtime.threads.plan(work).await?;
    let change = Change::CreateTable { table, if_not_exists: create.if_not_exists };
    execution.commit(change, "CREATE TABLE").await
}
