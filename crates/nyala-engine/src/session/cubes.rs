//! The cubes of a snapshot, ready to answer: unchanged ones are taken over from the snapshot before.

use std::sync::Arc;

use datafusion::execution::SessionState;
use nyala_cube::cube::{CompiledCube, Coverage, Listings, ReadyCube, check_states, compile};
use nyala_model::{CatalogSnapshot, CubeEntry};

use super::context::{ContextSource, SnapshotContext};

/// A cube, whether or not it can be used.
pub async fn ready_cube(
    entry: &Arc<CubeEntry>,
    snapshot: &CatalogSnapshot,
    state: &SessionState,
    source: &ContextSource,
    before: Option<&SnapshotContext>,
    listings: &Listings,
) -> ReadyCube {
    let compiled = match before.and_then(|before| unchanged(entry, snapshot, before)) {
        Some(compiled) => Ok(compiled),
        None => compiled(entry, state, source).await,
    };
    let coverage = judge(entry, &compiled, listings);
    ReadyCube { entry: Arc::clone(entry), compiled, coverage }
}

/// The segments of the cube that may be used, judged by a listing of files.
pub fn judge(
    entry: &CubeEntry,
    compiled: &std::result::Result<Arc<CompiledCube>, String>,
    listings: &Listings,
) -> Coverage {
    compiled.as_ref().map(|compiled| Coverage::judge(entry, compiled, listings)).unwrap_or_default()
}

async fn compiled(
    entry: &CubeEntry,
    state: &SessionState,
    source: &ContextSource,
) -> std::result::Result<Arc<CompiledCube>, String> {
    let definition = &entry.definition;
    let numbers: Vec<u32> = definition.measures.iter().map(|measure| measure.number).collect();
    let (division, limits) = (definition.partition.as_ref(), &source.limits);
    let compiled = match compile(&definition.select, division, &numbers, state, limits).await {
        Ok(compiled) => check_states(&entry.definition, &compiled).map(|()| Arc::new(compiled)),
        Err(error) => Err(format!("its definition no longer fits its tables: {error}")),
    };
    if let Err(reason) = &compiled {
        tracing::warn!(cube = %entry.name, reason, "cube cannot be used");
    }
    compiled
}

/// The compiled form from the snapshot before, if neither the cube nor its tables changed.
fn unchanged(
    entry: &CubeEntry,
    snapshot: &CatalogSnapshot,
    before: &SnapshotContext,
) -> Option<Arc<CompiledCube>> {
    let cube = before.cubes().find(entry)?;
    let same_tables = entry.definition.sources.iter().all(|name| {
        match (snapshot.tables.get(name), before.snapshot().tables.get(name)) {
            (Some(now), Some(then)) => Arc::ptr_eq(now, then),
            _ => false,
        }
    });
    let same = same_tables && cube.entry.definition == entry.definition;
    cube.compiled.as_ref().ok().filter(|_| same).cloned()
}
