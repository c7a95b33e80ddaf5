//! From a client's statement to its answer: the one entry to the engine for all protocols.

mod activity;
mod answer;
mod audit;
mod authorize;

mod backup;
mod budget;
mod burden;
mod catalog_copies;
mod catalog_watch;
mod cubes;
mod ddl;
mod engine;
mod execute;
mod explain;
mod history;
mod live;
mod own;
mod parameters;
mod planning;
mod plans;
mod prepare;
mod prepared;
mod resources;
mod results;
mod roles;
mod run;
mod session;
mod show;
mod stats;
mod system;
mod twins;

pub use activity::PhaseTimes;
pub use answer::{Answer, Completion, RowStream};
pub use engine::Engine;
pub use live::{DiskStoreStats, Follower, Ingest, Ingested, Loading};
pub use plans::PlanCacheStats;
pub use prepared::Prepared;
pub use results::ResultCacheStats;
pub use session::{Session, SessionOptions, SettingValue};
pub use stats::{EngineStats, GroupStats};
