//! A connection's place among `server.max_connections`, which it takes with its first admitted request.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::net::pending::{Ended, Pending};

/// All places are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

/// The place of one connection, shared by its requests.
#[derive(Debug)]
pub struct Place {
    free: Arc<Semaphore>,
    permit: OnceLock<OwnedSemaphorePermit>,
    /// The entry among the pending connections, until there is a permit.
    pending: Mutex<Option<Pending>>,
    taken: CancellationToken,
}

impl Place {
    /// The place of a connection that has no permit yet. `free` has as many permits as there are places.
    pub fn new(pending: Pending, free: Arc<Semaphore>) -> Arc<Self> {
        let pending = Mutex::new(Some(pending));
        Arc::new(Self { free, permit: OnceLock::new(), pending, taken: CancellationToken::new() })
    }

    /// Takes the place, if the connection does not have it already.
    pub fn take(&self) -> Result<(), Full> {
        if self.is_taken() {
            return Ok(());
        }
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        // Another request of the connection may have taken it: requests of HTTP/2 run at the same time.
        if self.is_taken() {
            return Ok(());
        }
        let permit = Arc::clone(&self.free).try_acquire_owned().map_err(|_| Full)?;
        // This cannot fail: the permit was missing a moment ago, and the lock is held.
        let _ = self.permit.set(permit);
        *pending = None;
        self.taken.cancel();
        Ok(())
    }

    /// Whether the connection has its place.
    pub fn is_taken(&self) -> bool {
        self.permit.get().is_some()
    }

    /// Resolves when the connection has to end because it has no place, and gives the reason.
    pub fn ended(&self) -> impl Future<Output = Ended> + use<> {
        let pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = pending.as_ref().map(Pending::ended);
        let taken = self.taken.clone();
        async move {
            if let Some(ended) = ended {
                tokio::select! {
                    biased;
                    () = taken.cancelled() => {}
                    ended = ended => return ended,
                }
            }
            std::future::pending().await
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]
    use futures::FutureExt;
    use nyala_model::config::ServerConfig;

    use super::*;
    use crate::net::pending::{Origin, PendingConnections};

    #[tokio::test]
    async fn a_place_is_taken_once_and_only_while_there_are_some() {
        let config = ServerConfig { login_timeout_ms: 1, ..ServerConfig::default() };
        let pending = PendingConnections::new("test", &config);
        let free = Arc::new(Semaphore::new(1));
        let origin = Origin::User(1);
        let first = Place::new(pending.admit(origin).await, Arc::clone(&free));
        let second = Place::new(pending.admit(origin).await, Arc::clone(&free));
        let (first_ends, second_ends) = (first.ended(), second.ended());
        assert_eq!((first.take(), first.take()), (Ok(()), Ok(())));
        assert_eq!((second.take(), second.is_taken()), (Err(Full), false));
        assert_eq!(second_ends.await, Ended::Late);
        assert!(first_ends.now_or_never().is_none(), "it has logged in");
        drop(first);
        assert_eq!(second.take(), Ok(()));
    }
}
