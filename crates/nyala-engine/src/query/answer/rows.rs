//! The answer to a statement: rows, or a completion without rows.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use futures::future::BoxFuture;
use futures::stream::{BoxStream, Fuse};
use futures::{FutureExt, Stream, StreamExt};
use nyala_model::QualifiedName;
use nyala_sql::error::{ErrorKind, QueryError, Result};
use tokio::sync::mpsc::{Receiver, channel};

use super::here::Here;
use super::result_cache::{Keeping, ResultCache, ResultKey, Source};
use crate::query::activity::{Outcome, Profile, Running};
use crate::query::deadline::Deadline;

/// The outcome of a statement.
#[derive(Debug)]
pub enum Answer {
    /// The statement returns rows, perhaps none.
    Rows(RowStream),
    /// The statement has run and returns no rows.
    Done(Completion),
}

/// The outcome of a statement that returns no rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    /// The command, in capitals, such as `CREATE CUBE`.
    pub tag: String,
    /// Number of rows affected, if the command has such a number.
    pub rows: Option<u64>,
    /// A notice for the client.
    pub notice: Option<String>,
}

impl Answer {
    /// An answer that is computed already. Callers that take all batches at once give no deadline.
    pub(crate) fn ready(
        schema: SchemaRef,
        batches: Vec<RecordBatch>,
        running: Running,
        deadline: Option<Deadline>,
    ) -> Self {
        let (sender, receiver) = channel(batches.len().max(1));
        for batch in batches {
            // The channel has room for all of them.
            let _ = sender.try_send(Ok(batch));
        }
        let sent = Sent::new(receiver, Arc::new(AtomicBool::new(true)));
        Self::Rows(RowStream::new(schema, Batches::Sent(sent), running, deadline))
    }
}

impl Completion {
    /// The completion of a statement that did nothing, because IF NOT EXISTS found a relation of the name.
    pub(crate) fn already(tag: &str, name: &QualifiedName) -> Answer {
        let notice = Some(format!("relation `{}` already exists, skipping", name.name));
        Answer::Done(Self { tag: tag.to_owned(), rows: None, notice })
    }

    pub(crate) fn of(tag: &str) -> Answer {
        Answer::Done(Self { tag: tag.to_owned(), rows: None, notice: None })
    }
}

/// Rows of an answer, batch by batch, computed no faster than they are taken. Ends after the first
/// error. Dropping it cancels the statement and frees all its resources.
pub struct RowStream {
    schema: SchemaRef,
    batches: Batches,
    /// Ends the computation when the stream is dropped.
    running: Running,
    /// Checked here and not by the computation, which may work for a long time between two checks.
    deadline: Option<Deadline>,
    /// Waits for `deadline`. Set once a batch was not ready at once.
    reached: Option<BoxFuture<'static, QueryError>>,
    /// Set if the result cache may keep the answer.
    source: Option<Box<Source>>,
    keeping: Option<Box<Keeping>>,
    ended: bool,
}

/// Source of the batches.
pub enum Batches {
    /// Sent by the query threads.
    Sent(Sent),
    /// Computed by the thread that polls the stream: so little work that handing it over would take longer.
    Here(Box<Here>),
    /// Sent by another node.
    Elsewhere(Fuse<BoxStream<'static, Result<RecordBatch>>>),
}

/// Batches that come through a channel.
pub struct Sent {
    batches: Receiver<Result<RecordBatch>>,
    /// Whether the sender has sent all of them. The end of the channel does not tell: it also comes when the sender's task is
    /// dropped with its threads.
    has_all: Arc<AtomicBool>,
}

impl Sent {
    /// The sender sets `has_all` before it drops its end of the channel.
    pub fn new(batches: Receiver<Result<RecordBatch>>, has_all: Arc<AtomicBool>) -> Self {
        Self { batches, has_all }
    }

    /// No batches.
    fn nothing() -> Self {
        Self::new(channel(1).1, Arc::new(AtomicBool::new(true)))
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        let next = ready!(self.batches.poll_recv(context));
        if next.is_none() && !self.has_all.load(Ordering::Acquire) {
            let message = "the server stopped before all rows were computed";
            return Poll::Ready(Some(Err(QueryError::new(ErrorKind::ShuttingDown, message))));
        }
        Poll::Ready(next)
    }
}

impl fmt::Debug for RowStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowStream").field("schema", &self.schema).finish_non_exhaustive()
    }
}

