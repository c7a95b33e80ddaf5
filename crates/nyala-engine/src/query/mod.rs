//! Statements from clients to answers: the one way into the engine, whatever the door.

mod activity;
mod admission;
mod alter;
mod analyze;
mod answer;
mod audit;
mod authorize;
mod bounds;
mod build;
mod check;
mod ddl;
mod engine;
mod explain;
mod freshness;
mod history;
mod job;
mod maker;
mod memory;
mod planning;
mod plans;
mod recommend;
mod roles;
mod run;
mod segments;
mod session;
mod show;
mod system;
mod threads;
mod upkeep;

pub use answer::{Answer, Completion, RowStream};
pub use engine::{Engine, EngineStats};
pub use plans::PlanCacheStats;
pub use session::{Prepared, Session, SessionOptions};
