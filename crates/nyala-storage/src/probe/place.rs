//! Tries every operation of a server in the place of cuboids in a bucket, before a server needs it.

use std::time::{Duration, SystemTime};

use futures::TryStreamExt;
use nyala_model::NodeId;
use object_store::path::Path;
use object_store::{ObjectStoreExt, PutPayload, Result};
use uuid::Uuid;

use crate::{SegmentStore, StorageError};

/// Folder of the objects that are written and deleted again.
const FOLDER: &str = "probe";

/// A place of cuboids that can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbedPlace {
    /// The owner of the place: a data folder, or all nodes with a catalog. None if it is free.
    pub owner: Option<NodeId>,
    /// The time of the store's clock when it took an object, in whole seconds; none if the store does not tell.
    pub clock: Option<SystemTime>,
}

impl SegmentStore {
    /// Writes, reads, lists and deletes an object of a few bytes, and reads the owner of the place.
    ///
    /// # Errors
    /// The store cannot be reached, or refuses an operation.
    pub async fn probe(&self) -> std::result::Result<ProbedPlace, StorageError> {
        self.try_everything().await.map_err(|error| self.explain(error))
    }

    async fn try_everything(&self) -> Result<ProbedPlace> {
        let owner = self.owner().await?.map(NodeId);
        let folder = Path::from(FOLDER);
        let object = Path::from(format!("{FOLDER}/{}", Uuid::now_v7().simple()));
        self.files().put(&object, PutPayload::from_static(b"nyala")).await?;
        let found = self.read_back(&folder, &object).await;
        // The object is deleted even if it could not be read.
        let deleted = self.files().delete(&object).await;
        let clock = found?;
        deleted?;
        Ok(ProbedPlace { owner, clock })
    }

    /// Reads an object and lists its folder; the time of its last change.
    async fn read_back(&self, folder: &Path, object: &Path) -> Result<Option<SystemTime>> {
        let found = self.files().get(object).await?;
        let changed_ms = u64::try_from(found.meta.last_modified.timestamp_millis()).ok();
        found.bytes().await?;
        self.files().list(Some(folder)).try_for_each(|_| async { Ok(()) }).await?;
        // A store that does not tell the time says 1970.
        let changed_ms = changed_ms.filter(|ms| *ms > 0);
        Ok(changed_ms.map(|ms| SystemTime::UNIX_EPOCH + Duration::from_millis(ms)))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test]
    async fn a_probe_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let store = SegmentStore::local(folder.path()).unwrap();
        let probed = store.probe().await.unwrap();
        assert_eq!(probed.owner, None);
        assert!(probed.clock.is_some());
        assert_eq!(store.names(FOLDER).await.unwrap(), Vec::<String>::new());
    }
}
