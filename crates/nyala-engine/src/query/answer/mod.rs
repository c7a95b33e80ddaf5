//! From a physical plan to rows on their way to the client.
//!
//! ```text
//! plan ──Placement──▶ Start ─┬─▶ query threads ──batches──▶ RowStream ──▶ client
//!                            └─▶ Here: computed as rows are polled ─┘ └─▶ result cache, if all rows were read
//! ```

mod here;
mod ingested;
mod placement;
mod result_cache;
mod rows;
mod start;

pub use ingested::Ingested;
pub use placement::{Placed, Placement, PlannedQuery, Purpose, StatementPart};
pub use result_cache::{Known, ResultCache, ResultCacheStats, ResultKey, Source};
pub use rows::{Answer, Batches, Completion, RowStream};
pub use start::{Again, Attempts, PlanAnew, Start};
