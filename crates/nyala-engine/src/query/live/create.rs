//! `CREATE LIVE TABLE`.

use std::sync::Arc;

use datafusion::logical_expr::{CreateMemoryTable, DdlStatement, LogicalPlan};
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    CreateTable as Create, Ident, OnCommit, Query, Statement as SqlStatement,
};
use futures::FutureExt;
use futures::future::BoxFuture;
use nyala_catalog::CatalogError;
use nyala_model::QualifiedName;
use nyala_sql::error::{ErrorKind, QueryError, Result};
use nyala_sql::statement::{LiveStatement, Statement, StatementOption, query_statement};

use super::dual_write::{Asked, dual_write};
use super::new_table::Parts;
use super::table_columns::{check_constraints, columns, defaults, renamed, without_key};
use super::table_options::Options;
use super::{collect, stores, temporary};
use crate::query::answer::{Answer, Completion};
use crate::query::authorize::Caller;
use crate::query::command::Command;
use crate::query::engine::Engine;
use crate::query::execution::Execution;
use crate::query::names::name_of;
use crate::query::plan::logical::{Planned, logical_plan};
use crate::session::Settings;

const TAG: &str = "CREATE TABLE";
/// `CREATE LIVE TABLE`.
pub struct CreateTable<'s> {
    pub create: &'s Create,
    /// Names of the first columns, for a table that is made of a query.
    pub names: &'s [Ident],
    /// Whether the table gets the rows of its query.
    pub filled: bool,
    pub options: &'s [StatementOption],
}

impl CreateTable<'_> {
    /// The statement, for people.
    fn definition(&self) -> String {
        LiveStatement::CreateTable {
            create: Box::new(self.create.clone()),
            names: self.names.to_vec(),
            filled: self.filled,
            options: self.options.to_vec(),
        }
        .to_string()
    }
}

impl Command for CreateTable<'_> {
    fn authorize(&self, caller: &Caller<'_>) -> Result<()> {
        match self.create.temporary {
            true => Ok(()),
            false => caller.may_create(caller.name(&self.create.name)?),
        }
    }

    fn query(&self) -> Option<DfStatement> {
        let query = self.create.query.clone()?;
        Some(query_statement(query.clone()).unwrap_or_else(|_| Statement::query(query)))
    }

    fn run<'a>(&'a self, execution: Execution<'a>) -> BoxFuture<'a, Result<Answer>> {
        async move {
            let made = run(self, execution).await;
            if self.create.temporary { made.map_err(of_this_node) } else { made }
        }
        .boxed()
    }
}

/// The error without the node that owns the store, so that the statement is not sent there: it would make a temporary table for a session
/// that ends with the statement.
fn of_this_node(error: QueryError) -> QueryError {
    if error.owner.is_none() {
        return error;
    }
    QueryError { owner: None, ..error }
        .hint("leave `disk_store` out: a temporary table is on the node of its session")
}

