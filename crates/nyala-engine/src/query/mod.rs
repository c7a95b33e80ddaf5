//! From a client's statement to its answer: the one entry to the engine for all protocols.
//!
//! The order of the rooms, from the bottom up, is in the tidy test: each may use those below it.

mod activity;
mod administer;
mod answer;
mod ask;
mod audit;
mod authorize;
mod columns;
mod command;
mod counters;
mod cubes;
mod deadline;
mod engine;
mod execute;
mod execution;
mod files;
mod folders;
mod forward;
mod fragments;
mod history;
mod live;
mod names;
mod nodes;
mod open;
mod options;
mod place_query;
mod plan;
mod plan_learning;
mod plan_lookup;
mod plans;
mod prepare;
mod prepared;
mod remote_stats;
mod repeat;
mod resources;
mod run_fragment;
mod run_query;
mod session;
mod snapshots;
mod statements;
mod stats;
mod system;
mod text;

pub use activity::{BytesRead, Outcome, PhaseTimes, Profile, Progress, Route};
pub use answer::{
    Answer, Completion, Ingested, Placed, Placement, PlannedQuery, ResultCacheStats, RowStream, StatementPart,
};
pub use engine::Engine;
pub use fragments::Fragment;
pub use live::{DiskStoreStats, Follower, Ingest, Loading};
pub use nodes::{
    BuildUnit, Control, ControlAction, ControlAnswer, Follow, Forwarded, ForwardedLoad, Forwarding, LoadPart,
    LoadThere, OtherNodes, VERSION, node_not_reached, not_confirmed, not_reached,
};
pub use open::Extensions;
pub use options::SessionOptions;
pub use plan::cost_class::CostClass;
pub use plan::origins::Origin;
pub use plans::PlanCacheStats;
pub use prepared::Prepared;
pub use remote_stats::RemoteCount;
pub use resources::Limits;
pub use resources::threads::from_panic;
pub use session::Session;
pub use stats::{EngineStats, GroupStats};
pub use text::Text;
