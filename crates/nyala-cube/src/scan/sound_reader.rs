//! Reading Parquet files of external tables, which may be damaged, without reading their footers again.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::ParquetFileReaderFactory;
use datafusion::datasource::physical_plan::parquet::ParquetFileMetrics;
use datafusion::execution::cache::cache_manager::FileMetadataCache;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use futures::FutureExt;
use futures::future::BoxFuture;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::errors::Result;
use parquet::file::metadata::ParquetMetaData;

use super::bounds::{DamagedFile, check_pages, chunk_of, sound_metadata};
use super::file_reads::{FileReads, ReadMetrics};

/// Gives the page index together with the footer, from the cache after the first time, and only pages that agree with
/// their headers.
///
/// DataFusion asks for the footer alone, and reads the page index anew for every query that prunes by it. But it accepts an
/// index that comes with the footer.
#[derive(Debug)]
pub struct SoundReaderFactory {
    files: FileReads,
    cache: Arc<FileMetadataCache>,
}

impl SoundReaderFactory {
    /// Readers of files of one store.
    pub fn new(files: FileReads, cache: Arc<FileMetadataCache>) -> Arc<Self> {
        Arc::new(Self { files, cache })
    }
}

impl ParquetFileReaderFactory for SoundReaderFactory {
    fn create_reader(
        &self,
        partition: usize,
        file: PartitionedFile,
        _metadata_size_hint: Option<usize>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> datafusion::error::Result<Box<dyn AsyncFileReader + Send>> {
        let object = file.object_meta;
        let (store, reads) = self.files.measured(&object, metrics, partition);
        let metrics = ParquetFileMetrics::new(partition, object.location.as_ref(), metrics);
        let cache = Arc::clone(&self.cache);
        let key = self.files.key(&object);
        Ok(Box::new(SoundReader { store, metrics, _reads: reads, cache, key, object, metadata: None }))
    }
}

struct SoundReader {
    store: Arc<dyn ObjectStore>,
    metrics: ParquetFileMetrics,
    _reads: Option<ReadMetrics>,
    cache: Arc<FileMetadataCache>,
    /// Name of the file in the cache.
    key: Path,
    object: ObjectMeta,
    /// The metadata, after it was asked for, which always precedes reading pages.
    metadata: Option<Arc<ParquetMetaData>>,
}

impl Drop for SoundReader {
    fn drop(&mut self) {
        let ratio = &self.metrics.scan_efficiency_ratio;
        ratio.add_part(self.metrics.bytes_scanned.value());
        ratio.set_total(usize::try_from(self.object.size).unwrap_or(usize::MAX));
    }
}

impl SoundReader {
    /// Refuses a range beyond the file, because a store allocates memory for a range before it checks the length of the file.
    fn check_range(&self, range: &Range<u64>) -> Result<()> {
        match range.start <= range.end && range.end <= self.object.size {
            true => Ok(()),
            false => Err(DamagedFile("it points to what lies outside of it").into()),
        }
    }

    fn count(&self, ranges: &[Range<u64>]) {
        let wanted: u64 = ranges.iter().map(|range| range.end.saturating_sub(range.start)).sum();
        self.metrics.bytes_scanned.add(usize::try_from(wanted).unwrap_or(usize::MAX));
    }

    /// Checks the pages of a column. Other parts of a file were checked when the metadata was read.
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
            self.count(std::slice::from_ref(&range));
            Ok(self.store.get_range(&self.object.location, range).await?)
        }
        .boxed()
    }

    fn get_byte_ranges(&mut self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, Result<Vec<Bytes>>> {
        async move {
            ranges.iter().try_for_each(|range| self.check_range(range))?;
            self.count(&ranges);
            let parts = self.store.get_ranges(&self.object.location, &ranges).await?;
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
            let metadata =
                sound_metadata(self.store.as_ref(), &self.object, (self.cache.as_ref(), &self.key)).await?;
            self.metadata = Some(Arc::clone(&metadata));
            Ok(metadata)
        }
        .boxed()
    }
}
