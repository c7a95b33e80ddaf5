//! A file on its way to a store, which is there as a whole or not at all.

use std::mem;
use std::sync::Arc;

use nyala_cube::cube::build::Background;
use nyala_sql::error::{QueryError, Result};
use object_store::path::Path;
use object_store::{MultipartUpload, ObjectStore, ObjectStoreExt, PutPayload};

use datafusion::error::DataFusionError;

/// Bytes of a part: S3 takes none below 5 MiB but the last, and 10,000 parts at most.
const PART_BYTES: usize = 16 << 20;

/// A local file gets its name when it is complete. Uploaded parts of a remote file are deleted if the statement ends before.
pub struct Upload {
    store: Arc<dyn ObjectStore>,
    path: Path,
    buffer: Vec<u8>,
    parts: Option<Box<dyn MultipartUpload>>,
    background: Background,
}

impl Upload {
    /// An upload that has written nothing yet.
    pub fn new(store: Arc<dyn ObjectStore>, path: Path, background: Background) -> Self {
        Self { store, path, buffer: Vec::new(), parts: None, background }
    }

    /// Adds bytes.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() < PART_BYTES {
            return Ok(());
        }
        let part = mem::take(&mut self.buffer);
        self.put(part).await
    }

    async fn put(&mut self, part: Vec<u8>) -> Result<()> {
        let parts = match &mut self.parts {
            Some(parts) => parts,
            None => {
                let begun = self
                    .store
                    .put_multipart(&self.path)
                    .await
                    .map_err(|error| unwritable(&self.path, error))?;
                self.parts.insert(begun)
            }
        };
        parts.put_part(PutPayload::from(part)).await.map_err(|error| unwritable(&self.path, error))
    }

    /// Completes the file.
    pub async fn finish(mut self) -> Result<()> {
        let rest = mem::take(&mut self.buffer);
        if self.parts.is_none() {
            self.store
                .put(&self.path, PutPayload::from(rest))
                .await
                .map_err(|error| unwritable(&self.path, error))?;
            return Ok(());
        }
        if !rest.is_empty() {
            self.put(rest).await?;
        }
        if let Some(parts) = &mut self.parts {
            parts.complete().await.map_err(|error| unwritable(&self.path, error))?;
        }
        self.parts = None;
        Ok(())
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if let Some(mut parts) = self.parts.take() {
            self.background.spawn(async move {
                // Parts stay only in a store that cannot be reached; the rules of its owner delete them.
                let _ = parts.abort().await;
            });
        }
    }
}

fn unwritable(path: &Path, error: object_store::Error) -> QueryError {
    let error = QueryError::from(DataFusionError::from(error));
    let reason = error.message.trim_start_matches("cannot read a source file: ");
    let message = format!("cannot write `{path}`: {reason}");
    let hint = error.hint.unwrap_or_default();
    let hint = if hint.starts_with("check that") || hint.is_empty() {
        "check the location, its permissions, and `storage` of the configuration".to_owned()
    } else {
        hint
    };
    QueryError { message, hint: Some(hint), ..QueryError::new(error.kind, "") }
}
