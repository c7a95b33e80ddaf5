//! Rows whose panics are errors.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream};
use futures::{Stream, StreamExt};
use nyala_engine::from_panic;

/// Gives an error in place of a panic. datafusion-distributed 4 takes a task that panics for the end of its rows: the query would
/// go on without the rest of them.
pub struct WithoutPanics(pub SendableRecordBatchStream);

impl Stream for WithoutPanics {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = catch_unwind(AssertUnwindSafe(|| self.0.poll_next_unpin(context)));
        next.unwrap_or_else(|panic| Poll::Ready(Some(Err(DataFusionError::from(from_panic(panic.as_ref()))))))
    }
}

impl RecordBatchStream for WithoutPanics {
    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use std::sync::Arc;

    use arrow::datatypes::Schema;
    use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
    use futures::stream;

    use super::*;

    #[tokio::test]
    async fn a_panic_between_two_batches_is_an_error_and_not_the_end() {
        let schema = Arc::new(Schema::empty());
        let batch = RecordBatch::new_empty(Arc::clone(&schema));
        let rows = stream::iter([true, false])
            .map(move |fine| if fine { Ok(batch.clone()) } else { panic!("no rows") });
        let mut rows = WithoutPanics(Box::pin(RecordBatchStreamAdapter::new(schema, rows)));
        assert!(rows.next().await.unwrap().is_ok());
        let error = rows.next().await.unwrap().unwrap_err();
        assert!(error.to_string().contains("no rows"), "{error}");
    }
}
