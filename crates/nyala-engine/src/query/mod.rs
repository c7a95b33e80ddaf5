//! Statements from clients to answers: the one way into the engine, whatever the door.

mod analyze;
mod answer;
mod audit;
mod authorize;
mod build;
mod check;
mod ddl;
mod engine;
mod explain;
mod freshness;
mod history;
mod planning;
mod recommend;
mod roles;
mod run;
mod segments;
mod session;
mod show;
mod threads;

pub use answer::{Answer, Completion, RowStream};
pub use engine::{Engine, EngineStats};
pub use session::{Prepared, Session, SessionOptions};
