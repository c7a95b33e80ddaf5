//! One node answers a query.
//!
//! A client's text becomes a statement, a plan over one immutable catalog snapshot, and a stream of
//! record batches. Cubes are defined, built and used here. This crate deliberately knows nothing of
//! network protocols, of how other nodes are reached, or of how the catalog is stored.
//!
//! ```text
//! Session::parse ─▶ prepare ─▶ execute ─▶ Answer
//!                     │           │
//!            limits, SQL plan     ├─ rows:  cube rewrite ─▶ optimise ─▶ run on the query threads
//!                                 └─ other: catalog change, build, setting
//! ```
//!
//! The large entry points return boxed futures: each caller of an `async fn` compiles its whole body once more.

mod access;
mod query;
mod session;

pub use access::{Identity, ScramVerifier, check_password};
pub use nyala_cube::cube::build::{BuildStats, Counts};
pub use nyala_cube::scan::bounds as parquet_bounds;
pub use nyala_cube::scan::whole_numbers;
pub use nyala_cube::scan::{HotStats, decode_schema};
pub use nyala_sql::error::{ErrorKind, QueryError};
pub use nyala_sql::functions::{UUID, read_uuid, time_texts, uuid_texts};

/// Readers of the texts of values.
pub mod texts {
    pub use nyala_sql::functions::{
        date_of_text, interval_of, is_json, normal_json, time_of_text, timestamp_of,
    };
    pub use nyala_sql::semantics::exact;
}
pub use nyala_cube::cube::{
    BlockReport, Chosen, CubeDescription, DescribedDimension, DescribedExpr, DescribedMeasure,
    DescribedTable, TableColumn,
};
pub use nyala_sql::semantics::{is_unnamed, is_unnamed_aggregate};
pub use nyala_sql::statement::{MOVED, Statement, hide_values};
pub use nyala_storage::object::cache::{FileId, WantedBlocks};
pub use query::{
    Answer, BuildUnit, BytesRead, Completion, CostClass, DiskStoreStats, Engine, EngineStats, Extensions,
    Follower, Fragment, GroupStats, Ingest, Ingested, Limits, Loading, Origin, Outcome, PhaseTimes, Placed,
    Placement, PlanCacheStats, PlannedQuery, Prepared, Profile, Progress, RemoteCount, ResultCacheStats,
    Route, RowStream, Session, SessionOptions, StatementPart, Text,
};
pub use query::{
    Control, ControlAction, ControlAnswer, Follow, Forwarded, ForwardedLoad, Forwarding, LoadPart, LoadThere,
    OtherNodes, VERSION, from_panic, node_not_reached, not_confirmed, not_reached,
};
pub use session::{
    Forgotten, MadeRows, MadeTable, Pass, PassExec, SessionExtension, SettingValue, forget, forgotten,
    insert_yields, interrupted, is_yield, remove_checks, remove_yields, schema_in_path, schemas_in_path,
};
