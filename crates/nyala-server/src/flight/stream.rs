//! Rows of an answer on their way to a client.

use std::pin::Pin;
use std::sync::Arc;
use std::vec::IntoIter;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow_flight::FlightData;
use arrow_flight::encode::{DictionaryHandling, FlightDataEncoderBuilder};
use arrow_flight::error::FlightError;
use datafusion::common::ScalarValue;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, Stream, StreamExt, stream};
use nyala_engine::{Answer, ErrorKind, QueryError, RowStream, hide_values};
use tonic::Status;

use super::error::status;
use super::sessions::InUse;
use super::statements::Statement;
use super::types::{changed, conform};

/// Messages of an answer.
pub type Messages = Pin<Box<dyn Stream<Item = Result<FlightData, Status>> + Send>>;

/// The rows of a statement, with each of the rows of values that are bound to it. The first answer has begun: its error is
/// that of the call.
pub fn rows_of(
    session: InUse,
    statement: Arc<Statement>,
    columns: SchemaRef,
) -> BoxFuture<'static, Result<Messages, QueryError>> {
    async move {
        let values = statement.values()?.into_iter();
        let mut answers =
            Answers { session, statement, columns: SchemaRef::clone(&columns), rows: None, values };
        answers.begin_next().await?;
        let batches = stream::try_unfold(answers, |mut answers| async move {
            let batch = answers.next().await?;
            Ok::<_, FlightError>(batch.map(|batch| (batch, answers)))
        });
        Ok(encoded(batches.boxed(), columns))
    }
    .boxed()
}

/// A batch that is there already.
pub fn of_batch(batch: RecordBatch) -> Messages {
    let schema = batch.schema();
    encoded(stream::iter([Ok(batch)]).boxed(), schema)
}

/// No rows.
pub fn nothing() -> Messages {
    of_batch(RecordBatch::new_empty(SchemaRef::new(arrow::datatypes::Schema::empty())))
}

fn encoded(batches: BoxStream<'static, Result<RecordBatch, FlightError>>, columns: SchemaRef) -> Messages {
    let messages = FlightDataEncoderBuilder::new()
        .with_schema(columns)
        // There are only dictionaries where the client wants them.
        .with_dictionary_handling(DictionaryHandling::Resend)
        .build(batches);
    Box::pin(messages.map(|message| message.map_err(Status::from)))
}

/// The answers of one statement, one after the other.
struct Answers {
    session: InUse,
    statement: Arc<Statement>,
    columns: SchemaRef,
    rows: Option<RowStream>,
    /// Values of the answers to come.
    values: IntoIter<Vec<ScalarValue>>,
}

impl Answers {
    fn begin_next(&mut self) -> BoxFuture<'_, Result<(), QueryError>> {
        async move {
            let Some(values) = self.values.next() else {
                self.rows = None;
                return Ok(());
            };
            let statement = &self.statement;
            let answer = tokio::select! {
                biased;
                () = statement.ended.cancelled() => return Err(closed()),
                answer = self.session.session.execute(&statement.prepared, values) => answer?,
            };
            let Answer::Rows(rows) = answer else { return Err(changed()) };
            if rows.schema().fields().len() != self.columns.fields().len() {
                return Err(changed());
            }
            self.rows = Some(rows);
            Ok(())
        }
        .boxed()
    }

    async fn next(&mut self) -> Result<Option<RecordBatch>, FlightError> {
        loop {
            let Some(rows) = &mut self.rows else { return Ok(None) };
            let batch = tokio::select! {
                biased;
                () = self.statement.ended.cancelled() => Some(Err(closed())),
                batch = rows.next() => batch,
            };
            let failed = |error: &QueryError| {
                tracing::debug!(error = hide_values(&error.message), "a query of a Flight client failed");
                FlightError::Tonic(Box::new(status(error)))
            };
            match batch {
                Some(batch) => {
                    let batch = batch.and_then(|batch| conform(&batch, &self.columns));
                    return batch.map(Some).map_err(|error| failed(&error));
                }
                None => self.begin_next().await.map_err(|error| failed(&error))?,
            }
        }
    }
}

fn closed() -> QueryError {
    QueryError::new(ErrorKind::Cancelled, "the statement was closed while its rows were fetched")
}
