//! Reading Parquet files of external tables, which may be damaged, without reading their footers again.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::ParquetFileReaderFactory;
use datafusion::datasource::physical_plan::parquet::CachedParquetFileReaderFactory;
use datafusion::execution::cache::cache_manager::FileMetadataCache;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use futures::FutureExt;
use futures::future::BoxFuture;
use object_store::{ObjectMeta, ObjectStore};
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::errors::Result;
use parquet::file::metadata::ParquetMetaData;

use super::bounds::{DamagedFile, check_pages, chunk_of, sound_metadata};

/// Gives the page index together with the footer, from the cache after the first time, and only pages that agree with
/// their headers.
///
/// DataFusion asks for the footer alone, and reads the page index anew for every query that prunes by
/// it; but it takes an index that comes with the footer, and cuboids always prune.
#[derive(Debug)]
pub struct SoundReaderFactory {
    reader: CachedParquetFileReaderFactory,
    store: Arc<dyn ObjectStore>,
    cache: Arc<FileMetadataCache>,
}

impl SoundReaderFactory {
    /// Readers of files in `store`.
    pub fn new(store: Arc<dyn ObjectStore>, cache: Arc<FileMetadataCache>) -> Arc<Self> {
        let reader = CachedParquetFileReaderFactory::new(Arc::clone(&store), Arc::clone(&cache));
        Arc::new(Self { reader, store, cache })
    }
}

impl ParquetFileReaderFactory for SoundReaderFactory {
    fn create_reader(
        &self,
        partition: usize,
        file: PartitionedFile,
        metadata_size_hint: Option<usize>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> datafusion::error::Result<Box<dyn AsyncFileReader + Send>> {
        let object = file.object_meta.clone();
        let reader = self.reader.create_reader(partition, file, metadata_size_hint, metrics)?;
        let (store, cache) = (Arc::clone(&self.store), Arc::clone(&self.cache));
        Ok(Box::new(SoundReader { reader, store, cache, object, metadata: None }))
    }
}

struct SoundReader {
    reader: Box<dyn AsyncFileReader + Send>,
    store: Arc<dyn ObjectStore>,
    cache: Arc<FileMetadataCache>,
    object: ObjectMeta,
    /// Once it was asked for, which is before any page is.
    metadata: Option<Arc<ParquetMetaData>>,
}

impl SoundReader {
    /// A store gives room for a range before it looks how long the file is.
    fn check_range(&self, range: &Range<u64>) -> Result<()> {
        match range.start <= range.end && range.end <= self.object.size {
            true => Ok(()),
            false => Err(DamagedFile("it points to what lies outside of it").into()),
        }
    }

    /// Checks the pages of a column; other parts of a file were checked before.
    fn check(&self, range: &Range<u64>, bytes: &[u8]) -> Result<()> {
        let groups = self.metadata.iter().flat_map(|metadata| metadata.row_groups());
        for column in groups.flat_map(|group| group.columns()) {
            let chunk = chunk_of(column, self.object.size)?;
            if chunk.start <= range.start && range.end <= chunk.end {
                let enough = usize::try_from(column.num_values()).unwrap_or(usize::MAX);
                check_pages(bytes, enough)?;
                return Ok(());
            }
        }
        Ok(())
    }
}

impl AsyncFileReader for SoundReader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, Result<Bytes>> {
        async move {
            self.check_range(&range)?;
            self.reader.get_bytes(range).await
        }
        .boxed()
    }

    fn get_byte_ranges(&mut self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, Result<Vec<Bytes>>> {
        async move {
            ranges.iter().try_for_each(|range| self.check_range(range))?;
            let parts = self.reader.get_byte_ranges(ranges.clone()).await?;
            ranges.iter().zip(&parts).try_for_each(|(range, bytes)| self.check(range, bytes))?;
            Ok(parts)
        }
        .boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        _options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, Result<Arc<ParquetMetaData>>> {
        async move {
            let metadata = sound_metadata(self.store.as_ref(), &self.object, self.cache.as_ref()).await?;
            self.metadata = Some(Arc::clone(&metadata));
            Ok(metadata)
        }
        .boxed()
    }
}
