//! `ALTER CUBE`.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use nyala_catalog::Change;
use nyala_cube::cube::build::SegmentHome;
use nyala_cube::cube::{Alteration, ReadyCube, alter};
use nyala_model::{CatalogSnapshot, CubeEntry, CuboidEntry, QualifiedName};
use nyala_sql::error::{QueryError, Result};
use nyala_sql::statement::{AlterAction, AlterCube};

use super::build::{busy, find};
use super::lease::lease;
use super::upkeep::drop_outdated;
use crate::query::answer::{Answer, Completion};
use crate::query::authorize::Caller;
use crate::query::command::Command;
use crate::query::engine::Engine;
use crate::query::execution::Execution;
use crate::session::Settings;

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

/// Whether the action sets nothing but whether queries are answered from the cube.
fn switches(action: &AlterAction) -> bool {
    matches!(action, AlterAction::Set(options) if options.iter().all(|option| option.name == "answers"))
}

/// Alters a cube. Running queries go on with the cube as they saw it.
async fn run(statement: &AlterCube, execution: Execution<'_>) -> Result<Answer> {
    if statement.actions.iter().all(switches) {
        switch(statement, &execution).await?;
    } else {
        change(statement, &execution).await?;
    }
    Ok(Completion::of("ALTER CUBE"))
}

/// Switches a cube on or off, also while it is built or altered: that takes no right to change the cube, because it changes no
/// segment, and neither a build nor an alteration can undo it.
async fn switch(statement: &AlterCube, execution: &Execution<'_>) -> Result<()> {
    let (engine, name) = (execution.engine(), execution.name(&statement.name)?);
    if engine.catalog().is_shared() {
        engine.catalog().refresh().await?;
        engine.snapshots.refresh().await?;
    }
    let cube = find(engine, &name)?;
    let alteration = planned(engine, &cube, statement, &execution.settings).await?;
    let change = Change::SwitchCube {
        cube: cube.entry.id,
        revision: cube.entry.definition.revision,
        answers: alteration.definition.options.answers,
        statement: alteration.statement,
    };
    let switched = async {
        engine.catalog().commit(change).await?;
        engine.snapshots.refresh().await
    };
    // The change is made even if the statement stops waiting.
    execution.deadline.hand_over(switched).await
}

/// Changes a cube between builds.
async fn change(statement: &AlterCube, execution: &Execution<'_>) -> Result<()> {
    let engine = execution.engine();
    let name = execution.name(&statement.name)?;
    let _taken = engine.building.jobs.take(&name).ok_or_else(|| busy(&name))?;
    let lease = lease(engine, find(engine, &name)?.entry.id, &name).await?;
    let cube = find(engine, &name)?;
    let alteration = planned(engine, &cube, statement, &execution.settings).await?;
    let change = Change::AlterCube {
        cube: cube.entry.id,
        definition: Box::new(alteration.definition),
        statement: alteration.statement,
        moves: alteration.moves,
        answered: cube.answers(),
    };
    let home = engine.segment_home(Some(lease.into()));
    let altered = async {
        let after = home.commit(change).await?.snapshot;
        give_back(&home, &cube.entry, &after, &name);
        engine.snapshots.refresh().await
    };
    // The change is made even if the statement stops waiting.
    execution.deadline.hand_over(altered).await?;
    // The cube is altered by now, so that an error here does not fail the statement.
    if let Err(error) = drop_outdated(engine, &home, &name).await {
        tracing::warn!(cube = %name, %error, "outdated segments of an altered cube stay until something is built");
    }
    Ok(())
}

/// The cube as the statement makes it.
async fn planned(
    engine: &Engine,
    cube: &Arc<ReadyCube>,
    statement: &AlterCube,
    settings: &Settings,
) -> Result<Alteration> {
    let (state, limits) = (engine.snapshots.current().state(settings), *engine.snapshots.limits());
    let (cube, actions) = (Arc::clone(cube), statement.actions.clone());
    let work = async move {
        let compiled = cube.compiled.as_ref().map_err(QueryError::internal)?;
        alter(&cube.entry, compiled, &actions, &state, &limits).await
    };
    engine.runtime.threads.plan(work).await
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
