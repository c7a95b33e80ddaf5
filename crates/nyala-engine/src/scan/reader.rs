//! Opening cuboid files without reading their footers again.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::ParquetFileReaderFactory;
use datafusion::datasource::physical_plan::parquet::CachedParquetFileReaderFactory;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use futures::FutureExt;
use futures::future::BoxFuture;
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData};

/// Gives the page index together with the footer, from the cache after the first time.
///
/// DataFusion asks for the footer alone, and reads the page index anew for every query that prunes by
/// it; but it takes an index that comes with the footer, and cuboids always prune.
#[derive(Debug)]
pub(super) struct IndexedReaderFactory {
    cached: CachedParquetFileReaderFactory,
}

impl IndexedReaderFactory {
    pub(super) fn new(cached: CachedParquetFileReaderFactory) -> Arc<Self> {
        Arc::new(Self { cached })
    }
}

impl ParquetFileReaderFactory for IndexedReaderFactory {
    fn create_reader(
        &self,
        partition: usize,
        file: PartitionedFile,
        metadata_size_hint: Option<usize>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> datafusion::error::Result<Box<dyn AsyncFileReader + Send>> {
        let reader = self.cached.create_reader(partition, file, metadata_size_hint, metrics)?;
        Ok(Box::new(IndexedReader { reader }))
    }
}

struct IndexedReader {
    reader: Box<dyn AsyncFileReader + Send>,
}

impl AsyncFileReader for IndexedReader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, parquet::errors::Result<Bytes>> {
        self.reader.get_bytes(range)
    }

    fn get_byte_ranges(
        &mut self,
        ranges: Vec<Range<u64>>,
    ) -> BoxFuture<'_, parquet::errors::Result<Vec<Bytes>>> {
        self.reader.get_byte_ranges(ranges)
    }

    fn get_metadata<'a>(
        &'a mut self,
        options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, parquet::errors::Result<Arc<ParquetMetaData>>> {
        let options = options.cloned().unwrap_or_default().with_page_index_policy(PageIndexPolicy::Optional);
        async move { self.reader.get_metadata(Some(&options)).await }.boxed()
    }
}
