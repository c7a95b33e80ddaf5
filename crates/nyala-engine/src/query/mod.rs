//! From a client's statement to its answer: the one entry to the engine for all protocols.
//!
//! Modules are listed from the bottom up: each may use those above it in this list, and none below.

// Parts of every statement.
mod columns;
mod counters;
mod deadline;
mod folders;
mod names;
mod options;

// The machine, and the statements that run on it.
mod activity;
mod audit;
mod history;
mod resources;

// Statements as plans, and plans as answers.
mod answer;
mod here;
mod placement;
mod plan;
mod plans;
mod result_cache;
mod start;

// The engine, and a client's session of it.
mod authorize;
mod command;
mod engine;
mod execution;
mod prepared;
mod session;
mod snapshots;

// Queries.
mod explain;
mod plan_learning;
mod plan_lookup;
mod repeat;
mod run_query;

// Other statements.
mod backup;
mod commands;
mod cubes;
mod ddl;
mod kill;
mod live;
mod roles;
mod show_history;
mod show_setting;
mod stats;
mod system;

// The entries.
mod execute;
mod open;
mod prepare;
mod text;

pub use activity::PhaseTimes;
pub use answer::{Answer, Completion, RowStream};
pub use engine::Engine;
pub use live::{DiskStoreStats, Follower, Ingest, Ingested, Loading};
pub use options::SessionOptions;
pub use plans::PlanCacheStats;
pub use prepared::Prepared;
pub use result_cache::ResultCacheStats;
pub use session::Session;
pub use stats::{EngineStats, GroupStats};
pub use text::Text;
