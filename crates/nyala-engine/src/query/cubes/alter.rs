//! `ALTER CUBE`.

use std::sync::Arc;

use nyala_catalog::Change;
use nyala_cube::cube::alter;
use nyala_cube::cube::build::{retire, retire_files};
use nyala_model::{CubeEntry, CuboidEntry};
use nyala_sql::error::{QueryError, Result};
use nyala_sql::statement::AlterCube;

use super::build::{busy, find};
use super::upkeep::drop_outdated;
use crate::query::answer::{Answer, Completion};
use crate::query::ddl::name_of;
use crate::query::engine::Engine;
use crate::query::run::handed_over;
use crate::session::Settings;

/// Changes a cube between builds. Running queries go on with the cube they saw.
pub(in crate::query) async fn run(
    engine: &Arc<Engine>,
    statement: &AlterCube,
    settings: &Settings,
) -> Result<Answer> {
    let name = name_of(&statement.name, settings.schema())?;
    let _taken = engine.builds.take(&name).ok_or_else(|| busy(&name))?;
    let cube = find(engine, &name)?;
    let context = engine.context();
    let (state, limits) = (context.state(settings), *engine.limits());
    let (planned, actions) = (Arc::clone(&cube), statement.actions.clone());
    let work = async move {
        let compiled = planned.compiled.as_ref().map_err(QueryError::internal)?;
        alter(&planned.entry, compiled, &actions, &state, &limits).await
    };
    let alteration = engine.threads.plan(work).await?;
    let change = Change::AlterCube {
        cube: cube.entry.id,
        definition: Box::new(alteration.definition),
        statement: alteration.statement,
        moves: alteration.moves,
    };
    let altered = async {
        let after = engine.catalog().commit(change).await?.snapshot;
        engine.refresh().await?;
        give_back(engine, &cube.entry, after.cubes.get(&name));
        Ok::<_, QueryError>(())
    };
    // Made even if the statement stops waiting.
    handed_over(altered).await?;
    drop_outdated(engine, &name).await?;
    Ok(Completion::of("ALTER CUBE"))
}

/// Deletes the files that the cube no longer needs, once no query can be reading them.
fn give_back(engine: &Engine, before: &CubeEntry, after: Option<&Arc<CubeEntry>>) {
    for segment in &before.segments {
        let folder = engine.data_dir.join(&segment.location);
        let kept = after.and_then(|cube| cube.segments.iter().find(|other| other.id == segment.id));
        let Some(kept) = kept else {
            retire(folder, &engine.background);
            continue;
        };
        let needed = |cuboid: &CuboidEntry| kept.cuboids.iter().any(|other| other.files == cuboid.files);
        let dropped: Vec<CuboidEntry> = segment.cuboids.iter().filter(|c| !needed(c)).cloned().collect();
        retire_files(folder, &dropped, &engine.background);
    }
}
