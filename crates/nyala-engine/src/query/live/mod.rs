//! Statements about live tables: making them, writing to them, loading them.

mod alter;
mod change;
mod collect;
mod copy;
mod create;
mod dual_write;
mod follow;
mod ingest;
mod insert;
mod load_for_another;
mod loading;
mod matches;
mod moved_keys;
mod new_table;
mod numbers;
mod orphaned_segments;
mod stats;
mod stores;
mod table_columns;
mod table_options;
pub mod temporary;
mod values;
mod write;

use std::sync::Arc;

pub use alter::AlterTable;
pub use copy::CopyFrom;
pub use create::CreateTable;
pub use follow::Follower;
pub use ingest::Ingest;
pub use insert::check_conflict;
pub use loading::Loading;
pub use stats::DiskStoreStats;
pub use stats::stats;
pub use stores::{
    CreateStore, DropStore, forget_dropped, forget_dropped_elsewhere, forget_leftovers,
    forget_leftovers_later,
};
pub use write::run as write;

use nyala_sql::error::{ErrorKind, QueryError, Result};

/// Runs work that may touch the disk on a thread that may block.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| QueryError::internal(format!("work on a disk store ended early: {error}")))?
}

fn is_view(name: &str) -> QueryError {
    QueryError::new(ErrorKind::WrongObject, format!("`{name}` is a view: its rows cannot be changed"))
        .hint("change the rows of its tables")
}

fn not_live(name: &str) -> QueryError {
    QueryError::new(
        ErrorKind::Unsupported,
        format!("`{name}` is not a live table: its rows cannot be changed"),
    )
    .hint("external tables change with their files; CREATE LIVE TABLE makes one that takes rows")
}

/// The live table of this name, or the reason why there is none.
fn find(
    engine: &super::engine::Engine,
    name: &nyala_model::QualifiedName,
) -> Result<Arc<nyala_cube::live::LiveRef>> {
    let context = engine.snapshots.current();
    if let Some(table) = context.live_table(name) {
        return table;
    }
    match context.snapshot().tables.get(name) {
        Some(table) if table.view().is_some() => return Err(is_view(&name.to_string())),
        Some(_) => return Err(not_live(&name.to_string())),
        None => {}
    }
    let missing = QueryError::new(ErrorKind::UndefinedTable, format!("table `{name}` does not exist"));
    Err(context.explain_missing(missing))
}
