//! `ALTER CUBE`.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use nyala_catalog::Change;
use nyala_cube::cube::alter;
use nyala_cube::cube::build::SegmentHome;
use nyala_model::{CatalogSnapshot, CubeEntry, CuboidEntry, QualifiedName};
use nyala_sql::error::{QueryError, Result};
use nyala_sql::statement::{AlterAction, AlterCube};

use super::build::{busy, find};
use super::lease::lease;
use super::upkeep::drop_outdated;
use crate::query::answer::{Answer, Completion};
use crate::query::authorize::Caller;
use crate::query::command::Command;
use crate::query::execution::Execution;

/// `ALTER CUBE`.
pub struct Alter<'s>(pub &'s AlterCube);

impl Command for Alter<'_> {
    fn authorize(&self, caller: &Caller<'_>) -> Result<()> {
        let cube = caller.name(&self.0.name)?;
        caller.may_create(cube.clone())?;
        // Additions reveal values of the rows: cuboids count them, and builds fail for some.
        match caller.catalog.cubes.get(&cube).filter(|_| self.0.actions.iter().any(adds)) {
            Some(cube) => caller.may_select(&cube.definition.sources),
            None => Ok(()),
        }
    }

    fn run<'a>(&'a self, execution: Execution<'a>) -> BoxFuture<'a, Result<Answer>> {
        run(self.0, execution).boxed()
    }
}

fn adds(action: &AlterAction) -> bool {
    match action {
        AlterAction::AddDimension(..) | AlterAction::AddMeasure(_) | AlterAction::AddGroupingSet(_) => true,
        AlterAction::DropDimension(_)
        | AlterAction::DropMeasure(_)
        | AlterAction::DropGroupingSet(_)
        | AlterAction::Set(_) => false,
    }
}

/// Changes a cube between builds. Running queries go on with the cube they saw.
async fn run(statement: &AlterCube, execution: Execution<'_>) -> Result<Answer> {
    let (engine, settings) = (execution.engine(), &execution.settings);
    let name = execution.name(&statement.name)?;
    let _taken = engine.building.jobs.take(&name).ok_or_else(|| busy(&name))?;
    let lease = lease(engine, find(engine, &name)?.entry.id, &name).await?;
    let cube = find(engine, &name)?;
    let context = engine.snapshots.current();
    let (state, limits) = (context.state(settings), *engine.snapshots.limits());
    let (planned, actions) = (Arc::clone(&cube), statement.actions.clone());
    let work = async move {
        let compiled = planned.compiled.as_ref().map_err(QueryError::internal)?;
        alter(&planned.entry, compiled, &actions, &state, &limits).await
    };
    let alteration = engine.runtime.threads.plan(work).await?;
    let change = Change::AlterCube {
        cube: cube.entry.id,
        definition: Box::new(alteration.definition),
        statement: alteration.statement,
        moves: alteration.moves,
    };
    let home = engine.segment_home(Some(lease.into()));
    let altered = async {
        let after = home.commit(change).await?.snapshot;
        engine.snapshots.refresh().await?;
        give_back(&home, &cube.entry, &after, &name);
        Ok::<_, QueryError>(())
    };
    // Made even if the statement stops waiting.
    execution.deadline.hand_over(altered).await?;
    drop_outdated(engine, &home, &name).await?;
    Ok(Completion::of("ALTER CUBE"))
}

/// Deletes the files that the cube no longer needs, once no query can be reading them.
fn give_back(home: &SegmentHome, before: &CubeEntry, after: &CatalogSnapshot, name: &QualifiedName) {
    for segment in &before.segments {
        let cube = after.cubes.get(name);
        let kept = cube.and_then(|cube| cube.segments.iter().find(|other| other.id == segment.id));
        let Some(kept) = kept else {
            home.retire(&segment.location, after.version);
            continue;
        };
        let needed = |cuboid: &CuboidEntry| kept.cuboids.iter().any(|other| other.files == cuboid.files);
        let dropped: Vec<CuboidEntry> = segment.cuboids.iter().filter(|c| !needed(c)).cloned().collect();
        home.retire_files(&segment.location, &dropped, after.version);
    }
}
