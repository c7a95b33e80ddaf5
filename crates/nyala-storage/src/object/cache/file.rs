//! One version of a file in a store, read in blocks.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::{Error, ObjectMeta, ObjectStore, Result};

use super::block::{Cut, FileId};
use crate::object::version::{self, Version};

/// A file that blocks are fetched from.
#[derive(Debug)]
pub struct RemoteFile {
    store: Arc<dyn ObjectStore>,
    name: Arc<str>,
    meta: ObjectMeta,
    version: Version,
    id: FileId,
    cut: Cut,
}

impl RemoteFile {
    /// A file of the store with this URL, as a listing showed it.
    pub fn new(
        (url, store): (&str, Arc<dyn ObjectStore>),
        meta: ObjectMeta,
        version: Version,
        block_bytes: u64,
    ) -> Self {
        let id = Self::id_of(url, &meta, version, block_bytes);
        let name = format!("{url}/{}", meta.location).into();
        let cut = Cut { file_bytes: meta.size, block_bytes };
        Self { store, name, meta, version, id, cut }
    }

    /// The digest of a version of a file in the store with this URL.
    pub fn id_of(url: &str, meta: &ObjectMeta, version: Version, block_bytes: u64) -> FileId {
        match version {
            Version::AsListed => FileId::of_version(url, meta, block_bytes),
            Version::Constant => FileId::of_constant(url, &meta.location, block_bytes),
        }
    }

    /// The file's URL.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The file's digest.
    pub fn id(&self) -> FileId {
        self.id
    }

    pub(super) fn cut(&self) -> &Cut {
        &self.cut
    }

    /// Asks the store for a range.
    ///
    /// # Errors
    /// [`Error::Precondition`] if the file is another version by now.
    pub async fn get(&self, range: Range<u64>) -> Result<BoxStream<'static, Result<Bytes>>> {
        let answer = version::get(&self.store, &self.meta, self.version, Some(range)).await?;
        Ok(answer.into_stream().boxed())
    }

    /// The error of an answer whose length differs from the requested range.
    pub fn wrong_length(&self, range: &Range<u64>, arrived: u64) -> Error {
        let wanted = range.end - range.start;
        let path = &self.meta.location;
        let source = format!("the store sent {arrived} of {wanted} bytes of `{path}`").into();
        Error::Generic { store: "block cache", source }
    }
}