impl RowStream {
    pub(crate) fn new(
        schema: SchemaRef,
        batches: Batches,
        running: Running,
        deadline: Option<Deadline>,
    ) -> Self {
        let (reached, source, keeping) = (None, None, None);
        Self { schema, batches, running, deadline, reached, source, keeping, ended: false }
    }

    /// These rows, with the source that the result cache needs.
    pub(crate) fn from(mut self, source: Option<Source>) -> Self {
        self.source = source.map(Box::new);
        self
    }

    /// Collects the rows for the result cache, if it may keep the answer.
    pub(crate) fn keep(&mut self, cache: &Arc<ResultCache>, key: ResultKey) {
        let keeping = self.source.take().map(|source| Keeping::new(cache, key, *source));
        self.keeping = keeping.map(Box::new);
    }

    /// Columns of every batch.
    pub fn schema(&self) -> SchemaRef {
        SchemaRef::clone(&self.schema)
    }

    /// The number of the statement on this node.
    pub fn query_id(&self) -> u64 {
        self.running.entry().id
    }

    /// What an answer tells of the statement.
    pub fn outcome(&self) -> Outcome {
        Outcome::of(self.running.entry())
    }

    /// What is known of the statement until now.
    pub fn profile(&self) -> Profile {
        Profile::of(self.running.entry())
    }

    /// Ends the statement: its client wants no more rows, and has got what it asked for.
    pub fn enough(&mut self) {
        self.ended = true;
        self.running.finish();
        self.running.stop();
    }

    /// The running statement, for a caller that goes on after its rows.
    pub(crate) fn into_running(self) -> Running {
        self.running
    }

    /// Ready with the reason once the statement must end.
    fn poll_reached(&mut self, context: &mut Context<'_>) -> Poll<QueryError> {
        let Some(deadline) = &self.deadline else { return Poll::Pending };
        let watch = || {
            let deadline = deadline.clone();
            async move { deadline.reached().await }.boxed()
        };
        self.reached.get_or_insert_with(watch).poll_unpin(context)
    }

    /// Waits until the statement must end, ends it and returns the reason. For a caller that waits for something other
    /// than rows: a client that does not read its rows must not keep their memory.
    pub async fn must_end(&mut self) -> QueryError {
        let error = poll_fn(|context| self.poll_reached(context)).await;
        let _ = self.end_with(error.clone());
        // Drops the computation, and the batches computed already.
        self.batches = Batches::Sent(Sent::nothing());
        error
    }

    fn end_with(&mut self, error: QueryError) -> Poll<Option<Result<RecordBatch>>> {
        self.ended = true;
        self.running.stop();
        self.running.fail(&error);
        Poll::Ready(Some(Err(error)))
    }

    /// All batches, or the first error.
    pub async fn collect(mut self) -> Result<Vec<RecordBatch>> {
        let mut batches = Vec::new();
        while let Some(batch) = self.next().await {
            batches.push(batch?);
        }
        Ok(batches)
    }
}

