//! Rows of an answer on their way to a client.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow_flight::FlightData;
use arrow_flight::encode::{DictionaryHandling, FlightDataEncoderBuilder};
use arrow_flight::error::FlightError;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, stream};
use nyala_engine::{Answer, ErrorKind, QueryError, RowStream, hide_values};
use tokio::sync::mpsc;
use tonic::Status;

use super::error::status;
use super::parameters::Values;
use super::pieces::pieces_of;
use super::sessions::InUse;
use super::statements::Statement;
use super::types::{changed, check_same, conform};

/// An answer in several messages.
pub type Flow<T> = BoxStream<'static, Result<T, Status>>;
/// Rows of an answer.
pub type Messages = Flow<FlightData>;

/// The rows of a statement, run with each of the rows of values that are bound to it. The first run has begun: its error is the
/// error of the call.
pub fn rows_of(
    session: InUse,
    statement: Arc<Statement>,
    columns: SchemaRef,
) -> BoxFuture<'static, Result<Messages, QueryError>> {
    async move {
        let values = statement.values()?;
        let sent = SchemaRef::clone(&columns);
        let mut answers = Answers { session, statement, columns: sent, rows: None, values, begun: 0 };
        answers.begin_next().await?;
        let (batches, received) = mpsc::channel(1);
        // A task of its own pulls the rows: a statement must end in time even if its client does not read.
        tokio::spawn(answers.send(batches));
        let received =
            stream::unfold(received, |mut received| async move { Some((received.recv().await?, received)) });
        Ok(encoded(received.boxed(), columns))
    }
    .boxed()
}

/// Batches that a statement gave when it ran.
pub fn of_batches(batches: Vec<RecordBatch>, columns: SchemaRef) -> Result<Messages, QueryError> {
    let batches = batches.iter().map(|batch| conform(batch, &columns)).collect::<Result<Vec<_>, _>>()?;
    Ok(encoded(stream::iter(batches.into_iter().map(Ok)).boxed(), columns))
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
    let pieces = batches.flat_map(|batch| {
        let pieces: Vec<_> = match batch {
            Ok(batch) => pieces_of(&batch).into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error)],
        };
        stream::iter(pieces)
    });
    let messages = FlightDataEncoderBuilder::new()
        .with_schema(columns)
        // The pieces are small enough, and must not be cut again.
        .with_max_flight_data_size(usize::MAX)
        // There are only dictionaries where the client wants them.
        .with_dictionary_handling(DictionaryHandling::Resend)
        .build(pieces);
    messages.map(|message| message.map_err(Status::from)).boxed()
}

/// The answers of one statement, one after the other.
struct Answers {
    session: InUse,
    statement: Arc<Statement>,
    columns: SchemaRef,
    rows: Option<RowStream>,
    values: Arc<Values>,
    /// How many rows of values the statement was begun with.
    begun: usize,
}

impl Answers {
    fn begin_next(&mut self) -> BoxFuture<'_, Result<(), QueryError>> {
        async move {
            self.rows = None;
            let Some(values) = self.values.rows.get(self.begun).cloned() else { return Ok(()) };
            self.begun += 1;
            let statement = &self.statement;
            let answer = tokio::select! {
                biased;
                () = statement.ended.cancelled() => return Err(closed()),
                answer = self.session.session.execute(&statement.prepared, values) => answer?,
            };
            let Answer::Rows(rows) = answer else { return Err(changed()) };
            check_same(statement.prepared.schema().as_deref(), &rows.schema())?;
            self.rows = Some(rows);
            Ok(())
        }
        .boxed()
    }

    fn next(&mut self) -> BoxFuture<'_, Result<Option<RecordBatch>, QueryError>> {
        async move {
            loop {
                let Some(rows) = &mut self.rows else { return Ok(None) };
                let batch = tokio::select! {
                    biased;
                    () = self.statement.ended.cancelled() => Some(Err(closed())),
                    batch = rows.next() => batch,
                };
                match batch {
                    Some(batch) => return batch.and_then(|batch| conform(&batch, &self.columns)).map(Some),
                    None => self.begin_next().await?,
                }
            }
        }
        .boxed()
    }

    /// Sends the batches until the client has gone. Waits for a client that does not read no longer than the statement may go on.
    async fn send(mut self, batches: mpsc::Sender<Result<RecordBatch, FlightError>>) {
        let error = loop {
            let batch = tokio::select! {
                biased;
                () = batches.closed() => return,
                batch = self.next() => batch,
            };
            let batch = match batch {
                Ok(Some(batch)) => batch,
                Ok(None) => return,
                Err(error) => break error,
            };
            tokio::select! {
                biased;
                room = batches.reserve() => match room {
                    Ok(room) => room.send(Ok(batch)),
                    Err(_) => return,
                },
                error = self.must_end() => break error,
            }
        };
        tracing::debug!(error = hide_values(&error.message), "a query of a Flight client failed");
        // The statement, its memory and its session are free while the error waits for the client.
        drop(self);
        // This fails only if the client has gone, and then it needs no error.
        let _ = batches.send(Err(FlightError::Tonic(Box::new(status(&error))))).await;
    }

    async fn must_end(&mut self) -> QueryError {
        let Some(rows) = &mut self.rows else { return closed() };
        tokio::select! {
            () = self.statement.ended.cancelled() => closed(),
            error = rows.must_end() => error,
        }
    }
}

fn closed() -> QueryError {
    QueryError::new(ErrorKind::Cancelled, "the statement was closed while its rows were fetched")
}
