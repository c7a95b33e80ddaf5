//! The hook by which other crates add to sessions, such as the system schemas that clients expect.

use std::fmt::Debug;
use std::sync::Arc;

use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::SessionContext;
use nyala_model::CatalogSnapshot;

/// Adds schemas, functions and rules to every session, `pg_catalog` for instance.
pub trait SessionExtension: Send + Sync + Debug {
    /// Called once, on the state that all sessions begin with, before it is built: changes the planner, rules, options
    /// and extensions. By default nothing.
    fn configure(&self, builder: SessionStateBuilder) -> datafusion::error::Result<SessionStateBuilder> {
        Ok(builder)
    }

    /// Called once, on a context without catalogs: registers functions and other parts that are the same for all
    /// snapshots. By default nothing.
    fn prepare(&self, _context: &SessionContext) -> datafusion::error::Result<()> {
        Ok(())
    }

    /// Called for each catalog snapshot, on a context with `nyala` as its only catalog and default schema
    /// `public`: registers schemas. All queries of that snapshot share them.
    fn install(
        &self,
        context: &SessionContext,
        snapshot: &Arc<CatalogSnapshot>,
    ) -> datafusion::error::Result<()>;
}
