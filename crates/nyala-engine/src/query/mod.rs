//! Statements from clients to answers: the one way into the engine, whatever the door.

mod alter;
mod analyze;
mod answer;
mod bounds;
mod build;
mod check;
mod ddl;
mod engine;
mod explain;
mod freshness;
mod history;
mod job;
mod planning;
mod recommend;
mod run;
mod segments;
mod session;
mod show;
mod threads;
mod upkeep;

pub use answer::{Answer, Completion, RowStream};
pub use engine::{Engine, EngineStats};
pub use session::{Prepared, Session, SessionOptions};
