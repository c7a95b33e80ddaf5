//! Statements about live tables: making them, writing to them, loading them.

mod alter;
mod change;
mod collect;
mod copy;
mod create;
mod folders;
mod follow;
mod ingest;
mod insert;
mod loading;
mod lost;
mod matches;
mod returning;
mod stats;
mod stores;
mod values;
mod whole;
mod write;

use std::sync::Arc;

pub(super) use folders::Folders;
pub use follow::Follower;
pub use ingest::{Ingest, Ingested};
pub(super) use insert::check_conflict;
pub use loading::Loading;
pub(super) use returning::Returning;
pub use stats::DiskStoreStats;
pub(super) use stats::stats;
pub(super) use stores::{forget_leftovers, forget_leftovers_later};
pub(super) use write::run as write;

use nyala_sql::error::{ErrorKind, QueryError, Result};
use nyala_sql::statement::LiveStatement;

use super::activity::Running;
use super::answer::Answer;
use super::run::Deadline;
use super::session::Session;
use crate::session::Settings;

/// Carries out a statement that DataFusion's planner does not know.
pub(super) async fn run(
    session: &Session,
    statement: &LiveStatement,
    settings: &Settings,
    deadline: &Deadline,
    running: Running,
) -> Result<Answer> {
    let engine = &session.engine;
    match statement {
        LiveStatement::CreateDiskStore { name, if_not_exists, folder, options } => {
            stores::create(engine, name, *if_not_exists, folder.as_deref(), options).await
        }
        LiveStatement::DropDiskStore { name, if_exists } => stores::drop(engine, name, *if_exists).await,
        LiveStatement::CreateTable { create, options } => {
            create::table(session, create, options, settings, deadline, running).await
        }
        LiveStatement::AlterTable(alter) => alter::table(engine, alter, settings).await,
        LiveStatement::Copy(copy) => copy::run(session, copy, settings, deadline, running).await,
    }
}

/// Work that may touch the disk, on a thread that may wait for it.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| QueryError::internal(format!("work on a disk store ended early: {error}")))?
}

fn not_live(name: &str) -> QueryError {
    QueryError::new(
        ErrorKind::Unsupported,
        format!("`{name}` is not a live table: its rows cannot be changed"),
    )
    .hint("external tables change with their files; CREATE LIVE TABLE makes one that takes rows")
}

/// The engine's way to a live table by its name.
fn find(
    engine: &super::engine::Engine,
    name: &nyala_model::QualifiedName,
) -> Result<Arc<nyala_cube::live::LiveRef>> {
    let context = engine.context();
    if let Some(table) = context.live_table(name) {
        return table;
    }
    if context.snapshot().tables.contains_key(name) {
        return Err(not_live(&name.to_string()));
    }
    let missing = QueryError::new(ErrorKind::UndefinedTable, format!("table `{name}` does not exist"));
    Err(context.explain_missing(missing))
}
