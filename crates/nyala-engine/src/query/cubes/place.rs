//! Takes the place of cuboids at start. While its bucket does not answer, the server runs without it: queries are answered from
//! what is cached and from tables, and no cube is built.

use std::sync::Arc;
use std::time::Duration;

use nyala_catalog::Catalog;
use nyala_cube::cube::build::remove_leftovers;
use nyala_model::NodeId;
use nyala_sql::error::{ErrorKind, QueryError, Result};
use nyala_storage::SegmentStore;

/// How long the start waits for a bucket.
const FIRST_WAIT: Duration = Duration::from_secs(10);
/// Pause between later attempts.
const PAUSE: Duration = Duration::from_secs(5);

/// The place, and the data folder that takes it.
#[derive(Debug, Clone)]
pub struct Place {
    pub catalog: Arc<Catalog>,
    pub store: SegmentStore,
    pub node: NodeId,
    /// The owner of the place: all nodes of a catalog together, or this node.
    pub owner: NodeId,
}

impl Place {
    /// Takes the place and deletes leftovers in it. False if the bucket does not answer; then [`Self::take_later`] is due.
    ///
    /// # Errors
    /// The place is refused, or belongs to another data folder.
    pub async fn take_now(&self) -> Result<bool> {
        let taken = tokio::time::timeout(FIRST_WAIT, self.take()).await.unwrap_or_else(|_| {
            let message = format!("no answer within {} seconds", FIRST_WAIT.as_secs());
            Err(QueryError { transient: true, ..QueryError::new(ErrorKind::Unreadable, message) })
        });
        match taken {
            Ok(()) => Ok(true),
            Err(error) if error.transient && self.store.opened().is_remote() => {
                self.wait(&error);
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Tries again until the place is taken.
    pub async fn take_later(self) {
        loop {
            tokio::time::sleep(PAUSE).await;
            match self.take().await {
                Ok(()) => break,
                Err(error) => self.wait(&error),
            }
        }
        tracing::info!(place = self.store.opened().url(), "the place of cuboids is reached");
        self.store.set_unready(None);
    }

    async fn take(&self) -> Result<()> {
        self.store.claim(&self.owner, &self.node).await?;
        if self.catalog.is_shared() {
            // Other nodes may be building: leftovers are searched for later, at intervals.
            return Ok(());
        }
        // Builds wait for `set_unready(None)`: a segment that begins during the listing would look like a leftover.
        remove_leftovers(&self.catalog, &self.store).await
    }

    fn wait(&self, error: &QueryError) {
        tracing::warn!(place = self.store.opened().url(), %error, "cannot reach the place of cuboids; cubes are not built");
        self.store.set_unready(Some(error.message.clone()));
    }
}
