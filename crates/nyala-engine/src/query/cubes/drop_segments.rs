//! `ALTER CUBE … DROP SEGMENTS`, and what becomes of dropped segments: the catalog forgets them at once, and their files are
//! deleted when no query can be reading them any more.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use nyala_catalog::Change;
use nyala_cube::cube::build::{SegmentHome, segments_in, segments_numbered};
use nyala_model::{CubeEntry, QualifiedName, SegmentEntry};
use nyala_sql::error::Result;
use nyala_sql::statement::{self, DroppedSegments};

use super::bounds::bounds;
use super::build::{busy, find, missing};
use super::lease::lease;
use crate::query::answer::{Answer, Completion};
use crate::query::authorize::Caller;
use crate::query::command::Command;
use crate::query::engine::Engine;
use crate::query::execution::Execution;
use crate::session::Settings;

/// `ALTER CUBE … DROP SEGMENTS`.
pub struct DropSegments<'s>(pub &'s statement::DropSegments);

impl Command for DropSegments<'_> {
    fn authorize(&self, caller: &Caller<'_>) -> Result<()> {
        caller.may_create(caller.name(&self.0.name)?)
    }

    fn run<'a>(&'a self, execution: Execution<'a>) -> BoxFuture<'a, Result<Answer>> {
        run(self.0, execution).boxed()
    }
}

/// Drops segments between builds. Running queries go on with those they saw.
async fn run(statement: &statement::DropSegments, execution: Execution<'_>) -> Result<Answer> {
    let (engine, name) = (execution.engine(), execution.name(&statement.name)?);
    let _taken = engine.building.jobs.take(&name).ok_or_else(|| busy(&name))?;
    let lease = lease(engine, entry(engine, &name)?.id, &name).await?;
    let segments = chosen(statement, engine, &name, &execution.settings).await?;
    let home = engine.segment_home(Some(lease.into()));
    // The segments are dropped even if the statement stops waiting.
    execution.deadline.hand_over(drop_segments(engine, &home, &name, segments)).await?;
    Ok(Completion::of("ALTER CUBE"))
}

/// The segments that the statement names, as the cube is now. The caller has the right to change the cube.
async fn chosen(
    statement: &statement::DropSegments,
    engine: &Engine,
    name: &QualifiedName,
    settings: &Settings,
) -> Result<Vec<SegmentEntry>> {
    match &statement.segments {
        // All segments can be dropped also if the cube no longer fits its tables.
        DroppedSegments::All => Ok(entry(engine, name)?.segments.clone()),
        DroppedSegments::Numbers(numbers) => segments_numbered(entry(engine, name)?.as_ref(), numbers),
        DroppedSegments::Range(range) => {
            let cube = find(engine, name)?;
            let range = bounds(engine, Some((**range).clone()), &cube, settings).await?;
            segments_in(&cube, range)
        }
    }
}

fn entry(engine: &Engine, name: &QualifiedName) -> Result<Arc<CubeEntry>> {
    let context = engine.snapshots.current();
    let snapshot = context.snapshot();
    snapshot.cubes.get(name).cloned().ok_or_else(|| missing(name, snapshot))
}

/// Forgets segments, all at once, and has their files deleted later.
pub async fn drop_segments(
    engine: &Engine,
    home: &SegmentHome,
    name: &QualifiedName,
    segments: Vec<SegmentEntry>,
) -> Result<()> {
    if segments.is_empty() {
        return Ok(());
    }
    let ids = segments.iter().map(|segment| segment.id).collect();
    let since = home.commit(Change::DropSegments { segments: ids }).await?.snapshot.version;
    tracing::info!(cube = %name, segments = segments.len(), "segments are dropped");
    engine.snapshots.refresh().await?;
    for segment in segments {
        home.retire(&segment.location, since);
    }
    Ok(())
}
