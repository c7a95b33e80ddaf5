//! A plan that is computed by the thread that polls its rows.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Instant;

use arrow::record_batch::RecordBatch;
use datafusion::execution::SendableRecordBatchStream;
use futures::StreamExt;
use nyala_sql::error::{QueryError, Result};

use crate::query::activity::{Phase, Running};
use crate::query::history::Recording;
use crate::query::resources::threads::from_panic;

/// A plan that is computed when its rows are polled.
pub struct Here {
    stream: SendableRecordBatchStream,
    recording: Recording,
    /// When the client got the last batch.
    given: Option<Instant>,
}

impl Here {
    pub fn new(stream: SendableRecordBatchStream, recording: Recording) -> Self {
        Self { stream, recording, given: None }
    }

    pub fn poll_next(
        &mut self,
        context: &mut Context<'_>,
        running: &Running,
    ) -> Poll<Option<Result<RecordBatch>>> {
        if let Some(given) = self.given.take() {
            self.recording.leave_out(given.elapsed());
            running.entry().enter(Phase::Running);
        }
        let next = loop {
            let next = AssertUnwindSafe(|| self.stream.poll_next_unpin(context));
            match std::panic::catch_unwind(next) {
                Ok(Poll::Pending) => return Poll::Pending,
                Ok(Poll::Ready(Some(Ok(batch)))) if batch.num_rows() == 0 => {}
                Ok(Poll::Ready(next)) => break next.map(|batch| batch.map_err(QueryError::from)),
                Err(panic) => break Some(Err(from_panic(panic.as_ref()))),
            }
        };
        match &next {
            Some(Ok(batch)) => {
                running.counters().rows.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
                running.entry().add_rows(batch.num_rows());
                self.recording.add_rows(batch.num_rows());
                self.given = Some(Instant::now());
                // The client has this batch until it asks for more.
                running.entry().enter(Phase::Sending);
            }
            Some(Err(error)) => running.fail(error),
            None => {}
        }
        Poll::Ready(next)
    }
}
