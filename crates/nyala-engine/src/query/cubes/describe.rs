//! Tables, joins, dimensions and measures of a cube, for Kylin's API.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use nyala_cube::cube::{CompiledCube, CubeDescription, describe};
use nyala_model::QualifiedName;
use nyala_sql::error::{ErrorKind, QueryError, Result};

use super::build::missing;
use crate::query::engine::Engine;

impl Engine {
    /// Describes the cube. Every user may see it, like the answer of `SHOW CREATE CUBE`.
    ///
    /// # Errors
    /// [`ErrorKind::UndefinedTable`] if there is no such cube, [`ErrorKind::InvalidDefinition`] if it no longer fits its tables.
    pub fn describe_cube<'a>(&'a self, name: &'a QualifiedName) -> BoxFuture<'a, Result<CubeDescription>> {
        async move {
            let compiled = compiled(self, name)?;
            // Trees are walked on planning threads alone, which have much stack.
            self.runtime.threads.plan(async move { Ok(describe(&compiled)) }).await
        }
        .boxed()
    }
}

fn compiled(engine: &Engine, name: &QualifiedName) -> Result<Arc<CompiledCube>> {
    let context = engine.snapshots.current();
    let snapshot = context.snapshot();
    let entry = snapshot.cubes.get(name).ok_or_else(|| missing(name, snapshot))?;
    let ready = context.cubes().find(entry).ok_or_else(|| missing(name, snapshot))?;
    ready.compiled.clone().map_err(|reason| {
        let message = format!("cube `{name}` cannot be described: {reason}");
        QueryError::new(ErrorKind::InvalidDefinition, message).hint("SHOW CREATE CUBE has its statement")
    })
}
