//! The hook by which protocols add the system schemas that their clients expect.

use std::fmt::Debug;

use datafusion::prelude::SessionContext;

/// Adds schemas and functions to every session, `pg_catalog` for instance.
pub trait SessionExtension: Send + Sync + Debug {
    /// Called once, on a context without catalogs: registers functions and other parts that are the same for all
    /// snapshots. By default nothing.
    fn prepare(&self, _context: &SessionContext) -> datafusion::error::Result<()> {
        Ok(())
    }

    /// Called for each catalog snapshot, on a context with `nyala` as its only catalog and default schema
    /// `public`: registers schemas. All queries of that snapshot share them.
    fn install(&self, context: &SessionContext) -> datafusion::error::Result<()>;
}
