//! The connection that runs the statements: to an engine in this process, or to a server.

use std::pin::pin;

use anyhow::Result;
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use futures::FutureExt;
use futures::stream::BoxStream;
use nyala_client::report::Hinted;

use super::embedded::Embedded;
use super::remote::Remote;

/// The result of a statement.
pub enum Outcome {
    /// Rows, as they come.
    Rows(Rows),
    /// No rows; the command tag, and the number of affected rows if it is known.
    Done { tag: String, rows: Option<u64> },
}

/// A result.
pub struct Rows {
    pub schema: SchemaRef,
    pub batches: BoxStream<'static, Result<RecordBatch>>,
}

/// A connection, in one of its two forms.
pub enum Client {
    Embedded(Box<Embedded>),
    Remote(Box<Remote>),
}

impl Client {
    /// Runs one statement.
    pub async fn run(&self, statement: &str) -> Result<Outcome> {
        match self {
            Client::Embedded(client) => client.run(statement).await,
            Client::Remote(client) => client.run(statement).await,
        }
    }

    /// Runs `work`, which waits for this client. Ctrl-C meanwhile cancels the running statement, so that
    /// `work` ends by the error that the cancelled statement gives. If it does not, another Ctrl-C ends the waiting: a
    /// server that does not answer the statement may not answer the wish to cancel it either.
    pub async fn interruptible<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let mut work = pin!(work);
        tokio::select! {
            // Ctrl-C is polled first, so that it is listened for before anything is sent: until then, a signal ends the process.
            biased;
            interrupted = tokio::signal::ctrl_c() => interrupted?,
            done = &mut work => return done,
        }
        let mut cancel = pin!(self.cancel().fuse());
        loop {
            tokio::select! {
                done = &mut work => return done,
                () = &mut cancel => {}
                interrupted = tokio::signal::ctrl_c() => {
                    interrupted?;
                    return Err(Hinted::error(
                        "the statement was cancelled, but has not ended",
                        "whether it has taken effect is not known: look before you repeat it",
                    ));
                }
            }
        }
    }

    async fn cancel(&self) {
        match self {
            Client::Embedded(client) => client.cancel(),
            Client::Remote(client) => client.cancel().await,
        }
    }

    /// Ends the session.
    pub async fn close(self) {
        if let Client::Embedded(client) = self {
            client.close().await;
        }
    }
}
