//! One version of one file, as a store that has nothing else.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use object_store::path::Path;
use object_store::{
    Attributes, CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload,
    OBJECT_STORE_COALESCE_DEFAULT, ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload,
    PutResult, Result, coalesce_ranges,
};

use super::cache::{BlockCache, RemoteFile};
use super::opened::{Reader, parts};
use super::version::{self, Version};

/// Bytes of one read when a whole file is read through the cache.
const STREAMED_BYTES: u64 = 4 << 20;
/// Reads of a whole file that are under way at the same time.
const STREAMED_AT_ONCE: usize = 2;

/// The source of bytes.
#[derive(Debug, Clone)]
pub enum Reads {
    Cached(Arc<BlockCache>, Arc<RemoteFile>),
    Direct(Arc<dyn ObjectStore>),
}

/// A file. Reads fail once the store has another version of it.
#[derive(Debug, Clone)]
pub struct VersionedFile {
    meta: ObjectMeta,
    version: Version,
    reads: Reads,
    reader: Reader,
}

impl VersionedFile {
    pub fn new(meta: ObjectMeta, version: Version, reads: Reads, reader: Reader) -> Self {
        Self { meta, version, reads, reader }
    }

    fn check(&self, path: &Path) -> Result<()> {
        match *path == self.meta.location {
            true => Ok(()),
            false => {
                Err(Error::NotFound { path: path.to_string(), source: "another file was opened".into() })
            }
        }
    }

    /// The part of a range that is in the file.
    fn within(&self, range: &Range<u64>) -> Range<u64> {
        let end = range.end.min(self.meta.size);
        range.start.min(end)..end
    }

    async fn ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        match &self.reads {
            Reads::Cached(cache, file) => {
                let wanted: Vec<Range<u64>> =
                    ranges.iter().map(|range| self.within(range)).filter(|range| !range.is_empty()).collect();
                let found = cache.read(file, &wanted, self.reader.fill, &self.reader.tally).await?;
                let mut found = found.into_iter();
                let of = |range: &Range<u64>| match self.within(range).is_empty() {
                    true => Bytes::new(),
                    false => found.next().unwrap_or_default(),
                };
                Ok(ranges.iter().map(of).collect())
            }
            Reads::Direct(store) => {
                let get = |range: Range<u64>| async move {
                    let answer = version::get(store, &self.meta, self.version, Some(range)).await?;
                    let bytes = answer.bytes().await?;
                    self.reader.tally.count_store(bytes.len() as u64);
                    Ok(bytes)
                };
                coalesce_ranges(ranges, get, OBJECT_STORE_COALESCE_DEFAULT).await
            }
        }
    }

    /// All bytes of a range, in order.
    fn stream(self, range: Range<u64>) -> BoxStream<'static, Result<Bytes>> {
        let file = Arc::new(self);
        let reads = parts(range, STREAMED_BYTES).map(move |part| {
            let file = Arc::clone(&file);
            async move { Ok(file.ranges(&[part]).await?.pop().unwrap_or_default()) }.boxed()
        });
        stream::iter(reads).buffered(STREAMED_AT_ONCE).boxed()
    }
}

impl fmt::Display for VersionedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "version of {}", self.meta.location)
    }
}

#[async_trait]
impl ObjectStore for VersionedFile {
    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        self.check(path)?;
        options.check_preconditions(&self.meta)?;
        let of_error = |error| Error::Generic { store: "file", source: Box::new(error) };
        let range = match &options.range {
            Some(range) => range.as_range(self.meta.size).map_err(of_error)?,
            None => 0..self.meta.size,
        };
        if let (Reads::Direct(store), false) = (&self.reads, options.head) {
            let answer = version::get(store, &self.meta, self.version, options.range.map(|_| range)).await?;
            let tally = Arc::clone(&self.reader.tally);
            let (meta, range, attributes) =
                (answer.meta.clone(), answer.range.clone(), answer.attributes.clone());
            let counted = answer.into_stream().inspect(move |part| {
                let bytes = part.as_ref().map_or(0, |part| part.len() as u64);
                tally.count_store(bytes);
            });
            return Ok(GetResult {
                payload: GetResultPayload::Stream(counted.boxed()),
                meta,
                range,
                attributes,
            });
        }
        let body = if options.head { 0..0 } else { range.clone() };
        let payload = GetResultPayload::Stream(self.clone().stream(body));
        Ok(GetResult { payload, meta: self.meta.clone(), range, attributes: Attributes::default() })
    }

    async fn get_ranges(&self, path: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.check(path)?;
        self.ranges(ranges).await
    }

    async fn put_opts(&self, _: &Path, _: PutPayload, _: PutOptions) -> Result<PutResult> {
        Err(read_only("put"))
    }

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        Err(read_only("put_multipart"))
    }

    fn delete_stream(&self, _: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        stream::once(async { Err(read_only("delete")) }).boxed()
    }

    fn list(&self, _: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        stream::once(async { Err(read_only("list")) }).boxed()
    }

    async fn list_with_delimiter(&self, _: Option<&Path>) -> Result<ListResult> {
        Err(read_only("list"))
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        Err(read_only("copy"))
    }
}

fn read_only(operation: &str) -> Error {
    Error::NotImplemented { operation: operation.to_owned(), implementer: "one version of a file".to_owned() }
}
