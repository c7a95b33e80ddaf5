//! The rows that a statement is about to write, all of them: it writes all or nothing.

use arrow::record_batch::RecordBatch;
use futures::StreamExt;

use crate::error::{ErrorKind, QueryError, Result};
use crate::query::activity::Running;
use crate::query::answer::Answer;
use crate::query::planning::{self, Unoptimized};
use crate::query::run::Deadline;
use crate::query::session::Session;
use crate::session::Settings;

/// Rows of one statement are held in memory up to this size. No store takes larger statements.
const MAX_BYTES: usize = 1 << 30;

/// Runs a query to its end. The statement goes on.
pub(super) async fn run(
    session: &Session,
    query: Unoptimized,
    settings: &Settings,
    deadline: &Deadline,
    running: Running,
) -> Result<(Vec<RecordBatch>, Running)> {
    let answer = planning::run(session, &query, None, &[], settings, deadline, running).await?;
    let Answer::Rows(mut rows) = answer else {
        return Err(QueryError::internal("a query gave no rows to write"));
    };
    let (mut batches, mut bytes) = (Vec::new(), 0_usize);
    while let Some(batch) = rows.next().await {
        let batch = batch?;
        bytes = bytes.saturating_add(batch.get_array_memory_size());
        if bytes > MAX_BYTES {
            let message = format!("a statement writes more than {} MiB", MAX_BYTES >> 20);
            return Err(QueryError::new(ErrorKind::LimitExceeded, message)
                .hint("write fewer rows at a time, or load a file with COPY"));
        }
        batches.push(batch);
    }
    Ok((batches, rows.into_running()))
}
