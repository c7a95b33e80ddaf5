//! The hook by which doors add the system schemas their clients expect.

use std::fmt::Debug;

use datafusion::prelude::SessionContext;

/// Adds schemas and functions to every session, `pg_catalog` for instance.
pub trait SessionExtension: Send + Sync + Debug {
    /// Called once for each catalog snapshot, on a fresh context whose only catalog is `nyala`, with
    /// default schema `public`. What it registers is shared by all queries of that snapshot.
    fn install(&self, context: &SessionContext) -> datafusion::error::Result<()>;
}
