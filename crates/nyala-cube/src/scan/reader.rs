//! Reading cuboid files: each byte is compared with its checksum, and footers are parsed once.

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::common::HashMap;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::ParquetFileReaderFactory;
use datafusion::datasource::physical_plan::parquet::ParquetFileMetrics;
use datafusion::execution::cache::cache_manager::{CachedFileMetadataEntry, FileMetadata, FileMetadataCache};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use futures::FutureExt;
use futures::future::BoxFuture;
use nyala_model::CuboidFile;
use object_store::ObjectMeta;
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;

use super::blocks::Blocks;
use super::damage::{Damage, DamageReports};
use super::file_reads::{FileReads, ReadMetrics};
use super::stored_file::{Footer, StoredFile};

/// Opens cuboid files. The footer comes with the page index, from the cache after the first time: cuboids always prune,
/// and DataFusion would read the index anew for every query.
#[derive(Debug)]
pub struct CheckedReaderFactory {
    pub files: FileReads,
    pub footers: Arc<FileMetadataCache>,
    /// Where damage is reported; none in plans that no engine runs.
    pub reports: Option<Arc<DamageReports>>,
}

impl ParquetFileReaderFactory for CheckedReaderFactory {
    fn create_reader(
        &self,
        partition: usize,
        file: PartitionedFile,
        _metadata_size_hint: Option<usize>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> datafusion::error::Result<Box<dyn AsyncFileReader + Send>> {
        let recorded = file.extension::<CuboidFile>().cloned();
        let recorded = recorded
            .ok_or_else(|| datafusion::common::internal_datafusion_err!("a cuboid file has no checksums"))?;
        let (store, reads) = self.files.measured(&file.object_meta, metrics, partition);
        Ok(Box::new(CheckedReader {
            metrics: ParquetFileMetrics::new(partition, file.object_meta.location.as_ref(), metrics),
            _reads: reads,
            file: StoredFile::new(store, file.object_meta.location.clone(), recorded),
            meta: file.object_meta,
            footers: Arc::clone(&self.footers),
            reports: self.reports.clone(),
            footer: None,
        }))
    }
}

struct CheckedReader {
    file: StoredFile,
    meta: ObjectMeta,
    metrics: ParquetFileMetrics,
    _reads: Option<ReadMetrics>,
    footers: Arc<FileMetadataCache>,
    reports: Option<Arc<DamageReports>>,
    footer: Option<Arc<Footer>>,
}

impl CheckedReader {
    async fn footer(&mut self) -> Result<Arc<Footer>, Damage> {
        if let Some(footer) = &self.footer {
            return Ok(Arc::clone(footer));
        }
        let footer = match self.cached() {
            Some(footer) => footer,
            None => {
                let footer = Arc::new(self.file.read_footer().await?);
                let entry = CachedFileMetadataEntry::new(self.meta.clone(), Arc::clone(&footer) as _);
                self.footers.put(&self.meta.location, entry);
                footer
            }
        };
        self.footer = Some(Arc::clone(&footer));
        Ok(footer)
    }

    fn cached(&self) -> Option<Arc<Footer>> {
        let entry = self.footers.get(&self.meta.location).filter(|entry| entry.is_valid_for(&self.meta))?;
        // The cache only gives the trait object, and its entries are shared, so that the footer is cloned.
        entry.file_metadata.as_any().downcast_ref::<Footer>().map(|footer| Arc::new(footer.clone()))
    }

    async fn ranges(&mut self, ranges: &[Range<u64>]) -> parquet::errors::Result<Vec<Bytes>> {
        let read = match self.footer().await {
            Ok(footer) => self.file.read(&footer.blocks, ranges).await,
            Err(damage) => Err(damage),
        };
        match read {
            Ok(read) => Ok(read),
            Err(damage) => Err(self.tell(damage).await),
        }
    }

    /// Reports damage, and waits until the segment is out of use, so that the statement can be run again at once.
    async fn tell(&self, damage: Damage) -> ParquetError {
        if let (Some(reports), Damage::Found(reason)) = (&self.reports, &damage) {
            reports.report(self.file.path(), reason).await;
        }
        ParquetError::External(Box::new(damage.into_error(self.file.path())))
    }
}

impl AsyncFileReader for CheckedReader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, parquet::errors::Result<Bytes>> {
        async move {
            let read = self.get_byte_ranges(vec![range]).await?;
            read.into_iter().next().ok_or_else(|| ParquetError::EOF("nothing was read".to_owned()))
        }
        .boxed()
    }

    fn get_byte_ranges(
        &mut self,
        ranges: Vec<Range<u64>>,
    ) -> BoxFuture<'_, parquet::errors::Result<Vec<Bytes>>> {
        let wanted: u64 = ranges.iter().map(|range| range.end.saturating_sub(range.start)).sum();
        self.metrics.bytes_scanned.add(usize::try_from(wanted).unwrap_or(usize::MAX));
        async move { self.ranges(&ranges).await }.boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        _options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, parquet::errors::Result<Arc<ParquetMetaData>>> {
        async move {
            match self.footer().await {
                Ok(footer) => Ok(Arc::clone(&footer.metadata)),
                Err(damage) => Err(self.tell(damage).await),
            }
        }
        .boxed()
    }
}

impl Drop for CheckedReader {
    fn drop(&mut self) {
        let ratio = &self.metrics.scan_efficiency_ratio;
        ratio.add_part(self.metrics.bytes_scanned.value());
        ratio.set_total(usize::try_from(self.meta.size).unwrap_or(usize::MAX));
    }
}

impl FileMetadata for Footer {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn memory_size(&self) -> usize {
        self.metadata.memory_size() + Blocks::memory_bytes(&self.blocks)
    }

    fn extra_info(&self) -> HashMap<String, String> {
        HashMap::from([("page_index".to_owned(), self.metadata.offset_index().is_some().to_string())])
    }
}