impl Stream for RowStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.ended {
            return Poll::Ready(None);
        }
        if let Some(Err(error)) = self.deadline.as_ref().map(Deadline::check) {
            return self.end_with(error);
        }
        let this = &mut *self;
        let next = match &mut this.batches {
            Batches::Sent(batches) => {
                let next = batches.poll_next(context);
                if let Poll::Ready(Some(Err(error))) = &next {
                    this.running.fail(error);
                }
                next
            }
            Batches::Here(here) => here.poll_next(context, &this.running),
            Batches::Elsewhere(batches) => {
                let next = batches.poll_next_unpin(context);
                match &next {
                    Poll::Ready(Some(Ok(batch))) => this.running.entry().add_rows(batch.num_rows()),
                    Poll::Ready(Some(Err(error))) => this.running.fail(error),
                    Poll::Ready(None) | Poll::Pending => {}
                }
                next
            }
        };
        if next.is_pending() {
            return match self.poll_reached(context) {
                Poll::Ready(error) => self.end_with(error),
                Poll::Pending => Poll::Pending,
            };
        }
        match &next {
            Poll::Ready(Some(Ok(batch))) => {
                if this.keeping.as_mut().is_some_and(|keeping| !keeping.add(batch)) {
                    this.keeping = None;
                }
            }
            Poll::Ready(None) => {
                if !this.running.entry().goes_on() {
                    this.running.finish();
                }
                if let Some(keeping) = this.keeping.take() {
                    keeping.finish(SchemaRef::clone(&this.schema));
                }
            }
            Poll::Ready(Some(Err(_))) | Poll::Pending => {}
        }
        this.ended = matches!(next, Poll::Ready(None | Some(Err(_))));
        next
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Instant;

    use arrow::datatypes::Schema;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::query::activity::Registry;

    /// Two batches that are ready at once, and a third that never comes.
    fn rows(deadline: Deadline) -> RowStream {
        let schema = Arc::new(Schema::empty());
        let (sender, receiver) = tokio::sync::mpsc::channel(2);
        for _ in 0..2 {
            sender.try_send(Ok(RecordBatch::new_empty(Arc::clone(&schema)))).unwrap();
        }
        // The channel stays open until the sender is dropped.
        std::mem::forget(sender);
        let registry = Arc::new(Registry::new(None));
        let token = deadline.token().clone();
        let running = Running::begin(&Arc::default(), &registry, "SELECT", &Arc::default(), token);
        let sent = Sent::new(receiver, Arc::default());
        RowStream::new(schema, Batches::Sent(sent), running, Some(deadline))
    }

    #[tokio::test]
    async fn rows_whose_sender_is_dropped_are_not_all_rows() {
        for has_all in [true, false] {
            let (sender, receiver) = channel(1);
            let mut sent = Sent::new(receiver, Arc::new(AtomicBool::new(has_all)));
            sender.try_send(Ok(RecordBatch::new_empty(Arc::new(Schema::empty())))).unwrap();
            drop(sender);
            assert!(poll_fn(|context| sent.poll_next(context)).await.unwrap().is_ok());
            let end = poll_fn(|context| sent.poll_next(context)).await;
            assert_eq!(end.map(|end| end.unwrap_err().kind), (!has_all).then_some(ErrorKind::ShuttingDown));
        }
    }

    fn deadline(at: Option<Instant>) -> Deadline {
        Deadline::new(CancellationToken::new(), Arc::default(), at)
    }

    #[tokio::test]
    async fn a_cancel_ends_rows_that_are_there_and_rows_that_are_waited_for() {
        let end = deadline(None);
        let mut there = rows(end.clone());
        assert!(there.next().await.unwrap().is_ok());
        end.token().cancel();
        assert_eq!(there.next().await.unwrap().unwrap_err().kind, ErrorKind::Cancelled);
        assert!(there.next().await.is_none(), "that was its end");

        let end = deadline(None);
        let mut awaited = rows(end.clone());
        assert!(awaited.next().await.unwrap().is_ok() && awaited.next().await.unwrap().is_ok());
        let cancel = async { end.token().cancel() };
        let (ended, ()) = tokio::join!(biased; awaited.next(), cancel);
        assert_eq!(ended.unwrap().unwrap_err().kind, ErrorKind::Cancelled);
    }

    #[tokio::test]
    async fn what_ends_a_statement_ends_it_while_nobody_asks_for_rows() {
        let end = deadline(None);
        let mut unread = rows(end.clone());
        assert!(unread.next().await.unwrap().is_ok());
        end.token().cancel();
        assert_eq!(unread.must_end().await.kind, ErrorKind::Cancelled);
        assert!(unread.next().await.is_none(), "that was its end");
        let mut late = rows(deadline(Some(Instant::now() + std::time::Duration::from_millis(20))));
        assert_eq!(late.must_end().await.kind, ErrorKind::Timeout);
    }

    #[tokio::test]
    async fn a_timeout_ends_rows_that_are_there_and_rows_that_are_waited_for() {
        let mut there = rows(deadline(Some(Instant::now())));
        assert_eq!(there.next().await.unwrap().unwrap_err().kind, ErrorKind::Timeout);
        let awaited = rows(deadline(Some(Instant::now() + std::time::Duration::from_millis(20))));
        assert_eq!(awaited.collect().await.unwrap_err().kind, ErrorKind::Timeout);
    }
}
