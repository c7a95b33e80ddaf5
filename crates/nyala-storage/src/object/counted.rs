//! Counts what a store is asked for.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

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
    counts: Arc<StoreCounts>,
}

impl CountedStore {
    pub fn new(store: Arc<dyn ObjectStore>, counts: Arc<StoreCounts>) -> Self {
        Self { store, counts }
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
        self.store.put_opts(path, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        add(&self.counts.puts, 1);
        self.store.put_multipart_opts(path, options).await
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        if options.head {
            add(&self.counts.heads, 1);
            return self.store.get_opts(path, options).await;
        }
        add(&self.counts.gets, 1);
        let GetResult { payload, meta, range, attributes } = self.store.get_opts(path, options).await?;
        let payload = match payload {
            GetResultPayload::Stream(body) => {
                let counts = Arc::clone(&self.counts);
                let counted = body.inspect(move |part| {
                    add(&counts.got_bytes, part.as_ref().map_or(0, |part| part.len() as u64));
                });
                GetResultPayload::Stream(counted.boxed())
            }
            file @ GetResultPayload::File(..) => file,
        };
        Ok(GetResult { payload, meta, range, attributes })
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.store.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        add(&self.counts.lists, 1);
        self.store.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        add(&self.counts.lists, 1);
        self.store.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.store.copy_opts(from, to, options).await
    }
}
