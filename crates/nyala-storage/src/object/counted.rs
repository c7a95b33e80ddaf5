//! Counts what a store is asked for, and tells its kind with its errors.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, TryFutureExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, UploadPart,
};

use super::StoreKind;

/// Requests to one store since the start of the process.
#[derive(Debug, Default)]
pub struct StoreCounts {
    /// Reads of files or parts of them.
    pub gets: AtomicU64,
    /// Bytes of files that were received.
    pub got_bytes: AtomicU64,
    /// Questions for size and version of one file.
    pub heads: AtomicU64,
    /// Listings; a long one takes several requests.
    pub lists: AtomicU64,
    /// Writes of files, begun or done at once.
    pub puts: AtomicU64,
    /// Bytes of files that were written at once.
    pub put_bytes: AtomicU64,
}

fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

/// A store, with counts of its requests.
#[derive(Debug)]
pub struct CountedStore {
    store: Arc<dyn ObjectStore>,
    kind: StoreKind,
    counts: Arc<StoreCounts>,
}

impl CountedStore {
    pub fn new(store: Arc<dyn ObjectStore>, kind: StoreKind, counts: Arc<StoreCounts>) -> Self {
        Self { store, kind, counts }
    }

    /// The stream, with the kind of the store among the causes of its errors.
    fn listed<T: Send + 'static>(
        &self,
        list: BoxStream<'static, Result<T>>,
    ) -> BoxStream<'static, Result<T>> {
        let kind = self.kind;
        list.map(move |found| found.map_err(|error| kind.told(error))).boxed()
    }
}

impl fmt::Display for CountedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.store.fmt(f)
    }
}

#[async_trait]
impl ObjectStore for CountedStore {
    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        add(&self.counts.puts, 1);
        add(&self.counts.put_bytes, payload.content_length() as u64);
        self.store.put_opts(path, payload, options).await.map_err(|error| self.kind.told(error))
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        add(&self.counts.puts, 1);
        let upload = self.store.put_multipart_opts(path, options).await;
        let upload = upload.map_err(|error| self.kind.told(error))?;
        Ok(Box::new(Upload { upload, kind: self.kind }))
    }

    async fn get_opts(&self, path: &Path, mut options: GetOptions) -> Result<GetResult> {
        // Tags in Azure's listings lack the quotes that the header must have.
        if self.kind == StoreKind::Azure {
            options.if_match = options.if_match.map(|tag| format!("\"{}\"", tag.trim_matches('"')));
        }
        if options.head {
            add(&self.counts.heads, 1);
            return self.store.get_opts(path, options).await.map_err(|error| self.kind.told(error));
        }
        add(&self.counts.gets, 1);
        let answer = self.store.get_opts(path, options).await.map_err(|error| self.kind.told(error))?;
        let GetResult { payload, meta, range, attributes } = answer;
        let payload = match payload {
            GetResultPayload::Stream(body) => {
                let counts = Arc::clone(&self.counts);
                let counted = body.inspect(move |part| {
                    add(&counts.got_bytes, part.as_ref().map_or(0, |part| part.len() as u64));
                });
                GetResultPayload::Stream(self.listed(counted.boxed()))
            }
            file @ GetResultPayload::File(..) => file,
        };
        Ok(GetResult { payload, meta, range, attributes })
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.listed(self.store.delete_stream(paths))
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        add(&self.counts.lists, 1);
        self.listed(self.store.list(prefix))
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        add(&self.counts.lists, 1);
        self.listed(self.store.list_with_offset(prefix, offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        add(&self.counts.lists, 1);
        self.store.list_with_delimiter(prefix).await.map_err(|error| self.kind.told(error))
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.store.copy_opts(from, to, options).await.map_err(|error| self.kind.told(error))
    }
}

/// An upload, with the kind of the store among the causes of its errors.
#[derive(Debug)]
struct Upload {
    upload: Box<dyn MultipartUpload>,
    kind: StoreKind,
}

#[async_trait]
impl MultipartUpload for Upload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let (part, kind) = (self.upload.put_part(data), self.kind);
        part.map_err(move |error| kind.told(error)).boxed()
    }

    async fn complete(&mut self) -> Result<PutResult> {
        self.upload.complete().await.map_err(|error| self.kind.told(error))
    }

    async fn abort(&mut self) -> Result<()> {
        self.upload.abort().await.map_err(|error| self.kind.told(error))
    }
}
