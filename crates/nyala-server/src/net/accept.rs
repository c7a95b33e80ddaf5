//! The loop in which a door accepts connections until the server stops.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinError, JoinSet};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::pending::{Origin, Pending, PendingConnections};

/// How long to wait when the system has no socket to give.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A listener, over one socket or several.
pub trait Accept {
    /// The connection that the door serves.
    type Connection;

    /// The next connection, with the origin that bounds it until its login. Dropping the future loses no connection.
    fn accept(&self) -> impl Future<Output = io::Result<(Self::Connection, Origin)>> + Send;
}

/// Runs `attend` for each connection, until `shutdown` is cancelled; then closes the listener and waits for the connections that
/// are open. Dropping the future closes them at once.
pub async fn attend_all<A, F>(
    listener: A,
    pending: Arc<PendingConnections>,
    shutdown: CancellationToken,
    attend: impl Fn(A::Connection, Pending) -> F,
) where
    A: Accept,
    F: Future<Output = ()> + Send + 'static,
{
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            Some(ended) = connections.join_next() => log_panic(ended),
            accepted = listener.accept() => match accepted {
                Ok((connection, origin)) => {
                    let pending = pending.admit(origin).await;
                    connections.spawn(attend(connection, pending));
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    // Most likely the process has no file descriptors left.
                    pending.evict_oldest();
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
    drop(listener);
    while let Some(ended) = connections.join_next().await {
        log_panic(ended);
    }
}

fn log_panic(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!(%error, "a connection ended by a fault of the server");
    }
}
