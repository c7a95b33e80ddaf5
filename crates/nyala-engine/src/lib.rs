//! One node answers a query.
//!
//! A client's text becomes a statement, a plan over one immutable catalog snapshot, and a stream of
//! record batches. Cubes are defined, built and used here. This crate deliberately knows nothing of
//! network protocols, of other nodes, or of how the catalog is stored.
//!
//! ```text
//! Session::parse ─▶ prepare ─▶ execute ─▶ Answer
//!                     │           │
//!            limits, SQL plan     ├─ rows:  cube rewrite ─▶ optimise ─▶ run on the query threads
//!                                 └─ other: catalog change, build, setting
//! ```
//!
//! The large entrances give boxed futures: whoever awaits an `async fn` compiles it once more, with all that it awaits.

mod access;
mod conversion;
mod cube;
mod error;
mod functions;
mod live;
mod pruning;
mod query;
mod scan;
mod session;
mod statement;

pub use access::{Identity, ScramVerifier, check_password};
pub use cube::build::BuildStats;
pub use error::{ErrorKind, QueryError};
pub use query::{
    Answer, Completion, DiskStoreStats, Engine, EngineStats, Follower, GroupStats, Ingest, Ingested, Loading,
    PhaseTimes, PlanCacheStats, Prepared, ResultCacheStats, RowStream, Session, SessionOptions, SettingValue,
};
pub use scan::HotStats;
pub use scan::bounds as parquet_bounds;
pub use session::SessionExtension;
pub use statement::{Statement, hide_values};

/// Counts what the decoders allocate, for the tests that fuzz them.
#[cfg(test)]
#[global_allocator]
static MEMORY: nyala_fuzz::Memory = nyala_fuzz::memory();