/// Makes a live table; with `AS SELECT …` its first rows too.
async fn run(statement: &CreateTable<'_>, execution: Execution<'_>) -> Result<Answer> {
    let (create, engine, settings) = (statement.create, execution.engine(), &execution.settings);
    let name = match create.temporary {
        true => temporary::name_for(&execution, &create.name).await?,
        false => name_of(&create.name, settings.schema())?,
    };
    check_on_commit(create)?;
    if create.if_not_exists && engine.snapshots.current().snapshot().tables.contains_key(&name) {
        return Ok(Completion::already(TAG, &name));
    }
    let given = Options::parse(statement.options)?;
    let (plain, key) = without_key(create, &name)?;
    let (schema, rows) = match &plain.query {
        Some(query) => {
            let planned = plan_query(engine, query.clone(), settings).await?;
            let schema = renamed(planned.schema.as_deref(), statement.names, &name)?;
            (schema, Some(planned.plan))
        }
        None => {
            let planned = plan(engine, &plain, settings).await?;
            check_constraints(&planned)?;
            (planned.input.schema().as_arrow().clone(), None)
        }
    };
    let parts = Parts {
        schema: columns(&schema, key.as_deref().unwrap_or_default(), &name)?,
        name,
        key,
        defaults: defaults(create)?,
        definition: statement.definition(),
        options: given,
        if_not_exists: create.if_not_exists,
    };
    let (first_rows, made_as) = (rows.filter(|_| statement.filled), parts.name.clone());
    let store = stores::find_or_make(&execution, parts.options.store.as_deref(), create.temporary).await?;
    store.opened().await?;
    // The query runs first: if it fails or is cancelled, it leaves no table.
    let (rows, execution) = match first_rows {
        Some(input) => {
            check_free(engine, &parts.name)?;
            let (rows, execution) = match &create.query {
                // The rows may be on another node. The table is made on the node of its session.
                Some(query) if create.temporary && engine.catalog().is_shared() => {
                    let text = query.to_string();
                    (Box::pin(collect::rows_of(&text, execution.session)).await?, execution)
                }
                _ => collect::run(input, execution).await?,
            };
            (Some(parts.as_columns(&rows)?), execution)
        }
        None => (None, execution),
    };
    let own = Arc::clone(engine);
    let work = move |asked: Asked| async move { parts.make_filled(&own, &store, rows, asked).await };
    let made = dual_write(&execution, work).await?;
    if create.temporary {
        execution.session.add_temporary(&made_as);
    }
    Ok(match made {
        Some(rows) => Answer::Done(Completion { tag: "SELECT".to_owned(), rows: Some(rows), notice: None }),
        None => Completion::of(TAG),
    })
}

fn check_on_commit(create: &Create) -> Result<()> {
    match &create.on_commit {
        None | Some(OnCommit::PreserveRows) => Ok(()),
        Some(other) => {
            let message = format!("ON COMMIT {other:?} is not supported: each statement is a transaction");
            Err(QueryError::new(ErrorKind::Unsupported, message)
                .hint("a temporary table keeps its rows until the session ends"))
        }
    }
}

/// Fails before the query if the name is taken. The catalog would fail only after it.
fn check_free(engine: &Engine, name: &QualifiedName) -> Result<()> {
    let context = engine.snapshots.current();
    let snapshot = context.snapshot();
    let what = match (snapshot.tables.contains_key(name), snapshot.cubes.contains_key(name)) {
        (true, _) => "table",
        (_, true) => "cube",
        (false, false) => return Ok(()),
    };
    Err(CatalogError::AlreadyExists { what, name: name.to_string() }.into())
}

/// Plans the query that gives a table its columns and its first rows.
async fn plan_query(engine: &Engine, query: Box<Query>, settings: &Settings) -> Result<Planned> {
    let context = engine.snapshots.current();
    let planned = logical_plan(query_statement(query)?, context.state(settings));
    let planned =
        engine.runtime.threads.plan(planned).await.map_err(|error| context.explain_missing(error))?;
    match planned.plan.logical().get_parameter_names()?.into_iter().min() {
        Some(parameter) => {
            let message = format!("{parameter} has no value: CREATE TABLE takes no parameters");
            Err(QueryError::new(ErrorKind::Unsupported, message).hint("write the value in the query"))
        }
        None => Ok(planned),
    }
}

/// Has DataFusion plan types and constraints.
async fn plan(engine: &Engine, create: &Create, settings: &Settings) -> Result<CreateMemoryTable> {
    let context = engine.snapshots.current();
    let statement = DfStatement::Statement(Box::new(SqlStatement::CreateTable(create.clone())));
    let planned = engine.runtime.threads.plan(logical_plan(statement, context.state(settings))).await;
    let planned = planned.map_err(|error| context.explain_missing(error))?;
    match planned.plan.logical() {
        LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(create)) if !create.or_replace => Ok(create.clone()),
        _ => Err(QueryError::new(ErrorKind::Unsupported, "CREATE OR REPLACE TABLE is not supported")),
    }
}
