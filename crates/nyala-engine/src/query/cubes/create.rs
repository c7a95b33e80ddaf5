//! `CREATE CUBE` and `DROP CUBE`.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{ObjectName, visit_relations};
use futures::FutureExt;
use futures::future::BoxFuture;
use nyala_catalog::Change;
use nyala_cube::cube::define;
use nyala_model::CatalogSnapshot;
use nyala_sql::error::{ErrorKind, QueryError, Result};
use nyala_sql::statement::{CreateCube, Statement};

use super::build::busy;
use crate::query::answer::{Answer, Completion};
use crate::query::authorize::Caller;
use crate::query::command::Command;
use crate::query::execution::Execution;

/// `CREATE CUBE`: works out the cube's definition and records it. Nothing is built yet.
pub struct Create<'s>(pub &'s CreateCube);

impl Command for Create<'_> {
    fn authorize(&self, caller: &Caller<'_>) -> Result<()> {
        caller.may_create(caller.name(&self.0.name)?)?;
        caller.may_select(&caller.tables_named(&self.0.query))
    }

    fn query(&self) -> Option<DfStatement> {
        Some(Statement::query(self.0.query.clone()))
    }

    fn run<'a>(&'a self, execution: Execution<'a>) -> BoxFuture<'a, Result<Answer>> {
        create(self.0, execution).boxed()
    }
}

async fn create(create: &CreateCube, execution: Execution<'_>) -> Result<Answer> {
    let (engine, settings) = (execution.engine(), &execution.settings);
    let name = execution.name(&create.name)?;
    let context = engine.snapshots.current();
    if context.snapshot().cubes.contains_key(&name) && create.if_not_exists {
        return Ok(Completion::of("CREATE CUBE"));
    }
    check_tables(create, &execution, context.snapshot())?;
    let (state, limits) = (context.state(settings), *engine.snapshots.limits());
    let (parts, schema) = (create.clone(), settings.schema().to_string());
    let work = async move { define(&parts, &schema, &state, &limits).await };
    let definition =
        engine.runtime.threads.plan(work).await.map_err(|error| context.explain_missing(error))?;
    let change = Change::CreateCube {
        name,
        definition,
        statement: create.to_string(),
        if_not_exists: create.if_not_exists,
    };
    execution.commit(change, "CREATE CUBE").await
}

/// Fails if the query reads a view or a temporary table. A cube over the tables of a view also answers queries of the view.
fn check_tables(create: &CreateCube, execution: &Execution<'_>, snapshot: &CatalogSnapshot) -> Result<()> {
    let view = |name: &ObjectName| {
        let name = execution.name(name).ok()?;
        let is_view = snapshot.tables.get(&name)?.view().is_some();
        (is_view || execution.settings.is_temporary(&name)).then_some(name)
    };
    let found = visit_relations(&create.query, |name| match view(name) {
        Some(name) => ControlFlow::Break(name),
        None => ControlFlow::Continue(()),
    });
    match found {
        ControlFlow::Break(name) => {
            let message = format!("a cube cannot be over a view or a temporary table, and `{name}` is one");
            Err(QueryError::new(ErrorKind::InvalidDefinition, message)
                .hint("write the query of the view; queries of the view are answered from the cube, too"))
        }
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// `DROP CUBE`: forgets a cube. Its files are deleted when no query can be reading them any more.
pub struct Drop<'s> {
    pub name: &'s ObjectName,
    pub if_exists: bool,
}

impl Command for Drop<'_> {
    fn authorize(&self, caller: &Caller<'_>) -> Result<()> {
        caller.may_create(caller.name(self.name)?)
    }

    fn run<'a>(&'a self, execution: Execution<'a>) -> BoxFuture<'a, Result<Answer>> {
        self.drop_cube(execution).boxed()
    }
}

impl Drop<'_> {
    async fn drop_cube(&self, execution: Execution<'_>) -> Result<Answer> {
        let (engine, name) = (execution.engine(), execution.name(self.name)?);
        // Held until the cube is gone, so that no build begins in between.
        let _taken = engine.building.jobs.take(&name).ok_or_else(|| busy(&name))?;
        let files = engine.snapshots.current().snapshot().cubes.get(&name).map(|cube| cube.id);
        let dropped = async {
            let change = Change::DropCube { name, if_exists: self.if_exists };
            let done = execution.commit(change, "DROP CUBE").await?;
            if let Some(id) = files {
                let since = engine.catalog().snapshot().version;
                engine.segment_home(None).retire(&format!("cubes/{id}/"), since);
            }
            Ok(done)
        };
        execution.deadline.hand_over(dropped).await
    }
}
