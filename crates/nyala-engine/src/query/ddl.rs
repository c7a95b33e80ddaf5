//! Statements that change the catalog.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::common::{SchemaReference, TableReference};
use datafusion::logical_expr::{CreateExternalTable, DdlStatement};
use datafusion::sql::sqlparser::ast::{ObjectName, ObjectNamePart};
use nyala_catalog::Change;
use nyala_cube::cube::build::retire;
use nyala_cube::cube::define;
use nyala_cube::scan::{TableRequest, describe_table};
use nyala_model::QualifiedName;
use nyala_sql::error::{ErrorKind, QueryError, Result};
use nyala_sql::statement::{CreateCube, Statement, folded};

use super::answer::{Answer, Completion};
use super::cubes::build::busy;
use super::engine::Engine;
use super::live;
use super::run::handed_over;
use super::system::SYSTEM_SCHEMA;
use crate::session::{DATABASE, Settings};

/// Schemas that belong to the system.
pub(super) const SYSTEM_SCHEMAS: [&str; 3] = ["information_schema", "pg_catalog", SYSTEM_SCHEMA];

/// Carries out a change that DataFusion's planner understood.
pub(super) async fn run(
    engine: &Arc<Engine>,
    change: &DdlStatement,
    statement: &Statement,
    settings: &Settings,
) -> Result<Answer> {
    match change {
        DdlStatement::CreateExternalTable(create) => create_table(engine, create, statement, settings).await,
        DdlStatement::CreateCatalogSchema(create) => {
            let name = schema_name(&create.schema_name)?;
            let if_not_exists = create.if_not_exists;
            commit(engine, Change::CreateSchema { name, if_not_exists }, "CREATE SCHEMA").await
        }
        DdlStatement::DropCatalogSchema(drop) => {
            let name = match &drop.name {
                SchemaReference::Bare { schema } | SchemaReference::Full { schema, .. } => schema.to_string(),
            };
            let stores = stores_of(engine, |table| table.schema == name);
            let change = Change::DropSchema { name, if_exists: drop.if_exists, cascade: drop.cascade };
            let done = commit(engine, change, "DROP SCHEMA").await?;
            live::forget_leftovers(engine, stores).await;
            Ok(done)
        }
        DdlStatement::DropTable(drop) => {
            let name = table_name(&drop.name, settings.schema())?;
            let stores = stores_of(engine, |table| *table == name);
            let done =
                commit(engine, Change::DropTable { name, if_exists: drop.if_exists }, "DROP TABLE").await?;
            live::forget_leftovers(engine, stores).await;
            Ok(done)
        }
        other => Err(unsupported(other)),
    }
}

/// The disk stores of the live tables with these names.
fn stores_of(engine: &Engine, wanted: impl Fn(&QualifiedName) -> bool) -> BTreeSet<String> {
    let snapshot = engine.catalog().snapshot();
    let tables = snapshot.tables.values().filter(|table| wanted(&table.name));
    tables.filter_map(|table| table.live()).map(|live| live.store.clone()).collect()
}

fn unsupported(change: &DdlStatement) -> QueryError {
    let (what, hint) = match change {
        DdlStatement::CreateMemoryTable(_) => {
            ("CREATE TABLE", "use CREATE EXTERNAL TABLE … STORED AS PARQUET LOCATION '…'")
        }
        DdlStatement::CreateView(_) | DdlStatement::DropView(_) => {
            ("a view", "use a common table expression")
        }
        DdlStatement::CreateIndex(_) => ("an index", "create a cube for the queries that should be fast"),
        DdlStatement::CreateCatalog(_) => ("another database", "use CREATE SCHEMA"),
        _ => ("a function in SQL", "write the expression in the query"),
    };
    QueryError::new(ErrorKind::Unsupported, format!("{what} is not supported")).hint(hint)
}

async fn create_table(
    engine: &Arc<Engine>,
    create: &CreateExternalTable,
    statement: &Statement,
    settings: &Settings,
) -> Result<Answer> {
    let name = table_name(&create.name, settings.schema())?;
    let exists = engine.context().snapshot().tables.contains_key(&name);
    if exists && create.if_not_exists {
        return Ok(Completion::of("CREATE TABLE"));
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
        options: create.options.clone(),
        definition: statement.to_string(),
    };
    let state = engine.context().state(settings);
    let stores = Arc::clone(engine.stores());
    let work = async move { describe_table(request, &state, &stores).await };
    let table = engine.threads.plan(work).await?;
    let change = Change::CreateTable { table, if_not_exists: create.if_not_exists };
    commit(engine, change, "CREATE TABLE").await
}

