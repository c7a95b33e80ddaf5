//! The right to change a cube: one job at a time has it, on one of the nodes that share the catalog.

use std::sync::Arc;

use nyala_catalog::Lease;
use nyala_model::{CubeId, QualifiedName};
use nyala_sql::error::{ErrorKind, QueryError, Result};

use crate::query::engine::Engine;

/// The name of the lease under which a cube is changed.
pub fn lease_name(cube: CubeId) -> String {
    format!("cube {cube}")
}

/// The name of the lease that is lent to the nodes which make segments for one job: taken anew by each job, and given up with it.
fn units_lease_name(cube: CubeId) -> String {
    format!("units of cube {cube}")
}

/// Takes the lease that is lent to the nodes which make segments for a job. The caller has that of the cube.
pub async fn units_lease(engine: &Engine, cube: CubeId) -> Result<Arc<Lease>> {
    let lease = engine.catalog().take_lease(&units_lease_name(cube), &engine.node).await?;
    lease.ok_or_else(|| {
        let message = format!("another node still lends the right to build cube {cube}");
        QueryError::new(ErrorKind::InUse, message).hint("try again in half a minute")
    })
}

/// Takes the right to change a cube, as it is in the catalog then. The caller is the only job of this node that is at it.
pub async fn lease(engine: &Engine, cube: CubeId, name: &QualifiedName) -> Result<Arc<Lease>> {
    let lease = engine.catalog().take_lease(&lease_name(cube), &engine.node).await?;
    let lease = lease.ok_or_else(|| {
        let message = format!("cube `{name}` is being built or altered on another node");
        QueryError::new(ErrorKind::InUse, message).hint("wait until that has ended; SHOW JOBS lists builds")
    })?;
    if engine.catalog().is_shared() {
        engine.catalog().refresh().await?;
        engine.snapshots.refresh().await?;
    }
    Ok(lease)
}