/// Works out a cube's definition and records it. Nothing is built yet.
pub(super) async fn create_cube(
    engine: &Arc<Engine>,
    create: &CreateCube,
    settings: &Settings,
) -> Result<Answer> {
    let name = name_of(&create.name, settings.schema())?;
    let exists = engine.context().snapshot().cubes.contains_key(&name);
    if exists && create.if_not_exists {
        return Ok(Completion::of("CREATE CUBE"));
    }
    let context = engine.context();
    let (state, limits) = (context.state(settings), *engine.limits());
    let (parts, schema) = (create.clone(), settings.schema().to_owned());
    let work = async move { define(&parts, &schema, &state, &limits).await };
    let definition = engine.threads.plan(work).await.map_err(|error| context.explain_missing(error))?;
    let change = Change::CreateCube {
        name,
        definition,
        statement: create.to_string(),
        if_not_exists: create.if_not_exists,
    };
    commit(engine, change, "CREATE CUBE").await
}

/// Forgets a cube. Its files are deleted when no query can be reading them any more.
pub(super) async fn drop_cube(engine: &Arc<Engine>, name: QualifiedName, if_exists: bool) -> Result<Answer> {
    // Held until the cube is gone, so that no build begins in between.
    let _taken = engine.builds.take(&name).ok_or_else(|| busy(&name))?;
    let files = engine.context().snapshot().cubes.get(&name).map(|cube| cube.id);
    let dropped = async {
        let done = commit(engine, Change::DropCube { name, if_exists }, "DROP CUBE").await?;
        if let Some(id) = files {
            retire(engine.data_dir.join(format!("cubes/{id}")), &engine.background);
        }
        Ok(done)
    };
    handed_over(dropped).await
}

/// Makes a change of the catalog, and lets this session see it.
pub(super) async fn commit(engine: &Arc<Engine>, change: Change, tag: &str) -> Result<Answer> {
    // The change is made even if its statement no longer waits.
    let made = async {
        engine.catalog().commit(change).await?;
        engine.refresh().await
    };
    handed_over(made).await?;
    Ok(Completion::of(tag))
}

pub(super) fn schema_name(text: &str) -> Result<String> {
    let name = text.strip_prefix("nyala.").unwrap_or(text).trim_matches('"').to_owned();
    if name.contains('.') {
        return Err(QueryError::new(ErrorKind::InvalidText, format!("`{text}` is not the name of a schema"))
            .hint("write one name, in quotes if it has dots"));
    }
    check_not_system(&name)?;
    Ok(name)
}

fn check_not_system(schema: &str) -> Result<()> {
    if SYSTEM_SCHEMAS.contains(&schema) || schema.starts_with("pg_") {
        let message = format!("schema `{schema}` belongs to the system");
        return Err(QueryError::new(ErrorKind::InvalidDefinition, message).hint("choose another name"));
    }
    Ok(())
}

pub(super) fn table_name(name: &TableReference, default_schema: &str) -> Result<QualifiedName> {
    if name.catalog().is_some_and(|catalog| catalog != DATABASE) {
        return Err(other_database(&name.to_string()));
    }
    let schema = name.schema().unwrap_or(default_schema);
    check_not_system(schema)?;
    Ok(QualifiedName::new(schema, name.table()))
}

/// `name`, `schema.name` or `nyala.schema.name`; bare names are of the session's schema.
pub(super) fn name_of(name: &ObjectName, default_schema: &str) -> Result<QualifiedName> {
    let parts: Option<Vec<String>> = name.0.iter().map(identifier).collect();
    let parts = parts.unwrap_or_default();
    match parts.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [name] => Ok(QualifiedName::new(default_schema, name)),
        [schema, name] | [DATABASE, schema, name] => {
            check_not_system(schema)?;
            Ok(QualifiedName::new(schema, name))
        }
        _ => Err(other_database(&name.to_string())),
    }
}

fn identifier(part: &ObjectNamePart) -> Option<String> {
    let ident = part.as_ident()?;
    Some(folded(ident))
}

fn other_database(name: &str) -> QueryError {
    QueryError::new(ErrorKind::UndefinedObject, format!("`{name}` is not in database `{DATABASE}`"))
        .hint("there is one database; write `schema.name`")
}
